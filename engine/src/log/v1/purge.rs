//! The twin of what a purge says, and of the views' row of a job that was purged. The row can be
//! rebuilt from the record, and may be replaced by another version at any time.

use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::job::{JobStatus, Origin, Purged, Tombstone};
use crate::log::{Head, JobRow, Position};

#[derive(Serialize, Deserialize)]
pub(super) struct JobPurged {
    status: Ended,
    events: u64,
    tasks: u32,
    attempts: u32,
    head: [u8; 32],
}

/// How a job had ended; the words of those that have not are there for no job that was purged.
#[derive(Serialize, Deserialize)]
enum Ended {
    Completed,
    Failed,
    Cancelled,
}

impl From<&Purged> for JobPurged {
    fn from(purged: &Purged) -> Self {
        let Purged { status, events, tasks, attempts, head } = *purged;
        let status = match status {
            JobStatus::Completed => Ended::Completed,
            JobStatus::Failed => Ended::Failed,
            JobStatus::Cancelled | JobStatus::Pending | JobStatus::Running | JobStatus::Paused => {
                Ended::Cancelled
            }
        };
        Self { status, events, tasks, attempts, head }
    }
}

impl From<JobPurged> for Purged {
    fn from(purged: JobPurged) -> Self {
        let JobPurged { status, events, tasks, attempts, head } = purged;
        let status = match status {
            Ended::Completed => JobStatus::Completed,
            Ended::Failed => JobStatus::Failed,
            Ended::Cancelled => JobStatus::Cancelled,
        };
        Self { status, events, tasks, attempts, head }
    }
}

/// The views' row of a job that was purged.
#[derive(Serialize, Deserialize)]
pub(in crate::log) struct TombstoneV1<'a> {
    job: u128,
    row: u64,
    seq: u64,
    hash: [u8; 32],
    /// Whether files of the job may be left.
    active: bool,
    at: i64,
    actor: Option<&'a str>,
    request_id: Option<&'a str>,
    reason: Option<&'a str>,
    purged: JobPurged,
}

impl<'a> TombstoneV1<'a> {
    pub(in crate::log) fn of(row: &JobRow, tombstone: &'a Tombstone) -> Self {
        let Origin { actor, request_id, reason } = &tombstone.origin;
        Self {
            job: row.job.as_u128(),
            row: row.head.row.0,
            seq: row.head.seq,
            hash: row.head.hash,
            active: row.active,
            at: tombstone.at.as_millis(),
            actor: actor.as_deref(),
            request_id: request_id.as_deref(),
            reason: reason.as_deref(),
            purged: (&tombstone.purged).into(),
        }
    }
}

impl From<TombstoneV1<'_>> for JobRow {
    fn from(row: TombstoneV1<'_>) -> Self {
        let text = |text: Option<&str>| text.map(Into::into);
        let (actor, request_id) = (text(row.actor), text(row.request_id));
        let origin = Origin { actor, request_id, reason: text(row.reason) };
        let at = Timestamp::from_millis(row.at);
        let tombstone = Tombstone { at, origin, purged: row.purged.into() };
        let head = Head { row: Position(row.row), seq: row.seq, hash: row.hash };
        let active = row.active;
        Self { active, ..Self::of_tombstone(JobId::from_u128(row.job), head, Arc::new(tombstone)) }
    }
}
