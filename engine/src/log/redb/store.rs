//! The store as a whole: what the writer thread holds, and what it shares with readers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_tasks_sdk::JobId;

use super::disk::{Disk, Volume};
use super::file::{self, Notice};
use super::folder::{Folder, Lock};
use super::records::Records;
use super::views::Views;
use crate::job::ValueDigest;
use crate::log::row::reflects;
use crate::log::{EventLog, Hour, JobRow, KeyRow, Link, LogError, LogReader};
use crate::log::{Position, ReadRow, Row, ValueKey, ViewsLog, ViewsUpdate};

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// Whether to make the store where there is none.
    pub create: bool,
    /// A record file that has grown beyond this is closed, and a new one begun.
    pub roll_bytes: u64,
    /// Memory for pages of all files together.
    pub cache_bytes: usize,
    /// How long to wait for a store that another process has: 500 ms, as much as one that was
    /// killed a moment ago may take to be gone.
    pub lock_patience: Duration,
    /// Who is told of waits and repairs; must not use the log.
    pub notify: Option<Arc<dyn Fn(Notice) + Send + Sync>>,
    /// Another disk than the machine's.
    pub disk: Option<Arc<dyn Disk>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create: true,
            roll_bytes: 128 << 20,
            cache_bytes: 64 << 20,
            lock_patience: Duration::from_millis(500),
            notify: None,
            disk: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("create", &self.create)
            .field("roll_bytes", &self.roll_bytes)
            .field("cache_bytes", &self.cache_bytes)
            .field("lock_patience", &self.lock_patience)
            .finish_non_exhaustive()
    }
}

/// An [`EventLog`] in a folder.
pub struct RedbLog {
    store: Arc<Store>,
    roll_bytes: u64,
    /// The size of the last record file, about.
    grown: u64,
    /// Whether a crash now would have to be repaired.
    unsettled: bool,
    /// The last field, because the files must be closed before another process may open them.
    _lock: Lock,
}

impl fmt::Debug for RedbLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbLog").field("next", &self.store.records.next()).finish_non_exhaustive()
    }
}

/// What readers, and who writes the views, share with the log.
struct Store {
    records: Records,
    views: Views,
    poisoned: AtomicBool,
    /// Whether the views stay as they are, because they could not be read.
    views_given_up: AtomicBool,
}

/// Poisons the store unless what is begun ends well.
struct Poison<'a>(Option<&'a AtomicBool>);

impl Drop for Poison<'_> {
    fn drop(&mut self) {
        if let Some(poisoned) = self.0 {
            poisoned.store(true, Ordering::Release);
        }
    }
}

impl Store {
    fn write(&self, change: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(LogError::Poisoned);
        }
        let mut poison = Poison(Some(&self.poisoned));
        change()?;
        poison.0 = None;
        Ok(())
    }

    /// Notes in the views how far the records go.
    fn note_end(&self) -> Result<(), LogError> {
        if self.views_given_up.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.views.note_end(self.records.next()) {
            // Views that cannot be written are no failure; the next start mends them.
            Err(LogError::Damaged(_)) => Ok(()),
            other => other,
        }
    }

    fn give_views_up(&self, error: &LogError) {
        // An update that is left out must be followed by none.
        self.views_given_up.store(true, Ordering::Release);
        tracing::error!(
            %error,
            "the views cannot be written; until the next start, which will take longer, they \
             stay as they are"
        );
    }
}

impl RedbLog {
    /// Opens the store in `dir`, and repairs it after a crash.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, LogError> {
        let volume = Volume(options.disk.clone());
        let folder = Folder { dir: dir.into(), volume: volume.clone() };
        let lock = folder.open(options)?;
        let (cache, notify) = (options.cache_bytes, &options.notify);
        let records =
            Records::open(volume.clone(), folder.records(), cache / 4 * 3, notify.clone())?;
        let views = Views::open(&volume, folder.views(), cache / 4, notify)?;
        let (end, next) = (views.end(), records.next());
        if end > next {
            let detail = format!(
                "the records end before position {}, but the views know of position {}: records \
                 were lost; to go on without them, remove the file {}",
                next.0,
                end.0 - 1,
                folder.views().display()
            );
            return file::damaged(&folder.records(), detail);
        }
        let grown = records.active_bytes()?;
        let (poisoned, views_given_up) = Default::default();
        let store = Store { records, views, poisoned, views_given_up };
        Ok(Self {
            store: Arc::new(store),
            roll_bytes: options.roll_bytes,
            grown,
            // A repair, if there was one, would have to be done again.
            unsettled: true,
            _lock: lock,
        })
    }
}

impl EventLog for RedbLog {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        let Self { store, roll_bytes, grown, unsettled, .. } = self;
        store.write(|| {
            if *grown >= *roll_bytes {
                store.records.roll()?;
                *grown = 0;
            }
            store.records.append(rows)?;
            *grown += rows.iter().map(Row::bytes_all).sum::<u64>();
            *unsettled |= !rows.is_empty();
            Ok(())
        })
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        self.store.clone()
    }

    fn idle(&mut self) -> Result<(), LogError> {
        let Self { store, unsettled, .. } = self;
        store.write(|| {
            if *unsettled {
                store.records.settle()?;
                *unsettled = false;
            }
            Ok(())
        })
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.store.clone()
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        let store = &self.store;
        store.write(|| {
            let placed = store.records.in_place();
            let noted = store.note_end();
            // All of it is closed, whatever fails; what failed first says why.
            let (records, views) = (store.records.close(), store.views.close());
            noted.and(views).and(records).and(placed)
        })
    }
}

impl ViewsLog for Store {
    fn checkpoint(&self, update: &ViewsUpdate) -> Result<(), LogError> {
        self.write(|| {
            reflects(update.upto, self.records.next())?;
            if self.views_given_up.load(Ordering::Acquire) {
                return Ok(());
            }
            let given_up = match self.views.mend() {
                Err(error) => error,
                Ok(()) => match self.views.checkpoint(update) {
                    Err(error @ LogError::Damaged(_)) => error,
                    other => return other,
                },
            };
            self.give_views_up(&given_up);
            Ok(())
        })
    }
}

impl Drop for RedbLog {
    /// Closes the files even where readers still hold the store; [`EventLog::close`] also says
    /// whether that worked.
    fn drop(&mut self) {
        let _ = self.store.records.close();
        let _ = self.store.views.close();
    }
}

impl LogReader for Store {
    fn next_position(&self) -> Position {
        self.records.next()
    }

    fn viewed(&self) -> Position {
        self.views.viewed()
    }

    fn in_place(&self) -> Result<(), LogError> {
        self.records.in_place()
    }

    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        self.records.row(position)
    }

    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        self.records.bytes(position)
    }

    fn link(&self, position: Position) -> Result<Option<Link>, LogError> {
        self.records.link(position)
    }

    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        self.records.rows(from, limit)
    }

    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        self.records.value(job, key, digest)
    }

    fn is_purged(&self, job: JobId) -> Result<bool, LogError> {
        self.views.is_purged(job)
    }

    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        self.views.row(job)
    }

    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError> {
        self.views.rows(before, limit)
    }

    fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        self.views.open_rows()
    }

    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        self.views.keys(since, take)
    }
}
