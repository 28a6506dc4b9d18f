//! What is left of a job that was purged.

use std::fmt::Write;

use annals_engine::job::{self, JobStatus, Recorded};
use annals_tasks_sdk::JobId;
use serde::Serialize;
use utoipa::ToSchema;

use super::event::hex;
use super::{Event, Time};

/// What is left of a job that was purged.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Tombstone<'a> {
    /// The job.
    #[schema(format = Uuid)]
    pub id: String,
    /// How it had ended.
    #[schema(value_type = super::JobStatus)]
    pub status: &'static str,
    /// When it was purged.
    pub purged_at: Time,
    /// Who purged it.
    pub actor: &'a str,
    /// The request that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
    /// The reason that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// The number of the event that purged it, its last.
    pub seq: u64,
    /// How many events it had before that.
    pub events: u64,
    /// How many tasks it had.
    pub tasks: u32,
    /// How many attempts these had.
    pub attempts: u32,
    /// The hash of the last of those events: whoever has a copy of its history can prove it by
    /// that.
    pub head_hash: String,
}

impl<'a> Tombstone<'a> {
    /// What is known of a job that was purged.
    pub fn of(job: JobId, tombstone: &'a job::Tombstone) -> Self {
        let job::Tombstone { at, origin, purged } = tombstone;
        Self {
            id: job.to_string(),
            status: JobStatus::as_str(purged.status),
            purged_at: Time(*at),
            actor: origin.name(),
            request_id: origin.request_id.as_deref(),
            reason: origin.reason.as_deref(),
            seq: tombstone.seq(),
            events: purged.events,
            tasks: purged.tasks,
            attempts: purged.attempts,
            head_hash: hex(&purged.head),
        }
    }

    /// The same as a sentence.
    pub fn sentence(&self) -> String {
        let Self { id, purged_at, actor, .. } = self;
        let mut text = format!("job {id} was purged at {purged_at} by {actor}");
        if let Some(reason) = self.reason {
            // Nothing can go wrong with a string.
            let _ = write!(text, " ({reason})");
        }
        text + "; nothing else is left of it"
    }

    /// The tombstone as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

/// What a purge would do, and has not done.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PurgeDryRun<'a> {
    /// The event that it would make; none where the job was purged before.
    pub events: Vec<Event<'a>>,
    /// What would be left of the job.
    pub tombstone: Tombstone<'a>,
}

impl<'a> PurgeDryRun<'a> {
    /// The events, and what they leave of a job.
    pub fn of(job: JobId, events: &'a [Recorded], tombstone: &'a job::Tombstone) -> Self {
        let events = events.iter().map(Event::of_unreadable).collect();
        Self { events, tombstone: Tombstone::of(job, tombstone) }
    }

    /// The same as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
