//! Rows of the log, and the row that the views keep of each job.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};

use super::{Hour, KeyRow, LogError};
use crate::job::{
    Failure, ForkedFrom, IdempotencyKey, Intent, JobStatus, Origin, Parent, Recorded, Tombstone,
};

/// An event's number in the whole log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// Where a job's history stands: what the next row continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Position of the first event of the job's last row; 0 before the first.
    pub row: Position,
    /// The job's last seq; 0 before the first.
    pub seq: u64,
    /// The hash of the job's last event; zeros before the first.
    pub hash: [u8; 32],
}

/// What one turn appends to one job, encoded.
#[derive(Debug, Clone)]
pub struct Row {
    /// The job.
    pub job: JobId,
    /// The row's first position; set with [`Row::place`], as [`Writer::submit`] does.
    ///
    /// [`Writer::submit`]: super::Writer::submit
    pub position: Position,
    /// How many events it holds.
    pub events: u32,
    /// The encoded row.
    pub bytes: Vec<u8>,
    /// Values that lie beside the row.
    pub values: Vec<(ValueKey, Arc<[u8]>)>,
    /// Whether no value of the job is wanted any more, since it was purged.
    pub ends_values: bool,
}

/// Which value of a job lies beside its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKey {
    /// A checkpoint, of which later ones of the task may take the place.
    Checkpoint {
        /// The task's number.
        task: u32,
    },
    /// The result of a step, which stays.
    Step {
        /// The event that recorded it.
        seq: u64,
    },
}

impl fmt::Display for ValueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint { task } => write!(f, "the checkpoint of task number {task}"),
            Self::Step { seq } => write!(f, "the result of the step that event {seq} recorded"),
        }
    }
}

impl Row {
    /// Gives the row its position, which is also written into its bytes, so that a row that is
    /// found elsewhere is known to be misplaced.
    pub fn place(&mut self, position: Position) {
        self.position = position;
        super::codec::place(&mut self.bytes, position);
    }

    /// The position behind its last event.
    pub(super) fn end(&self) -> Position {
        Position(self.position.0 + u64::from(self.events))
    }

    /// Its size, with the values that lie beside it.
    pub(super) fn bytes_all(&self) -> u64 {
        let values: usize = self.values.iter().map(|(_, value)| value.len()).sum();
        (self.bytes.len() + values) as u64
    }
}

/// Refuses rows whose positions do not ascend from `due`.
pub(super) fn in_order(rows: &[Row], mut due: Position) -> Result<(), LogError> {
    for row in rows {
        if row.position < due {
            return Err(LogError::OutOfOrder { found: row.position.0, due: due.0 });
        }
        due = row.end();
    }
    Ok(())
}

/// Refuses views that are ahead of the records: a store that has them has lost records.
pub(super) fn reflects(upto: Position, next: Position) -> Result<(), LogError> {
    if upto < next { Ok(()) } else { Err(LogError::Ahead { upto: upto.0, next: next.0 }) }
}

/// A row read back: decoded, its hashes verified.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadRow {
    /// The job.
    pub job: JobId,
    /// Position of the first event.
    pub position: Position,
    /// The job's head before this row.
    pub before: Head,
    /// The job's head after this row.
    pub after: Head,
    /// The events that this build knows.
    pub events: Vec<Recorded>,
    /// The events that it does not know. A job that holds one can be listed and verified; to
    /// run it is refused.
    pub unknown: Vec<UnknownEvent>,
    /// The hash of each event, known or not, by seq.
    pub hashes: Vec<[u8; 32]>,
    /// Its size as it lies in the log.
    pub bytes: usize,
}

/// Where a row stands in its job's chain, as its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The job.
    pub job: JobId,
    /// Position of the first event.
    pub position: Position,
    /// The job's head before the row.
    pub before: Head,
    /// The job's head after the row.
    pub after: Head,
}

impl ReadRow {
    /// Where it stands in its job's chain; here that is proved.
    pub fn link(&self) -> Link {
        let Self { job, position, before, after, .. } = *self;
        Link { job, position, before, after }
    }

    /// The position behind its last event.
    pub fn end(&self) -> Position {
        Position(self.position.0 + self.hashes.len() as u64)
    }

    /// The position of the event with this seq, which must be in the row.
    pub fn position_of(&self, seq: u64) -> Position {
        Position(self.position.0 + (seq - self.before.seq - 1))
    }

    /// The hash of the event with this seq, which must be in the row.
    pub fn hash_of(&self, seq: u64) -> [u8; 32] {
        usize::try_from(seq - self.before.seq - 1).map_or([0; 32], |index| self.hashes[index])
    }
}

/// An event that this build does not know: of a type, or a version of its type, that a later
/// build has written.
#[derive(Debug, Clone, PartialEq)]
pub struct UnknownEvent {
    /// The event's number in its job.
    pub seq: u64,
    /// When it was decided.
    pub time: Timestamp,
    /// Who caused it.
    pub origin: Origin,
    /// The key that the command came with which begins with it.
    pub key: Option<Box<IdempotencyKey>>,
    /// The number of its type.
    pub number: u16,
    /// The version of its payload.
    pub version: u16,
    /// Its payload, as it stands in the log.
    pub payload: Box<[u8]>,
}

impl UnknownEvent {
    /// The name of its type, where one is registered.
    pub fn type_name(&self) -> Option<&'static str> {
        super::types::name(self.number)
    }
}

/// What the views are to take in.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewsUpdate {
    /// The rows of jobs that have changed.
    pub rows: Vec<JobRow>,
    /// Idempotency keys that were used.
    pub keys: Vec<KeyRow>,
    /// Keys that were used before this hour are dropped.
    pub keys_since: Hour,
    /// From now on the views reflect every record up to and including this position.
    pub upto: Position,
}

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
    /// Where it comes from, where it is a fork.
    pub forked_from: Option<ForkedFrom>,
    /// Whose child it is.
    pub parent: Option<Parent>,
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
    /// What is known of it, where it was purged. Then it is in no list, and `active` says whether
    /// files of it may be left.
    pub purged: Option<Arc<Tombstone>>,
}

impl JobRow {
    /// Whether nothing is known of the job but that it is there: no event of it could be read
    /// yet. Every plan has a name, so a row without one stands in for what was not read.
    pub fn is_unknown(&self) -> bool {
        self.name.is_empty() && self.purged.is_none()
    }

    /// The row of a job of which nothing is known but that it is there.
    pub(crate) fn unknown(job: JobId, created: Timestamp) -> Self {
        Self {
            job,
            head: Head::default(),
            status: JobStatus::Running,
            intent: None,
            active: true,
            due: None,
            revision: 0,
            name: Box::default(),
            workflow: None,
            source: None,
            labels: BTreeMap::new(),
            forked_from: None,
            parent: None,
            created,
            started: None,
            finished: None,
            total_tasks: 0,
            completed_tasks: 0,
            skipped_tasks: 0,
            error: None,
            purged: None,
        }
    }

    /// The row of a job that was purged, of which files may be left.
    pub fn of_tombstone(job: JobId, head: Head, tombstone: Arc<Tombstone>) -> Self {
        let (status, at) = (tombstone.purged.status, tombstone.at);
        let purged = Some(tombstone);
        Self { head, status, finished: Some(at), purged, ..Self::unknown(job, at) }
    }

    /// Whether a start must look at it: it has not ended, or was purged and files of it may be
    /// left.
    pub fn is_open(&self) -> bool {
        match &self.purged {
            Some(_) => self.active,
            None => !self.status.is_ended(),
        }
    }
}
