//! Evolve: what an event makes of a job. Replay is a fold of it.
//!
//! Every arm checks before it changes anything, so that an event that cannot follow leaves the
//! job as it was.

use std::sync::Arc;

use annals_tasks_sdk::plan::OnFailure;
use annals_tasks_sdk::{JobId, Payload, Timestamp};

use super::deadline::Deadline;
use super::event::{AttemptEnd, CancelMode, Event, Part, Recorded, TaskNumber};
use super::fan::Standing;
use super::header::{Forked, ForkedFrom};
use super::purge::Tombstone;
use super::size;
use super::state::{Attempt, Checkpoint, Job, StopReason, Task, count, index};
use super::status::{AttemptOutcome, Intent, JobStatus, TaskStatus};
use super::waiting::Wait;
use super::waiting::Waiting;

/// An event that cannot follow on the job's history: the log is damaged, or the code is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event}) of job {job} cannot stand there: {why}")]
pub struct Illegal {
    /// The job.
    pub job: JobId,
    /// The number of the event.
    pub seq: u64,
    /// Its type.
    pub event: &'static str,
    /// Why not.
    pub why: String,
}

impl Job {
    /// Takes the next event in. On an error the job is as it was.
    pub fn evolve(&mut self, next: &Recorded) -> Result<(), Illegal> {
        let illegal = |why: String| Illegal {
            job: self.id,
            seq: next.seq,
            event: next.event.type_name(),
            why,
        };
        if next.seq != self.seq + 1 {
            return Err(illegal(format!("it follows event {}", self.seq)));
        }
        if next.time < self.time {
            return Err(illegal("its time is before that of its predecessor".into()));
        }
        self.may_follow(&next.event, next.time).map_err(illegal)?;
        if let Some(tombstone) = Tombstone::of(next) {
            *self = Self::of_tombstone(self.id, Arc::new(tombstone));
            return Ok(());
        }
        self.seq = next.seq;
        self.time = next.time;
        self.revision += u64::from(next.leads);
        self.take_in(&next.event);
        if let (Event::SignalReceived { .. }, Some(key)) = (&next.event, &next.key) {
            self.knows_signal(**key);
        }
        Ok(())
    }

    fn take_in(&mut self, event: &Event) {
        match event {
            Event::JobSubmitted(_) => {}
            Event::JobForked { job, seq, copied, .. } => {
                let from = ForkedFrom { job: *job, seq: *seq };
                let copied_to = self.seq + u64::from(*copied);
                self.forked = Some(Box::new(Forked { from, copied_to }));
            }
            Event::JobStarted => {
                self.status = JobStatus::Running;
                self.started = Some(self.time);
                self.queues_anew(Some(self.time));
                self.renew_deadline();
                self.look_anew();
            }
            Event::JobLinked(parent) => self.parent = Some(parent.clone()),
            Event::HoldPlaced { mode } => self.hold_placed(*mode),
            Event::HoldLifted => self.hold_lifted(),
            Event::PauseRequested { mode } => {
                self.holders.own = true;
                self.is_to_be_quiet(*mode);
            }
            Event::JobPaused => {
                self.status = JobStatus::Paused;
                self.intent = None;
                self.holders.own |= !self.holders.parent;
                self.halt_deadline();
                self.halt_waits();
            }
            Event::JobResumed => self.resumed(),
            Event::CancelRequested { mode } => {
                // An end that is decided stands; only what was to come before it may go.
                if !self.intent.is_some_and(Intent::ends) {
                    self.intent = Some(Intent::Cancel);
                }
                self.cut_short |= *mode == CancelMode::Now;
                self.deadline = None;
                self.held_no_more();
                // What it waits for to be over, such as a child, is no pause any more.
                if self.status == JobStatus::Paused {
                    self.status = JobStatus::Running;
                }
                self.tell_all_to_stop(StopReason::Cancel);
            }
            Event::JobCompensating { end, error, tasks } => {
                self.begin_to_undo(*end, error.as_ref(), tasks);
            }
            Event::JobEnding { end, error } => self.begin_to_end(*end, error.as_ref()),
            Event::DeadlinePassed { error } => {
                self.intent = Some(Intent::Fail);
                self.deadline = None;
                self.held_no_more();
                self.error = Some(error.clone());
                self.tell_all_to_stop(StopReason::Deadline);
            }
            Event::JobReopened { held } => self.reopened(*held),
            Event::JobCompleted => self.end(JobStatus::Completed),
            Event::JobFailed { error } => {
                self.end(JobStatus::Failed);
                self.error = Some(error.clone());
            }
            Event::JobCancelled => self.end(JobStatus::Cancelled),
            _ => self.take_in_of_task(event),
        }
        if self.header.fail_fast {
            self.fail_fast();
        }
    }

