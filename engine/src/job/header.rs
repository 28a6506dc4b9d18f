//! What a job is beside its tasks: what its plan says, its key, where it comes from.

use std::collections::BTreeMap;
use std::time::Duration;

use annals_tasks_sdk::plan::{JobEnd, Start};
use annals_tasks_sdk::{JobId, Payload, Timestamp};

/// What a plan says beside its tasks, and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The plan's name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Its input.
    pub input: Payload,
    /// When it starts.
    pub start: Start,
    /// How long a run may take.
    pub deadline: Option<Duration>,
    /// What the job gives, with references.
    pub output: Option<Payload>,
    /// Whether the first failure ends it.
    pub fail_fast: bool,
    /// The ends before which what it has done is undone.
    pub compensate_on: Box<[JobEnd]>,
    /// The workflow that made it.
    pub workflow: Option<Box<str>>,
    /// The file that it was read from.
    pub source: Option<Box<str>>,
}

/// A key of which one job at a time may run, and where a job with it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusive {
    /// The key.
    pub key: Box<str>,
    /// Since when it is its turn to wait for the key: when it was started, or opened again; `None`
    /// before that and when it has ended.
    pub since: Option<Timestamp>,
    /// Whether it has begun to work since, so that the key is its own until it ends.
    pub taken: bool,
}

/// Where a fork comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkedFrom {
    /// The origin.
    pub job: JobId,
    /// The origin's last event then.
    pub seq: u64,
}

/// That a job is a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forked {
    pub(super) from: ForkedFrom,
    /// Its events up to this one are copies, but for the first two.
    pub(super) copied_to: u64,
}

/// How many tasks stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Completed tasks.
    pub completed: u32,
    /// Skipped tasks.
    pub skipped: u32,
    /// Removed tasks.
    pub removed: u32,
    /// Tasks that failed and are settled all the same.
    pub tolerated: u32,
}
