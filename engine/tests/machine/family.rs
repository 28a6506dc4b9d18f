//! Parents and children, as the oracle takes them in.

use annals_engine::job::{Event, Intent, JobStatus, PauseMode, TaskStatus};

use crate::known::Waits;
use crate::oracle::{Oracle, index};

/// Who holds a job, and how it and its children are to be quiet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holds {
    /// Whether it is a child.
    pub(crate) linked: bool,
    pub(crate) own: bool,
    pub(crate) parent: bool,
    pub(crate) mode: Option<PauseMode>,
}

impl Oracle {
    /// Whether tasks wait for children.
    pub(crate) fn has_children(&self) -> bool {
        self.tasks.iter().any(|task| task.waits == Some(Waits::Child))
    }

    pub(crate) fn has_loud_children(&self) -> bool {
        self.tasks.iter().any(|task| task.waits == Some(Waits::Child) && !task.quiet)
    }

    /// It is to be quiet from now on, or more so.
    pub(crate) fn is_to_be_quiet(&mut self, mode: PauseMode) {
        if self.status != JobStatus::Paused {
            self.intent = Some(Intent::Pause);
            if mode == PauseMode::Interrupt {
                self.stops_attempts();
            }
        }
        if self.holds.mode.is_none() || (self.holds.mode, mode) == HARDENS {
            self.holds.mode = Some(mode);
            self.tasks.iter_mut().for_each(|task| task.quiet = false);
        }
    }

    /// It goes on, where nobody holds it any more.
    pub(crate) fn goes_on(&mut self) {
        if !self.is_held_by_nobody() {
            return;
        }
        self.status = if self.started { JobStatus::Running } else { JobStatus::Pending };
        self.intent = None;
        // What is undone has no deadline.
        if self.undoing.is_none() {
            self.until = self.until.or(self.rest.take().map(|rest| self.time + rest));
        }
        self.each_timeout(|until, rest, now| {
            *until = until.or(rest.take().map(|rest| now + rest));
        });
        self.holds.mode = None;
        self.tasks.iter_mut().for_each(|task| task.quiet = false);
    }

    pub(crate) fn is_held_by_nobody(&self) -> bool {
        !self.holds.own && !self.holds.parent
    }

    pub(crate) fn is_held_no_more(&mut self) {
        (self.holds.own, self.holds.parent, self.holds.mode) = (false, false, None);
    }

    pub(crate) fn take_in_of_family(&mut self, event: &Event) {
        match event {
            Event::JobLinked(_) => {
                assert_eq!(self.seq, 2);
                self.holds.linked = true;
            }
            Event::HoldPlaced { mode } => {
                assert!(self.holds.linked && !self.is_ending() && !self.status.is_ended());
                self.holds.parent = true;
                self.is_to_be_quiet(*mode);
            }
            Event::HoldLifted => {
                assert!(self.holds.parent);
                self.holds.parent = false;
                self.goes_on();
            }
            Event::ChildStarted { task, .. } => {
                let at = index(*task);
                assert!(self.dispatches() && self.could_start(at) && !self.is_overdue(self.time));
                let needs = self.needs(at);
                assert!(needs.iter().all(|&need| self.settled[need]), "order holds");
                let known = &mut self.tasks[at];
                (known.status, known.waits) = (TaskStatus::Waiting, Some(Waits::Child));
                (known.quiet, known.child_stops) = (false, false);
                self.begun = true;
            }
            Event::ChildPaused { task } => {
                assert!(self.holds.mode.is_some(), "it is not to be quiet");
                let known = &mut self.tasks[index(*task)];
                assert!(known.waits == Some(Waits::Child) && !known.quiet && !known.child_stops);
                known.quiet = true;
            }
            Event::ChildEnded { task, .. } => {
                let known = &mut self.tasks[index(*task)];
                assert_eq!(known.waits, Some(Waits::Child));
                (known.status, known.waits) = (TaskStatus::Interrupted, None);
            }
            _ => {}
        }
    }
}

const HARDENS: (Option<PauseMode>, PauseMode) = (Some(PauseMode::Drain), PauseMode::Interrupt);
