//! `annals validate`, and what `run` checks before it touches a store.

use std::path::Path;

use annals_engine::Mode;
use annals_engine::log::MemoryDisk;
use annals_tasks_sdk::plan::{Limits, Plan, PlanErrors};

use super::Session;
use super::args::ValidateArgs;
use super::error::{CliError, Exit};
use super::text::{plain, tasks};
use crate::plan_file::{Overrides, PlanFile};
use crate::settings::Settings;

pub(super) async fn validate(args: &ValidateArgs, mut session: Session) -> Result<Exit, CliError> {
    let settings = args.flags.settings(session.file.as_ref())?;
    let plan = read(&session, &settings, &args.file, args.input.as_deref(), &args.set).await?;
    if session.json {
        let plan = crate::json::compact(plan.to_json().as_str());
        session.out.line(format!(r#"{{"valid":true,"plan":{plan}}}"#));
    } else {
        let count = u32::try_from(plan.tasks.len()).unwrap_or(u32::MAX);
        session.out.line(format!("valid: {}, {}", plain(&plan.name), tasks(count)));
    }
    Ok(Exit::Done)
}

/// Reads a plan file and checks all that an engine would, so that every fault has its place.
pub(super) async fn read(
    session: &Session,
    settings: &Settings,
    file: &Path,
    input: Option<&str>,
    sets: &[String],
) -> Result<Plan, CliError> {
    let overrides =
        Overrides::read(input, sets).map_err(|error| CliError::usage(error.to_string()))?;
    let file = PlanFile::read(file)?;
    let plan = file.plan(&overrides, &Limits::default())?;
    check(session, settings, &plan).await?.map_err(|errors| file.faults(&errors, &overrides))?;
    Ok(plan)
}

/// Kinds and their inputs are known to an engine only. This one has no store, and a folder that
/// is gone when it is.
async fn check(
    session: &Session,
    settings: &Settings,
    plan: &Plan,
) -> Result<Result<(), PlanErrors>, CliError> {
    let dir = std::env::temp_dir().join(format!("annals-check-{}", uuid::Uuid::now_v7()));
    let builder = session.app.builder(&dir, |engine| settings.apply(engine));
    let builder = builder.log(Box::new(MemoryDisk::new().open())).mode(Mode::Hold);
    let engine = builder.start().await;
    let checked = engine.map(|engine| engine.check(plan));
    // What cannot be removed is an empty folder among temporary ones.
    let _ = std::fs::remove_dir_all(&dir);
    Ok(checked?)
}
