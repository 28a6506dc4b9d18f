//! Reasons: what a job waits for or is doing, as data.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::plan::JobEnd;
use annals_tasks_sdk::{JobId, Progress, SignalName, TaskId, Timestamp};

use crate::job::{Failure, StopReason, TaskNumber};
use crate::runtime::Lack;

/// A time that has come. Shown, it is how long ago that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// When.
    pub at: Timestamp,
    /// How long ago.
    pub ago: Duration,
}

impl Gone {
    pub(super) fn since(at: Timestamp, now: Timestamp) -> Self {
        Self { at, ago: now.since(at) }
    }
}

/// A time that is to come. Shown, it is how long that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// When.
    pub at: Timestamp,
    /// In how long; nothing where it should have come.
    pub left: Duration,
}

impl Ahead {
    pub(super) fn until(at: Timestamp, now: Timestamp) -> Self {
        Self { at, left: at.since(now) }
    }
}

/// The deadline of a run that has not ended. Shown, it is a sentence without a full stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunDeadline {
    /// It is to come.
    Ahead(Ahead),
    /// It has passed, and nothing has come of that yet: no engine has run the job since.
    Passed(Gone),
}

impl RunDeadline {
    pub(super) fn seen(at: Timestamp, now: Timestamp) -> Self {
        if at > now {
            Self::Ahead(Ahead::until(at, now))
        } else {
            Self::Passed(Gone::since(at, now))
        }
    }

    /// When it passes, or did.
    pub fn at(self) -> Timestamp {
        match self {
            Self::Ahead(ahead) => ahead.at,
            Self::Passed(gone) => gone.at,
        }
    }
}

/// An exclusive key that a job holds and others wait for. Shown, it is a sentence without a full
/// stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// The key.
    pub key: String,
    /// So many jobs wait for it.
    pub waiting: u64,
    /// The first of them, in their order.
    pub first: Vec<JobId>,
}

/// Who or what held or ended a job. Shown, it is the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Somebody asked for it.
    Asked {
        /// Who.
        by: String,
        /// Why, where that was said.
        reason: Option<String>,
        /// When.
        since: Gone,
    },
    /// Tasks failed whose plan says `on_failure: pause`.
    Failure {
        /// The first of them.
        task: TaskId,
        /// When.
        since: Gone,
    },
    /// The engine died while tasks ran whose plan says `on_lost: pause`.
    Loss {
        /// The first of them.
        task: TaskId,
        /// When the engine found that out.
        since: Gone,
    },
}

/// The line for the slots of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What the pool is called.
    pub pool: Arc<str>,
    /// How many slots it has.
    pub slots: u64,
    /// How many tasks stand in line.
    pub waiting: u64,
    /// Where this one is.
    pub place: InLine,
}

/// Where a task stands that wants a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InLine {
    /// It has been granted one, and is about to start.
    Granted,
    /// At this place, from 1.
    At(u64),
    /// So many are before it at least: nobody counts further.
    Behind(u64),
    /// It takes a place when one of the many tasks of its job that have one gives it up.
    OfItsJob,
}

/// A task of some job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// The job.
    pub job: JobId,
    /// The task's number there.
    pub task: TaskNumber,
}

