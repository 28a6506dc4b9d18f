//! How a command ended.

use std::process::ExitCode;

use annals_engine::job::JobStatus;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Exit {
    /// Completed, or accepted.
    Done = 0,
    Failed = 1,
    /// Usage, or a file or plan that cannot be read or is invalid.
    Usage = 2,
    Cancelled = 3,
    Paused = 4,
    Rejected = 5,
    /// No such job or task.
    NoSuch = 6,
    /// The store is out of reach.
    Unreachable = 7,
    /// By the end of its terminal.
    HungUp = 129,
    /// By Ctrl-C.
    Interrupted = 130,
    /// By SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// How a job ended that is no longer followed. One that goes on counts as paused.
    pub(in crate::cli) fn of(status: JobStatus) -> Self {
        match status {
            JobStatus::Completed => Self::Done,
            JobStatus::Failed => Self::Failed,
            JobStatus::Cancelled => Self::Cancelled,
            JobStatus::Pending | JobStatus::Running | JobStatus::Paused => Self::Paused,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
