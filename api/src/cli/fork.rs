//! `annals fork`: a new job goes on from what another one has done.

use annals_engine::job::ForkFrom;
use annals_tasks_sdk::TaskId;
use clap::Args;

use super::Session;
use super::args::{Asked, task};
use super::backend::{Backend, Forking};
use super::commands::would_be;
use super::error::{CliError, Exit};
use super::submit::did;
use super::view::{self, DryRun};
use crate::plan_file::{Overrides, PlanFile};

#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    /// The job, which stays as it is.
    pub(super) job: String,
    #[command(flatten)]
    pub(super) from: FromArgs,
    /// What is changed before the fork starts, all or none: a file with a list of edits, YAML, or
    /// JSON where the name ends with .json. Each has a `command` (insert, move, edit, remove or
    /// skip), a `task`, and what that command takes; of `edit` the `fields` that are replaced.
    #[arg(long, value_name = "FILE")]
    pub(super) edits: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(super) asked: Asked,
}

/// What of the job is done anew.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct FromArgs {
    /// This task, all that need it or take its output, and all that is not settled.
    #[arg(long, value_name = "TASK", value_parser = task)]
    from_task: Option<TaskId>,
    /// All that was not settled when this event was the job's last.
    #[arg(long, value_name = "SEQ")]
    from_seq: Option<u64>,
}

impl FromArgs {
    fn from(self) -> ForkFrom {
        let seq = ForkFrom::Seq(self.from_seq.unwrap_or_default());
        self.from_task.map_or(seq, ForkFrom::Task)
    }
}

pub(super) async fn fork(args: ForkArgs, mut session: Session) -> Result<Exit, CliError> {
    let ForkArgs { job, from, edits, asked } = args;
    let file = edits.as_deref().map(PlanFile::read).transpose().map_err(|faults| {
        let what = "list of edits; no fork was made. Without --edits it has none";
        CliError::of_file("bad_body", faults, what)
    })?;
    let edits = file.as_ref().map(|file| file.json().to_owned());
    let backend = Backend::open(&session).await?;
    let origin = backend.find(&job).await?;
    let forking = Forking { from: from.from(), edits };
    let forked = backend.fork(origin, forking, &asked).await;
    let forked = forked.map_err(|error| match &file {
        Some(file) => error.in_file(file, &Overrides::default()),
        None => error,
    })?;
    backend.close().await?;
    if session.json {
        session.out.line(&forked.json);
    } else if asked.dry_run {
        let DryRun { events, job } = view::parse(&forked.json)?;
        let first = format!("would be accepted: a fork of job {origin} would be {}", job.status);
        session.out.lines(would_be(first, &events));
    } else {
        session.out.lines(did(&forked, &session.place)?);
    }
    Ok(Exit::Done)
}
