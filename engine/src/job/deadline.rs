//! The deadline of a run: a clock that stands still while the job is paused.

use std::time::Duration;

use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::duration::format_duration;

use super::event::{Event, Failure};
use super::state::Job;

/// How long a run may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// Until this time, whatever happens to the engine meanwhile.
    At(Timestamp),
    /// So long from the resume on: it stands still while the job is paused.
    Left(Duration),
}

impl Job {
    /// The deadline of its run; `None` where the plan has none, before the start, and once the run
    /// has ended or its end is decided.
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// When the deadline of its run passes; `None` also while it stands still.
    pub fn deadline_at(&self) -> Option<Timestamp> {
        match self.deadline {
            Some(Deadline::At(at)) => Some(at),
            Some(Deadline::Left(_)) | None => None,
        }
    }

    /// Whether the deadline of its run has passed by `now`, and nothing has come of it yet.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        self.deadline_at().is_some_and(|at| at <= now.max(self.time))
    }

    /// What comes of a deadline that has passed by `now`.
    pub(super) fn deadline_passed(&self, now: Timestamp) -> Option<Event> {
        let limit = self.header.deadline.filter(|_| self.is_overdue(now))?;
        let limit = format_duration(limit);
        let message = format!("the run took longer than its deadline of {limit}");
        let error = Failure::new(Failure::DEADLINE_EXCEEDED, message);
        Some(Event::DeadlinePassed { error })
    }

    /// A run begins, for which all of the deadline is left.
    pub(super) fn renew_deadline(&mut self) {
        self.deadline = self.header.deadline.map(|limit| Deadline::At(self.time.plus(limit)));
    }

    pub(super) fn halt_deadline(&mut self) {
        if let Some(Deadline::At(at)) = self.deadline {
            self.deadline = Some(Deadline::Left(at.since(self.time)));
        }
    }

    /// It goes on with what is left; while a pause was only on its way it never stood still.
    pub(super) fn resume_deadline(&mut self) {
        if let Some(Deadline::Left(rest)) = self.deadline {
            self.deadline = Some(Deadline::At(self.time.plus(rest)));
        }
    }
}
