//! What an audit found.

use annals_engine::log::Verified;
use annals_engine::runtime::Audited;
use annals_tasks_sdk::JobId;
use serde::Serialize;
use utoipa::ToSchema;

use super::LogDamage;
use super::event::hex;

/// What the audit of a job found.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = JobAudit)]
pub struct Audit<'a> {
    /// The job.
    #[schema(format = Uuid)]
    pub job_id: String,
    /// Whether every hash, the chain of its events and every value is as it was written.
    pub sound: bool,
    /// How many events it has.
    pub events: u64,
    /// Those of them that a newer build has written, which this one cannot read.
    pub unknown_events: u64,
    /// Values of its checkpoints and steps that are sound.
    pub values: u64,
    /// The number of its last event that was checked.
    pub head_seq: u64,
    /// The hash of that event, which covers all before it.
    pub head_hash: String,
    /// What is wrong, each with its place, the first first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub damage: Vec<LogDamage<'a>>,
}

impl<'a> Audit<'a> {
    /// Of a job.
    pub fn of(job: JobId, audited: &'a Audited) -> Self {
        let Audited { head, found: Verified { events, unknown, values, damage, .. } } = audited;
        Self {
            job_id: job.to_string(),
            sound: damage.is_empty(),
            events: *events,
            unknown_events: *unknown,
            values: *values,
            head_seq: head.seq,
            head_hash: hex(&head.hash),
            damage: damage.iter().map(LogDamage::of).collect(),
        }
    }

    /// The same as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
