//! A second, simple implementation: what a history means, computed from scratch at each event.
//!
//! It keeps no sets and counts nothing ahead of time; whether a task is settled or ready is found
//! anew whenever it is asked. It shares no code with the machine.

use annals_engine::job::{Event, Intent, JobStatus, Recorded, TaskNumber, TaskStatus, Wait};
use annals_tasks_sdk::plan::{OnFailure, OnLost};

use crate::asked::Asked;
pub(crate) use crate::known::{Known, Last, Life, NEW, Waits};
use crate::plans::{Draft, Sketch};

/// A job as its history tells.
#[derive(Debug, Clone)]
pub(crate) struct Oracle {
    pub(crate) draft: Draft,
    pub(crate) tasks: Vec<Known>,
    /// Tasks in the order of the plan.
    pub(crate) order: Vec<usize>,
    pub(crate) status: JobStatus,
    pub(crate) intent: Option<Intent>,
    /// What the failure that is being reported asks for, which no event says.
    pub(crate) asked: Asked,
    pub(crate) started: bool,
    pub(crate) purged: bool,
    /// When the deadline of the run passes...
    pub(crate) until: Option<i64>,
    /// ...or what is left of it, while it stands still.
    pub(crate) rest: Option<i64>,
    pub(crate) seq: u64,
    pub(crate) time: i64,
    /// Whether a command begins with the event.
    leads: bool,
    settled: Vec<bool>,
    /// So many copies of what was settled in the origin are still to come.
    pub(crate) copies: u32,
    /// By the number in its name, which task a fork has; empty where these are the same.
    pub(crate) renamed: Vec<usize>,
}

impl Oracle {
    pub(crate) fn new(draft: Draft) -> Self {
        let len = draft.tasks.len();
        let (tasks, settled, order) = (vec![NEW; len], vec![false; len], (0..len).collect());
        let (status, intent) = (JobStatus::Pending, None);
        let (asked, started, seq, time, leads) = (Asked::default(), false, 0, i64::MIN, false);
        let (until, rest) = (None, None);
        let (copies, renamed) = (0, Vec::new());
        Self {
            draft,
            tasks,
            order,
            status,
            intent,
            asked,
            started,
            purged: false,
            until,
            rest,
            seq,
            time,
            leads,
            settled,
            copies,
            renamed,
        }
    }

    pub(crate) fn sketch(&self, at: usize) -> &Sketch {
        &self.draft.tasks[at]
    }

    /// What a task directly needs, removed ones passed over where its place says so.
    pub(crate) fn needs(&self, at: usize) -> Vec<usize> {
        if let Some(needs) = &self.sketch(at).needs {
            return needs.clone();
        }
        let before = self.order.iter().take_while(|&&other| other != at);
        let present = |&&other: &&usize| self.tasks[other].status != TaskStatus::Removed;
        before.filter(present).last().into_iter().copied().collect()
    }

    /// What a task needs, directly or through others.
    pub(crate) fn all_needs(&self, at: usize) -> Vec<bool> {
        let (mut seen, mut work) = (vec![false; self.tasks.len()], self.needs(at));
        while let Some(next) = work.pop() {
            if !std::mem::replace(&mut seen[next], true) {
                work.extend(self.needs(next));
            }
        }
        seen
    }

    pub(crate) fn is_passed_over(&self, at: usize) -> bool {
        matches!(self.tasks[at].status, TaskStatus::Skipped | TaskStatus::Removed)
    }

    /// Which tasks are settled, from the definition alone: the smallest set that holds.
    pub(crate) fn settled(&self) -> Vec<bool> {
        let mut settled: Vec<bool> = (0..self.tasks.len())
            .map(|at| match self.tasks[at].status {
                TaskStatus::Completed => true,
                TaskStatus::Failed => self.sketch(at).on_failure == OnFailure::Continue,
                _ => false,
            })
            .collect();
        loop {
            let next = (0..self.tasks.len()).find(|&at| {
                !settled[at]
                    && self.is_passed_over(at)
                    && self.needs(at).iter().all(|&need| settled[need])
            });
            match next {
                Some(at) => settled[at] = true,
                None => return settled,
            }
        }
    }

