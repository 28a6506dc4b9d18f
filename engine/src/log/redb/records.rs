//! The record files: one that grows, and the closed ones before it.

use std::collections::VecDeque;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ::redb::{Database, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, ReadableTable};
use ::redb::{TableDefinition, WriteTransaction};
use annals_tasks_sdk::JobId;

use super::disk::{Anchor, Volume};
use super::file::{self, Held, Notify, Trouble, damaged, guard, io_error};
use super::holes::{self, Passage, Span};
use super::values;
use crate::job::ValueDigest;
use crate::log::error::undecodable;
use crate::log::row::{ValueKey, in_order};
use crate::log::{Damage, Link, LogError, Position, ReadRow, Row, codec};

/// By the position of their first event, the encoded rows.
const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

/// How many closed files are kept open.
const CLOSED_OPEN_MAX: usize = 4;

/// How many bytes of rows are read at a time.
const PAGE_BYTES: usize = 8 << 20;

/// All record files of a store.
pub(super) struct Records {
    volume: Volume,
    folder: PathBuf,
    cache: usize,
    notify: Notify,
    next: AtomicU64,
    /// Reads hold this for a page at most, because the last file can only be closed without them.
    files: RwLock<Files>,
    open: Mutex<VecDeque<(Position, Arc<Held<ReadOnlyDatabase>>)>>,
    /// The file in which a step was found last: those of a task lie together.
    stepped: AtomicUsize,
}

struct Files {
    /// The first position of each, ascending; the last one is `active`.
    firsts: Vec<Position>,
    /// None once the log is closed.
    active: Option<Held<Database>>,
    /// Of the last file.
    anchor: Option<Anchor>,
    /// What a read found damaged in the last file. redb may use the file no more then, and would
    /// not say why.
    damage: Mutex<Option<Box<Damage>>>,
}

/// The path of the file that begins at `first`.
pub(super) fn file(folder: &Path, first: Position) -> PathBuf {
    folder.join(format!("{:010}.redb", first.0))
}

/// The first positions of the files in a folder, ascending.
pub(super) fn files(volume: &Volume, folder: &Path) -> Result<Vec<Position>, LogError> {
    let mut firsts = Vec::new();
    for name in volume.names(folder).map_err(|error| io_error(folder, error))? {
        let number = name.to_str().and_then(|name| name.strip_suffix(".redb"));
        firsts.extend(number.and_then(|number| number.parse().ok()).map(Position));
    }
    firsts.sort_unstable();
    Ok(firsts)
}

/// Makes the file that begins at `first`.
pub(super) fn create(volume: &Volume, folder: &Path, first: Position) -> Result<(), LogError> {
    file::create(volume, &file(folder, first), |transaction| {
        transaction.open_table(RECORDS)?;
        values::create(transaction)?;
        Ok(())
    })
}

/// Whether a file holds no row.
pub(super) fn is_empty(volume: &Volume, path: &Path) -> Result<bool, LogError> {
    let database = file::open(volume, path, 1 << 20, &None)?;
    guard(path, || Ok(last(&database.begin_read()?, path)?.is_none()))
}

/// The position behind the last row of a file.
fn last(transaction: &ReadTransaction, path: &Path) -> Result<Option<Position>, Trouble> {
    let table = transaction.open_table(RECORDS)?;
    let Some((first, bytes)) = table.last()? else { return Ok(None) };
    let first = first.value();
    let at = Damage { file: Some(path.into()), ..Damage::at(Position(first), "") };
    let header = codec::row_header(bytes.value()).or_else(|error| undecodable(error, at))?;
    Ok(Some(Position(first + u64::from(header.events))))
}

