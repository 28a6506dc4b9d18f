//! What the store sees of a disk in memory. How it fails, and what of it is durable, is up to its
//! medium.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_engine::log::{Access, Disk, DiskFile, Hold};

use super::tree::{Change, FileId, Tree};

/// What lies below, and fails as it is told to.
pub(crate) trait Medium: Send + 'static {
    /// What is on it for those who use it.
    fn tree(&self) -> &Tree;

    /// What is locked.
    fn locked(&mut self) -> &mut BTreeSet<PathBuf>;

    /// Something is read now. Gives the error that this is to have.
    fn reads(&mut self) -> io::Result<()>;

    /// Changes something, or fails.
    fn change(&mut self, change: &Change) -> io::Result<()>;

    /// The file of this name, which is made if there is none.
    fn make(&mut self, path: &Path) -> io::Result<FileId> {
        if let Ok(file) = self.tree().file(path) {
            return Ok(file);
        }
        let file = self.tree().files.len();
        self.change(&Change::Make { path: path.into(), file })?;
        Ok(file)
    }
}

/// The disk. Clones are the same disk.
#[derive(Default)]
pub(crate) struct InMemory<M>(Arc<Mutex<M>>);

impl<M> InMemory<M> {
    pub(crate) fn of(medium: M) -> Self {
        Self(Arc::new(Mutex::new(medium)))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, M> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> Clone for InMemory<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for InMemory<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a disk in memory")
    }
}

impl<M: Medium> Disk for InMemory<M> {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.reads()?;
        let id = match access {
            Access::Create => state.make(path)?,
            Access::Read | Access::Write => state.tree().file(path)?,
        };
        Ok(Box::new(OneFile { disk: self.clone(), id }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        state.reads()?;
        if state.tree().folders.contains(path) {
            return Ok(0);
        }
        state.tree().file(path).map(|id| state.tree().files[id].len() as u64)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.reads()?;
        state.tree().file(path).map(|id| state.tree().files[id].to_vec())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.make(path)?;
        state.change(&Change::SetSize { file, size: 0 })?;
        state.change(&Change::SetSize { file, size: bytes.len() })?;
        state.change(&Change::Write { file, offset: 0, bytes: bytes.to_vec() })
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        state.reads()?;
        state.tree().in_folder(folder)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        let above: Vec<PathBuf> = folder.ancestors().map(Into::into).collect();
        for path in above.into_iter().rev() {
            if !state.tree().folders.contains(&path) {
                state.change(&Change::MakeFolder { path })?;
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.tree().file(from)?;
        state.change(&Change::Rename { from: from.into(), to: to.into() })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.tree().file(path)?;
        state.change(&Change::Remove { path: path.into() })
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.tree().folders.contains(path) {
            return state.change(&Change::SyncNames { folder: path.into() });
        }
        let file = state.tree().file(path)?;
        state.change(&Change::Sync { file })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Hold>> {
        let fresh = self.state().locked().insert(path.into());
        Ok(fresh.then(|| Box::new(Held { disk: self.clone(), path: path.into() }) as Hold))
    }
}

struct Held<M: Medium> {
    disk: InMemory<M>,
    path: PathBuf,
}

impl<M: Medium> Drop for Held<M> {
    fn drop(&mut self) {
        self.disk.state().locked().remove(&self.path);
    }
}

struct OneFile<M: Medium> {
    disk: InMemory<M>,
    id: FileId,
}

impl<M: Medium> fmt::Debug for OneFile<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} of {:?}", self.id, self.disk)
    }
}

impl<M: Medium> DiskFile for OneFile<M> {
    fn size(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.reads()?;
        Ok(state.tree().files[self.id].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.reads()?;
        let begin = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.tree().files[self.id].get(begin..begin + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.disk.state();
        // A file grows with what is written behind its end.
        let end = offset + bytes.len();
        if state.tree().files[self.id].len() < end {
            state.change(&Change::SetSize { file: self.id, size: end })?;
        }
        state.change(&Change::Write { file: self.id, offset, bytes: bytes.to_vec() })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).map_err(io::Error::other)?;
        self.disk.state().change(&Change::SetSize { file: self.id, size })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().change(&Change::Sync { file: self.id })
    }
}
