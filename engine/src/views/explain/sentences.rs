//! Reasons as sentences for people, without a full stop.

use std::fmt;
use std::time::Duration;

use annals_tasks_sdk::duration::format_duration;
use annals_tasks_sdk::plan::JobEnd;
use annals_tasks_sdk::{Progress, SignalName, TaskId};

use super::reason::{Ahead, Cause, Gone, HeldKey, InLine, Line, Other, Reason, RunDeadline};
use crate::job::{Failure, StopReason};

/// What is said of a job that a failure has paused: those who skip the task wait for it in vain.
const STAYS_PAUSED: &str = "; it stays paused after a skip, an edit or a retry of the task, until \
                            it is resumed";

/// Longer texts of others are cut, in bytes: a reason is a sentence.
const TEXT_MAX: usize = 240;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rounded(self.ago))
    }
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rounded(self.left))
    }
}

/// A duration whose parts of a second nobody reads, where it is longer than one.
fn rounded(span: Duration) -> String {
    let is_short = span < Duration::from_secs(1);
    format_duration(if is_short { span } else { Duration::from_secs(span.as_secs()) })
}

impl fmt::Display for RunDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(left) => write!(f, "the deadline of the run passes in {left}"),
            Self::Passed(since) => write!(
                f,
                "the deadline of the run passed {since} ago, and the job fails as soon as an \
                 engine runs"
            ),
        }
    }
}

impl fmt::Display for HeldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, waiting, first } = self;
        let named: Vec<String> = first.iter().map(ToString::to_string).collect();
        let (jobs, wait) = if *waiting == 1 { ("job", "waits") } else { ("jobs", "wait") };
        write!(f, "{jobs} {}", named.join(", "))?;
        let more = waiting.saturating_sub(first.len() as u64);
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        write!(f, " {wait} for the exclusive key {} that it holds", brief(key))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { by, reason, since } => {
                write!(f, "by {} {since} ago", brief(by))?;
                reason.iter().try_for_each(|reason| write!(f, " ({})", brief(reason)))
            }
            Self::Failure { task, since } => {
                write!(
                    f,
                    "{since} ago, when task {task} failed, whose plan says `on_failure: pause`"
                )
            }
            Self::Loss { task, since } => write!(
                f,
                "{since} ago, since the engine had died while task {task} ran, whose plan says \
                 `on_lost: pause`"
            ),
        }
    }
}

/// Some text in one line, and not too long.
fn brief(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    // A first line that ends so leads to what the last one says.
    let last = lines.next_back().filter(|_| first.ends_with(':'));
    let line = last.map_or_else(|| first.to_owned(), |last| format!("{first} {last}"));
    if line.len() <= TEXT_MAX {
        return line;
    }
    format!("{} ... (cut)", &line[..line.floor_char_boundary(TEXT_MAX)])
}

fn failure(error: &Failure) -> String {
    format!("{} [{}]", brief(&error.message), brief(&error.code))
}

/// ` by ada 3m ago`, or nothing.
fn after(cause: Option<&Cause>) -> String {
    cause.map_or_else(String::new, |cause| format!(" {cause}"))
}

