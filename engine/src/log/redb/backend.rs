//! redb's own idea of a disk, and ours below it: the only file that knows both.

use std::fmt;
use std::io;
use std::path::Path;

use ::redb::{Builder, Database, DatabaseError, ReadOnlyDatabase, StorageBackend, StorageError};

use super::disk::{Access, DiskFile, Volume};

/// A file of a disk that was put in the machine's place.
///
/// It takes no locks: such a disk has one store, whose own lock is enough.
struct Backend(Box<dyn DiskFile>);

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_size(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }
}

impl Volume {
    /// Makes a database.
    pub(super) fn create_database(
        &self,
        builder: &Builder,
        path: &Path,
    ) -> Result<Database, DatabaseError> {
        match &self.0 {
            None => builder.create(path),
            Some(disk) => builder.create_with_backend(Backend(disk.open(path, Access::Create)?)),
        }
    }

    /// Opens a database for writing.
    pub(super) fn open_database(
        &self,
        builder: &Builder,
        path: &Path,
    ) -> Result<Database, DatabaseError> {
        let Some(disk) = &self.0 else { return builder.open(path) };
        let file = disk.open(path, Access::Write)?;
        // redb opens and makes a database on a backend in one, and takes an empty one for new.
        if file.size()? == 0 {
            return Err(StorageError::Corrupted("the file is empty".into()).into());
        }
        builder.create_with_backend(Backend(file))
    }

    /// Opens a database to read it.
    pub(super) fn read_database(
        &self,
        builder: &Builder,
        path: &Path,
    ) -> Result<ReadOnlyDatabase, DatabaseError> {
        match &self.0 {
            None => builder.open_read_only(path),
            Some(disk) => {
                builder.open_read_only_with_backend(Backend(disk.open(path, Access::Read)?))
            }
        }
    }
}
