//! A disk in memory, which survives those who use it, fails when it is told to, and writes down
//! what was done to it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_engine::log::{Access, Disk, DiskFile, Hold};

use super::tree::{Bytes, Change, FileId, Tree};

/// The pages that a failed sync may lose, each for itself.
const PAGE: usize = 4096;

/// What the system says of a full disk, a quota, and a broken disk.
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EDQUOT: i32 = 122;
pub(crate) const EIO: i32 = 5;

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Changes,
    Reads,
}

/// When something is to go wrong, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) what: What,
    /// From the how-manieth operation on, counted from 1.
    pub(crate) at: u64,
    pub(crate) errno: i32,
    /// Whether everything behind it goes wrong as well.
    pub(crate) lasts: bool,
    /// Whether a part of it is done nevertheless.
    pub(crate) half: bool,
}

#[derive(Default)]
struct State {
    tree: Tree,
    /// The bytes of each file when it was last synced.
    synced: Vec<Bytes>,
    locked: BTreeSet<PathBuf>,
    changes: u64,
    reads: u64,
    fault: Option<Fault>,
    struck: u64,
    journal: Option<Vec<Change>>,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a disk in memory")
    }
}

impl SimDisk {
    /// A disk with something on it.
    pub(crate) fn holding(tree: Tree) -> Self {
        let synced = tree.files.clone();
        Self(Arc::new(Mutex::new(State { tree, synced, ..State::default() })))
    }

    /// A copy of what is on it.
    pub(crate) fn tree(&self) -> Tree {
        self.state().tree.clone()
    }

    /// Has it write down every change from now on.
    pub(crate) fn record(&self) {
        self.state().journal = Some(Vec::new());
    }

    /// How many changes were written down.
    pub(crate) fn recorded(&self) -> usize {
        self.state().journal.as_ref().map_or(0, Vec::len)
    }

    /// What was written down.
    pub(crate) fn journal(&self) -> Vec<Change> {
        self.state().journal.take().unwrap_or_default()
    }

    /// Has it fail, or not fail any more. Operations are counted from here.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        let mut state = self.state();
        (state.fault, state.changes, state.reads, state.struck) = (fault, 0, 0, 0);
    }

    /// How many operations failed since [`SimDisk::fail`].
    pub(crate) fn struck(&self) -> u64 {
        self.state().struck
    }

    /// How many changes and reads there were since [`SimDisk::fail`].
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.changes, state.reads)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts an operation. Gives the error that it is to have, and whether half of it is done.
    fn strikes(&mut self, what: What) -> Option<(io::Error, bool)> {
        let count = match what {
            What::Changes => &mut self.changes,
            What::Reads => &mut self.reads,
        };
        *count += 1;
        let fault = self.fault.filter(|fault| fault.what == what)?;
        let due = *count == fault.at || (fault.lasts && *count > fault.at);
        self.struck += u64::from(due);
        due.then(|| (io::Error::from_raw_os_error(fault.errno), fault.half))
    }

    fn reads(&mut self) -> io::Result<()> {
        self.strikes(What::Reads).map_or(Ok(()), |(error, _)| Err(error))
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        if let Some((error, half)) = self.strikes(What::Changes) {
            if half {
                self.apply_half(&change);
            }
            return Err(error);
        }
        self.tree.apply(&change);
        if let Change::Sync { file } = change {
            self.synced.resize_with(self.tree.files.len(), Bytes::default);
            self.synced[file] = self.tree.files[file].clone();
        }
        if let Some(journal) = &mut self.journal {
            journal.push(change);
        }
        Ok(())
    }

    fn apply_half(&mut self, change: &Change) {
        let Change::Sync { file } = change else {
            let half = change.half();
            self.tree.apply(&half);
            return;
        };
        // A system that could not write pages may forget what was in them.
        let none = Bytes::default();
        let old = self.synced.get(*file).unwrap_or(&none);
        let bytes = Arc::make_mut(&mut self.tree.files[*file]);
        for (page, old) in bytes.chunks_mut(PAGE).zip(old.chunks(PAGE)).step_by(2) {
            let len = page.len().min(old.len());
            page[..len].copy_from_slice(&old[..len]);
        }
    }

    fn make(&mut self, path: &Path) -> io::Result<FileId> {
        if let Ok(file) = self.tree.file(path) {
            return Ok(file);
        }
        let file = self.tree.files.len();
        self.change(Change::Make { path: path.into(), file })?;
        Ok(file)
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let id = match access {
            Access::Create => state.make(path)?,
            Access::Read | Access::Write => state.tree.file(path)?,
        };
        Ok(Box::new(SimFile { disk: self.clone(), id }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        state.reads()?;
        if state.tree.folders.contains(path) {
            return Ok(0);
        }
        state.tree.file(path).map(|id| state.tree.files[id].len() as u64)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.reads()?;
        state.tree.file(path).map(|id| state.tree.files[id].to_vec())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.make(path)?;
        state.change(Change::SetSize { file, size: 0 })?;
        state.change(Change::SetSize { file, size: bytes.len() })?;
        state.change(Change::Write { file, offset: 0, bytes: bytes.to_vec() })
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        state.reads()?;
        state.tree.in_folder(folder)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        let above: Vec<PathBuf> = folder.ancestors().map(Into::into).collect();
        for path in above.into_iter().rev() {
            if !state.tree.folders.contains(&path) {
                state.change(Change::MakeFolder { path })?;
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.tree.file(from)?;
        state.change(Change::Rename { from: from.into(), to: to.into() })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.tree.file(path)?;
        state.change(Change::Remove { path: path.into() })
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.tree.folders.contains(path) {
            return state.change(Change::SyncNames { folder: path.into() });
        }
        let file = state.tree.file(path)?;
        state.change(Change::Sync { file })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Hold>> {
        let fresh = self.state().locked.insert(path.into());
        Ok(fresh.then(|| Box::new(Held { disk: self.clone(), path: path.into() }) as Hold))
    }
}

struct Held {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: FileId,
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.reads()?;
        Ok(state.tree.files[self.id].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.reads()?;
        let begin = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.tree.files[self.id].get(begin..begin + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        // A file grows with what is written behind its end.
        let end = offset + bytes.len();
        if state.tree.files[self.id].len() < end {
            state.change(Change::SetSize { file: self.id, size: end })?;
        }
        state.change(Change::Write { file: self.id, offset, bytes: bytes.to_vec() })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).map_err(io::Error::other)?;
        self.disk.state().change(Change::SetSize { file: self.id, size })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().change(Change::Sync { file: self.id })
    }
}
