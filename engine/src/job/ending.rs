//! The end of a run: what stops the work, what is done when it is over, and what begins anew.

use annals_tasks_sdk::plan::{JobEnd, OnFailure};

use super::event::{Failure, Part, SkippedBy};
use super::linked::Holders;
use super::state::{Job, StopReason, Task, count};
use super::status::{Intent, JobStatus, TaskStatus};
use super::steps::Steps;

impl Job {
    /// Whether the job is on its way to `failed` as soon as this task has failed.
    pub(super) fn ends_by_failure_of(&self, task: &Task) -> bool {
        let fails = !task.is_instance()
            && !task.is_tolerated()
            && task.spec.policy.on_failure == OnFailure::Fail;
        fails && self.header.fail_fast && self.dispatches()
    }

    /// The first failure that fails the job ends it.
    pub(super) fn fail_fast(&mut self) {
        let fails = |&at: &u32| self.ends_by_failure_of(&self.tasks[at as usize]);
        if self.ending.is_none() && self.failed.iter().any(fails) {
            self.intent = Some(Intent::Fail);
            self.deadline = None;
            self.tell_all_to_stop(StopReason::FailFast);
        }
    }

    /// The work is over, and the tasks of `finally` have their turn.
    pub(super) fn begin_to_end(&mut self, end: JobEnd, error: Option<&Failure>) {
        self.decide_end(end, error);
        self.turn_to(Part::Finally);
    }

    pub(super) fn decide_end(&mut self, end: JobEnd, error: Option<&Failure>) {
        self.status = JobStatus::Running;
        self.intent = Some(match end {
            JobEnd::Completed => Intent::Complete,
            JobEnd::Failed => Intent::Fail,
            JobEnd::Cancelled => Intent::Cancel,
        });
        self.ending = Some(end);
        self.held_no_more();
        self.deadline = None;
        self.error = error.cloned();
        self.interrupt_waiting();
    }

    pub(super) fn interrupt_waiting(&mut self) {
        let timed = self.timed.iter().map(|&(_, at)| at);
        let others = self.kindless.iter().copied().chain(self.awaiting());
        let waiting: Vec<u32> = timed.chain(others).collect();
        for at in waiting {
            self.set_status(at, TaskStatus::Interrupted, None);
        }
    }

    /// Whoever executes a job releases it, so a held one is not pending after its resume.
    pub(super) fn reopened(&mut self, held: bool) {
        self.status = if held { JobStatus::Paused } else { JobStatus::Running };
        self.holders = Holders { own: held, parent: false };
        self.error = None;
        self.finished = None;
        self.started.get_or_insert(self.time);
        self.queues_anew(Some(self.time));
        if self.undoing.is_some() {
            self.renew_undoing();
        } else {
            self.renew_deadline();
            if held {
                self.halt_deadline();
            }
            let failed = std::mem::take(&mut self.failed);
            self.try_afresh(failed);
        }
        self.renew_finally();
        for at in 0..count(self.tasks.len()) {
            let task = &mut self.tasks[at as usize];
            if !task.settled {
                task.losses = 0;
                task.renew_budget();
                // Once it is undone none of its work runs.
                if self.undoing.is_none() || self.tasks[at as usize].part != Part::Tasks {
                    self.revive_instances(at);
                }
            }
        }
    }

    /// The tasks of `finally` run once for each end; those that an operator took out stay out.
    pub(super) fn renew_finally(&mut self) {
        for at in 0..count(self.tasks.len()) {
            let task = &mut self.tasks[at as usize];
            if task.part != Part::Finally {
                continue;
            }
            // They are forgotten with the task that they are of.
            if task.is_instance() {
                continue;
            }
            task.settled = false;
            task.steps = Steps::default();
            task.outdate_child();
            task.unmet = count(task.needs.len()) + 1;
            let stays = match task.status {
                TaskStatus::Removed => true,
                TaskStatus::Skipped => task.skipped_by == Some(SkippedBy::Request),
                _ => false,
            };
            self.forget_instances(at);
            let task = &mut self.tasks[at as usize];
            if stays {
                continue;
            }
            match task.status {
                TaskStatus::Completed => self.counts.completed -= 1,
                TaskStatus::Failed => self.counts.tolerated -= 1,
                TaskStatus::Skipped => self.counts.skipped -= 1,
                _ => {}
            }
            (task.skipped_by, task.output, task.error, task.checkpoint) = (None, None, None, None);
            self.set_status(at, TaskStatus::Pending, None);
        }
    }
}
