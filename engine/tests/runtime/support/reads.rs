//! Readers of the log that wait, count and panic when the test says so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use annals_engine::job::ValueDigest;
use annals_engine::log::ValueKey;
use annals_engine::log::{Hour, JobRow, KeyRow, Link, LogError, LogReader, Position, ReadRow};
use annals_tasks_sdk::JobId;

use super::{Gate, Tally};

/// Which jobs cannot be read for now, and how often each was read.
#[derive(Clone)]
pub(crate) struct Reads {
    orders: Arc<Mutex<Orders>>,
    held: Tally,
}

#[derive(Default)]
struct Orders {
    gates: HashMap<JobId, Gate>,
    panics: HashSet<JobId>,
    counts: HashMap<JobId, usize>,
}

/// A job whose reads wait until this is dropped.
pub(crate) struct Held(Gate);

impl Drop for Held {
    /// A thread that waits for ever would outlive a test that fails.
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Reads {
    pub(crate) fn new() -> Self {
        Self { orders: Arc::default(), held: Tally::new() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes every read of a job wait, its row in the views included.
    pub(crate) fn hold(&self, job: JobId) -> Held {
        let gate = Gate::new();
        self.with(|orders| orders.gates.insert(job, gate.clone()));
        Held(gate)
    }

    /// Waits until so many reads wait at a time.
    pub(crate) async fn until_held(&self, count: usize) {
        self.held.until(|counts| counts.inside >= count).await;
    }

    /// How many reads wait now.
    pub(crate) fn held(&self) -> usize {
        self.held.now().inside
    }

    /// The most reads that waited at a time.
    pub(crate) fn most_held(&self) -> usize {
        self.held.now().most
    }

    /// Makes the next read of a job panic.
    pub(crate) fn panic(&self, job: JobId) {
        self.with(|orders| orders.panics.insert(job));
    }

    /// How often the whole history of a job was read.
    pub(crate) fn count(&self, job: JobId) -> usize {
        self.with(|orders| orders.counts.get(&job).copied().unwrap_or(0))
    }

    fn before(&self, job: JobId) {
        let (gate, panics) =
            self.with(|orders| (orders.gates.get(&job).cloned(), orders.panics.remove(&job)));
        assert!(!panics, "the log panics");
        if let Some(gate) = gate {
            let _inside = self.held.enter();
            gate.block();
        }
    }

    fn row(&self, row: ReadRow) -> ReadRow {
        self.before(row.job);
        if row.before.seq == 0 {
            self.with(|orders| *orders.counts.entry(row.job).or_default() += 1);
        }
        row
    }
}

/// A reader that obeys [`Reads`].
pub(crate) struct WatchedReader {
    pub(crate) reader: Arc<dyn LogReader>,
    pub(crate) reads: Reads,
}

impl LogReader for WatchedReader {
    fn next_position(&self) -> Position {
        self.reader.next_position()
    }

    fn viewed(&self) -> Position {
        self.reader.viewed()
    }

    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        Ok(self.reader.row(position)?.map(|row| self.reads.row(row)))
    }

    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        self.reader.bytes(position)
    }

    fn link(&self, position: Position) -> Result<Option<Link>, LogError> {
        self.reader.link(position)
    }

    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        self.reader.rows(from, limit)
    }

    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        self.reader.value(job, key, digest)
    }

    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        self.reads.before(job);
        self.reader.job_row(job)
    }

    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError> {
        self.reader.job_rows(before, limit)
    }

    fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        self.reader.open_rows()
    }

    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        self.reader.keys(since, take)
    }
}
