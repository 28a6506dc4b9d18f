//! What streams say beside events.

use std::borrow::Cow;
use std::fmt;

use annals_engine::job::{Job, JobStatus};
use annals_engine::steplog::{Entry, Part};
use annals_tasks_sdk::{Stream, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Time, Tombstone};

/// The id of a frame of a log: an attempt, and the place in its log behind the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) attempt: u32,
    pub(crate) after: u64,
}

impl LogPlace {
    /// None where this is no such id.
    pub(crate) fn read(id: &str) -> Option<Self> {
        let (attempt, after) = id.split_once('.')?;
        Some(Self { attempt: attempt.parse().ok()?, after: after.parse().ok()? })
    }
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.attempt, self.after)
    }
}

/// A job has ended, and all of its events were sent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobEnd<'a> {
    /// The job.
    pub job_id: String,
    /// How it ended.
    #[schema(value_type = super::JobStatus)]
    pub status: &'static str,
    /// The number of its last event.
    pub seq: u64,
    /// What is left of it, where it was purged before all of its events were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone<'a>>,
}

impl<'a> JobEnd<'a> {
    /// The end of a job that has ended.
    pub fn of(job: &Job) -> Self {
        let (job_id, status) = (job.id().to_string(), JobStatus::as_str(job.status()));
        Self { job_id, status, seq: job.seq(), purged: None }
    }

    /// The end of a job that was purged.
    pub fn of_purged(purged: Tombstone<'a>) -> Self {
        let (job_id, status, seq) = (purged.id.clone(), purged.status, purged.seq);
        Self { job_id, status, seq, purged: Some(purged) }
    }

    /// The end as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

/// A line of a step log, a piece of one, or a place where something is missing.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum LogEntry<'a> {
    /// A line without its line feed, or a piece of one.
    Line(LogLine<'a>),
    /// Bytes that were dropped to keep the log within its budget.
    Gap {
        /// How many.
        gap_bytes: u64,
    },
}

/// A line of a step log, or a piece of one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LogLine<'a> {
    /// When its first byte was written.
    pub time: Time,
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// What is not UTF-8 is replaced.
    #[schema(value_type = String)]
    pub text: Cow<'a, str>,
    /// The bytes themselves, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_base64: Option<String>,
    /// True for a piece: the line goes on with the next entry of this stream.
    #[serde(skip_serializing_if = "is_whole")]
    #[schema(required = false)]
    pub partial: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_whole(partial: &bool) -> bool {
    !partial
}

impl<'a> LogEntry<'a> {
    /// An entry of a log.
    pub fn of(entry: &'a Entry) -> Self {
        let (stream, bytes, partial) = match &entry.part {
            Part::Line { stream, bytes } => (stream, bytes, false),
            Part::Piece { stream, bytes } => (stream, bytes, true),
            Part::Gap { bytes } => return Self::Gap { gap_bytes: *bytes },
        };
        let time = Time(Timestamp::from_millis(entry.time.as_millisecond()));
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let text = String::from_utf8_lossy(bytes);
        // What was replaced is no longer what was there.
        let is_other = matches!(text, Cow::Owned(_));
        let bytes_base64 = is_other.then(|| STANDARD.encode(bytes));
        Self::Line(LogLine { time, stream, text, bytes_base64, partial })
    }

    /// The entry as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

/// Something that an attempt has written cannot be read any more; comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LogLoss {
    /// How many bytes.
    pub missing_bytes: u64,
}

impl LogLoss {
    /// The loss as JSON text.
    pub fn to_json(self) -> String {
        super::text(&self)
    }
}

/// An attempt is over, and all of its log was sent.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct LogEnd<'a> {
    /// The attempt; left out where the task will have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How it ended; left out where it goes on, and its log cannot be read on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::AttemptOutcome>)]
    pub outcome: Option<&'static str>,
    /// Bytes that it wrote and that cannot be read any more; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_bytes: Option<u64>,
    /// Why the log cannot be read on, where something else than its end is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// What is left of the job, where it was purged before all of the log was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged: Option<Tombstone<'a>>,
}

impl LogEnd<'_> {
    /// The end as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
