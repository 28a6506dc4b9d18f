//! Causes: who or what held or ended a job. The state does not keep it, so that it is looked for
//! in the history.

use annals_tasks_sdk::plan::{OnFailure, OnLost};
use annals_tasks_sdk::{TaskId, Timestamp};

use super::reason::{Cause, Gone};
use crate::job::{Event, Intent, Job, JobStatus, Recorded, Task, TaskNumber};

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    /// What holds the job.
    Pause,
    /// Who ended it.
    Cancel,
}

impl Sought {
    /// What is to be looked for to explain a job, if anything is.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        match (job.status(), job.intent()) {
            (_, Some(Intent::Cancel)) | (JobStatus::Cancelled, _) => Some(Self::Cancel),
            (_, Some(Intent::Pause)) | (JobStatus::Paused, None) => Some(Self::Pause),
            _ => None,
        }
    }
}

/// Looks for the cause in events that are given to it in their order.
pub(crate) struct Finder<'a> {
    job: &'a Job,
    sought: Sought,
    now: Timestamp,
    /// Tasks that failed or were lost in the last events.
    failed: Vec<TaskNumber>,
    lost: Vec<TaskNumber>,
    found: Option<Cause>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(job: &'a Job, sought: Sought, now: Timestamp) -> Self {
        Self { job, sought, now, failed: Vec::new(), lost: Vec::new(), found: None }
    }

    /// Takes the next event in.
    pub(crate) fn take(&mut self, recorded: &Recorded) {
        let (pause, cancel) = (self.sought == Sought::Pause, self.sought == Sought::Cancel);
        match &recorded.event {
            Event::TaskFailed { task, .. } => return self.failed.push(*task),
            Event::AttemptLost { task, .. } => return self.lost.push(*task),
            // They stand between an end and what it leads to.
            Event::AttemptFailed { .. }
            | Event::AttemptTimedOut { .. }
            | Event::TaskSkipped { .. } => return,
            Event::PauseRequested { .. } | Event::JobReopened { held: true } if pause => {
                self.found = self.cause_of(recorded);
            }
            Event::JobPaused if pause && is_asked(recorded) => {
                self.found = self.cause_of(recorded);
            }
            Event::CancelRequested { .. } if cancel => self.found = self.cause_of(recorded),
            Event::JobCancelled if cancel && is_asked(recorded) => {
                self.found = self.cause_of(recorded);
            }
            Event::JobResumed | Event::JobReopened { held: false } => self.found = None,
            _ => {}
        }
        self.failed.clear();
        self.lost.clear();
    }

    /// What was found.
    pub(crate) fn found(self) -> Option<Cause> {
        self.found
    }

    fn cause_of(&self, recorded: &Recorded) -> Option<Cause> {
        let since = Gone::since(recorded.time, self.now);
        if is_asked(recorded) {
            let reason = recorded.origin.reason.as_deref().map(str::to_owned);
            let by = recorded.origin.name().to_owned();
            return Some(Cause::Asked { by, reason, since });
        }
        let pauses = |task: &Task| task.spec.policy.on_failure == OnFailure::Pause;
        if let Some(task) = self.first(&self.failed, pauses) {
            return Some(Cause::Failure { task, since });
        }
        let pauses = |task: &Task| task.spec.policy.on_lost == OnLost::Pause;
        self.first(&self.lost, pauses).map(|task| Cause::Loss { task, since })
    }

    fn first(&self, tasks: &[TaskNumber], which: impl Fn(&Task) -> bool) -> Option<TaskId> {
        let mut tasks = tasks.iter().filter_map(|task| self.job.task(*task));
        tasks.find(|task| which(task)).map(|task| task.spec.id.clone())
    }
}

/// Whether an event is what somebody asked for, and no consequence.
fn is_asked(recorded: &Recorded) -> bool {
    recorded.leads || recorded.origin.actor.is_some()
}
