//! Explain: why a job does not move.

use std::time::Duration;

use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::duration::format_duration;

use crate::job::{Intent, Job, JobStatus, Task, TaskNumber, TaskStatus, Waiting};
use crate::runtime::{GRACE, Lack, Snapshot};

/// Something that a job waits for. Shown, it is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It has not been started.
    #[error("the job has not been started: execute it")]
    NotStarted,
    /// It is paused.
    #[error("the job is paused: resume it")]
    Held,
    /// It has ended.
    #[error("the job is {0}")]
    Ended(JobStatus),
    /// An attempt runs, and nothing says that it should not.
    #[error("attempt {attempt} of task {task} runs since {}", format_duration(*.since))]
    Runs {
        /// The task.
        task: String,
        /// The attempt.
        attempt: u32,
        /// For how long.
        since: Duration,
    },
    /// An attempt was told to stop and still has time.
    #[error(
        "attempt {attempt} of task {task} was told to stop {} ago and may take {}",
        format_duration(*.ago), format_duration(*.grace)
    )]
    Stops {
        /// The task.
        task: String,
        /// The attempt.
        attempt: u32,
        /// How long ago.
        ago: Duration,
        /// Its grace.
        grace: Duration,
    },
    /// An attempt was told to stop, its grace is over, and it has not ended.
    #[error(
        "attempt {attempt} of task {task} was told to stop {} ago and has not ended: it blocks its \
         thread and cannot be ended from outside. Its slot stays taken, and the job stays as it \
         is, until it is over or the engine is started again",
        format_duration(*.ago)
    )]
    Blocks {
        /// The task.
        task: String,
        /// The attempt.
        attempt: u32,
        /// How long ago.
        ago: Duration,
    },
    /// A task could start and waits for a slot.
    #[error("task {task} waits for a slot of its pool")]
    WantsSlot {
        /// The task.
        task: String,
    },
    /// A task waits for its next attempt.
    #[error("task {task} waits for its next attempt, due in {}", format_duration(*.left))]
    Retries {
        /// The task.
        task: String,
        /// For how much longer.
        left: Duration,
    },
    /// A task sleeps.
    #[error("task {task} waits for a time, which comes in {}", format_duration(*.left))]
    Sleeps {
        /// The task.
        task: String,
        /// For how much longer.
        left: Duration,
    },
    /// A task waits for its kind.
    #[error("task {task} waits for kind {kind}, which is not registered here")]
    WantsKind {
        /// The task.
        task: String,
        /// The kind.
        kind: String,
    },
    /// The engine has found that nothing will move it.
    #[error(
        "nothing will move the job: {0}. This is a fault of the engine, which has tried the job \
         again; a new start takes the job up from its log"
    )]
    Lacks(Lack),
    /// A failed task is in the way of others.
    #[error("task {task} has failed: {message}")]
    Failed {
        /// The task.
        task: String,
        /// Its error's sentence.
        message: String,
    },
}

/// Why a job does not move, or what it is doing, at `now`. Never empty.
pub fn explain(snapshot: &Snapshot, now: Timestamp) -> Vec<Reason> {
    let job = &*snapshot.job;
    match (job.status(), job.intent()) {
        (JobStatus::Pending, _) => vec![Reason::NotStarted],
        (JobStatus::Completed | JobStatus::Cancelled, _) => vec![Reason::Ended(job.status())],
        (JobStatus::Failed, _) => {
            [Reason::Ended(job.status())].into_iter().chain(failures(job)).collect()
        }
        (JobStatus::Paused, None) => [Reason::Held].into_iter().chain(failures(job)).collect(),
        (JobStatus::Running | JobStatus::Paused, intent) => {
            let mut reasons: Vec<Reason> = snapshot.lack.map(Reason::Lacks).into_iter().collect();
            reasons.extend(live(snapshot, now));
            if intent.is_none_or(|intent| intent == Intent::Pause) {
                reasons.extend(job.tasks().filter_map(|(_, task)| waits(task, now)));
            }
            reasons.extend(failures(job));
            reasons
        }
    }
}

fn live(snapshot: &Snapshot, now: Timestamp) -> impl Iterator<Item = Reason> {
    let reason = move |(number, task): (TaskNumber, &Task)| {
        let attempt = task.live_attempt()?;
        let (id, number_of_attempt) = (task.spec.id.to_string(), attempt.number);
        let told = snapshot.live.get(&number).and_then(|live| live.stopping_since);
        let Some(told) = told else {
            let since = now.since(attempt.started);
            return Some(Reason::Runs { task: id, attempt: number_of_attempt, since });
        };
        let (ago, grace) = (now.since(told), task.spec.policy.cancel_grace.unwrap_or(GRACE));
        Some(if ago > grace {
            Reason::Blocks { task: id, attempt: number_of_attempt, ago }
        } else {
            Reason::Stops { task: id, attempt: number_of_attempt, ago, grace }
        })
    };
    snapshot.job.live().filter_map(reason)
}

fn waits(task: &Task, now: Timestamp) -> Option<Reason> {
    let id = task.spec.id.to_string();
    match task.waiting() {
        Some(Waiting::Retry { until }) => {
            Some(Reason::Retries { task: id, left: until.since(now) })
        }
        Some(Waiting::Timer { until }) => Some(Reason::Sleeps { task: id, left: until.since(now) }),
        Some(Waiting::Kind) => {
            Some(Reason::WantsKind { task: id, kind: task.spec.kind.to_string() })
        }
        None if task.is_ready() => Some(Reason::WantsSlot { task: id }),
        None => None,
    }
}

fn failures(job: &Job) -> impl Iterator<Item = Reason> {
    let failed =
        job.tasks().filter(|(_, task)| task.status() == TaskStatus::Failed && !task.is_settled());
    failed.filter_map(|(_, task)| {
        let message = task.error()?.message.to_string();
        Some(Reason::Failed { task: task.spec.id.to_string(), message })
    })
}
