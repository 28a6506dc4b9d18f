//! A disk in memory, which survives those who use it, fails when it is told to, and writes down
//! what was done to it.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::face::{InMemory, Medium};
use super::tree::{Bytes, Change, Tree};

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
pub(crate) struct State {
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
pub(crate) type SimDisk = InMemory<State>;

impl SimDisk {
    /// A disk with something on it.
    pub(crate) fn holding(tree: Tree) -> Self {
        let synced = tree.files.clone();
        Self::of(State { tree, synced, ..State::default() })
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
}

impl Medium for State {
    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn locked(&mut self) -> &mut BTreeSet<PathBuf> {
        &mut self.locked
    }

    fn reads(&mut self) -> io::Result<()> {
        self.strikes(What::Reads).map_or(Ok(()), |(error, _)| Err(error))
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        if let Some((error, half)) = self.strikes(What::Changes) {
            if half {
                self.apply_half(change);
            }
            return Err(error);
        }
        self.tree.apply(change);
        if let Change::Sync { file } = change {
            self.synced.resize_with(self.tree.files.len(), Bytes::default);
            self.synced[*file] = self.tree.files[*file].clone();
        }
        if let Some(journal) = &mut self.journal {
            journal.push(change.clone());
        }
        Ok(())
    }
}
