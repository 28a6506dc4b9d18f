//! The twin of the views' row. Views are rebuilt from the records, so this one may be replaced
//! by another version at any time; it is never upcast.

use annals_tasks_sdk::{JobId, Timestamp};
use serde::{Deserialize, Serialize};

use super::parts::Failure;
use crate::job::{self, ForkedFrom};
use crate::log::{Head, JobRow, Position};

/// A job's row in the views.
#[derive(Serialize, Deserialize)]
pub(in crate::log) struct JobRowV1<'a> {
    job: u128,
    row: u64,
    seq: u64,
    hash: [u8; 32],
    status: Status,
    intent: Option<Intent>,
    active: bool,
    due: Option<i64>,
    revision: u64,
    name: &'a str,
    #[serde(borrow)]
    workflow: Option<&'a str>,
    source: Option<&'a str>,
    labels: Vec<(&'a str, &'a str)>,
    /// The origin and its seq, of a fork.
    forked_from: Option<(u128, u64)>,
    created: i64,
    started: Option<i64>,
    finished: Option<i64>,
    total_tasks: u32,
    completed_tasks: u32,
    skipped_tasks: u32,
    error: Option<Failure<'a>>,
}

macro_rules! twin {
    ($name:ident of $twin:ident { $($variant:ident)+ }) => {
        #[derive(Serialize, Deserialize)]
        enum $name { $($variant,)+ }

        impl From<job::$twin> for $name {
            fn from(word: job::$twin) -> Self {
                match word { $(job::$twin::$variant => Self::$variant,)+ }
            }
        }

        impl From<$name> for job::$twin {
            fn from(word: $name) -> Self {
                match word { $($name::$variant => Self::$variant,)+ }
            }
        }
    };
}

twin!(Status of JobStatus { Pending Running Paused Completed Failed Cancelled });
twin!(Intent of Intent { Pause Cancel Fail Complete });

impl<'a> From<&'a JobRow> for JobRowV1<'a> {
    fn from(row: &'a JobRow) -> Self {
        Self {
            job: row.job.as_u128(),
            row: row.head.row.0,
            seq: row.head.seq,
            hash: row.head.hash,
            status: row.status.into(),
            intent: row.intent.map(Into::into),
            active: row.active,
            due: row.due.map(Timestamp::as_millis),
            revision: row.revision,
            name: &row.name,
            workflow: row.workflow.as_deref(),
            source: row.source.as_deref(),
            labels: row.labels.iter().map(|(key, value)| (&**key, &**value)).collect(),
            forked_from: row.forked_from.map(|from| (from.job.as_u128(), from.seq)),
            created: row.created.as_millis(),
            started: row.started.map(Timestamp::as_millis),
            finished: row.finished.map(Timestamp::as_millis),
            total_tasks: row.total_tasks,
            completed_tasks: row.completed_tasks,
            skipped_tasks: row.skipped_tasks,
            error: row.error.as_ref().map(Into::into),
        }
    }
}

impl From<JobRowV1<'_>> for JobRow {
    fn from(row: JobRowV1<'_>) -> Self {
        let labels = row.labels.into_iter();
        Self {
            job: JobId::from_u128(row.job),
            head: Head { row: Position(row.row), seq: row.seq, hash: row.hash },
            status: row.status.into(),
            intent: row.intent.map(Into::into),
            active: row.active,
            due: row.due.map(Timestamp::from_millis),
            revision: row.revision,
            name: row.name.into(),
            workflow: row.workflow.map(Into::into),
            source: row.source.map(Into::into),
            labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
            forked_from: row
                .forked_from
                .map(|(job, seq)| ForkedFrom { job: JobId::from_u128(job), seq }),
            parent: None,
            created: Timestamp::from_millis(row.created),
            started: row.started.map(Timestamp::from_millis),
            finished: row.finished.map(Timestamp::from_millis),
            total_tasks: row.total_tasks,
            completed_tasks: row.completed_tasks,
            skipped_tasks: row.skipped_tasks,
            error: row.error.map(Into::into),
            purged: None,
        }
    }
}
