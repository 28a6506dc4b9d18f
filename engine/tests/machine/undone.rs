//! Compensation, as the oracle knows it: which task undoes which, in which order, and what that
//! leaves to be done.

use annals_engine::job::{Intent, JobStatus, Part, TaskNumber, TaskStatus};
use annals_tasks_sdk::plan::JobEnd;

use crate::known::NEW;
use crate::oracle::{Oracle, index};
use crate::plans::{Sketch, name};

/// That what a job has done is being undone, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undoing {
    /// How the job was to end when that began.
    pub(crate) end: JobEnd,
    /// Whether a run has ended with nothing left to undo.
    pub(crate) is_done: bool,
}

impl Oracle {
    /// The name of a task.
    pub(crate) fn name(&self, at: usize) -> String {
        match self.draft.tasks.get(at).and_then(|sketch| sketch.undoes) {
            Some(of) => format!("{}~undo", name(of)),
            None => name(at),
        }
    }

    pub(crate) fn part(&self, at: usize) -> Part {
        match self.sketch(at) {
            Sketch { undoes: Some(_), .. } => Part::Undo,
            Sketch { at_end: true, .. } => Part::Finally,
            _ => Part::Tasks,
        }
    }

    pub(crate) fn is_undo(&self, at: usize) -> bool {
        self.part(at) == Part::Undo
    }

    /// The part whose turn it is.
    pub(crate) fn turn(&self) -> Part {
        match self.ending {
            None => Part::Tasks,
            Some(_) if self.undoes_now => Part::Undo,
            Some(_) => Part::Finally,
        }
    }

    /// Whether what has failed, or was passed over, is settled by that, as far as its turn goes.
    pub(crate) fn settles_now(&self, at: usize) -> bool {
        match self.part(at) {
            Part::Tasks => true,
            // What could not be undone is, until the run is over.
            Part::Undo if self.tasks[at].status == TaskStatus::Failed => self.ending.is_some(),
            part => part == self.turn(),
        }
    }

    /// The task that undoes another, if there is one yet.
    fn undo_of(&self, of: usize) -> Option<usize> {
        (0..self.tasks.len()).find(|&at| self.sketch(at).undoes == Some(of))
    }

    /// What is left to be undone, in the order in which it is.
    pub(crate) fn left_to_undo(&self) -> Vec<usize> {
        let is_left = |&of: &usize| match self.undo_of(of) {
            Some(at) => !self.settled[at] && !self.is_passed_over(at),
            None => true,
        };
        self.done.iter().rev().copied().filter(is_left).collect()
    }

    /// Whether something is undone before an end that comes in the way of all others.
    pub(crate) fn undoes_before(&self, end: JobEnd) -> bool {
        let wants = self.draft.compensate_on.contains(&end);
        wants && !self.cut && self.undoing.is_none() && !self.left_to_undo().is_empty()
    }

    /// Whether a run is open in which nothing is left but to finish what is being undone.
    fn only_finishes(&self) -> bool {
        let held = self.status == JobStatus::Paused && self.intent != Some(Intent::Cancel);
        self.undoing.is_some() && self.ending.is_none() && !self.status.is_ended() && !held
    }

    /// How a run ends that undoes.
    fn end_of_undone(&self) -> JobEnd {
        let failed = |at: usize| self.is_undo(at) && self.tasks[at].status == TaskStatus::Failed;
        let cancelled = self.ending.is_none() && self.intent == Some(Intent::Cancel);
        match self.undoing {
            _ if (0..self.tasks.len()).any(failed) => JobEnd::Failed,
            Some(undoing) if !cancelled => undoing.end,
            _ => JobEnd::Cancelled,
        }
    }

    /// The end is decided, and these are undone before.
    pub(crate) fn begins_to_undo(&mut self, end: JobEnd, tasks: &[TaskNumber]) {
        assert!(self.is_quiet() && self.ending.is_none() && !self.cut);
        let left = self.left_to_undo();
        assert_eq!(tasks.iter().map(|&task| index(task)).collect::<Vec<_>>(), left);
        assert!(!left.is_empty(), "nothing is left to be undone");
        if self.only_finishes() {
            assert_eq!(end, self.end_of_undone());
        } else {
            assert!(self.undoes_before(end), "the plan does not say so");
            self.may_be_decided(end);
        }
        self.undoing = Some(Undoing { end, is_done: false });
        self.decides_end(end);
        self.undoes_now = true;
        let mut before = None;
        for of in left {
            let at = self.undo_of(of).unwrap_or_else(|| self.adds_undo(of));
            self.draft.tasks[at].needs = Some(before.into_iter().collect());
            before = Some(at);
        }
    }

    fn adds_undo(&mut self, of: usize) -> usize {
        let at = self.tasks.len();
        let attempts = self.sketch(of).undo.expect("it can be undone");
        self.draft.tasks.push(Sketch::of_undo(of, attempts));
        self.tasks.push(NEW);
        self.settled.push(false);
        let behind = self.order.iter().position(|&other| self.is_at_end(other));
        self.order.insert(behind.unwrap_or(self.order.len()), at);
        at
    }

    /// What an end needs, or the turn of what is done at the end, where the job has begun to undo.
    pub(crate) fn may_end_undone(&self, end: JobEnd) {
        assert!(self.is_quiet());
        assert_eq!(end, self.end_of_undone());
        if self.undoes_now {
            assert!(self.cut || !self.can_go_on(), "something could still be undone");
        } else {
            assert!(self.only_finishes());
            assert!(self.cut || self.left_to_undo().is_empty(), "something is left to undo");
        }
    }

    /// Whether an event of an end belongs to what is undone.
    pub(crate) fn ends_undone(&self) -> bool {
        self.undoes_now || self.only_finishes()
    }

    /// A run has ended.
    pub(crate) fn ends_undoing(&mut self) {
        self.undoes_now = false;
        let done = |at: usize| {
            let status = self.tasks[at].status;
            !self.is_undo(at) || status == TaskStatus::Completed || self.is_passed_over(at)
        };
        let is_done = (0..self.tasks.len()).all(done);
        if let Some(undoing) = &mut self.undoing {
            undoing.is_done = is_done;
        }
    }

    /// A job is opened again in which nothing is left but that.
    pub(crate) fn reopened_to_undo(&mut self) {
        assert!(!self.undoing.is_some_and(|undoing| undoing.is_done), "what it did is undone");
        for at in 0..self.tasks.len() {
            let (is_undo, settled) = (self.is_undo(at), self.settled[at] && !self.is_at_end(at));
            let task = &mut self.tasks[at];
            task.wants_consent = false;
            if !settled {
                (task.losses, task.failures) = (0, 0);
                if is_undo && task.status == TaskStatus::Failed {
                    task.status = TaskStatus::Pending;
                }
            }
        }
    }

    /// Why a command of this task, or to this place, is refused whatever it asks.
    pub(crate) fn is_closed_to(&self, part: Part) -> bool {
        self.undoing.is_some_and(|undoing| undoing.is_done || part == Part::Tasks)
    }
}