fn attempts(alive: usize) -> String {
    if alive == 1 { "1 attempt is".into() } else { format!("{alive} attempts are") }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("the job has completed"),
            Self::Failed { error, task: Some(task) } => {
                write!(f, "the job has failed: task {task} failed: {}", failure(error))
            }
            Self::Failed { error, task: None } => {
                write!(f, "the job has failed: {}", failure(error))
            }
            Self::Cancelled { by } => write!(f, "the job was cancelled{}", after(by.as_ref())),
            Self::StartsAt { until } => write!(f, "the job starts by itself in {until}"),
            Self::NotExecuted => f.write_str("the job was never executed"),
            Self::Paused { by } => {
                write!(f, "the job was paused{}", after(by.as_ref()))?;
                let after_failure = matches!(by, Some(Cause::Failure { .. }));
                f.write_str(if after_failure { STAYS_PAUSED } else { "" })
            }
            Self::Pausing { by, alive } => on_the_way(f, "paused", by.as_ref(), *alive),
            Self::Cancelling { by, alive } => on_the_way(f, "cancelled", by.as_ref(), *alive),
            Self::Failing { error, alive } => {
                error.iter().try_for_each(|error| write!(f, "{}: ", failure(error)))?;
                on_the_way(f, "failed", None, *alive)
            }
            Self::Undoing { end, error, by, done, total } => {
                about_to(f, *end, by.as_ref(), error.as_ref())?;
                write!(f, ": what it has done is undone before ({done} of {total})")
            }
            Self::Finishing { end, error, by } => {
                about_to(f, *end, by.as_ref(), error.as_ref())?;
                f.write_str(": the tasks of `finally` run before")
            }
            Self::NothingRuns => f.write_str(
                "no engine runs on this store now: this one records what it is asked and starts \
                 nothing",
            ),
            Self::EngineNotReady => f.write_str(
                "the engine is starting or being shut down, and starts no task meanwhile",
            ),
            Self::Unreadable { why } => write!(
                f,
                "the history of the job cannot be followed: {}. It is left alone until the next \
                 start; `verify` says what is damaged",
                brief(why)
            ),
            Self::Lacks(lack) => write!(
                f,
                "nothing will move the job: {lack}. This is a fault of the engine, which has tried \
                 the job again; a new start takes the job up from its log"
            ),
            Self::WantsKey { key, holder, place } => write!(
                f,
                "the job waits for its exclusive key {}, which job {holder} holds until it ends; \
                 it is {} in line",
                brief(key),
                nth(*place)
            ),
            Self::HeldByParent { parent, task } => write!(
                f,
                "the job is held since its parent, job {parent}, is paused, whose task {task} \
                 waits for it: it goes on when that is resumed"
            ),
            Self::Unknown => f.write_str("nothing is known that keeps the job"),
            _ => self.of_attempt(f),
        }
    }
}

fn about_to(
    f: &mut fmt::Formatter<'_>,
    end: JobEnd,
    by: Option<&Cause>,
    error: Option<&Failure>,
) -> fmt::Result {
    let end = match end {
        JobEnd::Completed => "complete",
        JobEnd::Failed => "fail",
        JobEnd::Cancelled => "be cancelled",
    };
    write!(f, "the job is about to {end}{}", after(by))?;
    error.map_or(Ok(()), |error| write!(f, " ({})", failure(error)))
}

fn on_the_way(
    f: &mut fmt::Formatter<'_>,
    to: &str,
    by: Option<&Cause>,
    alive: usize,
) -> fmt::Result {
    let by = after(by);
    write!(f, "the job is on its way to be {to}{by}: {} alive", attempts(alive))
}

impl Reason {
    fn of_attempt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff { task, attempt } => {
                write!(f, "attempt {attempt} of task {task} ran when its engine ended")
            }
            Self::Runs { task, attempt, since, timeout, heartbeat, progress, message } => {
                write!(f, "attempt {attempt} of task {task} runs since {since}")?;
                timeout.iter().try_for_each(|at| write!(f, ", and times out in {at}"))?;
                heartbeat.iter().try_for_each(|limit| {
                    let limit = format_duration(*limit);
                    write!(f, ", and is stopped when nothing is heard of it for {limit}")
                })?;
                f.write_str(&says(*progress, message.as_deref()))
            }
            Self::Stops { task, attempt, why, told, grace } => write!(
                f,
                "attempt {attempt} of task {task} was told to stop {told} ago{}, and is ended in \
                 {grace} if it has not ended by then",
                because(*why)
            ),
            Self::Blocks { task, attempt, told, grace } => write!(
                f,
                "attempt {attempt} of task {task} was told to stop {told} ago and has not ended, \
                 its grace is over since {grace}: it blocks its thread and cannot be ended from \
                 outside. Its slot stays taken, and the job stays as it is, until it is over or \
                 the engine is started again"
            ),
            Self::Outlives { task, attempt, told, grace } => write!(
                f,
                "attempt {attempt} of task {task} was told to stop {told} ago, its processes were \
                 killed {grace} ago, and the kernel has not let go of them. Its slot stays taken, \
                 and the job stays as it is, until they are gone"
            ),
            _ => self.of_task(f),
        }
    }

    fn of_task(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retries { task, attempt, failures, failures_max, until, error } => {
                let of = match (*failures, *failures_max) {
                    (1, u32::MAX) => "once".into(),
                    (_, u32::MAX) => format!("{failures} times"),
                    _ => format!("{failures} of {failures_max} times"),
                };
                write!(f, "task {task} failed {of}, and attempt {attempt} is due in {until}")?;
                error.iter().try_for_each(|error| write!(f, ": {}", failure(error)))
            }
            Self::Sleeps { task, until } => {
                write!(f, "task {task} waits for a time, which comes in {until}")
            }
            Self::Child { task, child, stop, quiet } => {
                write!(f, "task {task} waits for its child job {child}")?;
                match (stop, quiet) {
                    (Some(_), _) => write!(f, ", which was told to end{}", because(*stop)),
                    (None, true) => f.write_str(", which is quiet"),
                    (None, false) => Ok(()),
                }
            }
            Self::Awaits { task, signals, until } => {
                let names: Vec<&str> = signals.iter().map(SignalName::as_str).collect();
                write!(f, "task {task} waits for signal {}", names.join(" or "))?;
                until.iter().try_for_each(|at| write!(f, ", and no longer than {at}"))
            }
            Self::WantsKind { task, kind } => {
                write!(f, "task {task} waits for kind {kind}, which is not registered here")
            }
            Self::WantsSlot { task, line: Some(line) } => write!(f, "task {task} {line}"),
            Self::WantsSlot { task, line: None } => write!(f, "task {task} is about to start"),
            Self::Suspect { task, losses, line, other } => {
                let rest = suspects(line, *other);
                let times = match losses {
                    1 => String::new(),
                    _ => format!("{losses} times in a row "),
                };
                write!(
                    f,
                    "task {task} is a suspect: the engine died {times}while it ran, and suspects \
                     run one at a time; {rest}"
                )
            }
            Self::TaskFailed { task, error, .. } => {
                write!(f, "task {task} has failed: {}", failure(error))
            }
            Self::Needs { task, needs, more } => {
                let needs: Vec<&str> = needs.iter().map(TaskId::as_str).collect();
                write!(f, "task {task} waits for {}", needs.join(", "))?;
                if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
            }
            // The others are shown above.
            _ => Ok(()),
        }
    }
}

