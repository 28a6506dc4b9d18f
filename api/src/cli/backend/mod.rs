//! The two worlds that commands are about, behind one seam: a store that is held, in which
//! nothing runs, or a server. What both give is JSON, the same for the same job.

mod held;
mod held_log;

use annals_engine::job::Command;
use annals_tasks_sdk::{JobId, KindName};
use serde_json::value::RawValue;

use super::Session;
use super::args::{Asked, ListArgs, LogsArgs};
use super::error::CliError;
use super::output::Out;
use super::place::Place;
use held::Held;

pub(super) use held::event;

/// Who answers.
pub(super) enum Backend {
    /// A store that was opened for this command alone.
    Held(Held),
}

/// Jobs of a list.
pub(super) struct Page {
    /// Each as JSON.
    pub(super) items: Vec<Box<RawValue>>,
    /// What is given to go on behind the last of them, where there are more.
    pub(super) next_cursor: Option<String>,
}

/// A command was accepted.
pub(super) struct Answered {
    /// The job after it; with what would happen, where it was a dry run.
    pub(super) json: String,
    /// Whether anything has changed, or would.
    pub(super) is_news: bool,
    /// The tasks that it settled, and how.
    pub(super) settled: Settled,
}

/// Tasks that a command has settled.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) tasks: Vec<String>,
    pub(super) how: &'static str,
}

/// The events of a job, the oldest first.
pub(super) enum Events {
    /// Those that are there.
    Held(held::Pages),
}

impl Backend {
    /// Opens the store.
    pub(super) async fn open(session: &Session) -> Result<Self, CliError> {
        match &session.place {
            Place::Store(dir) => Ok(Self::Held(Held::open(dir).await?)),
        }
    }

    /// Finds a job by its id, or by a beginning of it that no other job's id has.
    pub(super) async fn find(&self, text: &str) -> Result<JobId, CliError> {
        match self {
            Self::Held(held) => held.find(text).await,
        }
    }

    /// A job with its tasks, as JSON.
    pub(super) async fn snapshot(&self, job: JobId) -> Result<String, CliError> {
        match self {
            Self::Held(held) => held.snapshot(job).await,
        }
    }

    /// The kinds that a job needs and that nobody here has. A server shows by its tasks that they
    /// wait for them.
    pub(super) async fn missing_kinds(&self, job: JobId) -> Result<Vec<KindName>, CliError> {
        match self {
            Self::Held(held) => held.missing_kinds(job).await,
        }
    }

    /// Jobs, the newest first.
    pub(super) async fn list(&self, args: &ListArgs) -> Result<Page, CliError> {
        match self {
            Self::Held(held) => held.list(args).await,
        }
    }

    /// Asks something of a job.
    pub(super) async fn command(
        &self,
        job: JobId,
        command: Command,
        asked: &Asked,
    ) -> Result<Answered, CliError> {
        match self {
            Self::Held(held) => held.command(job, command, asked).await,
        }
    }

    /// The events of a job with a greater number than `after`.
    pub(super) async fn events(&self, job: JobId, after: u64) -> Result<Events, CliError> {
        match self {
            Self::Held(held) => Ok(Events::Held(held.events(job, after).await?)),
        }
    }

    /// Prints the log of an attempt.
    pub(super) async fn log(
        &self,
        job: JobId,
        args: &LogsArgs,
        json: bool,
        out: &mut Out,
    ) -> Result<(), CliError> {
        match self {
            Self::Held(held) => held_log::print(held, job, args, json, out).await,
        }
    }

    /// Lets go of what was opened.
    pub(super) async fn close(self) -> Result<(), CliError> {
        match self {
            Self::Held(held) => held.close().await,
        }
    }
}

impl Events {
    /// The next event as JSON; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, CliError> {
        match self {
            Self::Held(pages) => pages.next().await,
        }
    }
}