    pub(crate) fn is_ready(&self, at: usize, settled: &[bool]) -> bool {
        matches!(self.tasks[at].status, TaskStatus::Pending | TaskStatus::Interrupted)
            && self.needs(at).iter().all(|&need| settled[need])
    }

    pub(crate) fn dispatches(&self) -> bool {
        self.status == JobStatus::Running && self.intent.is_none()
    }

    /// Whether the deadline has passed, and nobody has noticed.
    pub(crate) fn is_overdue(&self, now: i64) -> bool {
        self.until.is_some_and(|until| until <= now.max(self.time))
    }

    fn is_ending(&self) -> bool {
        matches!(self.intent, Some(Intent::Cancel | Intent::Fail))
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.tasks.iter().all(|task| !task.is_live())
    }

    /// Tasks whose input is still to be made.
    pub(crate) fn is_to_run(&self, at: usize, settled: &[bool]) -> bool {
        !settled[at] && !self.is_passed_over(at)
    }

    /// Takes the next event in, and asserts all that must hold of it and after it.
    pub(crate) fn take_in(&mut self, next: &Recorded) {
        assert_eq!(next.seq, self.seq + 1, "a seq has no gap");
        let time = next.time.as_millis();
        assert!(time >= self.time, "no event is before its predecessor");
        (self.seq, self.time, self.leads) = (next.seq, time, next.leads);
        let ended = self.status.is_ended();
        if ended {
            let (plan_only, reopens) =
                (self.is_plan_only(&next.event), self.may_leave(&next.event));
            assert!(plan_only || reopens, "{:?} after the end", next.event.type_name());
        }
        self.take_in_of_job(&next.event);
        self.take_in_of_task(&next.event);
        self.one_copy_less(&next.event);
        if is_change(&next.event) {
            self.change(&next.event);
        }
        self.keeps_what_is_settled();
    }

    fn is_plan_only(&self, event: &Event) -> bool {
        let edit = matches!(event, Event::TaskSkipped { .. } | Event::TaskRemoved { .. });
        let edit = edit || is_change(event);
        edit && self.status != JobStatus::Completed
    }

    fn may_leave(&self, event: &Event) -> bool {
        match event {
            Event::JobReopened { .. } => self.status != JobStatus::Completed,
            Event::JobCancelled => self.status == JobStatus::Failed,
            _ => false,
        }
    }

    fn keeps_what_is_settled(&mut self) {
        let settled = self.settled();
        self.settled.resize(settled.len(), false);
        for (at, (&before, &now)) in self.settled.iter().zip(&settled).enumerate() {
            assert!(now || !before, "task t{at} is no longer settled");
        }
        self.settled = settled;
    }

