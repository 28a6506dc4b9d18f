//! A file that is opened again after a read in it failed: redb uses a file no more in which an
//! operation failed, but the next one may work.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use ::redb::{Database, ReadTransaction, ReadableDatabase};

use super::disk::Volume;
use super::file::{self, Held, Trouble, guard};
use crate::log::LogError;

/// An open file, or one that will be opened again.
pub(super) struct Connection {
    volume: Volume,
    path: PathBuf,
    cache: usize,
    state: RwLock<State>,
}

enum State {
    Open(Held<Database>),
    /// A read has failed.
    Failed,
    Closed,
}

impl Connection {
    pub(super) fn new(volume: &Volume, path: &Path, cache: usize, open: Held<Database>) -> Self {
        let (volume, path, state) = (volume.clone(), path.into(), RwLock::new(State::Open(open)));
        Self { volume, path, cache, state }
    }

    /// Runs something in the file. After a failure of it the file may not be usable.
    pub(super) fn with<T>(
        &self,
        run: impl FnOnce(&Database) -> Result<T, Trouble>,
    ) -> Result<T, LogError> {
        loop {
            match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
                State::Open(database) => return guard(&self.path, || run(database)),
                State::Closed => return Err(LogError::Closed),
                State::Failed => {}
            }
            self.open_again()?;
        }
    }

    /// Reads in the file. After a failure of that the file is opened again before it is used.
    pub(super) fn read<T>(
        &self,
        run: impl FnOnce(&ReadTransaction) -> Result<T, Trouble>,
    ) -> Result<T, LogError> {
        let result = self.with(|database| run(&database.begin_read()?));
        // What is damaged stays so, however often it is opened.
        if let Err(LogError::Io { .. } | LogError::Poisoned) = &result {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            // Unless somebody else was faster, or the log was closed meanwhile.
            if matches!(*state, State::Open(_)) {
                // Nothing was written since the last commit, so there is nothing to lose.
                *state = State::Failed;
            }
        }
        result
    }

    /// Opens the file again, if it must be.
    pub(super) fn open_again(&self) -> Result<(), LogError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Failed) {
            let opened = file::open_checked(&self.volume, &self.path, self.cache)?;
            *state = State::Open(opened);
        }
        Ok(())
    }

    pub(super) fn close(&self) -> Result<(), LogError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Open(database) => database.close(&self.path),
            State::Failed | State::Closed => Ok(()),
        }
    }
}