/// What a job waits for, or is doing. Shown, it is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It has completed.
    Completed,
    /// It has failed.
    Failed {
        /// Why.
        error: Failure,
        /// The task that failed.
        task: Option<TaskId>,
    },
    /// It was cancelled.
    Cancelled {
        /// By whom.
        by: Option<Cause>,
    },
    /// It was never executed.
    NotExecuted,
    /// It starts at a time.
    StartsAt {
        /// When.
        until: Ahead,
    },
    /// It is paused.
    Paused {
        /// By whom or what.
        by: Option<Cause>,
    },
    /// It is to be paused when its attempts are over.
    Pausing {
        /// By whom or what.
        by: Option<Cause>,
        /// So many attempts are alive.
        alive: usize,
    },
    /// It is to be cancelled when its attempts are over.
    Cancelling {
        /// By whom.
        by: Option<Cause>,
        /// So many attempts are alive.
        alive: usize,
    },
    /// It is to fail when its attempts are over.
    Failing {
        /// Why.
        error: Option<Failure>,
        /// So many attempts are alive.
        alive: usize,
    },
    /// Its end is decided, and what it has done is undone before it.
    Undoing {
        /// How it ends, if all can be undone.
        end: JobEnd,
        /// Why, where it fails.
        error: Option<Failure>,
        /// By whom, where it is cancelled.
        by: Option<Cause>,
        /// How many tasks are undone.
        done: usize,
        /// How many are to be.
        total: usize,
    },
    /// Its end is decided, and the tasks of `finally` run before it.
    Finishing {
        /// How it ends.
        end: JobEnd,
        /// Why, where it fails.
        error: Option<Failure>,
        /// By whom, where it is cancelled.
        by: Option<Cause>,
    },
    /// The engine holds jobs without running them.
    NothingRuns,
    /// The engine is starting, or is being shut down.
    EngineNotReady,
    /// Its history cannot be followed.
    Unreadable {
        /// Why not.
        why: String,
    },
    /// The engine has found that nothing will move it.
    Lacks(Lack),
    /// Another job holds its exclusive key.
    WantsKey {
        /// The key.
        key: String,
        /// The job that holds it.
        holder: JobId,
        /// Its place in the line for it, from 1.
        place: u64,
    },
    /// An attempt ran when its engine ended, and no engine runs now.
    CutOff {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
    },
    /// An attempt runs, and nothing says that it should not.
    Runs {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// Since when.
        since: Gone,
        /// When it times out, if it does.
        timeout: Option<Ahead>,
        /// How long nothing may be heard of it, if that matters.
        heartbeat: Option<Duration>,
        /// How far it says that it is.
        progress: Option<Progress>,
        /// What it says that it is doing.
        message: Option<String>,
    },
    /// An attempt was told to stop and still has time.
    Stops {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// Why; none where its timeout, or the end of the engine, is the reason.
        why: Option<StopReason>,
        /// When it was told.
        told: Gone,
        /// When it is dropped, or its processes are killed.
        grace: Ahead,
    },
    /// An attempt in this process was told to stop, its grace is over, and it has not ended.
    Blocks {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// When it was told.
        told: Gone,
        /// When its grace was over.
        grace: Gone,
    },
    /// The processes of an attempt were killed, and are not gone.
    Outlives {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// When it was told to stop.
        told: Gone,
        /// When its processes were killed.
        grace: Gone,
    },
    /// A task waits for its next attempt.
    Retries {
        /// The task.
        task: TaskId,
        /// The attempt that comes next.
        attempt: u32,
        /// So many attempts have failed since it was last tried afresh...
        failures: u32,
        /// ...and so many may.
        failures_max: u32,
        /// When it may start.
        until: Ahead,
        /// Why the last one failed.
        error: Option<Failure>,
    },
    /// A task waits for a time.
    Sleeps {
        /// The task.
        task: TaskId,
        /// Until when.
        until: Ahead,
    },
    /// A task waits for its child job.
    Child {
        /// The task.
        task: TaskId,
        /// The child.
        child: JobId,
        /// Why the child is to end before its time, if it is.
        stop: Option<StopReason>,
        /// Whether the child is quiet, as the job is to be.
        quiet: bool,
    },
    /// Its parent is paused, or is to be.
    HeldByParent {
        /// The parent.
        parent: JobId,
        /// The task of it that waits for the job.
        task: TaskId,
    },
    /// A task waits for a signal.
    Awaits {
        /// The task.
        task: TaskId,
        /// The names of the signals of which one will do.
        signals: Vec<SignalName>,
        /// Until when, where that matters.
        until: Option<Ahead>,
    },
    /// A task waits for its kind, which is not registered here.
    WantsKind {
        /// The task.
        task: TaskId,
        /// The kind.
        kind: String,
    },
    /// A task could start and waits for a slot.
    WantsSlot {
        /// The task.
        task: TaskId,
        /// Where; none where it has no place in a line.
        line: Option<Line>,
    },
    /// The engine keeps dying under a task, and it waits until no other such task runs.
    Suspect {
        /// The task.
        task: TaskId,
        /// How often in a row the engine died while it ran.
        losses: u32,
        /// Where it stands.
        line: Line,
        /// The one that runs.
        other: Option<Other>,
    },
    /// A failed task is in the way of others.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Its last attempt; 0 where it had none.
        attempt: u32,
        /// Why.
        error: Failure,
    },
    /// A task waits for others that are not settled.
    Needs {
        /// The task.
        task: TaskId,
        /// The first of them.
        needs: Vec<TaskId>,
        /// So many more there are.
        more: usize,
    },
    /// Nothing is known that keeps it.
    Unknown,
}

impl Reason {
    /// A short stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
            Self::NotExecuted => "not_executed",
            Self::StartsAt { .. } => "starts_at",
            Self::Paused { .. } => "paused",
            Self::Pausing { .. } => "pausing",
            Self::Cancelling { .. } => "cancelling",
            Self::Failing { .. } => "failing",
            Self::Undoing { .. } => "undoing",
            Self::Finishing { .. } => "finishing",
            Self::NothingRuns => "nothing_runs",
            Self::EngineNotReady => "engine_not_ready",
            Self::Unreadable { .. } => "unreadable",
            Self::Lacks(_) => "lacks",
            Self::WantsKey { .. } => "wants_key",
            Self::CutOff { .. } => "cut_off",
            Self::Runs { .. } => "runs",
            Self::Stops { .. } => "stops",
            Self::Blocks { .. } => "blocks",
            Self::Outlives { .. } => "outlives",
            Self::Retries { .. } => "retries",
            Self::Sleeps { .. } => "sleeps",
            Self::Child { .. } => "waits_for_child",
            Self::HeldByParent { .. } => "held_by_parent",
            Self::Awaits { .. } => "awaits_signal",
            Self::WantsKind { .. } => "wants_kind",
            Self::WantsSlot { .. } => "wants_slot",
            Self::Suspect { .. } => "suspect",
            Self::TaskFailed { .. } => "task_failed",
            Self::Needs { .. } => "needs",
            Self::Unknown => "unknown",
        }
    }

    /// The task that it is about; of a failed job the one that made it fail.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Failed { task, .. } => task.as_ref(),
            Self::CutOff { task, .. }
            | Self::Runs { task, .. }
            | Self::Stops { task, .. }
            | Self::Blocks { task, .. }
            | Self::Outlives { task, .. }
            | Self::Retries { task, .. }
            | Self::Sleeps { task, .. }
            | Self::Child { task, .. }
            | Self::Awaits { task, .. }
            | Self::WantsKind { task, .. }
            | Self::WantsSlot { task, .. }
            | Self::Suspect { task, .. }
            | Self::TaskFailed { task, .. }
            | Self::Needs { task, .. } => Some(task),
            _ => None,
        }
    }

    /// The attempt that it is about.
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::TaskFailed { attempt, .. } => Some(*attempt).filter(|attempt| *attempt > 0),
            Self::CutOff { attempt, .. }
            | Self::Runs { attempt, .. }
            | Self::Stops { attempt, .. }
            | Self::Blocks { attempt, .. }
            | Self::Outlives { attempt, .. }
            | Self::Retries { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }
}