    fn take_in_of_job(&mut self, event: &Event) {
        match event {
            Event::JobSubmitted(_) => assert_eq!(self.seq, 1),
            Event::JobForked { copied, .. } => self.becomes_fork(*copied),
            Event::JobStarted => {
                assert_eq!((self.status, self.copies), (JobStatus::Pending, 0));
                (self.status, self.started) = (JobStatus::Running, true);
                self.until = self.draft.deadline.map(|limit| self.time + limit);
            }
            Event::PauseRequested { mode } => {
                assert_eq!(self.status, JobStatus::Running);
                assert!(matches!(self.intent, None | Some(Intent::Pause)));
                self.intent = Some(Intent::Pause);
                if *mode == annals_engine::job::PauseMode::Interrupt {
                    self.stop_all();
                }
            }
            Event::JobPaused => {
                assert!(self.is_quiet(), "paused means quiet");
                let held = self.status == JobStatus::Pending || self.intent == Some(Intent::Pause);
                assert!(held);
                if self.status == JobStatus::Running {
                    assert!(self.can_go_on() || self.wants_operator(), "it has nothing to pause");
                }
                (self.status, self.intent) = (JobStatus::Paused, None);
                assert!(!self.is_overdue(self.time), "the clock stops too late");
                self.rest = self.until.take().map(|until| until - self.time);
            }
            Event::JobResumed => self.resumed(),
            Event::CancelRequested => {
                assert!(matches!(self.status, JobStatus::Running | JobStatus::Paused));
                assert!(!self.is_ending());
                (self.intent, self.until, self.rest) = (Some(Intent::Cancel), None, None);
                self.stop_all();
            }
            Event::DeadlinePassed { error } => {
                assert_eq!((self.status, self.is_ending()), (JobStatus::Running, false));
                assert!(self.is_overdue(self.time) && !self.leads);
                assert_eq!(&*error.code, "deadline_exceeded");
                (self.intent, self.until) = (Some(Intent::Fail), None);
                self.stop_all();
            }
            Event::JobReopened { held } => self.reopened(*held),
            Event::JobCompleted => {
                assert!(self.settled.iter().all(|&settled| settled), "all is settled");
                self.ended(JobStatus::Completed);
            }
            Event::JobFailed { error } if self.intent == Some(Intent::Fail) => {
                assert_eq!(&*error.code, "deadline_exceeded");
                self.ended(JobStatus::Failed);
            }
            Event::JobFailed { .. } => {
                assert!(!self.can_go_on(), "something could still run");
                assert!(!self.wants_operator(), "an operator was asked for");
                assert!(self.intent.is_none_or(|intent| intent == Intent::Pause));
                self.ended(JobStatus::Failed);
            }
            Event::JobCancelled => {
                let asked = self.intent == Some(Intent::Cancel);
                assert!(asked || !self.started || self.status == JobStatus::Failed);
                self.ended(JobStatus::Cancelled);
            }
            _ => {}
        }
    }

    fn can_go_on(&self) -> bool {
        (0..self.tasks.len()).any(|at| {
            self.is_ready(at, &self.settled) || self.tasks[at].status == TaskStatus::Waiting
        })
    }

    /// Whether a failure that pauses its job has not been dealt with.
    pub(crate) fn wants_operator(&self) -> bool {
        self.tasks.iter().zip(&self.draft.tasks).any(|(task, sketch)| {
            task.status == TaskStatus::Failed && sketch.on_failure == OnFailure::Pause
        })
    }

