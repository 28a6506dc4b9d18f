//! The views' file. It can be rebuilt from the records, so that damage of it costs time, no data.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ::redb::{ReadOnlyTable, ReadableTableMetadata, TableDefinition, TableError};
use ::redb::{ReadTransaction, ReadableDatabase, ReadableTable};
use annals_tasks_sdk::JobId;

use super::connection::Connection;
use super::disk::Volume;
use super::file::{self, Notice, Notify, Trouble, damaged, guard, io_error};
use super::keys;
use super::mark::Mark;
use super::seal::{seal, unseal};
use crate::log::v1::TombstoneV1;
use crate::log::v4::{get_row, put_row};
use crate::log::{Hour, JobRow, KeyRow, LogError, Position, ViewsUpdate, codec};

/// Their mark, and how far the records went when the store was closed.
const VIEWED: TableDefinition<'_, u8, &[u8]> = TableDefinition::new("viewed");
const MARK: u8 = 0;
const END: u8 = 1;

/// The row of each job.
const JOBS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("jobs");

/// The row of each job that was purged. A file that is older than purges has no such table.
const PURGED: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("purged");

/// The jobs that have not ended, or were purged and may have left files.
const OPEN: TableDefinition<'_, u128, ()> = TableDefinition::new("open");

pub(super) struct Views {
    volume: Volume,
    path: PathBuf,
    viewed: AtomicU64,
    /// Up to which position the records must go, as far as the file knows.
    end: AtomicU64,
    /// What the opening has read of jobs that have not ended, until somebody asks for it or it
    /// changes: a start asks once, and there may be a million.
    open: Mutex<Option<Vec<JobRow>>>,
    file: Connection,
}

/// Makes a file of empty views.
pub(super) fn create(volume: &Volume, path: &Path) -> Result<(), LogError> {
    file::create(volume, path, |transaction| {
        transaction.open_table(VIEWED)?.insert(MARK, Mark::default().seal().as_slice())?;
        transaction.open_table(JOBS)?;
        transaction.open_table(PURGED)?;
        transaction.open_table(OPEN)?;
        Ok(())
    })
}

impl Views {
    /// Opens the views, or begins them anew where they are missing or damaged.
    ///
    /// Every page is verified: redb would not notice one of long ago, nor would the seals of the
    /// rows in it, and a job would be shown as it was once.
    pub(super) fn open(
        volume: &Volume,
        path: PathBuf,
        cache: usize,
        notify: &Notify,
    ) -> Result<Self, LogError> {
        if exists(volume, &suspect(&path))? {
            set_aside(volume, &path, "a row of them could not be read", notify)?;
        }
        if !exists(volume, &path)? {
            create(volume, &path)?;
        }
        let detail = match Self::open_sound(volume, path.clone(), cache) {
            Err(LogError::Damaged(damage)) => damage.detail,
            other => return other,
        };
        set_aside(volume, &path, &detail, notify)?;
        create(volume, &path)?;
        Self::open_sound(volume, path, cache)
    }

    fn open_sound(volume: &Volume, path: PathBuf, cache: usize) -> Result<Self, LogError> {
        let database = file::open_checked(volume, &path, cache)?;
        let (viewed, end, open) = guard(&path, || {
            let transaction = database.begin_read()?;
            // One of these that is damaged would stop the start.
            let mark = mark(&transaction, &path)?;
            keys::each(&transaction, &path, &mark, Hour(i64::MIN), &mut |_| {})?;
            let end = end(&transaction, &path)?.0.max(mark.upto.0 + 1);
            Ok((mark.upto.0, end, open_rows(&transaction, &path, &mark)?))
        })?;
        let (viewed, end) = (AtomicU64::new(viewed), AtomicU64::new(end));
        let (file, open) =
            (Connection::new(volume, &path, cache, database), Mutex::new(Some(open)));
        Ok(Self { volume: volume.clone(), path, viewed, end, open, file })
    }

    pub(super) fn viewed(&self) -> Position {
        Position(self.viewed.load(Ordering::Acquire))
    }

    /// The position behind the last record that there must be: the views reflect the one before
    /// it, or a store that was closed in good order went so far.
    pub(super) fn end(&self) -> Position {
        Position(self.end.load(Ordering::Acquire))
    }