    fn take_in_of_task(&mut self, event: &Event) {
        use AttemptOutcome::{Failed, Interrupted, TimedOut};
        if let Some(own) = &mut self.exclusive
            && let Event::AttemptStarted { .. } | Event::TaskWaiting { .. } = event
        {
            own.taken = true;
        }
        match event {
            Event::AttemptStarted { task, attempt } => self.attempt_started(*task, *attempt),
            Event::AttemptFailed { task, end, .. } => self.attempt_over(*task, Failed, end),
            Event::AttemptTimedOut { task, end, .. } => self.attempt_over(*task, TimedOut, end),
            Event::AttemptInterrupted { task, end, .. } => {
                self.attempt_over(*task, Interrupted, end);
            }
            Event::AttemptLost { task, .. } => {
                self.attempt_ended(*task, AttemptOutcome::Lost);
                self.on(*task, |task| task.losses += 1);
            }
            Event::TaskWaiting { task, wait } => self.wait_for(*task, wait),
            Event::SignalReceived { name, payload } => self.signal_received(name, payload),
            Event::SignalDelivered { task, name, .. } => self.signal_delivered(*task, name),
            Event::RetryScheduled { task, due } => self.retry_scheduled(*task, *due),
            Event::TaskCompleted { task, attempt, output, exit, log } => {
                if *attempt > 0
                    && let Some(attempt) = self.end_attempt(*task, AttemptOutcome::Completed)
                {
                    attempt.exit = exit.clone();
                    attempt.log = *log;
                }
                self.has_answered();
                self.on(*task, |task| task.losses = 0);
                self.counts.completed += self.counted(*task);
                self.has_done(*task);
                self.close(*task, TaskStatus::Completed, Some(output.clone()));
            }
            Event::TaskFailed { task, error } => {
                self.bytes += size::of_failure(error);
                self.on(*task, |task| task.error = Some(Box::new(error.clone())));
                self.task_failed(*task);
            }
            Event::TaskSkipped { task, by, output } => {
                self.counts.skipped += self.counted(*task);
                self.on(*task, |task| task.skipped_by = Some(*by));
                self.close(*task, TaskStatus::Skipped, output.clone());
                self.instance_skipped(*task);
            }
            Event::TaskRemoved { task } => self.task_removed(*task),
            Event::SkipRequested { task, output } => self.skip_requested(*task, output.as_ref()),
            Event::CheckpointSaved { task, attempt, value } => self.on(*task, |task| {
                let saved = Checkpoint { attempt: *attempt, value: *value };
                task.checkpoint = Some(Box::new(saved));
            }),
            Event::StepRecorded { task, attempt, name, value } => {
                self.step_recorded(*task, *attempt, name, *value);
            }
            _ => self.take_in_of_plan(event),
        }
    }

    pub(super) fn on(&mut self, task: TaskNumber, change: impl FnOnce(&mut Task)) {
        if let Some(at) = index(task).and_then(|at| self.tasks.get_mut(at as usize)) {
            change(at);
        }
    }

    pub(super) fn tell_all_to_stop(&mut self, reason: StopReason) {
        for &at in &self.live {
            self.stopping += u32::from(self.tasks[at as usize].tell_to_stop(reason));
        }
        self.stop_children(reason);
    }

    /// From now on the job waits for its key, or needs it no more.
    pub(super) fn queues_anew(&mut self, since: Option<Timestamp>) {
        if let Some(own) = &mut self.exclusive {
            own.since = since;
            own.taken = false;
        }
    }

    fn end(&mut self, status: JobStatus) {
        self.queues_anew(None);
        self.status = status;
        self.intent = None;
        self.finished = Some(self.time);
        self.ended_at = self.seq;
        self.held_no_more();
        self.deadline = None;
        self.error = None;
        self.ending = None;
        self.cut_short = false;
        self.interrupt_waiting();
        self.end_undoing();
        self.turn_to(Part::Tasks);
        if status == JobStatus::Completed {
            self.drop_signals();
        }
    }

