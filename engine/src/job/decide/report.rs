//! What the runtime reports: starts, ends, timers, and its own death.
//!
//! A report that does not fit the job's state comes too late and is dropped: the order of
//! appended events decides every race.

use annals_tasks_sdk::plan::OnFailure;
use annals_tasks_sdk::{Done, Payload, TaskError};

use crate::job::command::{Context, Outcome, Report};
use crate::job::event::{AttemptEnd, Event, Failure, LogSize, PauseMode, SkippedBy, TaskNumber};
use crate::job::state::{Job, Task};
use crate::job::status::JobStatus;
use crate::job::waiting::Wait;
use crate::job::waiting::Waiting;

pub(super) fn report(job: &Job, report: Report, cx: &Context) -> Vec<Event> {
    match report {
        Report::Start { task } => start(job, task, cx),
        Report::Park { task, wait } if job.is_wanted(task, cx.now) => park(job, task, wait),
        Report::Spawned { task, child, after } if job.is_wanted(task, cx.now) => {
            vec![Event::ChildStarted { task, child, after }]
        }
        Report::Wished(wish) => job.obey_parent(&wish),
        Report::Heard { task, child, news } => {
            job.hear_of_child(task, child, news, |error| fail(job, task, error))
        }
        Report::Refuse { task, error } if job.is_wanted(task, cx.now) => {
            fail(job, task, Failure::new(error.code(), error.message()))
        }
        Report::Ended { task, attempt, outcome, log } => match live(job, task, attempt) {
            Some(at) => ended(job, at, task, attempt, outcome, log, cx),
            None => Vec::new(),
        },
        Report::Checkpoint { task, attempt, value } => match live(job, task, attempt) {
            Some(_) => vec![Event::CheckpointSaved { task, attempt, value }],
            None => Vec::new(),
        },
        Report::Step { task, attempt, name, value } => match live(job, task, attempt) {
            Some(at) if at.steps().get(&name).is_none() => {
                vec![Event::StepRecorded { task, attempt, name, value }]
            }
            _ => Vec::new(),
        },
        Report::Tick => tick(job, cx),
        Report::Park { .. } | Report::Spawned { .. } | Report::Refuse { .. } => Vec::new(),
        Report::Recover => recover(job, cx),
    }
}

/// A time has come. A deadline goes before all else that is due.
fn tick(job: &Job, cx: &Context) -> Vec<Event> {
    if let Some(passed) = job.deadline_passed(cx.now) {
        return vec![passed];
    }
    if job.starts_at().is_some_and(|at| at <= cx.now.max(job.time)) {
        return vec![Event::JobStarted];
    }
    let due = job.due_timers(cx.now).filter(|_| job.dispatches());
    let completed = due.map(|task| Event::completed_without_attempt(task, Payload::NULL));
    let completed: Vec<Event> = completed.collect();
    if !completed.is_empty() {
        return completed;
    }
    // A failure may pause the job: what else is due is seen to by the next tick.
    let in_vain = job.waits_in_vain(cx.now);
    in_vain.map_or_else(Vec::new, |(task, failure)| fail(job, task, failure))
}

/// The task whose attempt this is, if that attempt is alive still.
fn live(job: &Job, task: TaskNumber, attempt: u32) -> Option<&Task> {
    let task = job.task(task)?;
    task.live_attempt().filter(|live| live.number == attempt).map(|_| task)
}

fn park(job: &Job, task: TaskNumber, wait: Wait) -> Vec<Event> {
    let kindless = job.task(task).is_some_and(|task| task.waiting == Some(Waiting::Kind));
    // The kind is looked for again and again; that it is still missing is no news.
    if kindless && wait == Wait::Kind {
        return Vec::new();
    }
    vec![Event::TaskWaiting { task, wait }]
}

fn start(job: &Job, task: TaskNumber, cx: &Context) -> Vec<Event> {
    let Some(at) = job.task(task).filter(|_| job.is_wanted(task, cx.now)) else {
        return Vec::new();
    };
    match job.lacks_input(at) {
        None => {
            let attempt = crate::job::state::count(at.attempts.len()) + 1;
            vec![Event::AttemptStarted { task, attempt }]
        }
        // Another attempt would find the same: this is never retried.
        Some(lack) => fail(job, task, lack),
    }
}

fn ended(
    job: &Job,
    at: &Task,
    task: TaskNumber,
    attempt: u32,
    outcome: Outcome,
    log: LogSize,
    cx: &Context,
) -> Vec<Event> {
    let told_to_stop = at.live_attempt().is_some_and(|live| live.stop.is_some());
    match outcome {
        Outcome::Completed(Done { output, exit }) => {
            vec![Event::TaskCompleted { task, attempt, output, exit, log }]
        }
        Outcome::Interrupted(error) => interrupted(at, task, attempt, end_of(&error, log)),
        Outcome::Failed(error) if told_to_stop => {
            interrupted(at, task, attempt, end_of(&error, log))
        }
        Outcome::Failed(error) => {
            let end = end_of(&error, log);
            let next = after_failure(job, at, task, (&end, &error), cx);
            [Event::AttemptFailed { task, attempt, end }].into_iter().chain(next).collect()
        }
        Outcome::TimedOut(error) => {
            let end = timed_out(&error, log);
            let next = after_failure(job, at, task, (&end, &error), cx);
            [Event::AttemptTimedOut { task, attempt, end }].into_iter().chain(next).collect()
        }
    }
}

