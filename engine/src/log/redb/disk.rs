//! The disk below a store: the machine's own, or one that a test puts in its place.

use std::any::Any;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

/// What a store asks of a disk. A test or a simulation gives its own, which fails, is slow, or
/// remembers what was never synced.
///
/// Nothing that was written is durable before [`DiskFile::sync`], and no name is before
/// [`Disk::sync`] of its folder.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;
    /// How many bytes a file has.
    fn size(&self, path: &Path) -> io::Result<u64>;
    /// Reads a small file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Makes or replaces a small file.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// The names in a folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// Makes a folder and those above it, where they are missing.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// Gives a file another name, also one that another file had.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the bytes of a file, or the names in a folder, durable.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Takes the lock of this name until what it gives is dropped; none where somebody has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Hold>>;
}

/// Holds a lock until it is dropped.
pub type Hold = Box<dyn Any + Send + Sync>;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Read,
    /// To read and write it.
    Write,
    /// To read and write it; it is made where it is missing.
    Create,
}

/// An open file of a [`Disk`].
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// How many bytes it has.
    fn size(&self) -> io::Result<u64>;
    /// Fills `out` from `offset` on; to read beyond the end is an error.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file, or lengthens it with zeroes.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Makes everything that was written durable.
    fn sync(&self) -> io::Result<()>;
}

/// Where a store lies.
#[derive(Clone, Default)]
pub(super) struct Volume(pub(super) Option<Arc<dyn Disk>>);

impl Volume {
    pub(super) fn size(&self, path: &Path) -> io::Result<u64> {
        match &self.0 {
            None => fs::metadata(path).map(|data| data.len()),
            Some(disk) => disk.size(path),
        }
    }

    pub(super) fn exists(&self, path: &Path) -> io::Result<bool> {
        match &self.0 {
            None => fs::exists(path),
            Some(disk) => match disk.size(path) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match &self.0 {
            None => fs::read(path),
            Some(disk) => disk.read(path),
        }
    }

    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match &self.0 {
            None => fs::write(path, bytes),
            Some(disk) => disk.write(path, bytes),
        }
    }

    pub(super) fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        match &self.0 {
            None => fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect(),
            Some(disk) => disk.names(folder),
        }
    }

    pub(super) fn make_folder(&self, folder: &Path) -> io::Result<()> {
        match &self.0 {
            None => fs::create_dir_all(folder),
            Some(disk) => disk.make_folder(folder),
        }
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.0 {
            None => fs::rename(from, to),
            Some(disk) => disk.rename(from, to),
        }
    }

    /// Removes a file that may be missing.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match &self.0 {
            None => fs::remove_file(path),
            Some(disk) => disk.remove(path),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    pub(super) fn sync(&self, path: &Path) -> io::Result<()> {
        match &self.0 {
            None => File::open(path)?.sync_all(),
            Some(disk) => disk.sync(path),
        }
    }

    /// Keeps an eye on a file of the machine. A disk in its place loses no file behind the back of
    /// its store.
    pub(super) fn anchor(&self, path: &Path) -> io::Result<Option<Anchor>> {
        match &self.0 {
            None => Ok(Some(Anchor { file: File::open(path)?, path: path.into() })),
            Some(_) => Ok(None),
        }
    }

    pub(super) fn lock(&self, path: &Path) -> io::Result<Option<Hold>> {
        match &self.0 {
            None => lock(path),
            Some(disk) => disk.lock(path),
        }
    }
}

/// Tells whether an open file still has its name. What is written to one that was removed works,
/// and is gone when it is closed.
#[derive(Debug)]
pub(super) struct Anchor {
    file: File,
    path: PathBuf,
}

impl Anchor {
    /// Whether whoever opens the path gets this file. Both are asked anew: there are disks on which
    /// a file's number does not stay.
    pub(super) fn holds(&self) -> io::Result<bool> {
        let named = match fs::metadata(&self.path) {
            Err(error) if is_missing(&error) => return Ok(false),
            other => other?,
        };
        let open = self.file.metadata()?;
        Ok((named.dev(), named.ino()) == (open.dev(), open.ino()))
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Locks a file of the machine, and writes into it who has it.
fn lock(path: &Path) -> io::Result<Option<Hold>> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => return Ok(None),
        other => other?,
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Some(Box::new(file)))
}
