//! Why a job does not move.

use annals_engine::job::{Intent, JobStatus};
use annals_tasks_sdk::{JobId, Timestamp};
use serde::Deserialize;

use super::read::{maybe_name, maybe_time, maybe_word};

/// Why a job does not move, or what it is doing.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Explanation {
    #[serde(rename = "job_id")]
    pub(in crate::cli) job: JobId,
    /// None where its history cannot be followed.
    #[serde(default, deserialize_with = "maybe_word")]
    pub(in crate::cli) status: Option<JobStatus>,
    #[serde(default, deserialize_with = "maybe_word")]
    pub(in crate::cli) intent: Option<Intent>,
    pub(in crate::cli) reasons: Vec<Because>,
    #[serde(default)]
    pub(in crate::cli) more_tasks: u32,
    #[serde(rename = "deadline_at", default, deserialize_with = "maybe_time")]
    pub(in crate::cli) deadline: Option<Timestamp>,
    #[serde(default)]
    pub(in crate::cli) deadline_passed: bool,
    pub(in crate::cli) holds_key: Option<HeldKey>,
}

/// A key that it holds and others wait for.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct HeldKey {
    pub(in crate::cli) message: String,
}

/// A reason.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Because {
    pub(in crate::cli) code: String,
    pub(in crate::cli) message: String,
    #[serde(default)]
    pub(in crate::cli) commands: Vec<Suggestion>,
}

/// A command that would change it.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Suggestion {
    pub(in crate::cli) verb: String,
    #[serde(default, deserialize_with = "maybe_name")]
    pub(in crate::cli) task: Option<String>,
    #[serde(default, deserialize_with = "maybe_name")]
    pub(in crate::cli) signal: Option<String>,
    pub(in crate::cli) mode: Option<String>,
    #[serde(default)]
    pub(in crate::cli) cascade: bool,
}
