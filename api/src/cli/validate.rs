//! `annals validate`, and what `run` checks before it touches a store.

use std::path::Path;

use annals_engine::log::MemoryDisk;
use annals_engine::{Engine, Mode};
use annals_tasks_sdk::plan::{Limits, Plan};

use super::Session;
use super::args::ValidateArgs;
use super::error::{CliError, Exit};
use super::text::plain;
use crate::plan_file::{Overrides, PlanFile};

pub(super) async fn validate(args: &ValidateArgs, mut session: Session) -> Result<Exit, CliError> {
    let plan = read(&args.file, args.input.as_deref(), &args.set).await?;
    if session.json {
        let plan = crate::json::compact(plan.to_json().as_str());
        session.out.line(format!(r#"{{"valid":true,"plan":{plan}}}"#));
    } else {
        let (name, tasks) = (plain(&plan.name), plan.tasks.len());
        session.out.line(format!("valid: {name}, {tasks} tasks"));
    }
    Ok(Exit::Done)
}

/// Reads a plan file and checks all that an engine would, so that every fault has its place.
pub(super) async fn read(
    file: &Path,
    input: Option<&str>,
    sets: &[String],
) -> Result<Plan, CliError> {
    let overrides =
        Overrides::read(input, sets).map_err(|error| CliError::usage(error.to_string()))?;
    let file = PlanFile::read(file)?;
    let plan = file.plan(&overrides, &Limits::default())?;
    // Kinds and their inputs are known to an engine only. This one has no store.
    let engine = Engine::open(".").log(Box::new(MemoryDisk::new().open())).mode(Mode::Hold);
    let checked = engine.start().await?.check(&plan);
    checked.map_err(|errors| file.faults(&errors, &overrides))?;
    Ok(plan)
}
