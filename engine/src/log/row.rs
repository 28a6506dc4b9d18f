//! The row that the views keep of each job: what lists and the start of the engine need.

use std::collections::BTreeMap;

use annals_tasks_sdk::{JobId, Timestamp};

use super::Head;
use crate::job::{Failure, Intent, JobStatus};

/// What lists, and the start of the engine, need to know of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// The job.
    pub job: JobId,
    /// Where its history stands.
    pub head: Head,
    /// Its status.
    pub status: JobStatus,
    /// What it is on its way to.
    pub intent: Option<Intent>,
    /// Whether it must be loaded when the engine starts: attempts were alive, or tasks could start.
    pub active: bool,
    /// When it must be loaded otherwise.
    pub due: Option<Timestamp>,
    /// Its number of accepted commands.
    pub revision: u64,
    /// Its plan's name.
    pub name: Box<str>,
    /// The workflow that made it.
    pub workflow: Option<Box<str>>,
    /// The file that its plan was read from.
    pub source: Option<Box<str>>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// When it was submitted.
    pub created: Timestamp,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When its run ended.
    pub finished: Option<Timestamp>,
    /// How many tasks it has that are not removed.
    pub total_tasks: u32,
    /// How many of them are completed.
    pub completed_tasks: u32,
    /// How many of them are skipped.
    pub skipped_tasks: u32,
    /// Why it failed, or is about to.
    pub error: Option<Failure>,
}
