//! The store's folder: its lock, its mark, and how it comes to be.
//!
//! ```text
//! DIR/lock                       locked by the process that has the store, whose pid it holds
//! DIR/format                     the store's format; there as soon as the store is whole
//! DIR/records/0000000001.redb    records and values, named by the first position
//! DIR/views.redb                 what can be rebuilt from the records
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::file::{damaged, io_error, settle, sync_folder};
use super::{records, views};
use crate::log::{LogError, Position};

/// The store format that this build makes, and the newest that it opens.
const STORE_FORMAT: u32 = 1;

/// So long a store may stay locked by a process that was killed a moment ago and is not gone yet.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The paths of a store.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) dir: PathBuf,
}

/// Holds the store until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file")] File);

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

    /// Locks the store, and makes it if there is none and `create` says so.
    pub(super) fn open(&self, create: bool) -> Result<Lock, LogError> {
        // The folder is looked at before the lock is made, so that nothing is left in a folder
        // that holds something else.
        if matches!(self.look()?, Found::Nothing) {
            if !create {
                return Err(LogError::Missing { dir: self.dir.clone() });
            }
            make_folder(&self.dir)?;
        }
        let lock = self.lock()?;
        // Somebody else may have made the store meanwhile.
        match self.look()? {
            Found::Store => self.check_format()?,
            Found::Nothing => self.make()?,
        }
        Ok(lock)
    }

    fn look(&self) -> Result<Found, LogError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(io_error(&self.dir, error)),
        };
        let (mut marked, mut foreign) = (false, false);
        for entry in entries {
            let name = entry.map_err(|error| io_error(&self.dir, error))?.file_name();
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
            (false, true) if self.records().exists() => self.unmarked(),
            (false, true) => Err(LogError::NotAStore { dir: self.dir.clone() }),
        }
    }

    fn unmarked<T>(&self) -> Result<T, LogError> {
        damaged(&self.mark(), "the file is missing that says which format the store has")
    }

    fn lock(&self) -> Result<Lock, LogError> {
        let path = self.dir.join("lock");
        let failed = |error| io_error(&path, error);
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(failed)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(error) if error != rustix::io::Errno::WOULDBLOCK => {
                    return Err(failed(error.into()));
                }
                Err(_) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
                Err(_) => return Err(self.already_open(&mut file)),
            }
        }
        let write = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        write.map_err(failed)?;
        Ok(Lock(file))
    }

    fn already_open(&self, lock: &mut File) -> LogError {
        let mut pid = String::new();
        // Who it is helps, but is not needed.
        let _ = lock.read_to_string(&mut pid);
        LogError::AlreadyOpen { dir: self.dir.clone(), pid: pid.trim().parse().ok() }
    }

    fn check_format(&self) -> Result<(), LogError> {
        let path = self.mark();
        let text = fs::read_to_string(&path).map_err(|error| io_error(&path, error))?;
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
        let folder = self.records();
        make_folder(&folder)?;
        let first = records::file(&folder, Position(1));
        match records::files(&folder)?.as_slice() {
            [] => records::create(&folder, Position(1))?,
            // A killed creation got this far, if it holds nothing.
            [Position(1)] if records::is_empty(&first)? => {}
            _ => return self.unmarked(),
        }
        if !self.views().exists() {
            views::create(&self.views())?;
        }
        let (mark, unfinished) = (self.mark(), self.dir.join("format.new"));
        fs::write(&unfinished, format!("annals store {STORE_FORMAT}\n"))
            .map_err(|error| io_error(&unfinished, error))?;
        settle(&unfinished, &mark)
    }
}

fn make_folder(folder: &Path) -> Result<(), LogError> {
    fs::create_dir_all(folder).map_err(|error| io_error(folder, error))?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_folder(parent.unwrap_or(Path::new(".")))
}
