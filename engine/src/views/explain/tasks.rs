//! The reasons of tasks: those that say what happens next, then failures, then what waits for
//! them.

use annals_tasks_sdk::TaskId;

use super::make::{Dispatch, Queued, Seen, TASKS_EXPLAINED};
use super::reason::{Ahead, Gone, InLine, Line, Reason};
use crate::job::{Attempt, Deadline, Job, Task, TaskNumber, TaskStatus, Waiting};
use crate::runtime::GRACE;

/// So many tasks are named that one waits for.
const NEEDS_NAMED: usize = 5;

/// The reasons of tasks, as many as are shown of each sort.
#[derive(Default)]
pub(super) struct Tasks {
    moving: Some20,
    failed: Some20,
    needing: Some20,
}

#[derive(Default)]
struct Some20 {
    shown: Vec<Reason>,
    count: usize,
}

impl Some20 {
    /// Thousands may come, of which only the first are made.
    fn add(&mut self, reason: impl FnOnce() -> Option<Reason>) {
        self.count += 1;
        if self.shown.len() < TASKS_EXPLAINED {
            self.shown.extend(reason());
        }
    }
}

impl Tasks {
    /// Of all tasks but one that is told already.
    pub(super) fn of(seen: &Seen, told: Option<&TaskId>) -> Self {
        let (mut all, job) = (Self::default(), &*seen.snapshot.job);
        let starts_none = seen.dispatch != Dispatch::Runs || seen.wants_key().is_some();
        let instances = |task: &Task| job.instances(task).collect::<Vec<_>>();
        let each = job.tasks().flat_map(|(number, task)| match task.items() {
            // A task that has failed says so itself, and names instances; so does one that has
            // come to need others.
            Some(_) if task.status() != TaskStatus::Failed && !needs_any(job, task) => {
                instances(task)
            }
            _ => vec![(number, task)],
        });
        for (number, task) in each.filter(|(_, task)| !task.is_settled()) {
            let goes_on = job.starts_tasks_of(task.part());
            match task.status() {
                TaskStatus::Completed | TaskStatus::Skipped | TaskStatus::Removed => {}
                TaskStatus::Failed if told == Some(&task.spec.id) => {}
                TaskStatus::Failed => all.failed.add(|| failed(task)),
                _ if task.live_attempt().is_some() => all.moving.add(|| alive(seen, number, task)),
                _ if task.open_child().is_some() => all.moving.add(|| waits(seen, number, task)),
                _ if !goes_on => {}
                TaskStatus::Waiting => all.moving.add(|| waits(seen, number, task)),
                _ if task.is_ready() && starts_none => {}
                _ if task.is_ready() => all.moving.add(|| Some(wants(seen, number, task))),
                // It waits for others of its list, which have reasons of their own.
                _ if task.is_instance() => {}
                _ => all.needing.add(|| Some(needs(job, task))),
            }
        }
        all
    }

    /// Adds them to other reasons. Gives how many have no room.
    pub(super) fn add_to(self, reasons: &mut Vec<Reason>) -> usize {
        let (mut room, mut more) = (TASKS_EXPLAINED, 0);
        for Some20 { shown, count } in [self.moving, self.failed, self.needing] {
            let taken = shown.len().min(room);
            reasons.extend(shown.into_iter().take(taken));
            room -= taken;
            more += count - taken;
        }
        more
    }
}

fn failed(task: &Task) -> Option<Reason> {
    let attempt = task.attempts().last().map_or(0, |last| last.number);
    let error = task.error()?.clone();
    Some(Reason::TaskFailed { task: task.spec.id.clone(), attempt, error })
}

