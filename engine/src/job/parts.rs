//! The small parts that events are made of.

use annals_tasks_sdk::plan::{Limits, PlanErrors, TaskSpec};
use annals_tasks_sdk::{Exit, Payload};

use super::status::JobStatus;

/// What there was of a job that is purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// How it had ended.
    pub status: JobStatus,
    /// How many events it had.
    pub events: u64,
    /// How many tasks it had, removed ones and instances included.
    pub tasks: u32,
    /// How many attempts these had.
    pub attempts: u32,
    /// The hash of the last of its events.
    pub head: [u8; 32],
}

/// How a pause treats live attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseMode {
    /// They run to their end.
    #[default]
    Drain,
    /// They are stopped and run again after resume.
    Interrupt,
}

/// What a cancel lets run before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CancelMode {
    /// What undoes the tasks that are done, and the tasks of `finally`.
    #[default]
    Orderly,
    /// Nothing: what runs of these is stopped, too.
    Now,
}

/// What passed over a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedBy {
    /// Somebody who asked for it.
    Request,
    /// Its `when`.
    Condition,
}

/// A part of a plan that tasks stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `tasks`: the work.
    Tasks,
    /// What undoes tasks of the work, as their `compensate` says.
    Undo,
    /// `finally`: what is done at the end of each run.
    Finally,
}

impl Part {
    /// Checks what can be checked of a task of this part alone; `input` is that of its job.
    pub(crate) fn check(
        self,
        spec: &TaskSpec,
        input: &Payload,
        limits: &Limits,
    ) -> Result<(), PlanErrors> {
        match self {
            Self::Tasks => spec.check(input, limits),
            Self::Undo => spec.check_undo(input, limits),
            Self::Finally => spec.check_in_finally(input, limits),
        }
    }
}

/// How an attempt ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptEnd {
    /// Why.
    pub error: Failure,
    /// Whether another attempt may help.
    pub retryable: bool,
    /// How its child process ended, where there was one.
    pub exit: Exit,
    /// What it had to give in spite of its failure.
    pub output: Option<Payload>,
    /// The size of its step log.
    pub log: LogSize,
}

/// A failure: a stable word for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `exit_status`, `timed_out`, `crash_loop`, ...
    pub code: Box<str>,
    /// The sentence.
    pub message: Box<str>,
}

impl Failure {
    /// The code of an attempt that took longer than its timeout.
    pub const TIMED_OUT: &'static str = "timed_out";
    /// The code of an attempt of which nothing was heard for too long.
    pub const HEARTBEAT_TIMEOUT: &'static str = "heartbeat_timeout";
    /// The code of a task whose `when` is neither true nor false.
    pub const BAD_CONDITION: &'static str = "bad_condition";
    /// The code of a task whose child failed.
    pub const CHILD_FAILED: &'static str = "child_failed";
    /// The code of a task whose child was cancelled by somebody else than its parent.
    pub const CHILD_CANCELLED: &'static str = "child_cancelled";
    /// The code of a task whose `for_each` gives no list.
    pub const BAD_LIST: &'static str = "bad_list";
    /// The code of a task whose `for_each` gives more elements than a task may have instances.
    pub const TOO_MANY_INSTANCES: &'static str = "too_many_instances";
    /// The code of a task of whose instances some have failed.
    pub const INSTANCES_FAILED: &'static str = "instances_failed";
    /// The code of a job of which something could not be undone.
    pub const COMPENSATION_FAILED: &'static str = "compensation_failed";
    /// The code of a job whose run took longer than its deadline.
    pub const DEADLINE_EXCEEDED: &'static str = "deadline_exceeded";

    /// A failure with this code and sentence.
    pub fn new(code: &str, message: impl Into<Box<str>>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// The size of a step log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogSize {
    /// Bytes that the attempt wrote.
    pub bytes: u64,
    /// Lines that the attempt wrote.
    pub lines: u64,
}

/// What the log proves about a value that lies beside a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueDigest {
    /// Its length in bytes.
    pub len: u32,
    /// Its BLAKE3 hash.
    pub hash: [u8; 32],
}
