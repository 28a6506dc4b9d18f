//! A second, simple implementation: what a history means, computed from scratch at each event.
//!
//! It keeps no sets and counts nothing ahead of time; whether a task is settled or ready is found
//! anew whenever it is asked. It shares no code with the machine.

use annals_engine::job::{Event, Intent, JobStatus, Recorded, TaskNumber, TaskStatus, Wait};
use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::OnFailure;

use crate::plans::{Draft, Sketch};

/// What the oracle knows of a task.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) status: TaskStatus,
    pub(crate) attempts: u32,
    pub(crate) live: bool,
    pub(crate) stopping: bool,
    pub(crate) being_skipped: bool,
    /// A back-off's or a sleep's end.
    pub(crate) due: Option<i64>,
    pub(crate) sleeping: bool,
    pub(crate) kindless: bool,
    pub(crate) output: Option<Payload>,
    pub(crate) losses: u32,
    failures: u32,
    last_failed: bool,
}

const NEW: Known = Known {
    status: TaskStatus::Pending,
    attempts: 0,
    live: false,
    stopping: false,
    being_skipped: false,
    due: None,
    sleeping: false,
    kindless: false,
    output: None,
    losses: 0,
    failures: 0,
    last_failed: false,
};

/// A job as its history tells.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) draft: Draft,
    pub(crate) tasks: Vec<Known>,
    pub(crate) status: JobStatus,
    pub(crate) intent: Option<Intent>,
    started: bool,
    seq: u64,
    time: i64,
    settled: Vec<bool>,
}

impl Oracle {
    pub(crate) fn new(draft: Draft) -> Self {
        let len = draft.tasks.len();
        let (tasks, settled) = (vec![NEW; len], vec![false; len]);
        let (status, intent) = (JobStatus::Pending, None);
        Self { draft, tasks, status, intent, started: false, seq: 0, time: i64::MIN, settled }
    }

    fn sketch(&self, at: usize) -> &Sketch {
        &self.draft.tasks[at]
    }