    /// Notes how far the records go, so that an older copy of their last file is known for one.
    pub(super) fn note_end(&self, next: Position) -> Result<(), LogError> {
        if self.end() >= next {
            return Ok(());
        }
        let written = self.file.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            let sealed = seal(END.into(), &next.0.to_le_bytes());
            transaction.open_table(VIEWED)?.insert(END, sealed.as_slice())?;
            Ok(transaction.commit()?)
        });
        self.told(written)?;
        self.end.store(next.0, Ordering::Release);
        Ok(())
    }

    /// Replaces rows. Such commits are few, so each is one that needs no repair after a crash.
    pub(super) fn checkpoint(&self, update: &ViewsUpdate) -> Result<(), LogError> {
        let ViewsUpdate { rows, keys, keys_since, upto } = update;
        let mut sorted: Vec<&JobRow> = rows.iter().collect();
        sorted.sort_by_key(|row| row.job);
        self.take_open();
        let written = self.file.with(|database| {
            let mut transaction = database.begin_write()?;
            transaction.set_quick_repair(true);
            {
                let mut jobs = transaction.open_table(JOBS)?;
                let mut purged = transaction.open_table(PURGED)?;
                let mut open = transaction.open_table(OPEN)?;
                for row in sorted {
                    let id = row.job.as_u128();
                    if row.purged.is_some() {
                        jobs.remove(id)?;
                        purged.insert(id, encode(row)?.as_slice())?;
                    } else {
                        jobs.insert(id, encode(row)?.as_slice())?;
                    }
                    if row.is_open() {
                        open.insert(id, ())?;
                    } else {
                        open.remove(id)?;
                    }
                }
                let mut viewed = transaction.open_table(VIEWED)?;
                let mut mark = mark_in(&viewed, &self.path)?;
                mark.upto = *upto;
                mark.open = open.len()?;
                mark.count(keys, *keys_since);
                viewed.insert(MARK, mark.seal().as_slice())?;
            }
            keys::put(&transaction, keys, *keys_since)?;
            Ok(transaction.commit()?)
        });
        self.told(written)?;
        self.viewed.store(upto.0, Ordering::Release);
        self.end.fetch_max(upto.0 + 1, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn close(&self) -> Result<(), LogError> {
        self.take_open();
        self.file.close()
    }

    /// Has the file opened again where a read in it failed, so that it can be written.
    pub(super) fn mend(&self) -> Result<(), LogError> {
        self.file.open_again()
    }

    fn read<T>(
        &self,
        run: impl FnOnce(&ReadTransaction) -> Result<T, Trouble>,
    ) -> Result<T, LogError> {
        self.told(self.file.read(run))
    }

    /// Notes that the views are damaged, where that was found.
    fn told<T>(&self, result: Result<T, LogError>) -> Result<T, LogError> {
        if matches!(result, Err(LogError::Damaged(_))) {
            // The next start then rebuilds the views. Where even this cannot be written, the
            // next use of the row tells again.
            let _ = self.volume.write(&suspect(&self.path), b"");
        }
        result
    }

    pub(super) fn row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        self.read(|transaction| {
            let (id, jobs) = (job.as_u128(), transaction.open_table(JOBS)?);
            match jobs.get(id)? {
                Some(bytes) => Ok(Some(decode(id, bytes.value(), &self.path)?)),
                None => purged_row(transaction, id, &self.path),
            }
        })
    }

    /// Looks at nothing else: readers of the whole log ask this of every job.
    pub(super) fn is_purged(&self, job: JobId) -> Result<bool, LogError> {
        self.read(|transaction| Ok(purged_row(transaction, job.as_u128(), &self.path)?.is_some()))
    }

    pub(super) fn rows(
        &self,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<JobRow>, LogError> {
        self.read(|transaction| {
            let jobs = transaction.open_table(JOBS)?;
            let range = match before {
                Some(before) => jobs.range(..before.as_u128())?,
                None => jobs.range::<u128>(..)?,
            };
            let mut rows = Vec::new();
            for entry in range.rev().take(limit) {
                let (id, bytes) = entry?;
                rows.push(decode(id.value(), bytes.value(), &self.path)?);
            }
            Ok(rows)
        })
    }

    pub(super) fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        if let Some(rows) = self.take_open() {
            return Ok(rows);
        }
        self.read(|transaction| {
            let mark = mark(transaction, &self.path)?;
            open_rows(transaction, &self.path, &mark)
        })
    }

    pub(super) fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        self.read(|transaction| {
            let mark = mark(transaction, &self.path)?;
            keys::each(transaction, &self.path, &mark, since, take)
        })
    }

    fn take_open(&self) -> Option<Vec<JobRow>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn mark(transaction: &ReadTransaction, path: &Path) -> Result<Mark, Trouble> {
    mark_in(&transaction.open_table(VIEWED)?, path)
}

