//! One plain line for each change of a job.

use std::collections::HashMap;
use std::time::Duration;

use annals_engine::job::TaskStatus;
use annals_tasks_sdk::{JobId, Timestamp};
use owo_colors::{OwoColorize, Style};
use serde::Deserialize;

use super::fans::{Fans, Folded};
use crate::cli::place::Place;
use crate::cli::text::{clock, due, duration, plain, style};
use crate::cli::view::{Error, Event, Job, Task, Waiting};

/// Columns that ids are given at least and at most.
const ID_WIDTH: (usize, usize) = (16, 40);

/// Tells what happens. What an event does not say by itself is remembered from earlier ones, so
/// that no state has to be asked for with each of them.
pub(super) struct Teller {
    job: JobId,
    place: Place,
    width: usize,
    /// How many attempts tasks have at most.
    attempts: HashMap<String, u32>,
    started: HashMap<String, Timestamp>,
    failed: HashMap<String, Error>,
    /// Tasks that have become their instances.
    fans: Fans,
}

impl Teller {
    /// Knows what there is of a job when the telling begins.
    pub(super) fn new(job: &Job, place: Place) -> Self {
        let longest = job.tasks.iter().map(|task| task.id.chars().count()).max();
        let width = longest.unwrap_or(0).clamp(ID_WIDTH.0, ID_WIDTH.1);
        let live = job.tasks.iter().filter_map(|task| Some((task, task.live_attempt()?)));
        let started = live.map(|(task, attempt)| (task.id.clone(), attempt.started)).collect();
        let (attempts, failed) = (HashMap::new(), HashMap::new());
        let fans = Fans::of(job);
        Self { job: job.id, place, width, attempts, started, failed, fans }
    }

    /// The lines that show where the tasks of a job stand that have been begun, or passed over.
    pub(super) fn standing(&self, job: &Job) -> Vec<String> {
        job.tasks
            .iter()
            .filter_map(|task| self.stands(task))
            .flat_map(|at| self.shown(at))
            .collect()
    }

    /// Learns from an event what later ones do not say, such as the plan that was submitted.
    pub(super) fn learn(&mut self, event: &Event) {
        let Some(plan) = &event.data.plan else { return };
        let plan: Plan = serde_json::from_str(plan.get()).unwrap_or_default();
        let most = plan
            .tasks
            .into_iter()
            .chain(plan.finally)
            .map(|task| (task.id, task.retry.max_attempts));
        self.attempts = most.collect();
    }

    /// The lines that show an event: none for what the summary says, more where a task has
    /// failed.
    pub(super) fn lines(&mut self, event: &Event) -> Vec<String> {
        self.learn(event);
        let (kind, task) = (event.kind.as_str(), event.data.task.as_ref());
        if let ("AttemptStarted", Some(task)) = (kind, task) {
            self.started.insert(task.clone(), event.time);
        }
        let change = match self.fans.folds(event) {
            Folded::No => self.change(event),
            Folded::Into(task, status, counts) => Some(Change::of(task, status, counts)),
            Folded::Away => None,
        };
        let Some(change) = change else { return Vec::new() };
        let lines = self.shown((Some(event.time), change));
        if let ("AttemptFailed" | "AttemptTimedOut", Some(task), Some(error)) =
            (kind, task, &event.data.error)
        {
            self.failed.insert(task.clone(), error.clone());
        }
        lines
    }
}

/// A change, and when it was, where that is known.
type At<'a> = (Option<Timestamp>, Change<'a>);

