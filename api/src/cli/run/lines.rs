//! One plain line for each change of a job.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{
    AttemptEnd, Event, Failure, Job, PauseMode, Recorded, Task, TaskNumber, TaskStatus, Wait,
};
use annals_tasks_sdk::Timestamp;
use owo_colors::{OwoColorize, Style};

use crate::cli::text::{clock, command, due, duration, plain, style};

/// Columns that ids are given at least and at most.
const ID_WIDTH: (usize, usize) = (16, 40);

/// Tells what happens. What an event does not say by itself is remembered from earlier ones, so
/// that no state has to be asked for with each of them.
pub(super) struct Teller {
    /// The job as it once was: what its tasks are called.
    job: Arc<Job>,
    data: PathBuf,
    width: usize,
    started: HashMap<TaskNumber, Timestamp>,
    failed: HashMap<TaskNumber, Failure>,
}

impl Teller {
    pub(super) fn new(job: Arc<Job>, data: PathBuf) -> Self {
        let longest = job.tasks().map(|(_, task)| task.spec.id.as_str().len()).max();
        let width = longest.unwrap_or(0).clamp(ID_WIDTH.0, ID_WIDTH.1);
        Self { job, data, width, started: HashMap::new(), failed: HashMap::new() }
    }

    /// The job as it once was.
    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    /// The lines that show an event: none for what the summary says, more where a task has
    /// failed.
    pub(super) fn lines(&mut self, recorded: &Recorded) -> Vec<String> {
        if let Event::AttemptStarted { task, .. } = &recorded.event {
            self.started.insert(*task, recorded.time);
        }
        let Some(Change { task, status, rest, below }) = self.change(recorded) else {
            return Vec::new();
        };
        let (time, status) = (clock(recorded.time), status.shown(!rest.is_empty()));
        let mut lines = vec![format!("{time}  {task:<width$} {status}{rest}", width = self.width)];
        lines.extend(below.iter().map(|line| format!("          {}", plain(line))));
        if let Event::AttemptFailed { task, end, .. } | Event::AttemptTimedOut { task, end, .. } =
            &recorded.event
        {
            self.failed.insert(*task, end.error.clone());
        }
        lines
    }
}

/// Whether what an event says is shown by the task's own line while it holds.
pub(super) fn is_passing(event: &Event) -> bool {
    matches!(
        event,
        Event::AttemptStarted { .. } | Event::TaskWaiting { .. } | Event::RetryScheduled { .. }
    )
}

struct Change<'a> {
    task: &'a str,
    status: Word,
    rest: String,
    below: Vec<String>,
}

