//! What a job's state keeps of the attempts of its tasks.

use annals_tasks_sdk::{Exit, Timestamp};

use super::parts::{AttemptEnd, LogSize, ValueDigest};
use super::status::AttemptOutcome;

/// The last checkpoint of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The attempt that saved it.
    pub attempt: u32,
    /// What the log proves about its value.
    pub value: ValueDigest,
}

/// One execution of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// From 1 in its task.
    pub number: u32,
    /// When it was started.
    pub started: Timestamp,
    /// When it was over.
    pub finished: Option<Timestamp>,
    /// How it ended; `None` while it is alive.
    pub outcome: Option<AttemptOutcome>,
    /// Why it was told to stop, if it was.
    pub stop: Option<StopReason>,
    /// Its error and what goes with it.
    pub end: Option<Box<AttemptEnd>>,
    /// How its child process ended, where there was one and it succeeded.
    pub exit: Exit,
    /// The size of its step log.
    pub log: LogSize,
}

/// Why an attempt is told to stop. Timeouts and the engine's own end are no matter of the state:
/// the runtime stops an attempt for them by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The job was cancelled.
    Cancel,
    /// The job was paused with `interrupt`.
    Pause,
    /// The task was skipped.
    Skip,
    /// The deadline of the run has passed.
    Deadline,
    /// Another task of a job with `fail_fast` has failed.
    FailFast,
}