fn interrupted(at: &Task, task: TaskNumber, attempt: u32, end: AttemptEnd) -> Vec<Event> {
    let over = Event::AttemptInterrupted { task, attempt, end };
    [over].into_iter().chain(skipped(at, task)).collect()
}

/// What an attempt gives after its timeout, such as that it was cancelled, is no reason of its own.
fn timed_out(error: &TaskError, log: LogSize) -> AttemptEnd {
    let end = end_of(error, log);
    if error.code() == Failure::HEARTBEAT_TIMEOUT {
        return AttemptEnd { retryable: true, ..end };
    }
    let late = "the attempt took longer than its timeout";
    let message = match error.code() {
        Failure::TIMED_OUT => error.message().to_owned(),
        _ if error.is_cancelled() => late.to_owned(),
        _ => format!("{late}, and then gave: {}", error.message()),
    };
    let error = Failure::new(Failure::TIMED_OUT, message);
    AttemptEnd { error, retryable: true, ..end }
}

fn end_of(error: &TaskError, log: LogSize) -> AttemptEnd {
    AttemptEnd {
        error: Failure::new(error.code(), error.message()),
        retryable: error.is_retryable(),
        exit: error.exit().clone(),
        output: error.output().cloned(),
        log,
    }
}

/// The skip that waited for the attempt to end.
fn skipped(at: &Task, task: TaskNumber) -> Option<Event> {
    let by = SkippedBy::Request;
    at.skip.as_ref().map(|output| Event::TaskSkipped { task, by, output: (**output).clone() })
}

fn after_failure(
    job: &Job,
    at: &Task,
    task: TaskNumber,
    (end, error): (&AttemptEnd, &TaskError),
    cx: &Context,
) -> Vec<Event> {
    if let Some(skip) = skipped(at, task) {
        return vec![skip];
    }
    // An instance is held with the task that it is of.
    if job.is_over() || at.unmet > 0 {
        return Vec::new();
    }
    match at.retry_due(end, error, cx.now.max(job.time), cx.random) {
        Some(due) => vec![Event::RetryScheduled { task, due }],
        None => fail(job, task, end.error.clone()),
    }
}

fn fail(job: &Job, task: TaskNumber, error: Failure) -> Vec<Event> {
    let pauses = job.task(task).is_some_and(pauses);
    let mut events = vec![Event::TaskFailed { task, error }];
    if pauses {
        events.extend(pause(job));
    }
    events
}

/// Whether the failure of a task pauses its job. The others of its list go on when an instance has
/// failed, and then the task fails that it is of.
fn pauses(task: &Task) -> bool {
    task.spec.policy.on_failure == OnFailure::Pause && !task.is_instance()
}

/// What pauses the job, where it is not held already. That its parent holds it is not enough: who
/// lets the parent go on has not looked at the job.
pub(super) fn pause(job: &Job) -> Option<Event> {
    let open = job.status == JobStatus::Running && job.intent.is_none();
    let by_parent_alone = job.holders.parent && !job.holders.own;
    (open || by_parent_alone).then_some(Event::PauseRequested { mode: PauseMode::Drain })
}

/// The engine has started: every attempt that was alive is lost. The time without an engine counts.
fn recover(job: &Job, cx: &Context) -> Vec<Event> {
    use annals_tasks_sdk::plan::OnLost;
    let passed = job.deadline_passed(cx.now);
    let mut ends = passed.is_some() || job.is_over();
    let mut events: Vec<Event> = passed.into_iter().collect();
    let mut holds = false;
    for (task, at) in job.live() {
        let Some(attempt) = at.live_attempt() else { continue };
        events.push(Event::AttemptLost { task, attempt: attempt.number });
        let losses = at.losses + 1;
        if let Some(skip) = skipped(at, task) {
            events.push(skip);
        } else if ends || at.unmet > 0 {
            // The job ends, or the task that it is an instance of; it stays interrupted.
        } else if at.spec.policy.on_lost == OnLost::Fail {
            let message = "the engine died while the attempt ran";
            events.push(fail_only(task, "lost", message.into()));
            holds |= pauses(at);
            ends |= job.ends_by_failure_of(at);
        } else if losses >= cx.losses.suspect_after + cx.losses.fail_after {
            let message = format!(
                "the process died during attempt {}, {losses} times in a row",
                attempt.number
            );
            events.push(fail_only(task, "crash_loop", message));
            holds |= pauses(at);
            ends |= job.ends_by_failure_of(at);
        } else {
            holds |= at.spec.policy.on_lost == OnLost::Pause;
        }
    }
    events.extend(pause(job).filter(|_| holds && !ends));
    events
}

fn fail_only(task: TaskNumber, code: &str, message: String) -> Event {
    Event::TaskFailed { task, error: Failure::new(code, message) }
}
