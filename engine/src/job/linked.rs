//! A job that is a child: what holds it, what it does for its parent, and what it tells it.
//!
//! The pause of its parent and its own are two holds: it goes on when neither is there.

use super::attempts::StopReason;
use super::child::{ChildEnd, News, Order, Parent, Wish};
use super::event::{Event, Failure, PauseMode};
use super::state::{Job, Task};
use super::status::{Intent, JobStatus};

/// Who holds a job; it goes on when nobody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Holders {
    /// Somebody has paused it.
    pub(super) own: bool,
    /// Its parent is paused, or is to be.
    pub(super) parent: bool,
}

impl Job {
    /// Whose child it is.
    pub fn parent(&self) -> Option<&Parent> {
        self.parent.as_deref()
    }

    /// Whether it is held since its parent is paused, or is to be.
    pub fn is_held_by_parent(&self) -> bool {
        self.holders.parent
    }

    /// Whether somebody has paused it, or is about to.
    pub fn is_held_by_own(&self) -> bool {
        self.holders.own
    }

    /// How many ancestors it has.
    pub fn depth(&self) -> u32 {
        self.parent.as_deref().map_or(0, |parent| parent.depth)
    }

    /// The event with which its last run ended; 0 before that.
    pub fn ended_at(&self) -> u64 {
        self.ended_at
    }

    /// What it has to say to a parent that wants this of it; nothing is known of that at first.
    pub(crate) fn news(&self, wish: Option<&Wish>) -> Option<News> {
        let after = wish.map_or(0, |wish| wish.after);
        let hold = wish.and_then(|wish| match wish.order {
            Order::Hold { since, .. } => Some(since),
            Order::Go | Order::Stop { .. } => None,
        });
        let (end, error) = match self.status {
            JobStatus::Completed => {
                // It could be given when the job completed.
                let output = self.output().ok().flatten().unwrap_or_default();
                return Some(News::Completed { output });
            }
            JobStatus::Failed => (ChildEnd::Failed, self.child_failure()),
            JobStatus::Cancelled => (ChildEnd::Cancelled, self.child_cancelled()),
            JobStatus::Paused if self.holders.parent && self.intent.is_none() => {
                return hold.map(|since| News::Quiet { since });
            }
            _ => return None,
        };
        // It is to go on from an end that its parent knows, and does so when it is held no more.
        if let Some(since) = hold.filter(|_| self.ended_at <= after) {
            return Some(News::Quiet { since });
        }
        // What it did is undone, and it does not go on: another one takes its place.
        let is_to_go_on = wish.is_some_and(|wish| wish.order == Order::Go);
        let end = match end {
            _ if self.is_undone() && is_to_go_on && self.ended_at <= after => ChildEnd::Gone,
            end => end,
        };
        Some(News::Ended { end, seq: self.ended_at, error })
    }

    fn child_failure(&self) -> Failure {
        let message = match self.error() {
            Some((error, None)) => {
                format!("child job {} failed: {}: {}", self.id, error.code, error.message)
            }
            Some((error, Some(task))) => {
                let task = self.task(task).map_or("", |task| task.spec.id.as_str());
                let (code, message) = (&error.code, &error.message);
                format!("child job {} failed: task {task}: {code}: {message}", self.id)
            }
            None => format!("child job {} failed", self.id),
        };
        Failure::new(Failure::CHILD_FAILED, message)
    }

    fn child_cancelled(&self) -> Failure {
        Failure::new(Failure::CHILD_CANCELLED, format!("child job {} was cancelled", self.id))
    }

    /// The parent is paused, or is to be.
    pub(super) fn hold_placed(&mut self, mode: PauseMode) {
        self.holders.parent = true;
        self.is_to_be_quiet(mode);
    }

    /// It is to be quiet, where it is not, and its children with it.
    pub(super) fn is_to_be_quiet(&mut self, mode: PauseMode) {
        if self.status != JobStatus::Paused {
            self.intent = Some(Intent::Pause);
            if mode == PauseMode::Interrupt {
                self.tell_all_to_stop(StopReason::Pause);
            }
        }
        self.hold_children(mode);
    }

    /// The parent goes on.
    pub(super) fn hold_lifted(&mut self) {
        self.holders.parent = false;
        self.go_on();
    }

    /// It goes on, where nobody holds it any more. What was never started stays so.
    pub(super) fn go_on(&mut self) {
        if self.holders != Holders::default() {
            return;
        }
        let never_started = self.started.is_none();
        self.status = if never_started { JobStatus::Pending } else { JobStatus::Running };
        self.intent = None;
        self.resume_deadline();
        self.resume_waits();
        self.release_children();
    }

    /// What ends is held by nobody.
    pub(super) fn held_no_more(&mut self) {
        self.holders = Holders::default();
        self.hold = None;
    }

    /// What may happen between a job and its parent, and its children.
    pub(super) fn may_be_of_family(&self, event: &Event) -> Result<(), String> {
        match event {
            Event::ChildPaused { task } | Event::ChildEnded { task, .. } => {
                let child = self.task(*task).and_then(Task::open_child);
                child.map(drop).ok_or_else(|| "the task waits for no child".into())
            }
            Event::JobLinked(_) if self.seq == 1 => Ok(()),
            Event::JobLinked(_) => Err("only the second event says whose child a job is".into()),
            _ if self.parent.is_none() => Err("the job is no child".into()),
            Event::HoldLifted if self.holders.parent => Ok(()),
            Event::HoldLifted => Err("its parent does not hold it".into()),
            _ if self.status.is_ended() || self.intent.is_some_and(Intent::ends) => {
                Err("it is about to end, or has ended".into())
            }
            _ => Ok(()),
        }
    }

    /// What a parent's wish makes happen to its child.
    pub(super) fn obey_parent(&self, wish: &Wish) -> Vec<Event> {
        if self.parent.is_none() {
            return Vec::new();
        }
        let ending = self.intent.is_some_and(Intent::ends);
        match wish.order {
            Order::Go => {
                let lifted = self.holders.parent.then_some(Event::HoldLifted);
                let ended = matches!(self.status, JobStatus::Failed | JobStatus::Cancelled);
                let reopened = ended && !self.is_undone() && self.ended_at <= wish.after;
                let reopened = reopened.then_some(Event::JobReopened { held: false });
                lifted.into_iter().chain(reopened).collect()
            }
            Order::Hold { .. } if ending || self.status.is_ended() => Vec::new(),
            Order::Hold { mode, .. } => {
                let hardens = mode == PauseMode::Interrupt
                    && self.hold.is_some_and(|hold| hold.mode == PauseMode::Drain)
                    && self.intent.is_some();
                let is_news = !self.holders.parent || hardens;
                is_news.then_some(Event::HoldPlaced { mode }).into_iter().collect()
            }
            Order::Stop { .. } if self.status.is_ended() => Vec::new(),
            Order::Stop { mode } => super::decide::cancel(self, mode).unwrap_or_default(),
        }
    }
}
