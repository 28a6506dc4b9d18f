//! The store's folder: its lock, its mark, and how it comes to be.
//!
//! ```text
//! DIR/lock                       locked by the process that has the store, whose pid it holds
//! DIR/format                     the store's format; there as soon as the store is whole
//! DIR/records/0000000001.redb    records and values, named by the first position
//! DIR/views.redb                 what can be rebuilt from the records
//! ```
//!
//! A file that is older than it should be is noticed. A closed record file ends then before the
//! next one begins, and the last one before the position that the views reflect, or at which the
//! store was closed. Older views are no damage: what they lack is read from the records. What
//! cannot be noticed is an older copy of all files, and, where the store was killed and the views
//! knew of less, one of the last record file.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::disk::{Hold, Volume};
use super::file::{Notice, damaged, io_error, settle, sync_folder};
use super::store::Options;
use super::{records, views};
use crate::log::{LogError, Position};

/// The store format that this build makes, and the newest that it opens.
const STORE_FORMAT: u32 = 1;

/// How soon a lock that another process has is looked at again; an eighth of what was waited.
const LOCK_PAUSES: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(50);

/// The paths of a store.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) dir: PathBuf,
    pub(super) volume: Volume,
}

/// Holds the store until it is dropped.
pub(super) struct Lock(#[expect(dead_code, reason = "the lock lasts as long")] Hold);

enum Found {
    /// Nothing, or what a killed creation left.
    Nothing,
    Store,
}

impl Folder {
    pub(super) fn records(&self) -> PathBuf {
        self.dir.join("records")
    }

    pub(super) fn views(&self) -> PathBuf {
        self.dir.join("views.redb")
    }

    fn mark(&self) -> PathBuf {
        self.dir.join("format")
    }

    /// Locks the store, and makes it if there is none and the options say so.
    pub(super) fn open(&self, options: &Options) -> Result<Lock, LogError> {
        // The folder is looked at before the lock is made, so that nothing is left in a folder
        // that holds something else.
        if matches!(self.look()?, Found::Nothing) {
            if !options.create {
                return Err(LogError::Missing { dir: self.dir.clone() });
            }
            self.make_folder(&self.dir)?;
        }
        let lock = self.lock(options)?;
        // Somebody else may have made the store meanwhile.
        match self.look()? {
            Found::Store => self.check_format()?,
            Found::Nothing => self.make()?,
        }
        Ok(lock)
    }

    fn look(&self) -> Result<Found, LogError> {
        let names = match self.volume.names(&self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(io_error(&self.dir, error)),
        };
        let (mut marked, mut foreign) = (false, false);
        for name in names {
            match name.to_str().unwrap_or_default() {
                "format" => marked = true,
                // A new volume has a lost+found.
                "lock" | "records" | "views.redb" | "views.redb.new" | "format.new"
                | "lost+found" => {}
                _ => foreign = true,
            }
        }
        match (marked, foreign) {
            (true, _) => Ok(Found::Store),
            (false, false) => Ok(Found::Nothing),
            (false, true) if self.exists(&self.records())? => self.unmarked(),
            (false, true) => Err(LogError::NotAStore { dir: self.dir.clone() }),
        }
    }

    fn unmarked<T>(&self) -> Result<T, LogError> {
        damaged(&self.mark(), "the file is missing that says which format the store has")
    }

    fn exists(&self, path: &Path) -> Result<bool, LogError> {
        self.volume.exists(path).map_err(|error| io_error(path, error))
    }

    fn lock(&self, options: &Options) -> Result<Lock, LogError> {
        let path = self.dir.join("lock");
        let try_it = || self.volume.lock(&path).map_err(|error| io_error(&path, error));
        if let Some(hold) = try_it()? {
            return Ok(Lock(hold));
        }
        let (begun, patience) = (Instant::now(), options.lock_patience);
        let tell = |notice| {
            if let Some(notify) = &options.notify {
                notify(notice);
            }
        };
        tell(Notice::Waiting { pid: self.holder(&path), patience });
        loop {
            let waited = begun.elapsed();
            if waited >= patience {
                return Err(LogError::AlreadyOpen {
                    dir: self.dir.clone(),
                    pid: self.holder(&path),
                });
            }
            let pause = (waited / 8).clamp(*LOCK_PAUSES.start(), *LOCK_PAUSES.end());
            thread::sleep(pause.min(patience.saturating_sub(waited)));
            if let Some(hold) = try_it()? {
                tell(Notice::Waited);
                return Ok(Lock(hold));
            }
        }
    }

    /// Who has the lock. To know it helps, but is not needed.
    fn holder(&self, lock: &Path) -> Option<u32> {
        let pid = self.volume.read(lock).ok().and_then(|pid| String::from_utf8(pid).ok());
        pid?.trim().parse().ok()
    }

    fn check_format(&self) -> Result<(), LogError> {
        let path = self.mark();
        let bytes = self.volume.read(&path).map_err(|error| io_error(&path, error))?;
        let text = String::from_utf8_lossy(&bytes);
        let number = text.strip_prefix("annals store ").map(str::trim);
        match number.and_then(|number| number.parse().ok()) {
            Some(STORE_FORMAT) => Ok(()),
            Some(found) if found > STORE_FORMAT => {
                Err(LogError::Newer { path, found, known: STORE_FORMAT })
            }
            _ => damaged(&path, "it does not say which format the store has"),
        }
    }

    /// Makes the store. Its mark comes last: a store without records is damaged, never new.
    fn make(&self) -> Result<(), LogError> {
        let (folder, volume) = (self.records(), &self.volume);
        self.make_folder(&folder)?;
        let first = records::file(&folder, Position(1));
        match records::files(volume, &folder)?.as_slice() {
            [] => records::create(volume, &folder, Position(1))?,
            // A killed creation got this far, if it holds nothing.
            [Position(1)] if records::is_empty(volume, &first)? => {}
            _ => return self.unmarked(),
        }
        if !self.exists(&self.views())? {
            views::create(volume, &self.views())?;
        }
        let (mark, unfinished) = (self.mark(), self.dir.join("format.new"));
        let text = format!("annals store {STORE_FORMAT}\n");
        let written = volume.write(&unfinished, text.as_bytes());
        written.map_err(|error| io_error(&unfinished, error))?;
        settle(volume, &unfinished, &mark)
    }

    fn make_folder(&self, folder: &Path) -> Result<(), LogError> {
        self.volume.make_folder(folder).map_err(|error| io_error(folder, error))?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(&self.volume, parent.unwrap_or(Path::new(".")))
    }
}
