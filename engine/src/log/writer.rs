//! Group commit: what gathered while one commit was made is the next one.
//!
//! There is no timer and no trade of latency for throughput: a lone row is committed at once, and
//! under load commits grow by themselves. [`Committer::commit_next`] is the whole of it and
//! knows no thread, so that a simulation can drive it. The views are written by a thread of their
//! own, so that no commit waits for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::viewer::{Checkpoints, Viewer};
use super::{EventLog, LogError, Position, Row, ViewsUpdate};

/// One commit takes no further submission once it has this many events...
const EVENTS_MAX: u64 = 4_096;

/// ...or this many bytes.
const BYTES_MAX: u64 = 1 << 20;

/// After this long without work the log may do its idle work.
const IDLE: Duration = Duration::from_secs(1);

/// Called after each commit, once for each source that had rows in it.
pub type Done = Arc<dyn Fn(usize, Durable) + Send + Sync>;

/// The number of a submission; a later one has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// What became of a source's rows.
#[derive(Debug, Clone)]
pub enum Durable {
    /// Every submission of the source up to this one is durable.
    UpTo(Ticket),
    /// A write failed. What was not reported durable has an unknown outcome, and nothing more
    /// is written.
    Failed(Arc<LogError>),
}

/// The writer takes nothing more: it was closed, or a write failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the log takes nothing more: {}",
    .0.as_ref().map_or("it was closed".into(), ToString::to_string)
)]
pub struct Stopped(pub Option<Arc<LogError>>);

/// What the writer has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Commits of rows.
    pub commits: u64,
    /// Rows in them.
    pub rows: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes of their rows, values included.
    pub bytes: u64,
    /// What they have taken together.
    pub commit_time: Duration,
    /// What the last one has taken.
    pub last_commit: Duration,
    /// Submissions and checkpoints that wait now.
    pub waiting: u64,
}

/// The way to the writer thread. Clones share it; when the last one is gone the writer ends.
#[derive(Clone)]
pub struct Writer(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(super) struct Shared {
    queue: Mutex<Queue>,
    /// There is something for the committer to do...
    pub(super) wake: Condvar,
    /// ...and for who writes the views.
    pub(super) wake_viewer: Condvar,
    commits: AtomicU64,
    rows: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    commit_nanos: AtomicU64,
    last_commit_nanos: AtomicU64,
}

pub(super) struct Queue {
    rows: VecDeque<Submitted>,
    pub(super) checkpoints: Checkpoints,
    next: Position,
    tickets: u64,
    end: End,
}

struct Submitted {
    source: usize,
    ticket: Ticket,
    rows: Vec<Row>,
    events: u64,
    bytes: u64,
}

enum End {
    Open,
    /// What waits is still written.
    Closing,
    Closed(Result<(), Arc<LogError>>),
}

impl Shared {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing below panics while it holds the lock in a half-changed state.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        if matches!(queue.end, End::Open) {
            queue.end = End::Closing;
        }
        self.wake.notify_all();
    }
}

impl Queue {
    /// Whether nothing more will be written.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.end, End::Closed(_))
    }

    /// Whether the committer has something to do, and be it to end.
    fn is_worth_a_look(&self) -> bool {
        let ends = matches!(self.end, End::Closing) && self.checkpoints.are_written();
        ends || !self.rows.is_empty() || self.checkpoints.have_failed()
    }

    fn open(&self) -> Result<(), Stopped> {
        match &self.end {
            End::Open => Ok(()),
            End::Closed(Err(error)) => Err(Stopped(Some(error.clone()))),
            End::Closing | End::Closed(Ok(())) => Err(Stopped(None)),
        }
    }
}

impl Writer {
    /// Starts the thread that writes `log`; fails where the system gives no thread.
    pub fn start(log: Box<dyn EventLog>, done: Done) -> std::io::Result<Self> {
        let (writer, committer, viewer) = Self::by_hand(log, done);
        writer.run(committer, viewer)?;
        Ok(writer)
    }

    /// Starts the threads of what was made by hand with this writer.
    pub fn run(&self, mut committer: Committer, viewer: Viewer) -> std::io::Result<()> {
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::Builder::new().name("annals-views".into());
        threads.push(thread.spawn(move || viewer.run())?);
        let thread = std::thread::Builder::new().name("annals-log".into());
        threads.push(thread.spawn(move || committer.run())?);
        Ok(())
    }

