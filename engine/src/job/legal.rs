//! Which event may follow on a job's history. Nothing here changes anything.
//!
//! What the machine decides always may; these checks keep a damaged log, or a wrong decision,
//! from becoming a state.

use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::plan::JobEnd;

use super::draft::Draft;
use super::event::{CancelMode, Event, Part, TaskNumber};
use super::state::{Job, Task};
use super::status::{AttemptOutcome, Intent, JobStatus, TaskStatus};
use super::waiting::Waiting;

impl Job {
    /// The checks of [`Job::evolve`]: why the event cannot be the next one.
    pub(super) fn may_follow(&self, event: &Event, time: Timestamp) -> Verdict {
        if self.purged.is_some() {
            return Err("the job was purged".into());
        }
        if self.is_copied() {
            return self.may_be_copied(event);
        }
        self.may_follow_delivery(event)?;
        match event {
            Event::JobSubmitted(_) => Err("a job is submitted once".into()),
            Event::JobForked { copied, .. } => self.may_be_fork(*copied),
            Event::AttemptStarted { task, attempt } => {
                self.starts(time)?;
                self.may_start(*task, *attempt)?;
                due(self.at(*task)?, time)
            }
            Event::TaskCompleted { task, attempt: 0, .. } => self.may_succeed(*task, time),
            Event::AttemptFailed { task, attempt, .. }
            | Event::AttemptTimedOut { task, attempt, .. }
            | Event::AttemptInterrupted { task, attempt, .. }
            | Event::AttemptLost { task, attempt }
            | Event::TaskCompleted { task, attempt, .. }
            | Event::CheckpointSaved { task, attempt, .. } => self.has_live(*task, *attempt),
            Event::StepRecorded { task, attempt, name, .. } => {
                self.has_live(*task, *attempt)?;
                match self.at(*task)?.steps().get(name) {
                    None => Ok(()),
                    Some(_) => Err(format!("step {name:?} of the task is recorded already")),
                }
            }
            Event::SkipRequested { task, .. } if self.at(*task)?.is_engaged() => Ok(()),
            Event::SkipRequested { .. } => Err("no attempt of the task is alive".into()),
            Event::TaskWaiting { task, .. } | Event::ChildStarted { task, .. } => {
                self.starts(time)?;
                self.runs_itself(*task)?;
                self.is_ready(*task)
            }
            Event::TaskExpanded { task, items } => {
                self.starts(time)?;
                self.is_ready(*task)?;
                self.at(*task)?.may_expand(items)
            }
            Event::RetryScheduled { task, .. } => self.may_retry(*task),
            Event::SignalReceived { name, .. } => self.may_receive(name),
            Event::SignalDelivered { task, name, signal } => {
                self.starts(time)?;
                self.may_deliver(*task, name, *signal)
            }
            Event::TaskFailed { task, .. } => self.may_give_up(*task),
            Event::JobLinked(_)
            | Event::HoldPlaced { .. }
            | Event::HoldLifted
            | Event::ChildPaused { .. }
            | Event::ChildEnded { .. } => self.may_be_of_family(event),
            Event::TaskInserted { .. } | Event::TaskMoved { .. } | Event::TaskEdited { .. } => {
                self.may_be_edited(event)
            }
            Event::TaskSkipped { task, .. } => self.may_leave(*task, TaskStatus::Skipped),
            Event::TaskRemoved { task } => self.may_be_removed(*task),
            _ => self.may_become(event, time),
        }
    }

    /// Whether a task succeeds that has waited, without an attempt.
    fn may_succeed(&self, task: TaskNumber, time: Timestamp) -> Verdict {
        let at = self.at(task)?;
        if at.waiting == Some(Waiting::Job) {
            return Ok(());
        }
        if let Some(fan) = at.fan() {
            self.in_status(&[JobStatus::Running, JobStatus::Paused])?;
            return self.may_end_by_instances(at, fan, TaskStatus::Completed);
        }
        self.starts(time)?;
        match at.waiting {
            _ if self.is_answered(task) => Ok(()),
            Some(Waiting::Timer { .. }) => due(at, time),
            _ => Err("the task does not wait for a time".into()),
        }
    }

    fn may_be_fork(&self, copied: u32) -> Verdict {
        if self.seq != 1 {
            return Err("only the second event says that a job is a fork".into());
        }
        // What a task becomes is not known before it has.
        let expands = self.tasks.iter().any(Task::is_to_expand);
        if copied as usize > self.tasks.len() && !expands {
            return Err(format!("the job has {} tasks", self.tasks.len()));
        }
        Ok(())
    }