/// What is read of a plan.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Plan {
    tasks: Vec<PlannedTask>,
    finally: Vec<PlannedTask>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PlannedTask {
    id: String,
    retry: Retry,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Retry {
    max_attempts: u32,
}

/// Whether what an event says is shown by the task's own line while it holds.
pub(super) fn is_passing(event: &Event) -> bool {
    matches!(&*event.kind, "AttemptStarted" | "TaskWaiting" | "ChildStarted" | "RetryScheduled")
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
    fn of(task: &'a str, status: TaskStatus, rest: String) -> Self {
        Self { task, status: Word(status.as_str(), style(status)), rest, below: Vec::new() }
    }

    fn of_job(what: &'static str) -> Self {
        let status = Word(what, Style::new().yellow());
        Self { task: "(job)", status, rest: String::new(), below: Vec::new() }
    }
}

impl Teller {
    fn shown(&self, (time, change): At<'_>) -> Vec<String> {
        let Change { task, status, rest, below } = change;
        let (time, width) = (time.map(clock).unwrap_or_default(), self.width);
        let status = status.shown(!rest.is_empty());
        let mut lines = vec![format!("{time:8}  {task:<width$} {status}{rest}")];
        lines.extend(below.iter().map(|line| format!("          {}", plain(line))));
        lines
    }

    /// Where a task stands, as the event would have said that brought it there.
    fn stands<'a>(&self, task: &'a Task) -> Option<At<'a>> {
        let last = task.attempts.last();
        let (number, ended) = last.map_or((0, None), |last| (last.number, last.finished));
        let span = last.and_then(|last| Some(last.finished?.since(last.started)));
        let took = || took(span.unwrap_or_default(), number);
        let id = task.id.as_str();
        if let Some(items) = &task.items
            && items.over() + items.running + items.waiting > 0
        {
            return Some((None, Change::of(id, task.status, items.told())));
        }
        Some(match task.status {
            TaskStatus::Pending => return None,
            TaskStatus::Running => {
                (last.map(|last| last.started), Change::of(id, task.status, nth(number)))
            }
            TaskStatus::Waiting => (ended, waits(id, task.waiting_for.as_ref())),
            TaskStatus::Completed | TaskStatus::Interrupted => {
                (ended, Change::of(id, task.status, took()))
            }
            TaskStatus::Skipped | TaskStatus::Removed => {
                (None, Change::of(id, task.status, String::new()))
            }
            TaskStatus::Failed => {
                let error = task.error.as_ref()?;
                let failed = last.filter(|last| last.message.as_deref() == Some(&error.message));
                let Some(failed) = failed else { return Some((ended, gave_up(id, error))) };
                let span = duration(span.unwrap_or_default());
                (ended, self.attempt_failed(id, number, Some(error), failed.log.bytes, &span))
            }
        })
    }

    fn change<'a>(&self, event: &'a Event) -> Option<Change<'a>> {
        let data = &event.data;
        let is_interrupt = data.mode.as_deref() == Some("interrupt");
        match event.kind.as_str() {
            "PauseRequested" if is_interrupt => Some(Change::of_job("stopping")),
            "PauseRequested" => Some(Change::of_job("pausing")),
            "CancelRequested" => Some(Change::of_job("cancelling")),
            "JobCompensating" => Some(Change::of_job("undoing")),
            "JobEnding" => Some(Change::of_job("ending")),
            "DeadlinePassed" => Some(Change::of_job("past its deadline")),
            "JobResumed" => Some(Change::of_job("resumed")),
            "JobReopened" => Some(Change::of_job("reopened")),
            "SignalReceived" => {
                let rest = data.name.as_deref().map(|name| plain(name).into_owned());
                Some(Change { rest: rest.unwrap_or_default(), ..Change::of_job("signal") })
            }
            kind => self.change_of_task(kind, data.task.as_deref()?, event),
        }
    }

    fn change_of_task<'a>(
        &self,
        kind: &str,
        task: &'a str,
        event: &'a Event,
    ) -> Option<Change<'a>> {
        let data = &event.data;
        let took = || took(self.span(task, event.time), data.attempt);
        Some(match kind {
            "AttemptStarted" => Change::of(task, TaskStatus::Running, nth(data.attempt)),
            "AttemptFailed" | "AttemptTimedOut" => {
                let span = duration(self.span(task, event.time));
                self.attempt_failed(task, data.attempt, data.error.as_ref(), data.log.bytes, &span)
            }
            "AttemptInterrupted" => Change::of(task, TaskStatus::Interrupted, took()),
            "AttemptLost" => {
                let rest =
                    format!("attempt {} was lost: the engine ended while it ran", data.attempt);
                Change::of(task, TaskStatus::Interrupted, rest)
            }
            "TaskWaiting" => waits(task, data.waiting_for.as_ref()),
            "ChildStarted" => waits(task, data.child.map(Waiting::Job).as_ref()),
            "ChildEnded" => Change::of(task, TaskStatus::Interrupted, String::new()),
            "RetryScheduled" => waits(task, data.due.map(Waiting::Retry).as_ref()),
            "TaskCompleted" => Change::of(task, TaskStatus::Completed, took()),
            "TaskFailed" => self.given_up(task, data.error.as_ref()?)?,
            "TaskSkipped" => Change::of(task, TaskStatus::Skipped, String::new()),
            "TaskRemoved" => Change::of(task, TaskStatus::Removed, String::new()),
            _ => return None,
        })
    }

    /// How long the last attempt has taken.
    fn span(&self, task: &str, end: Timestamp) -> Duration {
        self.started.get(task).map_or(Duration::ZERO, |started| end.since(*started))
    }

    fn attempt_failed<'a>(
        &self,
        task: &'a str,
        attempt: u32,
        error: Option<&Error>,
        log_bytes: u64,
        took: &str,
    ) -> Change<'a> {
        let most = self.attempts.get(task).copied().unwrap_or(1);
        let of = if most > 1 && most < u32::MAX { format!(" of {most}") } else { String::new() };
        let (code, message) = error.map_or(("", ""), |error| (&error.code, &error.message));
        let rest = format!("{took}, attempt {attempt}{of} [{}]", plain(code));
        let mut change = Change::of(task, TaskStatus::Failed, rest);
        change.below = message.lines().map(str::to_owned).collect();
        if log_bytes > 0 {
            let words = format!("logs {} {task} --attempt {attempt}", self.job);
            change.below.push(format!("log: {}", self.place.command(&words)));
        }
        change
    }

    /// A task that failed without an attempt of its own; the failure of an attempt was shown.
    fn given_up<'a>(&self, task: &'a str, error: &Error) -> Option<Change<'a>> {
        if self.failed.get(task).is_some_and(|shown| shown.is_same(error)) {
            return None;
        }
        Some(gave_up(task, error))
    }
}

