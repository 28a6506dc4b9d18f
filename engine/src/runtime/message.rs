//! What is sent to a loop, and what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{JobId, Payload, Progress, TaskResult, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::act::{Action, answer};
use super::error::{CommandError, EngineError, JobError, SubmitError};
use super::executor::Executor;
use super::family::{Prepared, Visited, gone};
use super::keys::Claim;
use super::loads::Found;
use super::lookout::Lack;
use super::pool::Waiter;
use super::purges::Files;
use super::rows::Listing;
use super::values::StepResult;
use crate::job::{Command, IdempotencyKey, Job, Origin, Wish};
use crate::job::{Recorded, Report, TaskNumber};
use crate::log::{Durable, Position};
use crate::views::Seen;

/// The way back to whoever asked, with the permit that the question holds until it is answered:
/// while nothing can be written nothing more than there are permits for is taken in.
pub(super) struct Reply<T> {
    sender: oneshot::Sender<T>,
    /// What the engine asks itself holds none.
    permit: Option<OwnedSemaphorePermit>,
}

impl<T> Reply<T> {
    pub(super) fn new(permit: Option<OwnedSemaphorePermit>) -> (Self, oneshot::Receiver<T>) {
        let (sender, answer) = oneshot::channel();
        (Self { sender, permit }, answer)
    }

    /// Answers; gives the answer back where nobody waits for it any more.
    pub(super) fn send(self, answer: T) -> Result<(), T> {
        let Self { sender, permit } = self;
        // First, so that whoever has the answer can rely on it.
        drop(permit);
        sender.send(answer)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// For what may be answered much later: meanwhile it keeps nobody from asking.
    pub(super) fn without_permit(self) -> Self {
        Self { sender: self.sender, permit: None }
    }
}

/// Who asks, and under which conditions.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Who asks, and why.
    pub origin: Origin,
    /// Refuse the command if the job's seq is another.
    pub expected_seq: Option<u64>,
    /// Refuse the command if the job's revision is another: somebody else was faster.
    pub expected_revision: Option<u64>,
    /// Show what the command would do, and do nothing.
    pub dry_run: bool,
    /// By what a repeat of the command is known. A dry run does not look at it.
    pub key: Option<IdempotencyKey>,
}

/// A command was accepted; what it did, or would do, is durable.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The events that it made; none where what was asked for held already.
    pub events: Vec<Recorded>,
    /// The job after them.
    pub snapshot: Snapshot,
    /// Whether the command had been carried out before: then there are no events, and the
    /// snapshot is of now.
    pub replayed: bool,
}

/// A job at one moment, and what its live attempts say of themselves.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The job as its durable events have made it.
    pub job: Arc<Job>,
    /// What live attempts say; volatile, no part of the job's state.
    pub live: BTreeMap<TaskNumber, Live>,
    /// What the engine has found that it lacks to go on, if nothing will move it.
    pub lack: Option<Lack>,
}

impl Snapshot {
    /// A job of which nothing is alive, or of which that is not to be shown.
    pub fn of(job: Arc<Job>) -> Self {
        Self { job, live: BTreeMap::new(), lack: None }
    }
}

/// What a live attempt says of itself.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// How far it is.
    pub progress: Option<Progress>,
    /// What it is doing.
    pub message: Option<String>,
    /// When it was told to stop, if it was.
    pub stopping_since: Option<Timestamp>,
    /// How often it has said something, or was told to stop. A sign of life counts that says
    /// nothing new.
    pub updates: u64,
}

impl Live {
    /// Notes that the attempt was told to stop, if that is not noted yet.
    pub(super) fn stop(&mut self, now: Timestamp) {
        if self.stopping_since.is_none() {
            self.stopping_since = Some(now);
            self.updates += 1;
        }
    }

    /// Takes in what the attempt says.
    pub(super) fn says(&mut self, progress: Option<Progress>, message: Option<String>) {
        self.progress = progress.or(self.progress);
        if message.is_some() {
            self.message = message;
        }
        self.updates += 1;
    }
}

/// What the answer to a submission brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// That it is accepted. Nobody holds the job then, so it need not be copied to go on.
    Acceptance,
    /// The job as its first events have made it.
    Snapshot,
}