    /// A resume is also the consent to try again what paused the job by failing.
    fn resumed(&mut self) {
        self.holders.own = false;
        self.go_on();
        if self.undoing.is_some() {
            return;
        }
        let (again, failed) = std::mem::take(&mut self.failed)
            .into_iter()
            .partition(|&at| self.tasks[at as usize].spec.policy.on_failure == OnFailure::Pause);
        self.failed = failed;
        self.try_afresh(again);
        for task in &mut self.tasks {
            task.losses = 0;
        }
    }

    /// Failed tasks become such that were never tried, but for their attempts, checkpoints and
    /// steps.
    pub(super) fn try_afresh(&mut self, failed: Vec<u32>) {
        for at in failed {
            let task = &mut self.tasks[at as usize];
            task.error = None;
            task.renew_budget();
            self.set_status(at, TaskStatus::Pending, None);
            self.revive_instances(at);
        }
    }

    fn attempt_started(&mut self, task: TaskNumber, number: u32) {
        let Some(at) = index(task) else { return };
        let started = self.time;
        self.set_status(at, TaskStatus::Running, None);
        self.live.insert(at);
        self.bytes += size::ATTEMPT;
        let attempts = &mut self.tasks[at as usize].attempts;
        // Most tasks have one: the room for four that a list begins with would be most of a job.
        attempts.reserve_exact(usize::from(attempts.is_empty()));
        attempts.push(Attempt {
            number,
            started,
            finished: None,
            outcome: None,
            stop: None,
            end: None,
            exit: annals_tasks_sdk::Exit::default(),
            log: super::event::LogSize::default(),
        });
    }

    fn attempt_over(&mut self, task: TaskNumber, outcome: AttemptOutcome, end: &AttemptEnd) {
        self.attempt_ended(task, outcome);
        self.bytes += size::of_end(end);
        self.on(task, |task| {
            task.losses = 0;
            // Interrupted attempts, and lost ones, use up nothing.
            if matches!(outcome, AttemptOutcome::Failed | AttemptOutcome::TimedOut) {
                task.failures += 1;
            }
            if let Some(attempt) = task.attempts.last_mut() {
                attempt.log = end.log;
                attempt.end = Some(Box::new(end.clone()));
            }
        });
    }

    /// Between attempts a task is `interrupted`, until the next event says what becomes of it.
    fn attempt_ended(&mut self, task: TaskNumber, outcome: AttemptOutcome) {
        self.end_attempt(task, outcome);
        if let Some(at) = index(task) {
            self.set_status(at, TaskStatus::Interrupted, None);
        }
    }

    /// Ends the live attempt of a task, whose status is set next.
    fn end_attempt(&mut self, task: TaskNumber, outcome: AttemptOutcome) -> Option<&mut Attempt> {
        let at = index(task)?;
        self.live.remove(&at);
        let attempt = self.tasks.get_mut(at as usize)?.attempts.last_mut()?;
        self.stopping -= u32::from(attempt.outcome.is_none() && attempt.stop.is_some());
        attempt.outcome = Some(outcome);
        attempt.finished = Some(self.time);
        Some(attempt)
    }

    fn retry_scheduled(&mut self, task: TaskNumber, due: Timestamp) {
        let Some(at) = index(task) else { return };
        if self.tasks[at as usize].is_instance() || self.tasks[at as usize].fan().is_some() {
            return self.retry_instances(at, due);
        }
        // Somebody wants one more try of what had failed for good.
        if self.tasks[at as usize].status == TaskStatus::Failed {
            self.failed.retain(|&other| other != at);
            self.try_afresh(vec![at]);
            self.tasks[at as usize].losses = 0;
        }
        // What it has come to need meanwhile comes first.
        if self.tasks[at as usize].unmet == 0 && !self.tasks[at as usize].is_to_expand() {
            self.wait(task, Waiting::Retry { until: due });
        }
    }

    fn wait_for(&mut self, task: TaskNumber, wait: &Wait) {
        let waiting = match wait {
            Wait::Timer { until } => Waiting::Timer { until: *until },
            Wait::Kind => Waiting::Kind,
            Wait::Signal { until, .. } => Waiting::Signal { timeout: until.map(Deadline::At) },
        };
        self.wait(task, waiting);
        if let (Wait::Signal { name, .. }, Some(at)) = (wait, index(task)) {
            self.tasks[at as usize].awaits = [name.clone()].into();
            self.begins_to_wait(at);
        }
    }

    fn wait(&mut self, task: TaskNumber, waiting: Waiting) {
        if let Some(at) = index(task) {
            self.set_status(at, TaskStatus::Waiting, Some(waiting));
        }
    }