/// The reason of a task with a live attempt.
fn alive(seen: &Seen, number: TaskNumber, task: &Task) -> Option<Reason> {
    let (id, now) = (task.spec.id.clone(), seen.now);
    let live: &Attempt = task.live_attempt()?;
    let attempt = live.number;
    if !seen.recovered {
        return Some(Reason::CutOff { task: id, attempt });
    }
    let says = seen.snapshot.live.get(&number);
    let told = says.and_then(|says| says.stopping_since);
    // A stop that has just become durable is told at this moment.
    let Some(told) = told.or_else(|| live.stop.map(|_| now)) else {
        let timeout = task.spec.policy.timeout;
        return Some(Reason::Runs {
            task: id,
            attempt,
            since: Gone::since(live.started, now),
            timeout: timeout.map(|timeout| Ahead::until(live.started.plus(timeout), now)),
            heartbeat: task.spec.policy.heartbeat_timeout,
            progress: says.and_then(|says| says.progress),
            message: says.and_then(|says| says.message.clone()),
        });
    };
    let end = told.plus(task.spec.policy.cancel_grace.unwrap_or(GRACE));
    let told = Gone::since(told, now);
    if end >= now {
        let (why, grace) = (live.stop, Ahead::until(end, now));
        return Some(Reason::Stops { task: id, attempt, why, told, grace });
    }
    let grace = Gone::since(end, now);
    Some(if seen.outside.contains(&number) {
        Reason::Outlives { task: id, attempt, told, grace }
    } else {
        Reason::Blocks { task: id, attempt, told, grace }
    })
}

/// The reason of a task that waits.
fn waits(seen: &Seen, number: TaskNumber, task: &Task) -> Option<Reason> {
    if seen.queued.contains_key(&number) {
        return Some(wants(seen, number, task));
    }
    let id = task.spec.id.clone();
    match task.waiting()? {
        Waiting::Retry { until } => {
            let last = task.attempts().last();
            Some(Reason::Retries {
                task: id,
                attempt: last.map_or(1, |last| last.number + 1),
                failures: task.failures(),
                failures_max: task.spec.policy.retry.max_attempts,
                until: Ahead::until(until, seen.now),
                error: last.and_then(|last| Some(last.end.as_ref()?.error.clone())),
            })
        }
        Waiting::Timer { until } => {
            Some(Reason::Sleeps { task: id, until: Ahead::until(until, seen.now) })
        }
        Waiting::Job => {
            let child = task.open_child()?;
            let (stop, quiet) = (child.stop(), child.is_quiet());
            Some(Reason::Child { task: id, child: child.job, stop, quiet })
        }
        Waiting::Signal { timeout } => {
            let until = match timeout {
                Some(Deadline::At(until)) => Some(Ahead::until(until, seen.now)),
                // It stands still, and then the job tells why it is held.
                Some(Deadline::Left(_)) | None => None,
            };
            Some(Reason::Awaits { task: id, signals: task.awaits().to_vec(), until })
        }
        Waiting::Kind => Some(Reason::WantsKind { task: id, kind: task.spec.kind.to_string() }),
    }
}

/// The reason of a task that could start.
fn wants(seen: &Seen, number: TaskNumber, task: &Task) -> Reason {
    let id = task.spec.id.clone();
    match seen.queued.get(&number) {
        Some(Queued::Alone(line, other)) => {
            Reason::Suspect { task: id, losses: task.losses(), line: line.clone(), other: *other }
        }
        Some(Queued::Slot(line)) => Reason::WantsSlot { task: id, line: Some(line.clone()) },
        None => Reason::WantsSlot { task: id, line: behind_its_job(seen, task) },
    }
}

/// Of a task that could start and has no place: those of its job that have one are before it.
fn behind_its_job(seen: &Seen, task: &Task) -> Option<Line> {
    let pool = seen.pools.get(task.spec.kind.as_str())?;
    let mut lines = seen.queued.values().map(|(Queued::Slot(line) | Queued::Alone(line, _))| line);
    let line = lines.find(|line| line.pool == *pool)?;
    Some(Line { place: InLine::OfItsJob, ..line.clone() })
}

fn needs_any(job: &Job, task: &Task) -> bool {
    job.needs_of(task).iter().any(|id| is_open(job, id))
}

fn is_open(job: &Job, id: &str) -> bool {
    let task = job.find(id).and_then(|number| job.task(number));
    task.is_some_and(|task| !task.is_settled())
}

fn needs(job: &Job, task: &Task) -> Reason {
    let open: Vec<&str> = job.needs_of(task).into_iter().filter(|id| is_open(job, id)).collect();
    let named = open.iter().take(NEEDS_NAMED);
    let needs: Vec<TaskId> = named.filter_map(|id| TaskId::known(id).ok()).collect();
    let more = open.len() - needs.len();
    Reason::Needs { task: task.spec.id.clone(), needs, more }
}
