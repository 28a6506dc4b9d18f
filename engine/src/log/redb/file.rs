//! One redb file: made so that a kill leaves no half of it, opened so that damage is an error.

use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::redb::{Builder, Database, DatabaseError, ReadOnlyDatabase};

use super::disk::Volume;
use crate::log::{Damage, LogError};

/// What the opening of a store tells on its way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Another process has the store; this one waits for it.
    Waiting {
        /// The process, where its lock file says so.
        pid: Option<u32>,
        /// How long at most.
        patience: Duration,
    },
    /// The wait is over: this process has the store.
    Waited,
    /// A file is repaired after a crash.
    Repairing {
        /// The file.
        file: PathBuf,
        /// The share that is done, from 0 to 1.
        progress: f64,
    },
    /// The views were damaged and are rebuilt from the records.
    ViewsRebuilt {
        /// Where the damaged file is kept.
        kept: PathBuf,
        /// What was wrong.
        detail: String,
    },
}

/// Who is told.
pub(super) type Notify = Option<Arc<dyn Fn(Notice) + Send + Sync>>;

/// An error of redb, which knows no file, or one of ours, which does.
pub(super) enum Trouble {
    Redb(::redb::Error),
    Log(LogError),
}

macro_rules! trouble {
    ($($error:ident)+) => {
        $(impl From<::redb::$error> for Trouble {
            fn from(error: ::redb::$error) -> Self {
                Self::Redb(error.into())
            }
        })+
    };
}

trouble!(StorageError TableError TransactionError CommitError CursorError DatabaseError);

impl From<LogError> for Trouble {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

/// Runs something with the file at `path`.
///
/// redb panics on some damaged files, which must end neither the process nor the writer thread.
pub(super) fn guard<T>(
    path: &Path,
    run: impl FnOnce() -> Result<T, Trouble>,
) -> Result<T, LogError> {
    // Whatever redb holds after a panic is given up: reads let go of their transaction, and a
    // write poisons the log.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Trouble::Log(error))) => Err(error),
        Ok(Err(Trouble::Redb(error))) => Err(fault(path, error)),
        Err(_) => damaged(path, "the store's own checks failed in it"),
    }
}

/// An open file. Whoever lets go of it, on whatever way, is safe from redb's panics: it may write
/// then, and look at what is damaged.
pub(super) struct Held<D>(Option<D>);

impl<D> Held<D> {
    fn new(database: D) -> Self {
        Self(Some(database))
    }
}

impl Held<Database> {
    /// Closes it in good order.
    pub(super) fn close(mut self, path: &Path) -> Result<(), LogError> {
        let database = self.0.take();
        guard(path, || Ok(database.map_or(Ok(()), Database::close)?))
    }
}

impl<D> Deref for Held<D> {
    type Target = D;

    fn deref(&self) -> &D {
        self.0.as_ref().expect("it is taken out only where it is given up")
    }
}

impl<D> Drop for Held<D> {
    fn drop(&mut self) {
        let database = self.0.take();
        // What it says of its end is of use to nobody here.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(database)));
    }
}

/// Damage of the file as a whole.
pub(super) fn damaged<T>(path: &Path, detail: impl Into<String>) -> Result<T, LogError> {
    Damage { file: Some(path.into()), detail: detail.into(), ..Damage::default() }.error()
}

fn fault(path: &Path, error: ::redb::Error) -> LogError {
    match error {
        ::redb::Error::Io(source) => io_error(path, source),
        ::redb::Error::PreviousIo => LogError::Poisoned,
        ::redb::Error::DatabaseClosed => LogError::Closed,
        ::redb::Error::DatabaseAlreadyOpen => LogError::AlreadyOpen { dir: path.into(), pid: None },
        other => {
            let detail = other.to_string();
            LogError::Damaged(Box::new(Damage {
                file: Some(path.into()),
                detail,
                ..<_>::default()
            }))
        }
    }
}

/// Sorts what the system said by what can be done about it.
pub(super) fn io_error(path: &Path, source: io::Error) -> LogError {
    let path = path.to_path_buf();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            LogError::Full { path, source }
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            LogError::ReadOnly { path, source }
        }
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            let detail = source.to_string();
            LogError::Damaged(Box::new(Damage { file: Some(path), detail, ..Damage::default() }))
        }
        _ => LogError::Io { path, source },
    }
}

/// Makes a file with the tables that `init` opens in it.
///
/// It gets its name when it is whole and on disk. What an earlier, killed attempt left under the
/// other name was never part of the store.
pub(super) fn create(
    volume: &Volume,
    path: &Path,
    init: impl FnOnce(&::redb::WriteTransaction) -> Result<(), Trouble>,
) -> Result<(), LogError> {
    let unfinished = path.with_extension("redb.new");
    volume.remove(&unfinished).map_err(|error| io_error(&unfinished, error))?;
    guard(&unfinished, || {
        let mut builder = Builder::new();
        builder.set_cache_size(1 << 20);
        let database = volume.create_database(&builder, &unfinished)?;
        let transaction = database.begin_write()?;
        init(&transaction)?;
        transaction.commit()?;
        Ok(database.close()?)
    })?;
    settle(volume, &unfinished, path)
}

/// Gives a finished file its name, durably.
pub(super) fn settle(volume: &Volume, unfinished: &Path, path: &Path) -> Result<(), LogError> {
    let rename = || {
        volume.sync(unfinished)?;
        volume.rename(unfinished, path)
    };
    rename().map_err(|error| io_error(path, error))?;
    path.parent().map_or(Ok(()), |folder| sync_folder(volume, folder))
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(volume: &Volume, folder: &Path) -> Result<(), LogError> {
    volume.sync(folder).map_err(|error| io_error(folder, error))
}

/// Opens a file for writing, and repairs it after a crash.
pub(super) fn open(
    volume: &Volume,
    path: &Path,
    cache: usize,
    notify: &Notify,
) -> Result<Held<Database>, LogError> {
    let mut builder = Builder::new();
    builder.set_cache_size(cache);
    if let Some(notify) = notify.clone() {
        let file = path.to_path_buf();
        builder.set_repair_callback(move |session| {
            notify(Notice::Repairing { file: file.clone(), progress: session.progress() });
        });
    }
    guard(path, || Ok(Held::new(volume.open_database(&builder, path)?)))
}

/// Opens a file for writing, and verifies the checksum of every page. What redb repairs on the way
/// may take back the last commit.
pub(super) fn open_checked(
    volume: &Volume,
    path: &Path,
    cache: usize,
) -> Result<Held<Database>, LogError> {
    let mut builder = Builder::new();
    builder.set_cache_size(cache).set_check_integrity_on_open(true);
    guard(path, || Ok(Held::new(volume.open_database(&builder, path)?)))
}

/// Opens a file that is not written any more.
///
/// One that a kill kept from being closed is repaired first, once.
pub(super) fn open_closed(
    volume: &Volume,
    path: &Path,
    cache: usize,
    notify: &Notify,
) -> Result<Held<ReadOnlyDatabase>, LogError> {
    let mut builder = Builder::new();
    builder.set_cache_size(cache);
    let read_only = || volume.read_database(&builder, path).map(Held::new);
    let clean = guard(path, || match read_only() {
        Ok(database) => Ok(Some(database)),
        Err(DatabaseError::RepairAborted) => Ok(None),
        Err(error) => Err(error.into()),
    })?;
    if let Some(database) = clean {
        return Ok(database);
    }
    open(volume, path, cache, notify)?.close(path)?;
    guard(path, || Ok(read_only()?))
}
