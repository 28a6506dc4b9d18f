//! The JSON that people and programs see: snapshots, list items and events.
//!
//! These shapes are apart from the engine's types, so that neither binds the other. Names are in
//! `snake_case`, what has no value is left out, times are RFC 3339 in UTC with milliseconds, and
//! payloads stand as they were sent, digit by digit. Nothing here reads JSON.

mod audit;
mod bulk;
mod change;
mod dry_run;
mod event;
mod explain;
mod job;
mod list;
mod plan;
mod purge;
mod row;
mod server;
mod stream;
mod task;
mod time;
mod words;

use serde::Serialize;
use utoipa::ToSchema;

use annals_engine::job::{Failure, LogSize};
use annals_tasks_sdk::Exit;

pub use audit::Audit;
pub use bulk::{Bulk, BulkRefusal};
pub use change::{Change, Replay, ReplayedEvent};
pub use dry_run::DryRun;
pub use event::Event;
pub(crate) use event::hex;
pub use explain::{Because, Body, Explanation, HeldKey, Suggestion};
pub use job::{Job, JobProgress, Live, Progress, live};
pub use list::{EventList, JobList, Listed, LogDamage};
pub use plan::{
    Backoff, CompensateOn, Compensation, OnFailure, OnLost, Plan, PlannedTask, Retry, Start,
    SubmitBody, TaskPatch, WorkflowCall,
};
pub use purge::{PurgeDryRun, Tombstone};
pub use row::{Row, WantedKey};
pub use server::{Health, Kind, Kinds, Reason, WorkflowName, Workflows};
pub(crate) use stream::LogPlace;
pub use stream::{JobEnd, LogEnd, LogEntry, LogLine, LogLoss};
pub use task::{Attempt, Due, Items, Signal, Task, TaskProgress, Tasks, WaitingFor};
pub use time::Time;
pub use words::{AttemptOutcome, Intent, JobStatus, TaskStatus};

/// Why something failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Failure)]
pub struct Error<'a> {
    /// A short stable word.
    pub code: &'a str,
    /// The sentence.
    pub message: &'a str,
    /// The task that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<&'a str>,
    /// Its attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Whether another attempt may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

impl<'a> Error<'a> {
    /// A failure by itself.
    pub fn of(failure: &'a Failure) -> Self {
        let (code, message) = (&*failure.code, &*failure.message);
        Self { code, message, task: None, attempt: None, retryable: None }
    }
}

/// Where a fork comes from.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ForkedFrom {
    /// The job that was forked.
    #[schema(format = Uuid)]
    pub job: String,
    /// The number of its last event then.
    pub seq: u64,
}

impl From<annals_engine::job::ForkedFrom> for ForkedFrom {
    fn from(from: annals_engine::job::ForkedFrom) -> Self {
        Self { job: from.job.to_string(), seq: from.seq }
    }
}

/// Whose child a job is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Parent<'a> {
    /// The parent.
    #[schema(format = Uuid)]
    pub job: String,
    /// The task of it that waits for the child.
    pub task: &'a str,
}

impl<'a> From<&'a annals_engine::job::Parent> for Parent<'a> {
    fn from(parent: &'a annals_engine::job::Parent) -> Self {
        Self { job: parent.job.to_string(), task: parent.task_id.as_str() }
    }
}

/// The size of a step log.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Log {
    /// Bytes that the attempt wrote.
    pub bytes: u64,
    /// Lines that it wrote.
    pub lines: u64,
}

impl From<LogSize> for Log {
    fn from(size: LogSize) -> Self {
        Self { bytes: size.bytes, lines: size.lines }
    }
}

/// How a child process ended: exit code and signal.
fn exit(exit: &Exit) -> (Option<i32>, Option<&str>) {
    (exit.code, exit.signal.as_deref())
}

/// JSON text of a shape, in one line. Shapes hold strings, numbers and payloads, which always
/// have one.
pub(crate) fn text<T: Serialize>(shape: &T) -> String {
    crate::json::compact(&serde_json::to_string(shape).unwrap_or_else(|_| "null".into()))
}

#[cfg(test)]
mod tests;
