//! Checkpoints of the views: all loops hand in the rows of the jobs that they changed.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::engine::Shared;
use crate::log::{JobRow, KeyRow, Position, ViewsUpdate, Writer};

/// Counts towards the next checkpoint.
#[derive(Debug)]
pub(super) struct Progress {
    /// After so many events the views are written, so that a restart reads no more of the tail.
    every: u64,
    events: AtomicU64,
    under_way: AtomicBool,
}

impl Progress {
    pub(super) fn new(every: u64) -> Self {
        let (events, under_way) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { every: every.max(1), events, under_way }
    }

    /// Counts events; true for the caller who is to begin a round. None is begun before the last
    /// one `is_written`, or more and more would wait.
    pub(super) fn count(&self, events: u64, is_written: impl FnOnce() -> bool) -> bool {
        let before = self.events.fetch_add(events, Ordering::Relaxed);
        let due = before + events >= self.every && !self.under_way.load(Ordering::Acquire);
        due && is_written() && !self.under_way.swap(true, Ordering::AcqRel)
    }

    /// How many events the views do not have.
    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn reset(&self) {
        self.events.store(0, Ordering::Relaxed);
        self.under_way.store(false, Ordering::Release);
    }
}

/// One checkpoint: when the last loop has handed in its rows, the views reflect every record
/// that had a position when the round began.
pub(super) struct Round {
    upto: Position,
    gathered: Mutex<Gathered>,
}

/// What loops have handed in.
struct Gathered {
    /// How many have not handed in all.
    remaining: usize,
    rows: Vec<JobRow>,
    keys: Vec<KeyRow>,
}

impl Round {
    /// A round for so many loops, begun now.
    pub(super) fn new(writer: &Writer, loops: usize) -> Self {
        let upto = Position(writer.next_position().0.saturating_sub(1));
        let gathered = Gathered { remaining: loops, rows: Vec::new(), keys: Vec::new() };
        Self { upto, gathered: Mutex::new(gathered) }
    }

    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in a row of a loop that has more.
    pub(super) fn hand_in(&self, row: JobRow) {
        self.gathered().rows.push(row);
    }

    /// Hands in what is left when a loop has handed in its rows. The last of them has the views
    /// take everything in.
    pub(super) fn finish(&self, shared: &Shared, keys: Vec<KeyRow>) {
        let mut gathered = self.gathered();
        gathered.keys.extend(keys);
        gathered.remaining = gathered.remaining.saturating_sub(1);
        if gathered.remaining > 0 {
            return;
        }
        let (rows, keys) = (mem::take(&mut gathered.rows), mem::take(&mut gathered.keys));
        let update = ViewsUpdate { rows, keys, keys_since: shared.keys.since(), upto: self.upto };
        // A refusal means that the writer has failed, which every loop hears of by itself.
        let _ = shared.writer.checkpoint(update);
        shared.views.reset();
    }

    /// Up to where the views will reflect the records.
    pub(super) fn upto(&self) -> Position {
        self.upto
    }
}
