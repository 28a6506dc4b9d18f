//! Purge: of an ended job nothing stays but that it was there.
//!
//! Its last event is a tombstone that says all that is to be known of the job from then on, so
//! that the state behind it is made of that event alone, and no reader needs an older one.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_tasks_sdk::plan::Start;
use annals_tasks_sdk::{JobId, Payload, Timestamp};

use super::event::{Event, Origin, Purged, Recorded};
use super::header::Header;
use super::rejection::Rejection;
use super::size;
use super::state::{Job, count};

/// What is known of a job that was purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// When it was purged.
    pub at: Timestamp,
    /// Who purged it, and why.
    pub origin: Origin,
    /// What there was of it.
    pub purged: Purged,
}

impl Tombstone {
    /// The number of the event that it is, the job's last.
    pub fn seq(&self) -> u64 {
        self.purged.events.saturating_add(1)
    }

    /// What an event says of a job that is purged with it; none of any other event.
    pub fn of(recorded: &Recorded) -> Option<Self> {
        let Event::JobPurged(purged) = recorded.event else { return None };
        Some(Self { at: recorded.time, origin: recorded.origin.clone(), purged })
    }
}

impl Job {
    /// What is known of the job, where it was purged: then there is nothing else.
    pub fn purged(&self) -> Option<&Arc<Tombstone>> {
        self.purged.as_ref()
    }

    /// A job of which nothing is left but its tombstone: what its last event makes of it, whatever
    /// came before.
    pub fn of_tombstone(id: JobId, tombstone: Arc<Tombstone>) -> Self {
        let (status, at) = (tombstone.purged.status, tombstone.at);
        let mut job = Self {
            seq: tombstone.seq(),
            status,
            finished: Some(at),
            purged: Some(tombstone),
            ..Self::blank(id, at, Header::blank())
        };
        job.bytes = size::of_new(&job);
        job
    }

    /// How many attempts its tasks had.
    pub(super) fn attempts(&self) -> u32 {
        self.tasks.iter().map(|task| count(task.attempts.len())).fold(0, u32::saturating_add)
    }

    /// The checks of a purge: what it says of the job must be so.
    pub(super) fn may_be_purged(&self, purged: &Purged) -> Result<(), String> {
        if !self.status.is_ended() {
            return Err(format!("the job is {}", self.status));
        }
        if *purged == self.leaves(purged.head) {
            return Ok(());
        }
        Err("it does not say of the job what is so".into())
    }

    /// What is to be known of it when it is purged now; `head` is the hash of its last event.
    pub(super) fn leaves(&self, head: [u8; 32]) -> Purged {
        let (tasks, attempts) = (count(self.tasks.len()), self.attempts());
        Purged { status: self.status, events: self.seq, tasks, attempts, head }
    }

    /// Why it takes no command any more.
    pub(super) fn is_purged(&self, tombstone: &Tombstone) -> Rejection {
        let by = tombstone.origin.name();
        Rejection {
            code: "purged",
            message: format!("the job was purged by {by}: nothing is left of it"),
            status: self.status,
            allowed: vec!["purge"],
            dependants: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl Header {
    /// Of a plan that is gone.
    fn blank() -> Self {
        Self {
            name: Box::default(),
            labels: BTreeMap::new(),
            input: Payload::NULL,
            start: Start::Now,
            deadline: None,
            output: None,
            fail_fast: false,
            compensate_on: Box::default(),
            workflow: None,
            source: None,
        }
    }
}