impl Records {
    /// Opens the files in `folder`.
    pub(super) fn open(
        volume: Volume,
        folder: PathBuf,
        cache: usize,
        notify: Notify,
    ) -> Result<Self, LogError> {
        let firsts = match files(&volume, &folder) {
            Err(LogError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Vec::new()
            }
            other => other?,
        };
        let Some(first) = firsts.last().copied() else {
            return damaged(&folder, "the files with the records are missing");
        };
        let path = file(&folder, first);
        let active = file::open(&volume, &path, cache / 2, &notify)?;
        let anchor = volume.anchor(&path).map_err(|error| io_error(&path, error))?;
        let next = guard(&path, || last(&active.begin_read()?, &path))?.unwrap_or(first);
        let files = Files { firsts, active: Some(active), anchor, damage: Mutex::default() };
        let files = RwLock::new(files);
        let (next, open, stepped) = (AtomicU64::new(next.0), Mutex::default(), usize::MAX.into());
        Ok(Self { volume, folder, cache, notify, next, files, open, stepped })
    }

    /// The first position that is free.
    pub(super) fn next(&self) -> Position {
        Position(self.next.load(Ordering::Acquire))
    }

    /// How large the last file is; 0 while it holds nothing.
    pub(super) fn active_bytes(&self) -> Result<u64, LogError> {
        let first = self.files().firsts.last().copied().unwrap_or_default();
        let path = file(&self.folder, first);
        let size = self.volume.size(&path).map_err(|error| io_error(&path, error))?;
        Ok(if first < self.next() { size } else { 0 })
    }

    fn files(&self) -> RwLockReadGuard<'_, Files> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, Files> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write in the last file.
    fn write(
        &self,
        change: impl FnOnce(&mut WriteTransaction) -> Result<(), Trouble>,
    ) -> Result<(), LogError> {
        let files = self.files();
        let path = file(&self.folder, files.firsts.last().copied().unwrap_or_default());
        let active = files.active.as_ref().ok_or(LogError::Closed)?;
        guard(&path, || {
            let mut transaction = active.begin_write()?;
            change(&mut transaction)?;
            Ok(transaction.commit()?)
        })
    }

    /// Appends rows in one commit.
    pub(super) fn append(&self, rows: &[Row]) -> Result<(), LogError> {
        let due = self.next();
        in_order(rows, due)?;
        let Some(last) = rows.last() else { return Ok(()) };
        self.write(|transaction| {
            put_rows(transaction, rows)?;
            holes::put(transaction, rows, due)?;
            values::put(transaction, rows)
        })?;
        // What was written is durable where it is. It must also be where the next start looks.
        self.in_place()?;
        self.next.store(last.end().0, Ordering::Release);
        Ok(())
    }

    /// Whether the last file still has its name.
    pub(super) fn in_place(&self) -> Result<(), LogError> {
        let files = self.files();
        let Some(anchor) = &files.anchor else { return Ok(()) };
        let path = || file(&self.folder, files.firsts.last().copied().unwrap_or_default());
        match anchor.holds() {
            Ok(true) => Ok(()),
            Ok(false) => Err(LogError::Gone { path: path() }),
            Err(error) => Err(io_error(&path(), error)),
        }
    }

    /// Makes a commit after which a crash needs no repair.
    pub(super) fn settle(&self) -> Result<(), LogError> {
        self.write(|transaction| {
            transaction.set_quick_repair(true);
            Ok(())
        })
    }

    /// Closes the last file, and goes on in a new one.
    pub(super) fn roll(&self) -> Result<(), LogError> {
        let next = self.next();
        create(&self.volume, &self.folder, next)?;
        let path = file(&self.folder, next);
        let active = file::open(&self.volume, &path, self.cache / 2, &self.notify)?;
        let anchor = self.volume.anchor(&path).map_err(|error| io_error(&path, error))?;
        let mut files = self.files_mut();
        let path = file(&self.folder, files.firsts.last().copied().unwrap_or_default());
        let closed = files.active.replace(active).ok_or(LogError::Closed)?;
        files.firsts.push(next);
        files.anchor = anchor;
        files.damage = Mutex::default();
        closed.close(&path)
    }