/// A command, and what it comes with. By far the largest that a loop is sent, and seldom: it lies
/// apart, so that all other messages are small.
pub(super) struct Commanded {
    pub(super) job: JobId,
    pub(super) command: Command,
    pub(super) ask: Ask,
    pub(super) claim: Option<Box<Claim>>,
    pub(super) reply: Reply<Result<Answer, CommandError>>,
}

/// What is sent to a loop.
pub(super) enum Message {
    Submit {
        executor: Box<Executor>,
        claim: Option<Box<Claim>>,
        shows: Shows,
        reply: Reply<Result<Option<Snapshot>, SubmitError>>,
    },
    Command(Box<Commanded>),
    Snapshot {
        job: JobId,
        reply: Reply<Result<Snapshot, JobError>>,
    },
    /// Why the job does not move.
    Explain {
        job: JobId,
        reply: Reply<Result<Seen, JobError>>,
    },
    Changed {
        job: JobId,
        after: u64,
        reply: Reply<Result<u64, JobError>>,
    },
    Ended {
        job: JobId,
        reply: Reply<Result<Snapshot, JobError>>,
    },
    /// Where a job's history stands: the position of its last row, if it is known here.
    Head {
        job: JobId,
        reply: Reply<Result<Option<Position>, JobError>>,
    },
    Rows(Listing),
    /// The jobs that were given up, and why.
    Broken {
        reply: Reply<Vec<(JobId, String)>>,
    },
    Report {
        job: JobId,
        report: Report,
    },
    Checkpoint {
        job: JobId,
        task: TaskNumber,
        attempt: u32,
        value: Payload,
        reply: Reply<TaskResult<()>>,
    },
    Step {
        job: JobId,
        step: StepResult,
        reply: Reply<TaskResult<()>>,
    },
    /// A job has been read, or could not be.
    Loaded {
        job: JobId,
        found: Found,
    },
    /// What has become of the files of a job that was purged.
    Cleared {
        job: JobId,
        files: Files,
    },
    /// Somebody waits until it is known what has become of them.
    WhenCleared {
        job: JobId,
        reply: Reply<()>,
    },
    /// A child of the job was made, or could not be.
    Prepared {
        job: JobId,
        prepared: Box<Prepared>,
    },
    /// The parent of the job looks whether it is there.
    Visit {
        job: JobId,
        parent: JobId,
        task: TaskNumber,
    },
    /// What there is of a child that a task of the job had before.
    Visited {
        job: JobId,
        task: TaskNumber,
        child: JobId,
        found: Visited,
    },
    /// What the parent of the job wants of it.
    Wish {
        job: JobId,
        parent: JobId,
        task: TaskNumber,
        wish: Wish,
    },
    Granted(Waiter),
    /// A job may have been given its exclusive key.
    Turn {
        job: JobId,
    },
    Durable(Durable),
    Views(Arc<super::views::Round>),
    Recover {
        reply: Reply<Result<(), EngineError>>,
    },
    /// Start nothing more.
    Quiesce {
        /// Have attempts stop, and answer with the longest grace among them.
        interrupt: Option<Reply<Duration>>,
        quiet: Reply<()>,
    },
    /// The clock was moved by hand.
    Look,
    Close,
}

impl Message {
    /// The job that must be loaded before this can be taken up.
    pub(super) fn job_to_load(&self) -> Option<JobId> {
        match self {
            Self::Command(commanded) => Some(commanded.job),
            Self::Snapshot { job, .. }
            | Self::Explain { job, .. }
            | Self::Changed { job, .. }
            | Self::Ended { job, .. }
            | Self::Visit { job, .. }
            | Self::Wish { job, .. } => Some(*job),
            _ => None,
        }
    }

    /// The answer where that job cannot be loaded.
    pub(super) fn refuse(self, error: &JobError) -> Option<Action> {
        let error = error.clone();
        match self {
            Self::Command(commanded) => Some(answer(commanded.reply, Err(error.into()))),
            Self::Snapshot { reply, .. } | Self::Ended { reply, .. } => {
                Some(answer(reply, Err(error)))
            }
            Self::Explain { reply, .. } => Some(answer(reply, Err(error))),
            Self::Changed { reply, .. } => Some(answer(reply, Err(error))),
            Self::Wish { job, parent, task, .. } => gone(job, (parent, task), &error),
            Self::Visit { job, parent, task } => {
                let found = Visited::missing(&error);
                let message = Self::Visited { job: parent, task, child: job, found };
                Some(Action::Tell { to: parent, message: Box::new(message) })
            }
            _ => None,
        }
    }
}
