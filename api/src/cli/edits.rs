//! Edits of the plan of a job.

use annals_tasks_sdk::plan::{Limits, PlanErrors, TaskPatch, TaskSpec};

use super::Session;
use super::backend::Verb;
use super::commands::ask;
use super::edit_args::{EditArgs, InsertArgs, MoveArgs};
use super::error::{CliError, Exit};
use crate::plan_file::{Overrides, PlanFile};

pub(super) async fn insert(args: InsertArgs, session: Session) -> Result<Exit, CliError> {
    let task = read(&args.task, |json| TaskSpec::from_json(json, &Limits::NONE))?;
    let (task, place) = (Box::new(task), args.place.place().unwrap_or_default());
    let verb = Verb::Insert { task, place, needed_by: args.needed_by };
    ask(&args.job, verb, &args.asked, session).await
}

pub(super) async fn shift(args: MoveArgs, session: Session) -> Result<Exit, CliError> {
    let place = args.place.place();
    let place = place
        .ok_or_else(|| CliError::usage("say where: --after TASK, --before TASK or --first"))?;
    ask(&args.job, Verb::Move { task: args.task, place }, &args.asked, session).await
}

pub(super) async fn edit(args: EditArgs, session: Session) -> Result<Exit, CliError> {
    let patch = read(&args.fields, |json| TaskPatch::from_json(json, &Limits::NONE))?;
    let verb = Verb::Edit { task: args.task, patch, reset: args.reset };
    ask(&args.job, verb, &args.asked, session).await
}

/// Reads JSON, or a file after `@`, of which faults are told with their lines.
fn read<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, PlanErrors>) -> Result<T, CliError> {
    let wrong = CliError::of_task;
    let Some(path) = text.strip_prefix('@') else { return parse(text).map_err(wrong) };
    let file = PlanFile::read(path.as_ref()).map_err(|faults| {
        CliError::of_file("invalid_task", faults, "valid task; nothing has changed")
    })?;
    parse(file.json()).map_err(|errors| wrong(errors).in_file(&file, &Overrides::default()))
}