    fn stop_all(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.is_live()) {
            task.life = Life::Stopping;
        }
    }

    fn resumed(&mut self) {
        assert!(self.status == JobStatus::Paused || self.intent == Some(Intent::Pause));
        self.status = if self.started { JobStatus::Running } else { JobStatus::Pending };
        self.intent = None;
        self.until = self.until.or(self.rest.take().map(|rest| self.time + rest));
        for (task, sketch) in self.tasks.iter_mut().zip(&self.draft.tasks) {
            (task.losses, task.wants_consent) = (0, false);
            if task.status == TaskStatus::Failed && sketch.on_failure == OnFailure::Pause {
                task.status = TaskStatus::Pending;
                task.failures = 0;
            }
        }
    }

    fn reopened(&mut self, held: bool) {
        self.status = if held { JobStatus::Paused } else { JobStatus::Running };
        self.started = true;
        let limit = self.draft.deadline;
        self.until = limit.filter(|_| !held).map(|limit| self.time + limit);
        self.rest = limit.filter(|_| held);
        for at in 0..self.tasks.len() {
            let settled = self.settled[at];
            let task = &mut self.tasks[at];
            task.wants_consent = false;
            if !settled {
                (task.losses, task.failures) = (0, 0);
                if task.status == TaskStatus::Failed {
                    task.status = TaskStatus::Pending;
                }
            }
        }
    }

    fn ended(&mut self, status: JobStatus) {
        assert!(self.is_quiet(), "an attempt is alive");
        (self.status, self.intent, self.until, self.rest) = (status, None, None, None);
        for task in self.tasks.iter_mut().filter(|task| task.status == TaskStatus::Waiting) {
            task.status = TaskStatus::Interrupted;
            task.waits = None;
        }
    }

    fn take_in_of_task(&mut self, event: &Event) {
        match event {
            Event::AttemptStarted { task, attempt } => self.starts(*task, *attempt),
            Event::AttemptFailed { task, attempt, end }
            | Event::AttemptTimedOut { task, attempt, end } => {
                let named = end.exit.code == Some(2) || self.asked.is_final;
                let known = self.over(*task, *attempt);
                known.failures += 1;
                let is_final = !end.retryable || named;
                known.last = if is_final { Last::FinalFailure } else { Last::Failure };
                known.losses = 0;
            }
            Event::AttemptInterrupted { task, attempt, .. } => {
                self.over(*task, *attempt).losses = 0;
            }
            Event::AttemptLost { task, attempt } => {
                assert!(!self.is_overdue(self.time), "a start looks at the deadline first");
                let wants_consent = self.sketch(index(*task)).on_lost != OnLost::Rerun;
                let known = self.over(*task, *attempt);
                (known.losses, known.wants_consent) = (known.losses + 1, wants_consent);
            }
            Event::CheckpointSaved { task, attempt, .. } => {
                let known = &self.tasks[index(*task)];
                assert!(known.is_live() && known.attempts == *attempt);
            }
            Event::StepRecorded { task, attempt, name, value } => {
                self.tasks[index(*task)].records(self.seq, (name, *attempt, *value));
            }
            Event::SkipRequested { task, .. } => {
                let known = &mut self.tasks[index(*task)];
                assert!(known.is_live() && !known.being_skipped);
                (known.being_skipped, known.life) = (true, Life::Stopping);
            }
            Event::TaskWaiting { task, wait } => {
                assert!(self.dispatches() && self.could_start(index(*task)));
                assert!(!self.is_overdue(self.time), "nothing waits for its start any more");
                let known = &mut self.tasks[index(*task)];
                known.status = TaskStatus::Waiting;
                known.waits = Some(match wait {
                    Wait::Timer { until } => Waits::Sleep(until.as_millis()),
                    _ => Waits::Kind,
                });
            }
            Event::RetryScheduled { task, due } => self.retries(*task, due.as_millis()),
            _ => self.take_in_result(event),
        }
    }

    fn take_in_result(&mut self, event: &Event) {
        match event {
            Event::TaskCompleted { task, attempt, output, .. } => {
                let at = index(*task);
                assert_ne!(self.tasks[at].status, TaskStatus::Completed, "one success");
                if self.is_copy(at) {
                    assert_eq!(*attempt, 0, "no attempt is copied");
                } else if *attempt == 0 {
                    let Some(Waits::Sleep(due)) = self.tasks[at].waits else { panic!() };
                    assert!(due <= self.time);
                    assert!(self.dispatches() && !self.is_overdue(self.time));
                } else {
                    self.over(*task, *attempt);
                }
                let known = &mut self.tasks[at];
                known.closes(TaskStatus::Completed, Some(output.clone()));
                known.losses = 0;
            }
            Event::TaskFailed { task, .. } if self.copies > 0 => {
                // It may have come to need others after it had failed.
                assert_eq!(self.tasks[index(*task)].status, TaskStatus::Pending);
                let tolerated = self.sketch(index(*task)).on_failure == OnFailure::Continue;
                assert!(tolerated, "what is not settled is not copied");
                self.tasks[index(*task)].status = TaskStatus::Failed;
            }
            Event::TaskFailed { task, error } => self.fails(index(*task), &error.code),
            Event::TaskSkipped { task, output } => {
                let at = index(*task);
                assert!(!self.settled[at] && !self.tasks[at].is_live() && !self.is_passed_over(at));
                self.tasks[at].closes(TaskStatus::Skipped, output.clone());
            }
            Event::TaskRemoved { task } => {
                let at = index(*task);
                let known = &self.tasks[at];
                assert!(
                    !self.settled[at] && !known.is_live() && known.status != TaskStatus::Removed
                );
                // It hands on what it needed, wherever it stands from now on.
                self.draft.tasks[at].needs = Some(self.needs(at));
                self.tasks[at].closes(TaskStatus::Removed, None);
            }
            _ => {}
        }
    }

    fn could_start(&self, at: usize) -> bool {
        let known = &self.tasks[at];
        let waits = match known.waits {
            Some(Waits::Retry(due)) => due <= self.time,
            Some(Waits::Kind) => true,
            Some(Waits::Sleep(_)) | None => false,
        };
        self.is_ready(at, &self.settled) || waits
    }

    fn starts(&mut self, task: TaskNumber, attempt: u32) {
        let at = index(task);
        assert!(self.dispatches() && !self.is_overdue(self.time), "nothing starts now");
        assert!(self.could_start(at), "t{at} is not ready");
        let needs = self.needs(at);
        assert!(needs.iter().all(|&need| self.settled[need]), "order holds");
        let known = &mut self.tasks[at];
        assert!(!known.is_live(), "one attempt at a time");
        assert!(!known.wants_consent, "nobody has consented");
        assert_eq!(attempt, known.attempts + 1);
        (known.attempts, known.life, known.waits) = (attempt, Life::Alive, None);
        (known.status, known.last) = (TaskStatus::Running, Last::NoFailure);
    }

    fn over(&mut self, task: TaskNumber, attempt: u32) -> &mut Known {
        let known = &mut self.tasks[index(task)];
        assert!(known.is_live() && known.attempts == attempt, "{task:?}#{attempt} is not current");
        (known.life, known.status) = (Life::None, TaskStatus::Interrupted);
        known
    }

    fn retries(&mut self, task: TaskNumber, due: i64) {
        let at = index(task);
        if self.leads {
            return self.tries_again(at, due);
        }
        assert!(self.status == JobStatus::Running && !self.is_ending());
        let max_attempts = self.sketch(at).max_attempts;
        let (time, known) = (self.time, &mut self.tasks[at]);
        assert!(known.last == Last::Failure && !known.being_skipped);
        assert!(known.failures < max_attempts, "the budget is used up");
        let growth = 1 << (known.failures - 1).min(8);
        let least = (5_000 * growth).min(30_000);
        let (asked, most) = (self.asked.wait, least * 3 / 2);
        let waits = least.max(asked)..=most.max(asked);
        assert!(waits.contains(&(due - time)), "a wait of {}", due - time);
        (known.status, known.waits) = (TaskStatus::Waiting, Some(Waits::Retry(due)));
    }

    fn fails(&mut self, at: usize, code: &str) {
        assert!(self.status == JobStatus::Running && !self.is_ending());
        let max_attempts = self.sketch(at).max_attempts;
        let known = &mut self.tasks[at];
        assert!(
            !known.is_live()
                && matches!(
                    known.status,
                    TaskStatus::Pending | TaskStatus::Interrupted | TaskStatus::Waiting
                )
        );
        match code {
            "crash_loop" => assert_eq!(known.losses, 6, "three as a suspect"),
            "lost" => assert!(known.wants_consent),
            "missing_output" | "bad" | "bad_request" => {}
            _ => {
                let used_up = known.failures >= max_attempts;
                assert!(known.last == Last::FinalFailure || used_up, "budget is left");
            }
        }
        (known.status, known.waits) = (TaskStatus::Failed, None);
    }
}

/// Whether the plan says something else afterwards.
fn is_change(event: &Event) -> bool {
    matches!(event, Event::TaskInserted { .. } | Event::TaskMoved { .. } | Event::TaskEdited { .. })
}

pub(crate) fn index(task: TaskNumber) -> usize {
    task.0 as usize - 1
}