    fn task_failed(&mut self, task: TaskNumber) {
        let Some(at) = index(task) else { return };
        self.set_status(at, TaskStatus::Failed, None);
        // What becomes of the failure of an instance is up to the task that it is of.
        if self.tasks[at as usize].is_instance() {
            return;
        }
        if self.tasks[at as usize].is_tolerated() {
            self.counts.tolerated += 1;
            self.settle(at);
        } else {
            self.failed.push(at);
        }
    }

    fn task_removed(&mut self, task: TaskNumber) {
        let Some(at) = index(task) else { return };
        let (before, next) = self.relinked(at);
        if self.tasks[at as usize].status == TaskStatus::Skipped {
            self.counts.skipped -= 1;
            self.tasks[at as usize].skipped_by = None;
        }
        self.counts.removed += 1;
        if let Some(next) = next {
            self.set_needs(next, before.into_iter().collect());
        }
        self.close(task, TaskStatus::Removed, None);
        if let Some(next) = next {
            self.settle_or_refresh(next);
        }
        self.look_anew();
    }

    /// Gives a task the status with which it is done for, and settles it where it can be.
    fn close(&mut self, task: TaskNumber, status: TaskStatus, output: Option<Payload>) {
        let Some(at) = index(task) else { return };
        // Few tasks leave by having failed; no other pays for a look at the list.
        if self.tasks[at as usize].status == TaskStatus::Failed {
            self.failed.retain(|&other| other != at);
        }
        self.set_status(at, status, None);
        if matches!(status, TaskStatus::Skipped | TaskStatus::Removed) {
            self.close_instances(at, status);
        }
        let bytes = size::of_payload(output.as_ref());
        self.bytes += bytes;
        self.instance_gave(at, bytes);
        let task = &mut self.tasks[at as usize];
        task.skip = None;
        task.error = None;
        task.output = output;
        self.settle_or_refresh(at);
    }

    pub(super) fn settle_or_refresh(&mut self, at: u32) {
        let task = &self.tasks[at as usize];
        let done = task.is_passed_over() || task.status == TaskStatus::Completed;
        if done && (task.unmet == 0 || task.is_instance()) {
            self.settle(at);
        } else {
            self.refresh(at);
        }
    }

    /// The one place that changes a task's status, so that the sets follow it.
    pub(super) fn set_status(&mut self, at: u32, status: TaskStatus, waiting: Option<Waiting>) {
        let task = &mut self.tasks[at as usize];
        let stood = Standing::of(task);
        let before = std::mem::replace(&mut task.waiting, waiting);
        task.status = status;
        let (of, stands) = (task.instance_of(), Standing::of(task));
        if let Some(until) = before.and_then(Waiting::until) {
            self.timed.remove(&(until, at));
        }
        if let Some(until) = waiting.and_then(Waiting::until) {
            self.timed.insert((until, at));
        }
        if before == Some(Waiting::Kind) {
            self.kindless.remove(&at);
            self.by_kind[task.kind as usize].kindless.remove(&at);
        }
        if waiting == Some(Waiting::Kind) {
            self.kindless.insert(at);
            self.by_kind[task.kind as usize].kindless.insert(at);
        }
        if before == Some(Waiting::Job) {
            self.children.remove(&at);
        }
        if waiting == Some(Waiting::Job) {
            self.children.insert(at);
        }
        if matches!(before, Some(Waiting::Signal { .. })) {
            self.waits_no_more(at);
        }
        self.refresh(at);
        if let Some(of) = of {
            self.instance_moved(of, stood, stands);
        }
    }
}

impl Task {
    /// Whether the plan goes on without it when it has failed.
    pub(super) fn is_tolerated(&self) -> bool {
        self.part != Part::Tasks || self.spec.policy.on_failure == OnFailure::Continue
    }

    pub(super) fn renew_budget(&mut self) {
        self.failures = 0;
        self.budget_from = count(self.attempts.len());
    }

    /// Gives whether nobody had told its live attempt before.
    pub(super) fn tell_to_stop(&mut self, reason: StopReason) -> bool {
        self.stop_child(reason);
        let live = self.attempts.last_mut().filter(|attempt| attempt.outcome.is_none());
        let Some(attempt) = live else { return false };
        let is_first = attempt.stop.is_none();
        // What ends the job takes over from a pause; anything else came first and stands.
        if is_first || !matches!(reason, StopReason::Pause | StopReason::Skip) {
            attempt.stop = Some(reason);
        }
        is_first
    }
}
