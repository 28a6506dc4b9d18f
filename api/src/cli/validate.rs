//! `annals validate`, and what `run` checks before it touches a store.

use std::path::Path;

use annals_engine::runtime::CheckError;
use annals_tasks_sdk::plan::{Limits, Plan};

use super::Session;
use super::args::ValidateArgs;
use super::error::{CliError, Exit};
use super::text::{plain, tasks};
use crate::plan_file::{Overrides, PlanFile};
use crate::settings::Settings;

pub(super) fn validate(args: &ValidateArgs, mut session: Session) -> Result<Exit, CliError> {
    let settings = args.flags.settings(session.file.as_ref())?;
    let plan = read(&session, &settings, &args.file, args.input.as_deref(), &args.set)?;
    if session.json {
        let plan = crate::json::compact(plan.to_json().as_str());
        session.out.line(format!(r#"{{"valid":true,"plan":{plan}}}"#));
    } else {
        let count = u32::try_from(plan.all_tasks().count()).unwrap_or(u32::MAX);
        session.out.line(format!("valid: {}, {}", plain(&plan.name), tasks(count)));
    }
    Ok(Exit::Done)
}

/// Reads a plan file and checks all that an engine would, so that every fault has its place.
/// Nothing is made or written.
pub(super) fn read(
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
    let engine = session.app.builder(&settings.data, |engine| settings.apply(engine));
    match engine.check(&plan) {
        Ok(()) => Ok(plan),
        Err(CheckError::Plan(errors)) => Err(file.faults(&errors, &overrides).into()),
        Err(CheckError::Start(error)) => Err(error.into()),
        Err(error) => Err(CliError::new(Exit::Usage, "invalid_plan", error.to_string())),
    }
}
