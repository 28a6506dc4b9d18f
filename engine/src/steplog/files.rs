//! The files of a log, opened so that nothing else is read, written or removed in their place.
//!
//! A shell task runs as the engine's user and can put into the engine's folders what it likes.
//! So below the folder of all logs no link is followed, and what is no regular file is refused
//! before it can block whoever opens it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::LogName;

/// Where the files of one log are.
#[derive(Debug, Clone)]
pub(super) struct Place {
    root: Arc<Path>,
    name: LogName,
}

/// A folder below the one of all logs.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// Whether a file's disk has room for so many bytes more, apart from those that are reserved.
pub(super) fn room_for(file: &File, bytes: u64, reserve: u64) -> io::Result<()> {
    let disk = fs::fstatvfs(file)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Some disks do not say how large they are.
    if disk.f_blocks == 0 || free >= reserve.saturating_add(bytes) {
        return Ok(());
    }
    Err(io::ErrorKind::StorageFull.into())
}

/// Which file of its folder an open one was when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inode(u64);

impl Place {
    pub(super) fn new(root: Arc<Path>, name: LogName) -> Self {
        Self { root, name }
    }

    pub(super) fn name(&self) -> LogName {
        self.name
    }

    /// The job's folder, if it is there.
    pub(super) fn job(&self) -> io::Result<Option<Folder>> {
        let root = fs::openat(CWD, &*self.root, FOLDER, Mode::empty());
        match if_there(root)? {
            Some(root) => Folder(root).folder(&self.name.job.to_string()),
            None => Ok(None),
        }
    }

    /// The job's folder, made where it is not there.
    pub(super) fn make_job(&self) -> io::Result<Folder> {
        std::fs::create_dir_all(&self.root)?;
        let root = Folder(fs::openat(CWD, &*self.root, FOLDER, Mode::empty())?);
        root.make(&self.name.job.to_string())
    }

    /// The name of the first file.
    pub(super) fn head(&self) -> String {
        format!("{}.{}.log", self.name.number, self.name.attempt)
    }

    /// The name of a packed log that is not complete yet.
    pub(super) fn packed(&self) -> String {
        format!("{}.{}.new", self.name.number, self.name.attempt)
    }

    /// The name of the folder of the last segments.
    pub(super) fn tail(&self) -> String {
        format!("{}.{}.tail", self.name.number, self.name.attempt)
    }
}

/// The name of a segment: padded, so that the order of names is the order of segments.
pub(super) fn segment(number: u64) -> String {
    format!("{number:010}")
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A named pipe is not waited for.
const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

impl Folder {
    /// A folder in this one, if it is there.
    pub(super) fn folder(&self, name: &str) -> io::Result<Option<Self>> {
        let found = fs::openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        Ok(if_there(found)?.map(Self))
    }

    /// A folder in this one, made where it is not there.
    pub(super) fn make(&self, name: &str) -> io::Result<Self> {
        match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let found = fs::openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        Ok(Self(found?))
    }

    /// A file to read, if it is there.
    pub(super) fn open(&self, name: &str) -> io::Result<Option<File>> {
        let found = fs::openat(&self.0, name, PLAIN | OFlags::RDONLY, Mode::empty());
        if_there(found)?.map(regular).transpose()
    }

    /// A file to append to, made where it is not there.
    pub(super) fn append(&self, name: &str) -> io::Result<File> {
        let flags = PLAIN | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        regular(fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?)
    }

    /// A new file in the place of whatever has the name.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        self.remove(name)?;
        let flags = PLAIN | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        regular(fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?)
    }

    /// Gives a file the name of another one, which is gone then.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file, or a link, if it is there.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        if_there(fs::unlinkat(&self.0, name, AtFlags::empty())).map(drop)
    }

    /// Removes a folder with the files in it, if it is there.
    pub(super) fn remove_folder(&self, name: &str) -> io::Result<()> {
        let Some(folder) = self.folder(name)? else { return Ok(()) };
        for file in folder.names()? {
            folder.remove(&file)?;
        }
        if_there(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)).map(drop)
    }

    /// The names of what is in it, in their order.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            // No name of ours is anything but ASCII.
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Which file has the name now.
    pub(super) fn inode(&self, name: &str) -> io::Result<Option<Inode>> {
        let found = if_there(fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(found.map(|stat| Inode(stat.st_ino)))
    }
}

impl Inode {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self(fs::fstat(file)?.st_ino))
    }
}

fn if_there<T>(result: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err(io::Error::new(io::ErrorKind::InvalidData, "it is a link")),
        Err(error) => Err(error.into()),
    }
}

fn regular(file: OwnedFd) -> io::Result<File> {
    if FileType::from_raw_mode(fs::fstat(&file)?.st_mode).is_file() {
        return Ok(file.into());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"))
}
