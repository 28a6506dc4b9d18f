//! The file in a store's folder that says where the store is served.
//!
//! Whoever serves holds a lock on it, so a file that a killed server left behind is known for
//! what it is.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file's name. A store's folder may hold others than the store's own.
const NAME: &str = "server";

/// Says where a store is served, until it is dropped.
#[derive(Debug)]
pub(crate) struct Address {
    path: PathBuf,
    /// The lock lasts as long.
    _file: File,
}

impl Address {
    /// Leaves the URL in the store's folder.
    pub(crate) fn leave(store: &Path, url: &str) -> io::Result<Self> {
        let (path, unfinished) = (store.join(NAME), store.join("server.new"));
        let mut file = File::create(&unfinished)?;
        file.try_lock()?;
        writeln!(file, "{url}")?;
        // Nobody sees one that is not locked yet, or half of one.
        std::fs::rename(unfinished, &path)?;
        Ok(Self { path, _file: file })
    }

    /// The URL at which a store is served now, if it is.
    pub(crate) fn of(store: &Path) -> Option<String> {
        let path = store.join(NAME);
        let file = File::open(&path).ok()?;
        let served = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let url = std::fs::read_to_string(path).ok()?;
        served.then(|| url.trim().to_owned())
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        // One that stays says nothing, because it is not locked.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_while_somebody_serves() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(Address::of(store.path()), None);
        let address = Address::leave(store.path(), "http://127.0.0.1:1").unwrap();
        assert_eq!(Address::of(store.path()).as_deref(), Some("http://127.0.0.1:1"));
        drop(address);
        assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_server_left_is_not_believed() {
        let store = tempfile::tempdir().unwrap();
        std::fs::write(store.path().join(NAME), "http://127.0.0.1:1\n").unwrap();
        assert_eq!(Address::of(store.path()), None);
        let _address = Address::leave(store.path(), "http://127.0.0.1:2").unwrap();
        assert_eq!(Address::of(store.path()).as_deref(), Some("http://127.0.0.1:2"));
    }
}
