//! What the engine answers when it cannot do what it was asked to.

use std::sync::Arc;

use annals_tasks_sdk::plan::PlanErrors;
use annals_tasks_sdk::{BadName, JobId, PayloadError, Timestamp};

use super::keys::Reused;
use super::laws::BrokenLaw;
use crate::job::{Rejection, Tombstone};
use crate::log::LogError;

/// The engine cannot answer, whatever the question.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A write failed. Whether what was asked for has happened shows after the next start.
    #[error(
        "the log could not be written, so the outcome is unknown until the engine is started \
         again: {0}"
    )]
    OutcomeUnknown(Arc<LogError>),
    /// The log could not be read.
    #[error("the log could not be read: {0}")]
    Log(Arc<LogError>),
    /// It is not known whether processes of an earlier engine still run.
    #[error("what an earlier engine left running cannot be ended: {0}")]
    Leftovers(Arc<std::io::Error>),
    /// The engine contradicted itself. Whether what was asked for has happened shows after the
    /// next start.
    #[error("the engine panicked, so the outcome is unknown until it is started again")]
    Panicked,
    /// The engine was about to write what cannot be. It did not, gave that job up, and goes on with
    /// the others; [`Engine::health`](super::Engine::health) alone says this.
    #[error(
        "the engine contradicted itself: {0}; nothing of it was written, the job is given up until \
         the next start, and other jobs go on"
    )]
    LawBroken(BrokenLaw),
    /// The engine has been shut down.
    #[error("the engine has stopped")]
    Stopped,
}

/// A question about a job cannot be answered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such job.
    #[error("there is no job {0}")]
    NotFound(JobId),
    /// It was purged: nothing else is known of it any more.
    #[error("job {job} was purged by {}, and nothing is left of it", .tombstone.origin.name())]
    Purged {
        /// The job.
        job: JobId,
        /// What is known of it.
        tombstone: Arc<Tombstone>,
    },
    /// It has no event of this number.
    #[error("job {job} has no event {seq}: it has events 1 to {last}")]
    NoSuchEvent {
        /// The job.
        job: JobId,
        /// The number that was asked for.
        seq: u64,
        /// The number of its last event.
        last: u64,
    },
    /// It was not there yet at this time.
    #[error("job {job} was not there yet at that time")]
    NotYet {
        /// The job.
        job: JobId,
        /// The time that was asked for.
        time: Timestamp,
        /// When it was submitted.
        created: Timestamp,
    },
    /// Its history cannot be followed; other jobs are not concerned.
    #[error("job {job} cannot be run: {why}")]
    Unreadable {
        /// The job.
        job: JobId,
        /// What is wrong with its history.
        why: String,
    },
    /// The engine cannot answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A command was not carried out.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The machine refused it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The job is not where the caller thought.
    #[error("the job is at event {found}, not at {expected}: look at it again")]
    Stale {
        /// `expected_seq` of the command.
        expected: u64,
        /// The job's seq.
        found: u64,
    },
    /// Somebody else has changed the job meanwhile.
    #[error("the job is at revision {found}, not at {expected}: look at it again")]
    StaleRevision {
        /// `expected_revision` of the command.
        expected: u64,
        /// The job's revision.
        found: u64,
    },
    /// Its idempotency key stands for another request, with another body or for another job.
    #[error("the idempotency key was used for another request; a new request needs a new key")]
    KeyReused,
    /// What came with it is too large to be kept.
    #[error("the command carries {bytes} bytes, more than the limit of {limit} (`payload_bytes`)")]
    TooLarge {
        /// How many bytes of text came with it.
        bytes: usize,
        /// How many may.
        limit: usize,
    },
    /// The job cannot answer.
    #[error(transparent)]
    Job(#[from] JobError),
}

/// A fork was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// As of any command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// One of its edits was refused.
    #[error("edit {} of the fork: {rejection}", index + 1)]
    Edit {
        /// Its index among the edits.
        index: usize,
        /// Why it was refused.
        rejection: Box<Rejection>,
    },
    /// It would copy more than one commit takes.
    #[error(
        "the fork would begin with {bytes} bytes of inputs and outputs, more than the limit of \
         {limit} (`fork_bytes`): fork from an earlier task or event, of which less is kept"
    )]
    TooLarge {
        /// How many bytes.
        bytes: usize,
        /// How many may be.
        limit: usize,
    },
}

impl From<JobError> for ForkError {
    fn from(error: JobError) -> Self {
        Self::Command(CommandError::Job(error))
    }
}

impl From<EngineError> for ForkError {
    fn from(error: EngineError) -> Self {
        Self::Command(error.into())
    }
}

impl From<Reused> for CommandError {
    fn from(Reused: Reused) -> Self {
        Self::KeyReused
    }
}

impl From<Reused> for SubmitError {
    fn from(Reused: Reused) -> Self {
        Self::KeyReused
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        Self::Job(JobError::Engine(error))
    }
}

/// A job was not accepted. Nothing of it exists.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanErrors),
    /// The input is no JSON.
    #[error("the input cannot be written as JSON: {0}")]
    Input(#[from] PayloadError),
    /// No workflow has this name.
    #[error("no workflow {name:?} is registered{hint}")]
    UnknownWorkflow {
        /// The name.
        name: String,
        /// A name like it, as the end of a sentence, or nothing.
        hint: String,
    },
    /// Its idempotency key stands for another request.
    #[error(
        "the idempotency key was used for a request with another body; a new request needs a new \
         key"
    )]
    KeyReused,
    /// What came with the plan is too large to be kept.
    #[error(
        "the submission carries {bytes} bytes beside its plan, more than the limit of {limit} \
         (`payload_bytes`)"
    )]
    TooLarge {
        /// How many bytes of text came with it.
        bytes: usize,
        /// How many may.
        limit: usize,
    },
    /// The job that it was to become cannot be run.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The engine cannot answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The engine could not be started. Nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store could not be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A write failed while jobs were recovered.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A limit is beyond what the log can hold.
    #[error("the limit `{name}` of {limit} is more than the log can hold ({most})")]
    Limit {
        /// Which one.
        name: &'static str,
        /// What it was set to.
        limit: usize,
        /// What it may be.
        most: usize,
    },
    /// A pool cannot be had as it was asked for.
    #[error("pool {name:?} cannot be made: {why}")]
    Pool {
        /// The pool.
        name: String,
        /// Why not.
        why: String,
    },
    /// A kind or a workflow has a name that cannot be one.
    #[error(transparent)]
    Name(#[from] BadName),
    /// A workflow makes no plan that could run.
    #[error("workflow {name:?} makes no valid plan: {errors}")]
    Workflow {
        /// The workflow.
        name: String,
        /// What is wrong.
        errors: PlanErrors,
    },
    /// Two implementations have one name.
    #[error("{0:?} is registered twice")]
    Twice(String),
    /// A folder or a thread could not be had.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something that a kind needs is missing.
    #[error("kind {kind:?} cannot be offered: {why}")]
    Kind {
        /// The kind.
        kind: String,
        /// Why not.
        why: String,
    },
}

/// A plan was looked at without an engine, and cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The engine that was to run it could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanErrors),
}
