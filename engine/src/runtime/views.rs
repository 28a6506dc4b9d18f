//! Checkpoints of the views: all loops hand in the rows of the jobs that they changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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

    /// Counts events; true for the caller who is to begin a round.
    pub(super) fn count(&self, events: u64) -> bool {
        let before = self.events.fetch_add(events, Ordering::Relaxed);
        before + events >= self.every && !self.under_way.swap(true, Ordering::AcqRel)
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
    remaining: Mutex<usize>,
}

impl Round {
    /// A round for so many loops, begun now.
    pub(super) fn new(writer: &Writer, loops: usize) -> Self {
        let upto = Position(writer.next_position().0.saturating_sub(1));
        Self { upto, remaining: Mutex::new(loops) }
    }

    /// Hands in what a loop has. Gives whether it was the last.
    pub(super) fn hand_in(&self, shared: &Shared, rows: Vec<JobRow>, keys: Vec<KeyRow>) -> bool {
        // The lock keeps the order of the queue: the one that moves the mark comes last.
        let mut remaining = self.remaining.lock().unwrap_or_else(PoisonError::into_inner);
        *remaining = remaining.saturating_sub(1);
        let last = *remaining == 0;
        let upto = if last { self.upto } else { shared.reader.viewed() };
        let update = ViewsUpdate { rows, keys, keys_since: shared.keys.since(), upto };
        // A refusal means that the writer has failed, which every loop hears of by itself.
        let _ = shared.writer.checkpoint(update);
        last
    }

    /// Up to where the views will reflect the records.
    pub(super) fn upto(&self) -> Position {
        self.upto
    }
}