    /// Closes every file.
    pub(super) fn close(&self) -> Result<(), LogError> {
        self.closed().clear();
        let mut files = self.files_mut();
        let path = file(&self.folder, files.firsts.last().copied().unwrap_or_default());
        let Some(active) = files.active.take() else { return Ok(()) };
        active.close(&path)
    }

    fn closed(
        &self,
    ) -> std::sync::MutexGuard<'_, VecDeque<(Position, Arc<Held<ReadOnlyDatabase>>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_closed(
        &self,
        first: Position,
        path: &Path,
    ) -> Result<Arc<Held<ReadOnlyDatabase>>, LogError> {
        let mut open = self.closed();
        if let Some((_, database)) = open.iter().find(|(known, _)| *known == first) {
            return Ok(database.clone());
        }
        let cache = self.cache / (2 * CLOSED_OPEN_MAX);
        let database = Arc::new(file::open_closed(&self.volume, path, cache, &self.notify)?);
        if open.len() == CLOSED_OPEN_MAX {
            open.pop_front();
        }
        open.push_back((first, database.clone()));
        Ok(database)
    }

    /// Reads in the file number `index`.
    fn read<T>(
        &self,
        files: &Files,
        index: usize,
        run: impl FnOnce(&ReadTransaction, &Path) -> Result<T, Trouble>,
    ) -> Result<T, LogError> {
        let active = files.active.as_ref().ok_or(LogError::Closed)?;
        let path = file(&self.folder, files.firsts[index]);
        let Some(next) = files.firsts.get(index + 1) else {
            let result = guard(&path, || run(&active.begin_read()?, &path));
            return result.map_err(|error| files.why(error));
        };
        let first = files.firsts[index];
        let closed = self.open_closed(first, &path);
        let result = closed.and_then(|closed| guard(&path, || run(&closed.begin_read()?, &path)));
        if matches!(result, Err(LogError::Io { .. } | LogError::Poisoned | LogError::Damaged(_))) {
            // redb uses a file no more in which an operation failed, but the next read may work, or
            // say again what is damaged.
            self.closed().retain(|(known, _)| *known != first);
        }
        result.map_err(|error| match error {
            LogError::Damaged(mut damage) if damage.position.is_none() => {
                damage.upto = Some(Position(next.0 - 1));
                LogError::Damaged(damage)
            }
            other => other,
        })
    }

    /// The row that holds `position`.
    pub(super) fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        let files = self.files();
        let Some(index) = files.holding(position) else { return Ok(None) };
        self.read(&files, index, |transaction, path| {
            let table = transaction.open_table(RECORDS)?;
            let Some(entry) = table.range(..=position.0)?.next_back() else { return Ok(None) };
            let (first, bytes) = entry?;
            let row = decode(Position(first.value()), bytes.value(), path)?;
            Ok(Some(row).filter(|row| (row.position..row.end()).contains(&position)))
        })
    }

    /// The bytes of the row that begins at `position`.
    pub(super) fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        let files = self.files();
        let Some(index) = files.holding(position) else { return Ok(None) };
        self.read(&files, index, |transaction, _| {
            let table = transaction.open_table(RECORDS)?;
            Ok(table.get(position.0)?.map(|bytes| bytes.value().to_vec()))
        })
    }

    /// The link of the row that begins at `position`.
    pub(super) fn link(&self, position: Position) -> Result<Option<Link>, LogError> {
        let files = self.files();
        let Some(index) = files.holding(position) else { return Ok(None) };
        self.read(&files, index, |transaction, path| {
            let table = transaction.open_table(RECORDS)?;
            let Some(bytes) = table.get(position.0)? else { return Ok(None) };
            let link = codec::link(position, bytes.value());
            Ok(link
                .map(Some)
                .or_else(|error| undecodable(error, in_file(position, bytes.value(), path)))?)
        })
    }

    /// Up to `limit` rows that begin at or after `from`; fewer when they are large.
    pub(super) fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        let files = self.files();
        // Before anything is read: what is appended meanwhile is not missed.
        let end = self.next();
        let mut page = Page { rows: Vec::new(), limit, bytes: 0 };
        for index in files.holding(from).unwrap_or(0)..files.firsts.len() {
            if page.is_full() {
                break;
            }
            let span = files.span(index, end);
            self.read(&files, index, |transaction, path| {
                page.fill(transaction, path, Passage::new(transaction, path, span, from))
            })?;
        }
        Ok(page.rows)
    }

    /// The newest value under a key that has this digest.
    pub(super) fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        let files = self.files();
        let look = |index| {
            self.read(&files, index, |transaction, path| {
                values::get(transaction, path, (job, key), digest)
            })
        };
        let hint = match key {
            ValueKey::Checkpoint { .. } => usize::MAX,
            ValueKey::Step { .. } => self.stepped.load(Ordering::Relaxed),
        };
        // What fails here fails again in its turn.
        if hint < files.firsts.len()
            && let Ok(Some(found)) = look(hint)
        {
            return Ok(Some(found));
        }
        for index in (0..files.firsts.len()).rev() {
            if let Some(found) = look(index)? {
                if matches!(key, ValueKey::Step { .. }) {
                    self.stepped.store(index, Ordering::Relaxed);
                }
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Files {
    /// Which file would hold `position`.
    fn holding(&self, position: Position) -> Option<usize> {
        self.firsts.partition_point(|first| *first <= position).checked_sub(1)
    }

    /// Why a read of the last file failed.
    fn why(&self, error: LogError) -> LogError {
        let mut found = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        match (&error, &*found) {
            (LogError::Poisoned, Some(damage)) => return LogError::Damaged(damage.clone()),
            (LogError::Damaged(damage), _) => *found = Some(damage.clone()),
            _ => {}
        }
        error
    }

    /// What the file number `index` must hold of a log that goes up to `end`.
    fn span(&self, index: usize, end: Position) -> Span {
        let first = if index == 0 { Position(1) } else { self.firsts[index] };
        Span { first, end: self.firsts.get(index + 1).copied().unwrap_or(end) }
    }
}

/// Rows that are read in one go.
struct Page {
    rows: Vec<ReadRow>,
    limit: usize,
    bytes: usize,
}

impl Page {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.limit || self.bytes >= PAGE_BYTES
    }

    /// Takes in rows of one file.
    fn fill(
        &mut self,
        transaction: &ReadTransaction,
        path: &Path,
        mut passage: Passage<'_>,
    ) -> Result<(), Trouble> {
        let table = transaction.open_table(RECORDS)?;
        let mut range = table.range(passage.from().0..)?;
        // What is not wanted is not looked for: it could be damaged.
        while !self.is_full() {
            let Some(entry) = range.next() else { return passage.end(&table) };
            let (first, bytes) = entry?;
            let first = Position(first.value());
            passage.reach(&table, (first, bytes.value()))?;
            let row = decode(first, bytes.value(), path)
                .map_err(|error| passage.cannot_pass(&table, first, error))?;
            passage.pass(row.end());
            self.bytes += bytes.value().len();
            self.rows.push(row);
        }
        Ok(())
    }
}

fn put_rows(transaction: &WriteTransaction, rows: &[Row]) -> Result<(), Trouble> {
    let mut table = transaction.open_table(RECORDS)?;
    // The cursor fills pages to the brim; inserts one by one would leave them half full.
    let mut cursor = table.upper_bound_mut(Bound::<u64>::Unbounded)?;
    for row in rows {
        cursor.insert_before(row.position.0, row.bytes.as_slice())?;
    }
    Ok(cursor.close()?)
}

fn decode(first: Position, bytes: &[u8], path: &Path) -> Result<ReadRow, LogError> {
    codec::decode_row(first, bytes).or_else(|error| undecodable(error, in_file(first, bytes, path)))
}

fn in_file(first: Position, bytes: &[u8], path: &Path) -> Damage {
    Damage { file: Some(path.into()), ..Damage::in_row(first, bytes) }
}
