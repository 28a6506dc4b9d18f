//! One plain line for each change of a job.

use std::path::Path;
use std::time::Duration;

use annals_engine::job::{
    AttemptEnd, Event, Failure, Job, PauseMode, Recorded, Task, TaskNumber, TaskStatus, Wait,
};
use owo_colors::{OwoColorize, Style};

use crate::cli::text::{clock, command, duration, plain, style};

/// Columns that ids are given at least and at most.
const ID_WIDTH: (usize, usize) = (16, 40);

/// The lines that show an event: none for what the summary says, more where a task has failed.
pub(super) fn of(recorded: &Recorded, job: &Job, data: &Path) -> Vec<String> {
    let Some(Change { task, status, rest, below }) = change(recorded, job, data) else {
        return Vec::new();
    };
    let width = job.tasks().map(|(_, task)| task.spec.id.as_str().len()).max().unwrap_or(0);
    let width = width.clamp(ID_WIDTH.0, ID_WIDTH.1);
    let (time, status) = (clock(recorded.time), status.shown(!rest.is_empty()));
    let mut lines = vec![format!("{time}  {task:<width$} {status}{rest}")];
    lines.extend(below.iter().map(|line| format!("          {}", plain(line))));
    lines
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

fn change<'a>(recorded: &Recorded, job: &'a Job, data: &Path) -> Option<Change<'a>> {
    let task = |number: &TaskNumber| job.task(*number);
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
            failed(task(number)?, *attempt, end, job, data)
        }
        Event::AttemptInterrupted { task: number, attempt, .. } => {
            let task = task(number)?;
            Change::of(task, TaskStatus::Interrupted, took(task, *attempt))
        }
        Event::AttemptLost { task: number, attempt } => {
            let rest = format!("attempt {attempt} was lost: the engine ended while it ran");
            Change::of(task(number)?, TaskStatus::Interrupted, rest)
        }
        Event::TaskWaiting { task: number, wait } => {
            let task = task(number)?;
            let rest = match wait {
                Wait::Timer { until } => format!("until {}", clock(*until)),
                Wait::Kind => format!("for kind {}, which is not here", task.spec.kind),
                _ => String::new(),
            };
            Change::of(task, TaskStatus::Waiting, rest)
        }
        Event::RetryScheduled { task: number, due } => Change::of(
            task(number)?,
            TaskStatus::Waiting,
            format!("tries again at {}", clock(*due)),
        ),
        Event::TaskCompleted { task: number, attempt, .. } => {
            let task = task(number)?;
            Change::of(task, TaskStatus::Completed, took(task, *attempt))
        }
        Event::TaskFailed { task: number, error } => given_up(task(number)?, error)?,
        Event::TaskSkipped { task: number, .. } => {
            Change::of(task(number)?, TaskStatus::Skipped, String::new())
        }
        Event::TaskRemoved { task: number } => {
            Change::of(task(number)?, TaskStatus::Removed, String::new())
        }
        _ => return None,
    })
}

fn nth(attempt: u32) -> String {
    if attempt > 1 { format!("attempt {attempt}") } else { String::new() }
}

/// How long an attempt took, and which it was unless it was the first.
fn took(task: &Task, attempt: u32) -> String {
    let shown = duration(length(task, attempt).unwrap_or_default());
    match attempt {
        // What needed no attempt took no time of one.
        0 => String::new(),
        1 => shown,
        _ => format!("{shown}, attempt {attempt}"),
    }
}

fn length(task: &Task, attempt: u32) -> Option<Duration> {
    let index = usize::try_from(attempt).ok()?.checked_sub(1)?;
    let attempt = task.attempts().get(index)?;
    Some(attempt.finished?.since(attempt.started))
}

fn failed<'a>(
    task: &'a Task,
    attempt: u32,
    end: &AttemptEnd,
    job: &Job,
    data: &Path,
) -> Change<'a> {
    let most = task.spec.policy.retry.max_attempts;
    let of = if most > 1 && most < u32::MAX { format!(" of {most}") } else { String::new() };
    let took = duration(length(task, attempt).unwrap_or_default());
    let rest = format!("{took}, attempt {attempt}{of} [{}]", plain(&end.error.code));
    let mut change = Change::of(task, TaskStatus::Failed, rest);
    change.below = end.error.message.lines().map(str::to_owned).collect();
    if end.log.bytes > 0 {
        let words = format!("logs {} {} --attempt {attempt}", job.id(), task.spec.id);
        change.below.push(format!("log: {}", command(&words, data)));
    }
    change
}

/// A task that failed without an attempt of its own; the failure of an attempt was shown.
fn given_up<'a>(task: &'a Task, error: &Failure) -> Option<Change<'a>> {
    let last = task.attempts().last().and_then(|attempt| attempt.end.as_deref());
    if last.is_some_and(|end| end.error == *error) {
        return None;
    }
    let mut change = Change::of(task, TaskStatus::Failed, format!("[{}]", plain(&error.code)));
    change.below = error.message.lines().map(str::to_owned).collect();
    Some(change)
}