    /// What a task directly needs, removed ones passed over where its place says so.
    pub(crate) fn needs(&self, at: usize) -> Vec<usize> {
        match &self.sketch(at).needs {
            Some(needs) => needs.clone(),
            None => (0..at)
                .rev()
                .find(|&before| self.tasks[before].status != TaskStatus::Removed)
                .into_iter()
                .collect(),
        }
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

    pub(crate) fn is_quiet(&self) -> bool {
        self.tasks.iter().all(|task| !task.live)
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
        (self.seq, self.time) = (next.seq, time);
        let ended = self.status.is_ended();
        if ended {
            let (plan_only, reopens) =
                (self.is_plan_only(&next.event), self.may_leave(&next.event));
            assert!(plan_only || reopens, "{:?} after the end", next.event.type_name());
        }
        self.take_in_of_job(&next.event);
        self.take_in_of_task(&next.event);
        self.keeps_what_is_settled();
    }

    fn is_plan_only(&self, event: &Event) -> bool {
        let edit = matches!(event, Event::TaskSkipped { .. } | Event::TaskRemoved { .. });
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
        for (at, (&before, &now)) in self.settled.iter().zip(&settled).enumerate() {
            assert!(now || !before, "task t{at} is no longer settled");
        }
        self.settled = settled;
    }

    fn take_in_of_job(&mut self, event: &Event) {
        match event {
            Event::JobSubmitted(_) => assert_eq!(self.seq, 1),
            Event::JobStarted => {
                assert_eq!(self.status, JobStatus::Pending);
                (self.status, self.started) = (JobStatus::Running, true);
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
                (self.status, self.intent) = (JobStatus::Paused, None);
            }
            Event::JobResumed => self.resumed(),
            Event::CancelRequested => {
                assert!(matches!(self.status, JobStatus::Running | JobStatus::Paused));
                assert_ne!(self.intent, Some(Intent::Cancel));
                self.intent = Some(Intent::Cancel);
                self.stop_all();
            }
            Event::JobReopened { held } => self.reopened(*held),
            Event::JobCompleted => {
                assert!(self.settled.iter().all(|&settled| settled), "all is settled");
                self.ended(JobStatus::Completed);
            }
            Event::JobFailed { .. } => {
                let open = (0..self.tasks.len()).any(|at| {
                    self.is_ready(at, &self.settled) || self.tasks[at].status == TaskStatus::Waiting
                });
                assert!(!open, "something could still run");
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

    fn stop_all(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.live) {
            task.stopping = true;
        }
    }

    fn resumed(&mut self) {
        assert!(self.status == JobStatus::Paused || self.intent == Some(Intent::Pause));
        self.status = if self.started { JobStatus::Running } else { JobStatus::Pending };
        self.intent = None;
        for (task, sketch) in self.tasks.iter_mut().zip(&self.draft.tasks) {
            task.losses = 0;
            if task.status == TaskStatus::Failed && sketch.on_failure == OnFailure::Pause {
                task.status = TaskStatus::Pending;
                task.failures = 0;
            }
        }
    }

    fn reopened(&mut self, held: bool) {
        self.status = if held { JobStatus::Paused } else { JobStatus::Running };
        self.started = true;
        for at in 0..self.tasks.len() {
            let settled = self.settled[at];
            let task = &mut self.tasks[at];
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
        (self.status, self.intent) = (status, None);
        for task in self.tasks.iter_mut().filter(|task| task.status == TaskStatus::Waiting) {
            task.status = TaskStatus::Interrupted;
            task.waits_no_more();
        }
    }

    fn take_in_of_task(&mut self, event: &Event) {
        match event {
            Event::AttemptStarted { task, attempt } => self.starts(*task, *attempt),
            Event::AttemptFailed { task, attempt, .. }
            | Event::AttemptTimedOut { task, attempt, .. } => {
                let known = self.over(*task, *attempt);
                known.failures += 1;
                (known.losses, known.last_failed) = (0, true);
            }
            Event::AttemptInterrupted { task, attempt, .. } => {
                self.over(*task, *attempt).losses = 0;
            }
            Event::AttemptLost { task, attempt } => self.over(*task, *attempt).losses += 1,
            Event::CheckpointSaved { task, attempt, .. } => {
                let known = &self.tasks[index(*task)];
                assert!(known.live && known.attempts == *attempt);
            }
            Event::SkipRequested { task, .. } => {
                let known = &mut self.tasks[index(*task)];
                assert!(known.live && !known.being_skipped);
                (known.being_skipped, known.stopping) = (true, true);
            }
            Event::TaskWaiting { task, wait } => {
                assert!(self.dispatches() && self.could_start(index(*task)));
                let known = &mut self.tasks[index(*task)];
                known.waits_no_more();
                known.status = TaskStatus::Waiting;
                match wait {
                    Wait::Timer { until } => {
                        (known.due, known.sleeping) = (Some(until.as_millis()), true);
                    }
                    _ => known.kindless = true,
                }
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
                if *attempt == 0 {
                    let known = &self.tasks[at];
                    assert!(known.sleeping && known.due.unwrap() <= self.time);
                    assert!(self.dispatches());
                } else {
                    self.over(*task, *attempt);
                }
                let known = &mut self.tasks[at];
                known.closes(TaskStatus::Completed, Some(output.clone()));
                known.losses = 0;
            }
            Event::TaskFailed { task, error } => self.fails(index(*task), &error.code),
            Event::TaskSkipped { task, output } => {
                let at = index(*task);
                assert!(!self.settled[at] && !self.tasks[at].live && !self.is_passed_over(at));
                self.tasks[at].closes(TaskStatus::Skipped, output.clone());
            }
            Event::TaskRemoved { task } => {
                let at = index(*task);
                let known = &self.tasks[at];
                assert!(!self.settled[at] && !known.live && known.status != TaskStatus::Removed);
                self.tasks[at].closes(TaskStatus::Removed, None);
            }
            _ => {}
        }
    }

    fn could_start(&self, at: usize) -> bool {
        let known = &self.tasks[at];
        let waits = known.status == TaskStatus::Waiting
            && !known.sleeping
            && known.due.is_none_or(|due| due <= self.time);
        self.is_ready(at, &self.settled) || waits
    }

    fn starts(&mut self, task: TaskNumber, attempt: u32) {
        let at = index(task);
        assert!(self.dispatches(), "nothing starts now");
        assert!(self.could_start(at), "t{at} is not ready");
        let needs = self.needs(at);
        assert!(needs.iter().all(|&need| self.settled[need]), "order holds");
        let known = &mut self.tasks[at];
        assert!(!known.live, "one attempt at a time");
        assert_eq!(attempt, known.attempts + 1);
        known.waits_no_more();
        (known.attempts, known.live, known.stopping) = (attempt, true, false);
        (known.status, known.last_failed) = (TaskStatus::Running, false);
    }

    fn over(&mut self, task: TaskNumber, attempt: u32) -> &mut Known {
        let known = &mut self.tasks[index(task)];
        assert!(known.live && known.attempts == attempt, "{task:?}#{attempt} is not current");
        (known.live, known.stopping, known.status) = (false, false, TaskStatus::Interrupted);
        known
    }

    fn retries(&mut self, task: TaskNumber, due: i64) {
        let at = index(task);
        assert!(self.status == JobStatus::Running && self.intent != Some(Intent::Cancel));
        let max_attempts = self.sketch(at).max_attempts;
        let (time, known) = (self.time, &mut self.tasks[at]);
        assert!(known.last_failed && !known.being_skipped);
        assert!(known.failures < max_attempts, "the budget is used up");
        let growth = 1 << (known.failures - 1).min(8);
        let least = (5_000 * growth).min(30_000);
        assert!((least..=least * 3 / 2).contains(&(due - time)), "a wait of {}", due - time);
        (known.status, known.due) = (TaskStatus::Waiting, Some(due));
    }

    fn fails(&mut self, at: usize, code: &str) {
        assert_eq!(self.status, JobStatus::Running);
        let max_attempts = self.sketch(at).max_attempts;
        let known = &mut self.tasks[at];
        assert!(
            !known.live
                && matches!(
                    known.status,
                    TaskStatus::Pending | TaskStatus::Interrupted | TaskStatus::Waiting
                )
        );
        match code {
            "crash_loop" => assert_eq!(known.losses, 6, "three as a suspect"),
            "error" | "timed_out" => {
                assert_eq!(known.failures, max_attempts, "the budget is left");
            }
            _ => {}
        }
        known.waits_no_more();
        known.status = TaskStatus::Failed;
    }
}

impl Known {
    fn waits_no_more(&mut self) {
        (self.due, self.sleeping, self.kindless) = (None, false, false);
    }

    fn closes(&mut self, status: TaskStatus, output: Option<Payload>) {
        self.waits_no_more();
        (self.status, self.being_skipped, self.output) = (status, false, output);
    }
}

pub(crate) fn index(task: TaskNumber) -> usize {
    task.0 as usize - 1
}
