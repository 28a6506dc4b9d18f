//! Loads: jobs are read from the log on threads of their own, so that a long history, or a slow
//! disk, keeps no loop from its other jobs.

use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use annals_tasks_sdk::JobId;

use super::error::{EngineError, JobError};
use super::executor::Executor;
use super::inbox::Inbox;
use super::message::Message;
use super::{panics, recovery};
use crate::log::{Head, LogReader};

/// So many jobs are read at a time.
const THREADS: usize = 4;

/// A job that is to be read, and the loop that wants it.
pub(super) struct Load {
    pub(super) home: usize,
    pub(super) job: JobId,
    /// Where its history stands; the views tell where the loop does not know.
    pub(super) head: Option<Head>,
}

/// What became of a load.
pub(super) type Found = Result<Box<Executor>, JobError>;

/// The way to the threads. How much waits is bounded by those who send: a loop asks for a job
/// once, for a request that holds a permit, or for one of few jobs whose time has come.
pub(super) struct Loads(Mutex<Option<Sender<Load>>>);

/// Who reads.
#[derive(Clone)]
pub(super) struct Loader {
    /// One thread waits for the next load, the others for their turn to wait.
    waiting: Arc<Mutex<Receiver<Load>>>,
    reader: Arc<dyn LogReader>,
    inboxes: Arc<Vec<Inbox>>,
}

impl Loads {
    /// The way to a loader that has no threads yet.
    pub(super) fn new(reader: &Arc<dyn LogReader>, inboxes: &Arc<Vec<Inbox>>) -> (Self, Loader) {
        let (sender, receiver) = channel();
        let (reader, inboxes) = (Arc::clone(reader), Arc::clone(inboxes));
        let loader = Loader { waiting: Arc::new(Mutex::new(receiver)), reader, inboxes };
        (Self(Mutex::new(Some(sender))), loader)
    }

    /// Has a job read; [`Message::Loaded`] brings it to its loop.
    pub(super) fn begin(&self, load: Load) {
        if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // The threads live as long as the sender.
            let _ = sender.send(load);
        }
    }

    /// Has the threads end when they have read what they are at. Nobody waits for that: a disk
    /// may take its time, and the log answers that it is closed.
    pub(super) fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Loader {
    /// Starts the threads; fails where the system gives none. They end when the loads are closed
    /// or dropped.
    pub(super) fn start(&self) -> std::io::Result<()> {
        for n in 0..THREADS {
            let loader = self.clone();
            let thread = std::thread::Builder::new().name(format!("annals-load-{n}"));
            thread.spawn(move || {
                while let Ok(load) = loader.next() {
                    loader.carry_out(&load);
                }
            })?;
        }
        Ok(())
    }

    fn next(&self) -> Result<Load, RecvError> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).recv()
    }

    /// Reads the next job, if one is to be read now.
    pub(super) fn load_next(&self) -> bool {
        let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
        next.inspect(|load| self.carry_out(load)).is_ok()
    }

    fn carry_out(&self, load: &Load) {
        let (home, job) = (load.home, load.job);
        let found = panics::guard(|| read(&*self.reader, load)).unwrap_or_else(|panic| {
            let why = format!("the engine panicked while it read the job: {panic}");
            Err(JobError::Unreadable { job, why })
        });
        // A loop that is gone waits for nothing.
        self.inboxes[home].send(Message::Loaded { job, found });
    }
}

fn read(reader: &dyn LogReader, load: &Load) -> Found {
    let job = load.job;
    let head = if let Some(head) = load.head {
        head
    } else {
        // The loop has nothing of it.
        let row = reader.job_row(job).map_err(EngineError::from)?;
        let row = row.ok_or(JobError::NotFound(job))?;
        if let Some(purged) = Executor::of_purged(&row) {
            return Ok(Box::new(purged));
        }
        row.head
    };
    Ok(Box::new(Executor::new(recovery::load(reader, job, head)?, head)))
}