fn mark_in(table: &impl ReadableTable<u8, &'static [u8]>, path: &Path) -> Result<Mark, Trouble> {
    match table.get(MARK)?.and_then(|sealed| Mark::unseal(sealed.value())) {
        Some(mark) => Ok(mark),
        None => Ok(damaged(path, "they do not say which records they reflect")?),
    }
}

/// How far the records went when the store was closed; 0 where that was never noted.
fn end(transaction: &ReadTransaction, path: &Path) -> Result<Position, Trouble> {
    let table = transaction.open_table(VIEWED)?;
    let Some(sealed) = table.get(END)? else { return Ok(Position(0)) };
    let bytes = unseal(END.into(), sealed.value()).and_then(|bytes| bytes.try_into().ok());
    match bytes {
        Some(bytes) => Ok(Position(u64::from_le_bytes(bytes))),
        None => Ok(damaged(path, "they do not say how far the records go")?),
    }
}

fn open_rows(
    transaction: &ReadTransaction,
    path: &Path,
    mark: &Mark,
) -> Result<Vec<JobRow>, Trouble> {
    let jobs: ReadOnlyTable<u128, &[u8]> = transaction.open_table(JOBS)?;
    let mut rows = Vec::new();
    for entry in transaction.open_table(OPEN)?.iter()? {
        let id = entry?.0.value();
        let row = match jobs.get(id)? {
            Some(bytes) => Some(decode(id, bytes.value(), path)?),
            None => purged_row(transaction, id, path)?,
        };
        match row {
            Some(row) => rows.push(row),
            None => damaged(path, "a job that has not ended has no row")?,
        }
    }
    if rows.len() as u64 != mark.open {
        damaged(
            path,
            format!("they name {} of {} jobs that have not ended", rows.len(), mark.open),
        )?;
    }
    Ok(rows)
}

/// The row of a job that was purged.
fn purged_row(
    transaction: &ReadTransaction,
    id: u128,
    path: &Path,
) -> Result<Option<JobRow>, Trouble> {
    let purged = match transaction.open_table(PURGED) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        other => other?,
    };
    let Some(sealed) = purged.get(id)? else { return Ok(None) };
    let bytes = unseal(!id, sealed.value());
    match bytes.and_then(|bytes| codec::read::<TombstoneV1<'_>>(bytes).ok()) {
        Some(row) => Ok(Some(row.into())),
        None => Ok(damaged(path, format!("the row of job {} is damaged", JobId::from_u128(id)))?),
    }
}

fn exists(volume: &Volume, path: &Path) -> Result<bool, LogError> {
    volume.exists(path).map_err(|error| io_error(path, error))
}

/// Where it is noted that the views could not be read.
fn suspect(path: &Path) -> PathBuf {
    path.with_extension("suspect")
}

/// Renames the file, so that whoever wants to know what happened to it still can.
fn set_aside(volume: &Volume, path: &Path, detail: &str, notify: &Notify) -> Result<(), LogError> {
    let name = |number: u32| path.with_extension(format!("damaged-{number}"));
    // The last of very many replaces the one before it.
    let free = |kept: &PathBuf| !volume.exists(kept).unwrap_or(true);
    let kept = (1..1_000).map(name).find(free).unwrap_or_else(|| name(1_000));
    let renamed = match volume.rename(path, &kept) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    renamed.map_err(|error| io_error(path, error))?;
    // It may never have been there.
    let _ = volume.remove(&suspect(path));
    if let Some(notify) = notify {
        notify(Notice::ViewsRebuilt { kept, detail: detail.into() });
    }
    Ok(())
}

fn encode(row: &JobRow) -> Result<Vec<u8>, Trouble> {
    let (id, mut bytes) = (row.job.as_u128(), Vec::with_capacity(256));
    // One is not taken for the other: they are sealed for different places.
    let (place, written) = match &row.purged {
        Some(tombstone) => (!id, codec::write(&mut bytes, &TombstoneV1::of(row, tombstone))),
        None => (id, put_row(row, &mut bytes)),
    };
    let position = row.head.row;
    written.map_err(|source| LogError::Codec { file: None, position, source })?;
    Ok(seal(place, &bytes))
}

fn decode(id: u128, sealed: &[u8], path: &Path) -> Result<JobRow, LogError> {
    let row = unseal(id, sealed).and_then(|bytes| get_row(bytes).ok());
    row.map_or_else(
        || damaged(path, format!("the row of job {} is damaged", JobId::from_u128(id))),
        Ok,
    )
}