    /// What a fork begins with: tasks that were settled in its origin, each behind those that it
    /// needs.
    fn may_be_copied(&self, event: &Event) -> Verdict {
        match event {
            Event::TaskExpanded { task, items } => {
                let at = self.at(*task)?;
                // It may have come to need others after it had become its instances.
                if at.status != TaskStatus::Pending {
                    return Err(format!("task {} is {}", at.spec.id, at.status));
                }
                at.may_expand(items)
            }
            Event::TaskCompleted { task, attempt: 0, .. } => {
                let at = self.at(*task)?;
                match at.fan() {
                    Some(fan) => self.may_end_by_instances(at, fan, TaskStatus::Completed),
                    // It has its place in the list, wherever others may begin before it.
                    None if at.is_instance() && at.status == TaskStatus::Pending => Ok(()),
                    None => self.is_ready(*task),
                }
            }
            Event::TaskFailed { task, .. } => {
                let at = self.at(*task)?;
                if !at.is_tolerated() {
                    return Err("a failure that is not tolerated is no copy".into());
                }
                // It may have come to need others after it had failed.
                if at.status != TaskStatus::Pending {
                    return Err(format!("task {} is {}", at.spec.id, at.status));
                }
                Ok(())
            }
            Event::TaskSkipped { task, .. } => self.may_leave(*task, TaskStatus::Skipped),
            Event::TaskRemoved { task } => self.may_be_removed(*task),
            _ => Err("copies of what was settled in the origin are still to come".into()),
        }
    }

    fn may_be_edited(&self, event: &Event) -> Verdict {
        use JobStatus::{Cancelled, Failed, Paused, Pending, Running};
        self.in_status(&[Pending, Running, Paused, Failed, Cancelled])?;
        self.is_not_ending()?;
        let draft = match event {
            Event::TaskInserted { task, spec, part, after, needed_by } => {
                if task.0 as usize != self.tasks.len() + 1 {
                    return Err(format!("the job has {} tasks", self.tasks.len()));
                }
                if self.find(spec.id.as_str()).is_some() {
                    return Err(format!("the job has a task {} already", spec.id));
                }
                Draft::inserted(self, spec, *part, *after, needed_by)
            }
            Event::TaskMoved { task, after } => {
                self.is_open(*task)?;
                Draft::moved(self, *task, *after)
            }
            Event::TaskEdited { task, spec, .. } => {
                self.is_open(*task)?;
                let at = self.at(*task)?;
                if at.spec.id != spec.id {
                    return Err("a task keeps its id".into());
                }
                if at.fan().is_some() && !at.keeps_list(spec) {
                    return Err("a task keeps the list that it has become instances for".into());
                }
                Draft::edited(self, *task, spec)
            }
            _ => return Err("it is no edit".into()),
        };
        let fits = draft.and_then(|draft| draft.fitting());
        fits.map(drop).map_err(|misfit| format!("the plan would not fit together: {misfit:?}"))
    }

    /// Whether a task may be edited: it is not settled, not passed over, and not alive.
    fn is_open(&self, task: TaskNumber) -> Verdict {
        let at = self.at(task)?;
        if at.settled || at.is_passed_over() || at.is_engaged() {
            return Err(format!("task {} is {}", at.spec.id, at.status));
        }
        if at.is_instance() {
            return Err(format!("{} stands in no plan", at.spec.id));
        }
        Ok(())
    }

    fn may_become(&self, event: &Event, time: Timestamp) -> Verdict {
        use JobStatus::{Cancelled, Failed, Paused, Pending, Running};
        match event {
            Event::JobStarted => self.in_status(&[Pending]),
            Event::JobPaused if self.status == Pending => self.quiet(),
            Event::JobPaused if self.has_loud_children() => Err("a child is not quiet".into()),
            Event::JobPaused => {
                self.on_its_way_to(Intent::Pause)?;
                self.in_time(time)?;
                self.quiet()
            }
            Event::JobResumed if !self.holders.own => Err("nobody has paused it".into()),
            Event::JobResumed if self.status == Paused => self.is_not_ending(),
            Event::JobResumed => self.on_its_way_to(Intent::Pause),
            Event::CancelRequested { mode } => {
                self.in_status(&[Running, Paused])?;
                if *mode == CancelMode::Now { Ok(()) } else { self.is_not_ending() }
            }
            Event::JobCompensating { end, tasks, .. } => {
                self.may_begin_to_undo(*end)?;
                self.may_be_undone(*end, tasks)
            }
            Event::JobEnding { end, .. } => self.may_begin_to_end(*end),
            Event::DeadlinePassed { .. } if self.is_overdue(time) => {
                self.in_status(&[Running])?;
                self.is_not_ending()
            }
            Event::DeadlinePassed { .. } => Err("its deadline has not passed".into()),
            Event::JobReopened { .. } if self.is_undone() => Err("what it did is undone".into()),
            Event::JobReopened { .. } => self.in_status(&[Failed, Cancelled]),
            Event::PauseRequested { .. } => {
                let paused = if self.holders.own { Running } else { Paused };
                self.in_status(&[Running, paused])?;
                self.is_not_ending()
            }
            Event::JobCompleted if self.ending.is_some() => self.may_end(JobEnd::Completed),
            Event::JobCompleted => self.may_complete(),
            Event::JobFailed { .. } if self.ending.is_some() => self.may_end(JobEnd::Failed),
            Event::JobFailed { .. } if self.undoing.is_some() => {
                self.may_go_on_undoing(JobEnd::Failed)
            }
            Event::JobFailed { .. } => self.may_fail(),
            Event::JobPurged(purged) => self.may_be_purged(purged),
            Event::JobCancelled if self.started.is_none() => self.in_status(&[Pending, Paused]),
            Event::JobCancelled if self.status == Failed => Ok(()),
            Event::JobCancelled if self.ending.is_some() => self.may_end(JobEnd::Cancelled),
            Event::JobCancelled if self.undoing.is_some() => {
                self.may_go_on_undoing(JobEnd::Cancelled)
            }
            Event::JobCancelled => {
                self.on_its_way_to(Intent::Cancel)?;
                self.still()
            }
            _ => Err("its type is unknown here".into()),
        }
    }

