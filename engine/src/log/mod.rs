//! The event log: the only place that knows bytes and disks.
//!
//! A [`Row`] is what one turn appends to one job. Rows are encoded and hashed where they are
//! decided ([`encode_row`]), gathered by the [`Writer`], and made durable by an [`EventLog`].
//! Nothing below knows what an event means: it is the job's machine that folds events to a state.

mod codec;
mod error;
mod history;
mod key;
mod memory;
mod payload;
mod redb;
mod row;
mod types;
mod v1;
mod v2;
mod v3;
mod v4;
mod verify;
mod viewer;
mod waypoints;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use annals_tasks_sdk::JobId;

use crate::job::ValueDigest;

pub use codec::{CodecError, Draft, FORMAT, decode_row, digest, encode_row};
pub use error::{Damage, LogError};
pub use history::{PageLimit, history, history_page};
pub use key::{Hour, KeyRow};
pub use memory::{Fault, MemoryDisk, MemoryLog};
pub use redb::{Access, Disk, DiskFile, Hold, Notice, Options, RedbLog};
pub use row::{Head, JobRow, Link, Position, ReadRow, Row, UnknownEvent, ValueKey, ViewsUpdate};
pub use verify::{Verified, verify, verify_job};
pub use viewer::Viewer;
pub use waypoints::Waypoints;
pub use writer::{Committer, Done, Durable, Stopped, Ticket, Worked, Writer, WriterStats};

/// A store of rows, written by one thread, and its views by another.
///
/// Laws, which one suite checks on every store:
///
/// 1. `append` is atomic, and when it returns durable where the next opening looks for it: not in
///    a file that was removed, renamed or replaced meanwhile. Positions ascend strictly within and
///    across calls and need not be dense; every other order is refused.
/// 2. A row's values are durable with it. Of a task's checkpoints at least the last one is kept,
///    and the results of its steps all are, until a row ends the values of its job: these are
///    dropped then, as far as the store can.
/// 3. After a failure of any method the handle is poisoned: every later call is refused, and
///    whether the failed one took effect shows when the log is opened anew.
/// 4. What a reader gives is verified, or an error that names the place. A link alone is what a
///    row's header says: rows are found by it, and proved when they are read.
/// 5. Views may be lost with a crash or by damage, records may not: a log whose views are gone
///    opens with [`LogReader::viewed`] 0, without job rows and keys, and the caller replays.
pub trait EventLog: Send {
    /// Appends rows, in the order of their positions, and makes them durable.
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError>;
    /// The way to its views. They may be written by another thread while rows are appended; a
    /// failure of either poisons both.
    fn views(&self) -> Arc<dyn ViewsLog>;
    /// As [`ViewsLog::checkpoint`].
    fn checkpoint(&mut self, update: &ViewsUpdate) -> Result<(), LogError> {
        self.views().checkpoint(update)
    }
    /// Does what makes the next opening fast; for moments in which nothing else is to be done.
    fn idle(&mut self) -> Result<(), LogError>;
    /// A reader of what is durable, which follows the log as it grows.
    fn reader(&self) -> Arc<dyn LogReader>;
    /// Ends the log in good order; readers then answer [`LogError::Closed`].
    fn close(self: Box<Self>) -> Result<(), LogError>;
}

/// The views of a log, written by one thread.
pub trait ViewsLog: Send + Sync {
    /// Replaces the views' rows of these jobs, and adds the keys; durable when it returns. Views
    /// that cannot be read are no failure: they stay as they are until the log is opened anew,
    /// [`LogReader::viewed`] with them, and are rebuilt then where they are damaged.
    fn checkpoint(&self, update: &ViewsUpdate) -> Result<(), LogError>;
}

/// What is durable in a log.
pub trait LogReader: Send + Sync {
    /// The first position that is free.
    fn next_position(&self) -> Position;
    /// Up to and including which position the views reflect the records; 0 for none.
    fn viewed(&self) -> Position;
    /// Whether the log is still where the next opening looks for it. The next append finds out by
    /// itself.
    fn in_place(&self) -> Result<(), LogError> {
        Ok(())
    }
    /// The row that holds the event at `position`.
    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError>;
    /// The bytes of the row that begins at `position`, as they were appended; they may be damaged.
    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError>;
    /// The link of the row that begins at `position`. A store that can look at a header alone
    /// does so.
    fn link(&self, position: Position) -> Result<Option<Link>, LogError> {
        let row = self.row(position)?.filter(|row| row.position == position);
        Ok(row.map(|row| row.link()))
    }
    /// Up to `limit` rows, ascending, from the first one that begins at or after `from`. Fewer
    /// when they are large; none only when there is none.
    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError>;
    /// The value of a job that has this digest, if it is still kept.
    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError>;
    /// Whether the views know that a job was purged.
    fn is_purged(&self, job: JobId) -> Result<bool, LogError> {
        Ok(self.job_row(job)?.is_some_and(|row| row.purged.is_some()))
    }
    /// The views' row of a job.
    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError>;
    /// Up to `limit` of the views' rows, newest job first, of jobs older than `before`; without
    /// those that were purged.
    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError>;
    /// The views' row of every job that has not ended, or was purged and may have left files.
    fn open_rows(&self) -> Result<Vec<JobRow>, LogError>;
    /// Hands over each idempotency key of the views that was used in `since` or later, the oldest
    /// hour first, and those of one hour in the order in which they came.
    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError>;
}