fn because(why: Option<StopReason>) -> &'static str {
    match why {
        Some(StopReason::Cancel) => ", since the job is to be cancelled",
        Some(StopReason::Pause) => ", since the job is to be paused",
        Some(StopReason::Deadline) => ", since the deadline of the run has passed",
        Some(StopReason::FailFast) => ", since another task has failed and the plan fails fast",
        Some(StopReason::Skip) => ", since the task is to be skipped",
        None => ", since its time is over, nothing was heard of it, or the engine ends",
    }
}

/// What a live attempt says of itself, as the end of a sentence.
fn says(progress: Option<Progress>, message: Option<&str>) -> String {
    let progress = progress.map(|Progress { done, total }| match total {
        0 => format!("{done} done"),
        _ => format!("{done} of {total} done"),
    });
    let said: Vec<String> = progress.into_iter().chain(message.map(brief)).collect();
    if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, slots, waiting, place } = self;
        let slots = || match slots {
            1 => format!("the only slot of pool {pool}, which is taken"),
            _ => format!("one of the {slots} slots of pool {pool}, which are all taken"),
        };
        match place {
            InLine::Granted => write!(f, "has a slot of pool {pool}, and is about to start"),
            InLine::At(place) => {
                write!(f, "is {} of {waiting} in line for {}", nth(*place), slots())
            }
            InLine::Behind(before) => {
                write!(f, "stands behind more than {before} others in line for {}", slots())
            }
            InLine::OfItsJob => write!(
                f,
                "takes a place in line for {} when another task of its job leaves that line",
                slots()
            ),
        }
    }
}

fn suspects(line: &Line, other: Option<Other>) -> String {
    let other = other.map_or_else(
        || "another one".to_owned(),
        |other| format!("task number {} of job {}", other.task.0, other.job),
    );
    match line.place {
        InLine::Granted => "it is its turn".into(),
        InLine::At(place) => format!("{other} runs now, and this one is {} in line", nth(place)),
        InLine::Behind(_) | InLine::OfItsJob => {
            format!("{other} runs now, and this one is far behind")
        }
    }
}

/// `first` to `third`, then `4th`, `21st` and so on.
fn nth(place: u64) -> String {
    match (place, place % 10, place % 100) {
        (1, ..) => "first".into(),
        (2, ..) => "second".into(),
        (3, ..) => "third".into(),
        (_, _, 11..=13) => format!("{place}th"),
        (_, 1, _) => format!("{place}st"),
        (_, 2, _) => format!("{place}nd"),
        (_, 3, _) => format!("{place}rd"),
        _ => format!("{place}th"),
    }
}
