//! Gates that tests open, and counts that they wait for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::watch;

/// Tasks wait at it until the test opens it.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    open: watch::Sender<bool>,
    blocked: (Mutex<bool>, Condvar),
}

impl Gate {
    pub(crate) fn new() -> Self {
        let blocked = (Mutex::new(false), Condvar::new());
        Self(Arc::new(Inner { open: watch::Sender::new(false), blocked }))
    }

    pub(crate) fn open(&self) {
        self.0.open.send_replace(true);
        *self.0.blocked.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.blocked.1.notify_all();
    }

    /// Waits until it is open.
    pub(crate) async fn pass(&self) {
        let mut open = self.0.open.subscribe();
        open.wait_for(|open| *open).await.expect("the sender is in self");
    }

    /// Blocks the thread until it is open, as code does that knows nothing of `async`.
    pub(crate) fn block(&self) {
        let (open, condition) = &self.0.blocked;
        let open = open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(condition.wait_while(open, |open| !*open).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Counts, and lets tests wait for a count.
#[derive(Clone, Debug)]
pub(crate) struct Tally(Arc<watch::Sender<Counts>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// How many are inside now.
    pub(crate) inside: usize,
    /// The most that were inside at once.
    pub(crate) most: usize,
    /// How many ever came in.
    pub(crate) ever: usize,
}

/// Counts as inside until it is dropped.
pub(crate) struct Inside(Tally);

impl Tally {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Counts::default())))
    }

    pub(crate) fn enter(&self) -> Inside {
        self.0.send_modify(|counts| {
            counts.inside += 1;
            counts.ever += 1;
            counts.most = counts.most.max(counts.inside);
        });
        Inside(self.clone())
    }

    pub(crate) fn now(&self) -> Counts {
        *self.0.borrow()
    }

    pub(crate) async fn until(&self, holds: impl Fn(Counts) -> bool) {
        let mut counts = self.0.subscribe();
        counts.wait_for(|counts| holds(*counts)).await.expect("the sender is in self");
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.send_modify(|counts| counts.inside -= 1);
    }
}