/// A word in a style.
struct Word(&'static str, Style);

impl Word {
    /// Padded where something follows. Padding comes before styling: escapes have no width.
    fn shown(&self, padded: bool) -> String {
        let width = if padded { 12 } else { 0 };
        format!("{:<width$}", self.0).style(self.1).to_string()
    }
}

impl<'a> Change<'a> {
    fn of(task: &'a Task, status: TaskStatus, rest: String) -> Self {
        let status = Word(status.as_str(), style(status));
        Self { task: task.spec.id.as_str(), status, rest, below: Vec::new() }
    }

    fn of_job(what: &'static str) -> Self {
        let status = Word(what, Style::new().yellow());
        Self { task: "(job)", status, rest: String::new(), below: Vec::new() }
    }
}

impl Teller {
    fn change(&self, recorded: &Recorded) -> Option<Change<'_>> {
        let task = |number: &TaskNumber| self.job.task(*number);
        let took = |number: &TaskNumber, attempt| self.took(*number, attempt, recorded.time);
        Some(match &recorded.event {
            Event::PauseRequested { mode: PauseMode::Drain } => Change::of_job("pausing"),
            Event::PauseRequested { mode: PauseMode::Interrupt } => Change::of_job("stopping"),
            Event::CancelRequested => Change::of_job("cancelling"),
            Event::JobResumed => Change::of_job("resumed"),
            Event::JobReopened { .. } => Change::of_job("reopened"),
            Event::AttemptStarted { task: number, attempt } => {
                Change::of(task(number)?, TaskStatus::Running, nth(*attempt))
            }
            Event::AttemptFailed { task: number, attempt, end }
            | Event::AttemptTimedOut { task: number, attempt, end } => {
                self.attempt_failed(task(number)?, *attempt, end, &took(number, 1))
            }
            Event::AttemptInterrupted { task: number, attempt, .. } => {
                Change::of(task(number)?, TaskStatus::Interrupted, took(number, *attempt))
            }
            Event::AttemptLost { task: number, attempt } => {
                let rest = format!("attempt {attempt} was lost: the engine ended while it ran");
                Change::of(task(number)?, TaskStatus::Interrupted, rest)
            }
            Event::TaskWaiting { task: number, wait } => waits(task(number)?, *wait),
            Event::RetryScheduled { task: number, due: until } => {
                let rest = format!("tries again at {}", due(*until));
                Change::of(task(number)?, TaskStatus::Waiting, rest)
            }
            Event::TaskCompleted { task: number, attempt, .. } => {
                Change::of(task(number)?, TaskStatus::Completed, took(number, *attempt))
            }
            Event::TaskFailed { task: number, error } => {
                self.given_up(*number, task(number)?, error)?
            }
            Event::TaskSkipped { task: number, .. } => {
                Change::of(task(number)?, TaskStatus::Skipped, String::new())
            }
            Event::TaskRemoved { task: number } => {
                Change::of(task(number)?, TaskStatus::Removed, String::new())
            }
            _ => return None,
        })
    }

    /// How long an attempt took, and which it was unless it was the first.
    fn took(&self, task: TaskNumber, attempt: u32, end: Timestamp) -> String {
        let started = self.started.get(&task);
        let shown = duration(started.map_or(Duration::ZERO, |started| end.since(*started)));
        match attempt {
            // What needed no attempt took no time of one.
            0 => String::new(),
            1 => shown,
            _ => format!("{shown}, attempt {attempt}"),
        }
    }

    fn attempt_failed<'a>(
        &self,
        task: &'a Task,
        attempt: u32,
        end: &AttemptEnd,
        took: &str,
    ) -> Change<'a> {
        let most = task.spec.policy.retry.max_attempts;
        let of = if most > 1 && most < u32::MAX { format!(" of {most}") } else { String::new() };
        let rest = format!("{took}, attempt {attempt}{of} [{}]", plain(&end.error.code));
        let mut change = Change::of(task, TaskStatus::Failed, rest);
        change.below = end.error.message.lines().map(str::to_owned).collect();
        if end.log.bytes > 0 {
            let words = format!("logs {} {} --attempt {attempt}", self.job.id(), task.spec.id);
            change.below.push(format!("log: {}", command(&words, &self.data)));
        }
        change
    }

    /// A task that failed without an attempt of its own; the failure of an attempt was shown.
    fn given_up<'a>(
        &self,
        number: TaskNumber,
        task: &'a Task,
        error: &Failure,
    ) -> Option<Change<'a>> {
        if self.failed.get(&number) == Some(error) {
            return None;
        }
        let mut change = Change::of(task, TaskStatus::Failed, format!("[{}]", plain(&error.code)));
        change.below = error.message.lines().map(str::to_owned).collect();
        Some(change)
    }
}

fn waits(task: &Task, wait: Wait) -> Change<'_> {
    let rest = match wait {
        Wait::Timer { until } => format!("until {}", due(until)),
        Wait::Kind => format!("for kind {}, which is not here", task.spec.kind),
        _ => String::new(),
    };
    Change::of(task, TaskStatus::Waiting, rest)
}

fn nth(attempt: u32) -> String {
    if attempt > 1 { format!("attempt {attempt}") } else { String::new() }
}
