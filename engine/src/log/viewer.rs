//! The views are written beside the records: a checkpoint may take as long as many commits.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::writer::{Queue, Shared, Ticket};
use super::{LogError, ViewsLog, ViewsUpdate};

/// Checkpoints that wait, and what became of the last one.
#[derive(Default)]
pub(super) struct Checkpoints {
    /// Each with the last submission before it.
    waiting: VecDeque<(Ticket, ViewsUpdate)>,
    /// Up to which submission all are durable.
    durable: Ticket,
    /// Whether one is being written.
    writing: bool,
    failed: Option<LogError>,
}

impl Checkpoints {
    pub(super) fn push(&mut self, after: Ticket, update: ViewsUpdate) {
        self.waiting.push_back((after, update));
    }

    /// Notes that submissions are durable. Gives whether a checkpoint waits for that.
    pub(super) fn note_durable(&mut self, upto: Ticket) -> bool {
        self.durable = upto;
        self.is_due()
    }

    fn is_due(&self) -> bool {
        let due = |(after, _): &(Ticket, ViewsUpdate)| *after <= self.durable;
        self.failed.is_none() && self.waiting.front().is_some_and(due)
    }

    /// How many there are that are not written.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + usize::from(self.writing)
    }

    pub(super) fn are_written(&self) -> bool {
        self.waiting() == 0
    }

    pub(super) fn are_being_written(&self) -> bool {
        self.writing
    }

    pub(super) fn have_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn take_failure(&mut self) -> Option<LogError> {
        self.failed.take()
    }

    /// Forgets those that wait: nothing is written any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    fn begin(&mut self) -> Option<ViewsUpdate> {
        if !self.is_due() {
            return None;
        }
        let (_, update) = self.waiting.pop_front()?;
        self.writing = true;
        Some(update)
    }
}

/// Who writes the views.
pub struct Viewer {
    shared: Arc<Shared>,
    views: Arc<dyn ViewsLog>,
}

/// A checkpoint that is being written. Whatever becomes of it, whoever waits for its end is told.
struct Writing<'a> {
    shared: &'a Shared,
    result: Result<(), LogError>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        let mut queue = self.shared.queue();
        queue.checkpoints.writing = false;
        queue.checkpoints.failed = result.err();
        drop(queue);
        self.shared.wake.notify_one();
    }
}

impl Viewer {
    pub(super) fn new(shared: &Arc<Shared>, views: Arc<dyn ViewsLog>) -> Self {
        Self { shared: Arc::clone(shared), views }
    }

    /// Whether a checkpoint can be written.
    pub fn is_due(&self) -> bool {
        self.shared.queue().checkpoints.is_due()
    }

    /// Writes the next checkpoint that is due. Gives whether there was one. Where that fails, the
    /// next [`Committer::commit_next`](super::Committer::commit_next) ends the log.
    pub fn view_next(&self) -> bool {
        let update = self.shared.queue().checkpoints.begin();
        update.inspect(|update| self.write(update)).is_some()
    }

    fn write(&self, update: &ViewsUpdate) {
        // What stands if this panics.
        let mut writing = Writing { shared: &self.shared, result: Err(LogError::Poisoned) };
        writing.result = self.views.checkpoint(update);
    }

    /// Writes what becomes due, until the log is closed.
    pub(super) fn run(&self) {
        loop {
            let bored = |queue: &mut Queue| !queue.is_closed() && !queue.checkpoints.is_due();
            let queue = self.shared.wake_viewer.wait_while(self.shared.queue(), bored);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            if queue.is_closed() {
                return;
            }
            let update = queue.checkpoints.begin();
            drop(queue);
            if let Some(update) = update {
                self.write(&update);
            }
        }
    }
}
