//! What moves while a job runs, made of a job here or of one that a server shows.

use annals_engine::job::{self, Intent, TaskStatus};
use annals_engine::runtime::{self, Snapshot};
use annals_tasks_sdk::Timestamp;

use crate::cli::text::plain;
use crate::cli::view::{Items, Job, Task, Waiting};

/// More tasks than this are counted, not shown.
const SHOWN: usize = 12;

/// How far a job is, and what its tasks are doing.
pub(in crate::cli) struct Moving {
    pub(super) tasks: Vec<(String, Doing)>,
    /// So many more tasks run or wait.
    pub(super) more: usize,
    /// Completed and skipped tasks.
    pub(super) done: u32,
    pub(super) total: u32,
    pub(super) started: Option<Timestamp>,
    pub(super) intent: Option<Intent>,
}

/// What a task is doing.
pub(super) enum Doing {
    /// An attempt is alive.
    Runs {
        attempt: u32,
        since: Timestamp,
        /// What it says of itself, as the end of a line.
        says: String,
    },
    /// It waits.
    Waits(Waiting),
    /// Its instances run or wait.
    Each(Items),
}

impl Moving {
    /// Of a job here. Made of the engine's own types, because it is drawn many times a second.
    pub(in crate::cli) fn here(snapshot: &Snapshot) -> Self {
        let job = &*snapshot.job;
        let tasks = job.tasks().filter(|(_, task)| moves(task.status()));
        let (tasks, more) = first(tasks, |(number, task)| {
            let says = snapshot.live.get(&number).map(says).unwrap_or_default();
            let doing = match (task.items(), task.live_attempt()) {
                (Some(items), _) => Doing::Each(counted(items)),
                (None, Some(live)) => {
                    Doing::Runs { attempt: live.number, since: live.started, says }
                }
                (None, None) => Doing::Waits(waiting(task)),
            };
            (task.spec.id.to_string(), doing)
        });
        let counts = job.counts();
        Self {
            tasks,
            more,
            done: counts.completed + counts.skipped,
            total: job.total_tasks(),
            started: job.started(),
            intent: job.intent(),
        }
    }

    /// Of a job as a server shows it.
    pub(in crate::cli) fn shown(job: &Job) -> Self {
        let (tasks, more) = first(job.tasks.iter().filter(|task| moves(task.status)), doing);
        Self {
            tasks,
            more,
            done: job.progress.completed + job.progress.skipped,
            total: job.progress.total,
            started: job.started,
            intent: job.intent,
        }
    }
}

fn moves(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Running | TaskStatus::Waiting)
}

/// The first tasks, and how many more there are.
fn first<T>(
    mut tasks: impl Iterator<Item = T>,
    shown: impl FnMut(T) -> (String, Doing),
) -> (Vec<(String, Doing)>, usize) {
    let first = tasks.by_ref().take(SHOWN).map(shown).collect();
    (first, tasks.count())
}

fn counted(items: job::Items) -> Items {
    let job::Items { total, completed, failed, skipped, running, waiting, .. } = items;
    Items { total, running, waiting, completed, failed, skipped }
}

fn waiting(task: &job::Task) -> Waiting {
    match task.waiting() {
        Some(job::Waiting::Retry { until }) => Waiting::Retry(until),
        Some(job::Waiting::Timer { until }) => Waiting::Timer(until),
        Some(job::Waiting::Job) => {
            task.child().map_or(Waiting::Other, |child| Waiting::Job(child.job))
        }
        Some(wait @ job::Waiting::Signal { .. }) => {
            let name = task.awaits().first().map(ToString::to_string).unwrap_or_default();
            Waiting::Signal(name, wait.until())
        }
        Some(job::Waiting::Kind) => Waiting::Kind(task.spec.kind.to_string()),
        _ => Waiting::Other,
    }
}

/// What a live attempt here says of itself.
fn says(live: &runtime::Live) -> String {
    let (done, total) = live.progress.map(|progress| (progress.done, progress.total)).unzip();
    said(done, total, live.message.as_deref(), live.stopping_since)
}

/// What a live attempt says of itself, as the end of a line.
fn said(
    done: Option<u64>,
    total: Option<u64>,
    message: Option<&str>,
    stopping: Option<Timestamp>,
) -> String {
    let mut text = match (done, total) {
        (None, _) => String::new(),
        (Some(done), None | Some(0)) => format!("  {done}"),
        (Some(done), Some(total)) => {
            format!("  {done}/{total} ({}%)", done.saturating_mul(100) / total)
        }
    };
    if let Some(message) = message {
        text.push_str("  ");
        text.push_str(&plain(message));
    }
    if stopping.is_some() {
        text.push_str("  stopping");
    }
    text
}

fn doing(task: &Task) -> (String, Doing) {
    let doing = match task.live_attempt() {
        _ if task.items.is_some() => return (task.id.clone(), each(task)),
        Some(live) => {
            let (attempt, since) = (live.number, live.started);
            Doing::Runs { attempt, since, says: shown_says(task) }
        }
        None => Doing::Waits(task.waiting_for.clone().unwrap_or(Waiting::Other)),
    };
    (task.id.clone(), doing)
}

fn each(task: &Task) -> Doing {
    task.items.map_or(Doing::Waits(Waiting::Other), Doing::Each)
}

/// What a live attempt says of itself, as a server shows it.
fn shown_says(task: &Task) -> String {
    let Some(live) = &task.progress else { return String::new() };
    said(live.done, live.total, live.message.as_deref(), live.stopping_since)
}