    /// A writer without threads: its owner calls [`Committer::commit_next`] and
    /// [`Viewer::view_next`].
    pub fn by_hand(log: Box<dyn EventLog>, done: Done) -> (Self, Committer, Viewer) {
        let next = log.reader().next_position();
        let (rows, checkpoints) = (VecDeque::new(), Checkpoints::default());
        let queue = Queue { rows, checkpoints, next, tickets: 0, end: End::Open };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            wake_viewer: Condvar::new(),
            commits: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            events: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            commit_nanos: AtomicU64::new(0),
            last_commit_nanos: AtomicU64::new(0),
        });
        let handle = Handle { shared: shared.clone(), threads: Mutex::default() };
        let viewer = Viewer::new(&shared, log.views());
        let (log, seen) = (Some(log), BTreeSet::new());
        let committer = Committer { shared, log, done, seen, restless: true };
        (Self(Arc::new(handle)), committer, viewer)
    }

    /// Hands rows over, at most one for each job. Sets their positions and takes their bytes and
    /// values; the rest of each row stays with the caller.
    ///
    /// What is submitted together becomes durable together. The queue has no limit of its own:
    /// the runtime lets in so many requests as it has permits, each held until its answer.
    pub fn submit(&self, source: usize, rows: &mut [Row]) -> Result<Ticket, Stopped> {
        let mut queue = self.0.shared.queue();
        queue.open()?;
        let (mut taken, mut events, mut bytes) = (Vec::with_capacity(rows.len()), 0, 0);
        for row in rows {
            row.place(queue.next);
            queue.next = row.end();
            events += u64::from(row.events);
            bytes += row.bytes_all();
            let (bytes, values) = (mem::take(&mut row.bytes), mem::take(&mut row.values));
            let Row { job, position, events, ends_values, .. } = *row;
            taken.push(Row { job, position, events, bytes, values, ends_values });
        }
        queue.tickets += 1;
        let ticket = Ticket(queue.tickets);
        queue.rows.push_back(Submitted { source, ticket, rows: taken, events, bytes });
        drop(queue);
        self.0.shared.wake.notify_one();
        Ok(ticket)
    }

    /// Has the views take this in once everything that was submitted before is durable. What was
    /// submitted later does not wait for it.
    pub fn checkpoint(&self, update: ViewsUpdate) -> Result<(), Stopped> {
        let mut queue = self.0.shared.queue();
        queue.open()?;
        let after = Ticket(queue.tickets);
        queue.checkpoints.push(after, update);
        drop(queue);
        self.0.shared.wake_viewer.notify_one();
        Ok(())
    }

    /// Whether every checkpoint is written.
    pub fn has_viewed(&self) -> bool {
        self.0.shared.queue().checkpoints.are_written()
    }

    /// The position that the next row gets.
    pub fn next_position(&self) -> Position {
        self.0.shared.queue().next
    }

    /// Whether it still takes something; why not, where it does not.
    pub fn health(&self) -> Result<(), Stopped> {
        self.0.shared.queue().open()
    }

    /// What the writer has done so far.
    pub fn stats(&self) -> WriterStats {
        let shared = &self.0.shared;
        let queue = shared.queue();
        let waiting = (queue.rows.len() + queue.checkpoints.waiting()) as u64;
        drop(queue);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WriterStats {
            commits: read(&shared.commits),
            rows: read(&shared.rows),
            events: read(&shared.events),
            bytes: read(&shared.bytes),
            commit_time: Duration::from_nanos(read(&shared.commit_nanos)),
            last_commit: Duration::from_nanos(read(&shared.last_commit_nanos)),
            waiting,
        }
    }

    /// Whether the committer has something to do.
    pub fn has_work(&self) -> bool {
        self.0.shared.queue().is_worth_a_look()
    }

    /// Writes what waits, closes the log and ends the threads. To be called outside of [`Done`].
    /// A writer without threads ends with its next [`Committer::commit_next`].
    pub fn close(&self) -> Result<(), Arc<LogError>> {
        self.0.shared.close();
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let ends: Vec<_> = threads.drain(..).map(JoinHandle::join).collect();
        if ends.iter().any(Result::is_err) {
            return Err(Arc::new(LogError::Poisoned));
        }
        match &self.0.shared.queue().end {
            End::Closed(result) => result.clone(),
            End::Open | End::Closing => Ok(()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// What [`Committer::commit_next`] found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// It committed something.
    Committed,
    /// Nothing waits.
    Nothing,
    /// The writer has ended, in good order or not.
    Ended,
}

/// The writing half.
pub struct Committer {
    shared: Arc<Shared>,
    log: Option<Box<dyn EventLog>>,
    done: Done,
    /// Every source that ever submitted something, to tell them of a failure.
    seen: BTreeSet<usize>,
    /// Whether the log may have idle work to do: after each commit, and after the opening.
    restless: bool,
}

/// What goes into one commit.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    sources: BTreeMap<usize, Ticket>,
    events: u64,
    bytes: u64,
}

impl Committer {
    /// Makes one commit of what waits, and reports it; ends the log when the writer was closed and
    /// nothing waits any more.
    pub fn commit_next(&mut self) -> Worked {
        let Some(log) = self.log.as_mut() else { return Worked::Ended };
        let mut queue = self.shared.queue();
        if let Some(error) = queue.checkpoints.take_failure() {
            drop(queue);
            return self.fail(error);
        }
        let batch = Batch::take(&mut queue.rows);
        let closing = matches!(queue.end, End::Closing) && queue.checkpoints.are_written();
        drop(queue);
        if batch.sources.is_empty() {
            return if closing { self.finish() } else { Worked::Nothing };
        }
        self.restless = true;
        self.seen.extend(batch.sources.keys());
        let begun = Instant::now();
        match log.append(&batch.rows) {
            Ok(()) => self.report(batch, begun.elapsed()),
            Err(error) => return self.fail(error),
        }
        Worked::Committed
    }

    /// Lets the log do its idle work, once after each commit that was the last for a while.
    pub fn idle(&mut self) -> Worked {
        let Some(log) = self.log.as_mut() else { return Worked::Ended };
        if !mem::take(&mut self.restless) {
            return Worked::Nothing;
        }
        match log.idle() {
            Ok(()) => Worked::Committed,
            Err(error) => self.fail(error),
        }
    }

    fn report(&self, batch: Batch, took: Duration) {
        let shared = &self.shared;
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        shared.commits.fetch_add(1, Ordering::Relaxed);
        shared.rows.fetch_add(batch.rows.len() as u64, Ordering::Relaxed);
        shared.events.fetch_add(batch.events, Ordering::Relaxed);
        shared.bytes.fetch_add(batch.bytes, Ordering::Relaxed);
        shared.commit_nanos.fetch_add(nanos, Ordering::Relaxed);
        shared.last_commit_nanos.store(nanos, Ordering::Relaxed);
        let last = batch.sources.values().max().copied().unwrap_or_default();
        if shared.queue().checkpoints.note_durable(last) {
            shared.wake_viewer.notify_one();
        }
        for (source, ticket) in batch.sources {
            (self.done)(source, Durable::UpTo(ticket));
        }
    }

    /// What is behind an error: where the log is poisoned by what happened to the views meanwhile,
    /// that is the reason, and people need to hear it.
    fn cause(&self, error: LogError) -> LogError {
        if !matches!(error, LogError::Poisoned) {
            return error;
        }
        let written = |queue: &mut Queue| queue.checkpoints.are_being_written();
        let queue = self.shared.wake.wait_while(self.shared.queue(), written);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        queue.checkpoints.take_failure().unwrap_or(error)
    }

    fn fail(&mut self, error: LogError) -> Worked {
        let error = Arc::new(self.cause(error));
        // The handle is of no use any more; to let go of it frees the store for a new one.
        self.log = None;
        let mut queue = self.shared.queue();
        queue.end = End::Closed(Err(error.clone()));
        self.seen.extend(queue.rows.drain(..).map(|submitted| submitted.source));
        queue.checkpoints.clear();
        drop(queue);
        self.shared.wake_viewer.notify_one();
        for source in &self.seen {
            (self.done)(*source, Durable::Failed(error.clone()));
        }
        Worked::Ended
    }

    fn finish(&mut self) -> Worked {
        let closed = self.log.take().map_or(Ok(()), EventLog::close).map_err(Arc::new);
        self.shared.queue().end = End::Closed(closed);
        self.shared.wake_viewer.notify_one();
        Worked::Ended
    }

    fn run(&mut self) {
        loop {
            match self.commit_next() {
                Worked::Committed => {}
                Worked::Ended => return,
                Worked::Nothing if self.rest() => {}
                Worked::Nothing => {
                    self.idle();
                }
            }
        }
    }

    /// Waits for work; says no when there was none for a while and the log is restless.
    fn rest(&self) -> bool {
        let queue = self.shared.queue();
        let bored = |queue: &mut Queue| !queue.is_worth_a_look();
        if self.restless {
            let waited = self.shared.wake.wait_timeout_while(queue, IDLE, bored);
            return !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        }
        drop(self.shared.wake.wait_while(queue, bored));
        true
    }
}

impl Batch {
    fn take(waiting: &mut VecDeque<Submitted>) -> Self {
        let mut batch = Self::default();
        while let Some(Submitted { events, bytes, .. }) = waiting.front() {
            let full = batch.events + events > EVENTS_MAX || batch.bytes + bytes > BYTES_MAX;
            if full && !batch.sources.is_empty() {
                break;
            }
            let Some(Submitted { source, ticket, rows, events, bytes }) = waiting.pop_front()
            else {
                break;
            };
            batch.rows.extend(rows);
            batch.sources.insert(source, ticket);
            batch.events += events;
            batch.bytes += bytes;
        }
        batch
    }
}

impl Drop for Committer {
    /// Without it nothing is written: whoever submits must not wait for ever.
    fn drop(&mut self) {
        let ended = self.shared.queue().is_closed();
        if !ended {
            self.fail(LogError::Poisoned);
        }
    }
}