fn gave_up<'a>(task: &'a str, error: &Error) -> Change<'a> {
    let mut change = Change::of(task, TaskStatus::Failed, format!("[{}]", plain(&error.code)));
    change.below = error.message.lines().map(str::to_owned).collect();
    change
}

/// How long an attempt took, and which it was unless it was the first.
fn took(span: Duration, attempt: u32) -> String {
    let shown = duration(span);
    match attempt {
        // What needed no attempt took no time of one.
        0 => String::new(),
        1 => shown,
        _ => format!("{shown}, attempt {attempt}"),
    }
}

fn waits<'a>(task: &'a str, waiting: Option<&Waiting>) -> Change<'a> {
    let rest = match waiting {
        Some(Waiting::Retry(until)) => format!("tries again at {}", due(*until)),
        Some(Waiting::Timer(until)) => format!("until {}", due(*until)),
        Some(Waiting::Job(child)) => format!("for its child job {child}"),
        Some(Waiting::Signal(name, None)) => format!("for signal {name}"),
        Some(Waiting::Signal(name, Some(until))) => {
            format!("for signal {name}, until {}", due(*until))
        }
        Some(Waiting::Kind(kind)) => format!("for kind {kind}, which is not here"),
        _ => String::new(),
    };
    Change::of(task, TaskStatus::Waiting, rest)
}

fn nth(attempt: u32) -> String {
    if attempt > 1 { format!("attempt {attempt}") } else { String::new() }
}
