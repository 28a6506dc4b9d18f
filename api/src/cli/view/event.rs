//! An event of a job's history.

use annals_tasks_sdk::{JobId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::job::{Error, Job, Log, Waiting};
use super::read::{maybe_name, maybe_time, time};

/// An event.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Event {
    /// Left out of what would happen.
    #[serde(default)]
    pub(in crate::cli) seq: u64,
    #[serde(deserialize_with = "time")]
    pub(in crate::cli) time: Timestamp,
    pub(in crate::cli) actor: String,
    pub(in crate::cli) reason: Option<String>,
    /// Its type, in `PascalCase`.
    #[serde(rename = "type")]
    pub(in crate::cli) kind: String,
    pub(in crate::cli) data: EventData,
}

/// What goes with an event.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct EventData {
    #[serde(default, deserialize_with = "maybe_name")]
    pub(in crate::cli) task: Option<String>,
    #[serde(default)]
    pub(in crate::cli) attempt: u32,
    /// Of a step or a signal.
    #[serde(default, deserialize_with = "maybe_name")]
    pub(in crate::cli) name: Option<String>,
    pub(in crate::cli) mode: Option<String>,
    #[serde(default)]
    pub(in crate::cli) held: bool,
    pub(in crate::cli) waiting_for: Option<Waiting>,
    pub(in crate::cli) child: Option<JobId>,
    #[serde(default, deserialize_with = "maybe_time")]
    pub(in crate::cli) due: Option<Timestamp>,
    pub(in crate::cli) error: Option<Error>,
    #[serde(default)]
    pub(in crate::cli) log: Log,
    pub(in crate::cli) plan: Option<Box<RawValue>>,
    /// What a task has become instances for.
    #[serde(default)]
    pub(in crate::cli) items: Vec<Box<RawValue>>,
}

/// What would happen, and what would then be.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct DryRun {
    pub(in crate::cli) events: Vec<Event>,
    pub(in crate::cli) job: Job,
}