    /// Whether what the job has done may begin to be undone.
    fn may_begin_to_undo(&self, end: JobEnd) -> Verdict {
        if self.turn == Part::Undo || end == JobEnd::Completed {
            return Err(self.stands());
        }
        self.may_begin_to_end(end)
    }

    /// Whether the tasks of `finally` may have their turn.
    fn may_begin_to_end(&self, end: JobEnd) -> Verdict {
        if self.cut_short {
            return Err("nothing more of it is to run".into());
        }
        if self.turn == Part::Undo {
            return self.may_end(end);
        }
        if self.ending.is_some() {
            return Err("its end is decided already".into());
        }
        if self.undoing.is_some() {
            return self.may_go_on_undoing(end);
        }
        match end {
            JobEnd::Completed => self.may_complete(),
            JobEnd::Failed => self.may_fail(),
            JobEnd::Cancelled => {
                self.on_its_way_to(Intent::Cancel)?;
                self.still()
            }
        }
    }

    /// Whether the end that was decided may come.
    fn may_end(&self, end: JobEnd) -> Verdict {
        self.still()?;
        let undone = (self.turn == Part::Undo).then(|| self.end_when_undone());
        let decided = undone.or(self.ending);
        if decided != Some(end) {
            return Err(self.stands());
        }
        if self.dispatches() && self.can_go_on() {
            return Err("tasks that come before the end can go on".into());
        }
        Ok(())
    }

    fn end_when_undone(&self) -> JobEnd {
        match self.end_of_undone() {
            Event::JobFailed { .. } => JobEnd::Failed,
            _ => JobEnd::Cancelled,
        }
    }

    /// Whether the next run of a job that has begun to be undone may go on to this end.
    fn may_go_on_undoing(&self, end: JobEnd) -> Verdict {
        self.still()?;
        if !self.is_to_go_on_undoing() || self.end_when_undone() != end {
            return Err(self.stands());
        }
        Ok(())
    }

    fn may_complete(&self) -> Verdict {
        if self.unsettled > 0 {
            return Err(format!("{} tasks are not settled", self.unsettled));
        }
        self.in_status(&[JobStatus::Running])?;
        self.is_not_ending()?;
        self.still()
    }

    fn may_fail(&self) -> Verdict {
        self.in_status(&[JobStatus::Running])?;
        self.still()?;
        match self.intent {
            Some(Intent::Cancel | Intent::Complete) => Err(self.stands()),
            Some(Intent::Fail) => Ok(()),
            _ if self.unsettled > 0 && self.can_go_on() => Err("tasks of it can go on".into()),
            _ => Ok(()),
        }
    }

    fn may_start(&self, task: TaskNumber, attempt: u32) -> Verdict {
        self.is_ready(task)?;
        self.runs_itself(task)?;
        let at = self.at(task)?;
        if matches!(at.waiting, Some(Waiting::Timer { .. } | Waiting::Signal { .. })) {
            return Err(format!("task {} waits for a time or a signal", at.spec.id));
        }
        if attempt as usize != at.attempts.len() + 1 {
            return Err(format!("task {} had {} attempts", at.spec.id, at.attempts.len()));
        }
        Ok(())
    }

    fn may_retry(&self, task: TaskNumber) -> Verdict {
        self.in_status(&[JobStatus::Running, JobStatus::Paused])?;
        let at = self.at(task)?;
        if at.part == Part::Tasks || !self.dispatches() {
            self.is_not_ending()?;
        }
        let again = at.items().is_some_and(|items| items.failed + items.waiting > 0);
        if (at.status == TaskStatus::Failed || again) && !at.settled {
            return Ok(());
        }
        self.is_ready(task)?;
        match at.attempts.last().and_then(|last| last.outcome) {
            Some(AttemptOutcome::Failed | AttemptOutcome::TimedOut) => Ok(()),
            _ => Err("no attempt of the task has failed".into()),
        }
    }

