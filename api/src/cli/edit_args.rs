//! What edits of a job's plan take on the command line.

use annals_engine::job::Place;
use annals_tasks_sdk::TaskId;
use clap::Args;

use super::args::{Asked, task};

/// A place in a plan.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct PlaceArgs {
    /// Directly behind this task.
    #[arg(long, value_name = "TASK", value_parser = task)]
    after: Option<TaskId>,
    /// Directly before this task.
    #[arg(long, value_name = "TASK", value_parser = task)]
    before: Option<TaskId>,
    /// Before all others.
    #[arg(long)]
    first: bool,
}

impl PlaceArgs {
    /// The place, if one is said.
    pub(super) fn place(self) -> Option<Place> {
        let after = self.after.map(Place::After);
        let place = after.or_else(|| self.before.map(Place::Before));
        place.or_else(|| self.first.then_some(Place::First))
    }
}

#[derive(Debug, Args)]
pub(super) struct InsertArgs {
    /// The job.
    pub(super) job: String,
    /// The task as it would stand in a plan; in a file, YAML, or JSON where the name ends with
    /// .json.
    #[arg(value_name = "JSON|@FILE")]
    pub(super) task: String,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    /// A task that is to need it, beside what it needs already; more than once: each of these.
    #[arg(long, value_name = "TASK", value_parser = task)]
    pub(super) needed_by: Vec<TaskId>,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    /// The job.
    pub(super) job: String,
    /// The task.
    #[arg(value_parser = task)]
    pub(super) task: TaskId,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct EditArgs {
    /// The job.
    pub(super) job: String,
    /// The task.
    #[arg(value_parser = task)]
    pub(super) task: TaskId,
    /// The fields that are replaced; in a file, YAML, or JSON where the name ends with .json.
    #[arg(value_name = "JSON|@FILE")]
    pub(super) fields: String,
    /// Drop its checkpoint and its steps, so that it begins anew.
    #[arg(long)]
    pub(super) reset: bool,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    /// The job.
    pub(super) job: String,
    /// The task.
    #[arg(value_parser = task)]
    pub(super) task: TaskId,
    #[command(flatten)]
    pub(super) asked: Asked,
}
