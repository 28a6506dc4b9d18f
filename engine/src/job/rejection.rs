//! Rejections: answers to commands that change nothing. A refusal is a value, not an error.

use annals_tasks_sdk::plan::PlanError;

use super::references::Dependant;
use super::status::JobStatus;

/// Why a command was refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// A short stable word for programs.
    pub code: &'static str,
    /// The sentence for people: what, why, and what to do.
    pub message: String,
    /// The job's status then.
    pub status: JobStatus,
    /// The commands that would be accepted.
    pub allowed: Vec<&'static str>,
    /// Who would lose an input, where that is the reason.
    pub dependants: Vec<Dependant>,
    /// What is wrong with the task that was to be inserted or edited, where that is the reason;
    /// places are within the task.
    pub errors: Vec<PlanError>,
}