    /// Whether a task may be skipped or removed. A skipped one may be removed until it is settled.
    fn may_leave(&self, task: TaskNumber, to: TaskStatus) -> Verdict {
        use JobStatus::{Cancelled, Failed, Paused, Pending, Running};
        self.in_status(&[Pending, Running, Paused, Failed, Cancelled])?;
        let at = self.at(task)?;
        let again = at.status == to || at.status == TaskStatus::Removed;
        if again || at.settled || at.is_engaged() {
            return Err(format!("task {} is {}", at.spec.id, at.status));
        }
        Ok(())
    }

    /// Whether a task may fail for good.
    fn may_give_up(&self, task: TaskNumber) -> Verdict {
        let at = self.at(task)?;
        // A child, or the last of several instances, ends also while its job is paused.
        let paused = (at.child.is_some() || at.fan().is_some()).then_some(JobStatus::Paused);
        self.in_status(&[JobStatus::Running, paused.unwrap_or(JobStatus::Running)])?;
        match at.fan() {
            Some(fan) => self.may_end_by_instances(at, fan, TaskStatus::Failed),
            None => self.is_ready(task),
        }
    }

    fn may_be_removed(&self, task: TaskNumber) -> Verdict {
        self.may_leave(task, TaskStatus::Removed)?;
        if self.at(task)?.is_instance() { Err("it stands in no plan".into()) } else { Ok(()) }
    }

    fn at(&self, task: TaskNumber) -> Result<&Task, String> {
        self.task(task).ok_or_else(|| format!("the job has no task number {}", task.0))
    }

    fn has_live(&self, task: TaskNumber, attempt: u32) -> Verdict {
        let at = self.at(task)?;
        match at.live_attempt() {
            Some(live) if live.number == attempt => Ok(()),
            _ => Err(format!("attempt {attempt} of task {} is not alive", at.spec.id)),
        }
    }

    /// Whether a task has all that it needs, is to run, and does not.
    fn is_ready(&self, task: TaskNumber) -> Verdict {
        let at = self.at(task)?;
        let open = matches!(
            at.status,
            TaskStatus::Pending | TaskStatus::Interrupted | TaskStatus::Waiting
        );
        if !open {
            return Err(format!("task {} is {}", at.spec.id, at.status));
        }
        if at.unmet > 0 {
            return Err(format!("task {} needs {} others", at.spec.id, at.unmet));
        }
        Ok(())
    }

    /// Whether a task is one of which there are attempts.
    fn runs_itself(&self, task: TaskNumber) -> Verdict {
        let at = self.at(task)?;
        if at.spec.for_each.is_none() {
            return Ok(());
        }
        Err(format!("task {} is done for each element of a list", at.spec.id))
    }

    fn starts(&self, time: Timestamp) -> Verdict {
        self.in_time(time)?;
        if self.dispatches() { Ok(()) } else { Err("the job starts nothing now".into()) }
    }

    fn in_time(&self, time: Timestamp) -> Verdict {
        if self.is_overdue(time) { Err("its deadline has passed".into()) } else { Ok(()) }
    }

    fn quiet(&self) -> Verdict {
        if self.is_live() { Err("an attempt is alive".into()) } else { Ok(()) }
    }

    /// Quiet, and without children that have not ended.
    fn still(&self) -> Verdict {
        self.quiet()?;
        if self.children.is_empty() { Ok(()) } else { Err("a child has not ended".into()) }
    }

    fn in_status(&self, allowed: &[JobStatus]) -> Verdict {
        if allowed.contains(&self.status) { Ok(()) } else { Err(self.stands()) }
    }

    fn on_its_way_to(&self, intent: Intent) -> Verdict {
        if self.intent == Some(intent) { Ok(()) } else { Err(self.stands()) }
    }

    fn is_not_ending(&self) -> Verdict {
        let ending = self.intent.is_some_and(Intent::ends);
        if ending { Err(self.stands()) } else { Ok(()) }
    }

    fn stands(&self) -> String {
        match self.intent {
            Some(intent) => format!("the job is {}, on its way to {intent}", self.status),
            None => format!("the job is {}", self.status),
        }
    }
}

/// `Err` says why not.
type Verdict = Result<(), String>;

/// Whether what a task waits for has come by `time`, where that is a time.
fn due(task: &Task, time: Timestamp) -> Verdict {
    match task.waiting {
        Some(Waiting::Retry { until } | Waiting::Timer { until }) if until > time => {
            Err(format!("task {} waits for a later time", task.spec.id))
        }
        _ => Ok(()),
    }
}
