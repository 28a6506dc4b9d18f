//! The event log: the only place that knows bytes and disks.
//!
//! A [`Row`] is what one turn appends to one job. Rows are encoded and hashed where they are
//! decided ([`encode`]), gathered by the [`Writer`], and made durable by an [`EventLog`].

use std::sync::Arc;

use annals_tasks_sdk::JobId;

use crate::job::Recorded;

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
    /// The row's first position; set by [`Writer::submit`].
    pub position: Position,
    /// How many events it holds.
    pub events: u32,
    /// The encoded row.
    pub bytes: Vec<u8>,
    /// Values that lie beside the row: the task's number and its new checkpoint.
    pub values: Vec<(u32, Arc<[u8]>)>,
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
    /// The events.
    pub events: Vec<Recorded>,
    /// The hash of each event.
    pub hashes: Vec<[u8; 32]>,
}

mod row;
pub use row::JobRow;
