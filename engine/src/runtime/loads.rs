//! Loads: jobs are read from the log on threads of their own, so that a long history, or a slow
//! disk, keeps no loop from its other jobs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use annals_tasks_sdk::JobId;

use super::error::{EngineError, JobError};
use super::inbox::Inbox;
use super::message::Message;
use super::{panics, recovery};
use crate::job::Job;
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
pub(super) type Found = Result<(Arc<Job>, Head), JobError>;

/// The way to the threads. How much waits is bounded by those who send: a loop asks for a job
/// once, for a request that holds a permit, or for one of few jobs whose time has come.
pub(super) struct Loads(Mutex<Option<Sender<Load>>>);

impl Loads {
    /// Starts the threads; fails where the system gives none. They end when this is closed or
    /// dropped.
    pub(super) fn start(
        reader: &Arc<dyn LogReader>,
        inboxes: &Arc<Vec<Inbox>>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for n in 0..THREADS {
            let (receiver, reader) = (Arc::clone(&receiver), Arc::clone(reader));
            let inboxes = Arc::clone(inboxes);
            let thread = std::thread::Builder::new().name(format!("annals-load-{n}"));
            thread.spawn(move || run(&receiver, &*reader, &inboxes))?;
        }
        Ok(Self(Mutex::new(Some(sender))))
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

fn run(waiting: &Mutex<Receiver<Load>>, reader: &dyn LogReader, inboxes: &[Inbox]) {
    // One thread waits for the next load, the others for their turn to wait.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(load) = next() {
        let (home, job) = (load.home, load.job);
        let found = panics::guard(|| read(reader, &load)).unwrap_or_else(|panic| {
            let why = format!("the engine panicked while it read the job: {panic}");
            Err(JobError::Unreadable { job, why })
        });
        // A loop that is gone waits for nothing.
        inboxes[home].send(Message::Loaded { job, found });
    }
}

fn read(reader: &dyn LogReader, load: &Load) -> Found {
    let head = load.head.map_or_else(|| viewed_head(reader, load.job), Ok)?;
    let job = recovery::load(reader, load.job, head)?;
    Ok((Arc::new(job), head))
}

/// Where the history of a job stands that the loop has nothing of.
fn viewed_head(reader: &dyn LogReader, job: JobId) -> Result<Head, JobError> {
    let row = reader.job_row(job).map_err(EngineError::from)?;
    row.map(|row| row.head).ok_or(JobError::NotFound(job))
}
