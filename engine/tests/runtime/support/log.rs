//! Logs that fail, wait, or show something else than what was written, when the test says so.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use annals_engine::job::ValueDigest;
use annals_engine::log::{EventLog, Fault, Hour, JobRow, KeyRow, LogError, LogReader, Position};
use annals_engine::log::{ReadRow, Row, ValueKey, ViewsLog, ViewsUpdate};
use annals_tasks_sdk::JobId;

use super::{Gate, Reads, WatchedReader};

/// When appends are to fail, or to wait.
#[derive(Clone, Default)]
pub(crate) struct LogGate(Arc<Mutex<Orders>>);

#[derive(Default)]
struct Orders {
    appends: u64,
    fault: Option<(u64, Fault)>,
    gate: Option<(Gate, tokio::sync::mpsc::UnboundedSender<()>)>,
    panics: bool,
    frozen: bool,
    died: Option<PathBuf>,
}

impl LogGate {
    fn with<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the `n`-th append from now fail; 1 is the next one.
    pub(crate) fn fail(&self, n: u64, fault: Fault) {
        self.with(|orders| orders.fault = Some((orders.appends + n, fault)));
    }

    /// Has no append fail any more.
    pub(crate) fn heal(&self) {
        self.with(|orders| (orders.fault, orders.frozen) = (None, false));
    }

    /// Makes the next append panic.
    pub(crate) fn panic(&self) {
        self.with(|orders| orders.panics = true);
    }

    /// Has the views stay as they are, as a log does that cannot read them.
    pub(crate) fn freeze_views(&self) {
        self.with(|orders| orders.frozen = true);
    }

    /// Where the store was copied to at the moment of the fault, as a kill would have left it.
    pub(crate) fn died(&self) -> Option<PathBuf> {
        self.with(|orders| orders.died.take())
    }

    /// Makes appends wait at the gate.
    pub(crate) fn close(&self, gate: &Gate) -> Closed {
        let (arrived, arrivals) = tokio::sync::mpsc::unbounded_channel();
        self.with(|orders| orders.gate = Some((gate.clone(), arrived)));
        Closed { arrivals, gate: gate.clone() }
    }
}

/// A log whose appends wait, as long as the test runs.
pub(crate) struct Closed {
    arrivals: tokio::sync::mpsc::UnboundedReceiver<()>,
    gate: Gate,
}

impl Closed {
    /// Waits until an append waits.
    pub(crate) async fn arrival(&mut self) {
        self.arrivals.recv().await.expect("the log lives as long as the test");
    }
}

impl Drop for Closed {
    /// An engine cannot end while its log waits, and a test that fails must end.
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// A log that obeys a [`LogGate`], and whose readers obey [`Reads`].
pub(crate) struct Watched {
    pub(crate) log: Box<dyn EventLog>,
    pub(crate) gate: LogGate,
    pub(crate) reads: Reads,
    /// Copied at the moment of a fault.
    pub(crate) folder: Option<(PathBuf, PathBuf)>,
}

pub(crate) fn injected() -> LogError {
    let source = std::io::Error::other("a fault was injected");
    LogError::Io { path: "test".into(), source }
}

impl Watched {
    fn die(&self) -> LogError {
        if let Some((from, to)) = &self.folder {
            copy(from, to);
            self.gate.with(|orders| orders.died = Some(to.clone()));
        }
        injected()
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("a folder can be read") {
        let entry = entry.expect("an entry can be read");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("it has a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}

impl EventLog for Watched {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        let (fault, gate, panics) = self.gate.with(|orders| {
            orders.appends += 1;
            let due = |(at, _): &(u64, Fault)| *at == orders.appends;
            let fault = orders.fault.filter(due).map(|(_, fault)| fault);
            (fault, orders.gate.clone(), std::mem::take(&mut orders.panics))
        });
        assert!(!panics, "the log panics");
        if let Some((gate, arrived)) = gate {
            // The test may not want to know.
            let _ = arrived.send(());
            gate.block();
        }
        if fault == Some(Fault::Before) {
            return Err(self.die());
        }
        self.log.append(rows)?;
        if fault == Some(Fault::After) { Err(self.die()) } else { Ok(()) }
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        Arc::new(WatchedViews { views: self.log.views(), gate: self.gate.clone() })
    }

    fn idle(&mut self) -> Result<(), LogError> {
        self.log.idle()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(WatchedReader { reader: self.log.reader(), reads: self.reads.clone() })
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.log.close()
    }
}

struct WatchedViews {
    views: Arc<dyn ViewsLog>,
    gate: LogGate,
}

impl ViewsLog for WatchedViews {
    fn checkpoint(&self, update: &ViewsUpdate) -> Result<(), LogError> {
        if self.gate.with(|orders| orders.frozen) {
            return Ok(());
        }
        self.views.checkpoint(update)
    }
}

/// What a [`Tampered`] log does to each row that is read.
type Change = Arc<dyn Fn(&mut ReadRow) -> Result<(), LogError> + Send + Sync>;

/// A log whose readers see rows as another build might have written them.
pub(crate) struct Tampered {
    pub(crate) log: Box<dyn EventLog>,
    pub(crate) change: Change,
}

impl EventLog for Tampered {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        self.log.append(rows)
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        self.log.views()
    }

    fn idle(&mut self) -> Result<(), LogError> {
        self.log.idle()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(TamperedReader(self.log.reader(), Arc::clone(&self.change)))
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.log.close()
    }
}

struct TamperedReader(Arc<dyn LogReader>, Change);

impl LogReader for TamperedReader {
    fn next_position(&self) -> Position {
        self.0.next_position()
    }

    fn viewed(&self) -> Position {
        self.0.viewed()
    }

    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        let mut row = self.0.row(position)?;
        if let Some(row) = &mut row {
            (self.1)(row)?;
        }
        Ok(row)
    }

    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        self.0.bytes(position)
    }

    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        let mut rows = self.0.rows(from, limit)?;
        for row in &mut rows {
            (self.1)(row)?;
        }
        Ok(rows)
    }

    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        self.0.value(job, key, digest)
    }

    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        self.0.job_row(job)
    }

    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError> {
        self.0.job_rows(before, limit)
    }

    fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        self.0.open_rows()
    }

    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        self.0.keys(since, take)
    }
}
