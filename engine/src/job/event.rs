//! Events: what happened to a job. Appended once, never changed.
//!
//! These are the machine's types. Their form on disk is a frozen twin in [`crate::log`].

use std::sync::Arc;

use annals_tasks_sdk::plan::{JobEnd, Plan, TaskSpec};
use annals_tasks_sdk::{Exit, JobId, Payload, SignalName, Timestamp};

use super::child::{ChildEnd, Parent};
use super::key::IdempotencyKey;
pub use super::parts::{
    AttemptEnd, CancelMode, Failure, LogSize, Part, PauseMode, Purged, SkippedBy, ValueDigest,
};
pub(super) use super::waiting::Wait;

/// An event with everything that the log keeps of it but its position and its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The event's number in its job, from 1, without gaps.
    pub seq: u64,
    /// When it was decided; never before its predecessor in the job.
    pub time: Timestamp,
    /// Who caused it.
    pub origin: Origin,
    /// Whether an accepted command begins with it; counts the job's revision.
    pub leads: bool,
    /// The key that the command came with which begins with it.
    pub key: Option<Box<IdempotencyKey>>,
    /// What happened.
    pub event: Event,
}

/// Who caused an event, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The name of a person or token; `None` is the engine itself.
    pub actor: Option<Arc<str>>,
    /// The id of the request that asked for it.
    pub request_id: Option<Arc<str>>,
    /// The reason that was given.
    pub reason: Option<Arc<str>>,
}

impl Origin {
    /// What the engine does of itself.
    pub const ENGINE: Self = Self { actor: None, request_id: None, reason: None };

    /// Somebody, by name.
    pub fn actor(name: &str) -> Self {
        Self { actor: Some(name.into()), ..Self::ENGINE }
    }

    /// The actor's name, `engine` for the engine itself.
    pub fn name(&self) -> &str {
        self.actor.as_deref().unwrap_or("engine")
    }
}

/// A task's number in its job: its place in the order of creation, from 1. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNumber(pub u32);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The job was accepted; always its first event.
    JobSubmitted(Box<Submitted>),
    /// The job is a fork: it goes on from what another one had done. Always its second event.
    JobForked {
        /// The origin.
        job: JobId,
        /// The origin's last event then.
        seq: u64,
        /// The task that runs anew with all that need it; none where only that does which was not
        /// settled.
        task: Option<TaskNumber>,
        /// So many events follow that are copies of what was settled there.
        copied: u32,
    },
    /// The job is the child of another one's task. Always its second event.
    JobLinked(Box<Parent>),
    /// The parent is paused, or is to be: the job is to be quiet with it.
    HoldPlaced {
        /// How it treats live attempts.
        mode: PauseMode,
    },
    /// The parent goes on, and so does the job, where nobody else holds it.
    HoldLifted,
    /// The task waits for its child and holds no slot. Where it is a new one, its submission is in
    /// the same commit.
    ChildStarted {
        /// The task.
        task: TaskNumber,
        /// The child.
        child: JobId,
        /// An end up to this event of the child is no news: the child goes on from there.
        after: u64,
    },
    /// The child that a task waits for is quiet, since the job was to be paused.
    ChildPaused {
        /// The task.
        task: TaskNumber,
    },
    /// The child that a task waits for has ended without success.
    ChildEnded {
        /// The task.
        task: TaskNumber,
        /// How.
        end: ChildEnd,
        /// The child's event with which it did; 0 where there is none.
        seq: u64,
        /// Why.
        error: Failure,
    },
    /// The job was released from `pending`.
    JobStarted,
    /// A pause was accepted while attempts were alive.
    PauseRequested {
        /// How it treats live attempts.
        mode: PauseMode,
    },
    /// The job is quiet.
    JobPaused,
    /// The job goes on.
    JobResumed,
    /// A cancel was accepted for a job that had started.
    CancelRequested {
        /// Whether what the job has done is undone, and the tasks of `finally` run, before the end.
        mode: CancelMode,
    },
    /// The deadline of the run has passed: the job fails when nothing of it is alive.
    DeadlinePassed {
        /// With what.
        error: Failure,
    },
    /// Nothing of the work is alive or can go on: the end of the run is decided, and what the
    /// job has done is undone before it.
    JobCompensating {
        /// How it is about to end.
        end: JobEnd,
        /// Why, where it fails.
        error: Option<Failure>,
        /// The tasks that are to be undone, in the order in which they are. Each has a task that
        /// does so from then on.
        tasks: Box<[TaskNumber]>,
    },
    /// Nothing of the work is alive or can go on: the end of the run is decided, and the tasks of
    /// `finally` run before it.
    JobEnding {
        /// How it is about to end.
        end: JobEnd,
        /// Why, where it fails.
        error: Option<Failure>,
    },
    /// A skip was accepted while the task's attempt was alive; it takes effect when that is over.
    SkipRequested {
        /// The task.
        task: TaskNumber,
        /// What stands in for its output.
        output: Option<Payload>,
    },
    /// A failed or cancelled job was executed again, running or `held` in `paused`.
    JobReopened {
        /// Whether it is paused at once.
        held: bool,
    },
    /// Everything is settled.
    JobCompleted,
    /// Nothing runs, waits or can start.
    JobFailed {
        /// Why.
        error: Failure,
    },
    /// The job was cancelled and nothing of it is alive.
    JobCancelled,
    /// The job was purged; always its last event.
    JobPurged(Purged),
    /// An attempt is about to start.
    AttemptStarted {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
    },
    /// An attempt failed.
    AttemptFailed {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd,
    },
    /// An attempt took longer than its timeout, or nothing was heard of it for too long, and it is
    /// over.
    AttemptTimedOut {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd,
    },
    /// An attempt was stopped by a pause, a cancel, a skip, a deadline or a shutdown, and is over.
    AttemptInterrupted {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd,
    },
    /// The engine died while the attempt ran.
    AttemptLost {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
    },
    /// The task waits for something and holds no slot.
    TaskWaiting {
        /// The task.
        task: TaskNumber,
        /// What it waits for.
        wait: Wait,
    },
    /// The task's next attempt may start at `due`.
    RetryScheduled {
        /// The task.
        task: TaskNumber,
        /// When.
        due: Timestamp,
    },
    /// The task succeeded; `attempt` is 0 where none was needed, as for `sleep`, and in a copy.
    TaskCompleted {
        /// The task.
        task: TaskNumber,
        /// The attempt that succeeded.
        attempt: u32,
        /// What it gave.
        output: Payload,
        /// How its child process ended, where there was one.
        exit: Exit,
        /// The size of the attempt's step log.
        log: LogSize,
    },
    /// The task failed for good.
    TaskFailed {
        /// The task.
        task: TaskNumber,
        /// Why.
        error: Failure,
    },
    /// The task was skipped.
    TaskSkipped {
        /// The task.
        task: TaskNumber,
        /// By what.
        by: SkippedBy,
        /// What stands in for its output.
        output: Option<Payload>,
    },
    /// The task was removed from the plan.
    TaskRemoved {
        /// The task.
        task: TaskNumber,
    },
    /// A task was put into the plan.
    TaskInserted {
        /// Its number, the next one.
        task: TaskNumber,
        /// What the plan says of it.
        spec: Box<TaskSpec>,
        /// The part of the plan that it stands in.
        part: Part,
        /// The task behind which it stands; `None` where it is the first.
        after: Option<TaskNumber>,
        /// Tasks that come to need it beside what they need already.
        needed_by: Box<[TaskNumber]>,
    },
    /// The task stands elsewhere in the plan.
    TaskMoved {
        /// The task.
        task: TaskNumber,
        /// The task behind which it stands; `None` where it is the first.
        after: Option<TaskNumber>,
    },
    /// The plan says something else of the task.
    TaskEdited {
        /// The task.
        task: TaskNumber,
        /// What the plan says of it now.
        spec: Box<TaskSpec>,
        /// Whether its checkpoint and its steps were dropped.
        reset: bool,
    },
    /// The task, which is done for each element of a list, has become its instances.
    TaskExpanded {
        /// The task.
        task: TaskNumber,
        /// The list.
        items: Payload,
    },
    /// An attempt saved a checkpoint; the value lies beside the record.
    CheckpointSaved {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
        /// What the value is known by.
        value: ValueDigest,
    },
    /// An attempt recorded the result of a step; it lies beside the record.
    StepRecorded {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
        /// The step's name, which is new in its task.
        name: Box<str>,
        /// What the result is known by.
        value: ValueDigest,
    },
    /// A signal has come; it is kept until a task waits for one of its name.
    SignalReceived {
        /// Its name.
        name: SignalName,
        /// What it brings.
        payload: Payload,
    },
    /// A task has what it waited for.
    SignalDelivered {
        /// The task.
        task: TaskNumber,
        /// The name of the signal.
        name: SignalName,
        /// The number of the event with which it came.
        signal: u64,
    },
}

/// How a job came to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// What it is to do.
    pub plan: Plan,
    /// The workflow that made the plan, where one did.
    pub workflow: Option<Box<str>>,
    /// The file that the plan was read from, where it was read from one.
    pub source: Option<Box<str>>,
}

impl Event {
    /// The event's type as it is written everywhere.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::JobSubmitted(_) => "JobSubmitted",
            Self::JobForked { .. } => "JobForked",
            Self::JobLinked(_) => "JobLinked",
            Self::HoldPlaced { .. } => "HoldPlaced",
            Self::HoldLifted => "HoldLifted",
            Self::ChildStarted { .. } => "ChildStarted",
            Self::ChildPaused { .. } => "ChildPaused",
            Self::ChildEnded { .. } => "ChildEnded",
            Self::JobStarted => "JobStarted",
            Self::PauseRequested { .. } => "PauseRequested",
            Self::JobPaused => "JobPaused",
            Self::JobResumed => "JobResumed",
            Self::CancelRequested { .. } => "CancelRequested",
            Self::JobCompensating { .. } => "JobCompensating",
            Self::JobEnding { .. } => "JobEnding",
            Self::DeadlinePassed { .. } => "DeadlinePassed",
            Self::SkipRequested { .. } => "SkipRequested",
            Self::JobReopened { .. } => "JobReopened",
            Self::JobCompleted => "JobCompleted",
            Self::JobFailed { .. } => "JobFailed",
            Self::JobCancelled => "JobCancelled",
            Self::JobPurged(_) => "JobPurged",
            Self::AttemptStarted { .. } => "AttemptStarted",
            Self::AttemptFailed { .. } => "AttemptFailed",
            Self::AttemptTimedOut { .. } => "AttemptTimedOut",
            Self::AttemptInterrupted { .. } => "AttemptInterrupted",
            Self::AttemptLost { .. } => "AttemptLost",
            Self::TaskWaiting { .. } => "TaskWaiting",
            Self::RetryScheduled { .. } => "RetryScheduled",
            Self::TaskCompleted { .. } => "TaskCompleted",
            Self::TaskFailed { .. } => "TaskFailed",
            Self::TaskSkipped { .. } => "TaskSkipped",
            Self::TaskRemoved { .. } => "TaskRemoved",
            Self::TaskInserted { .. } => "TaskInserted",
            Self::TaskMoved { .. } => "TaskMoved",
            Self::TaskEdited { .. } => "TaskEdited",
            Self::TaskExpanded { .. } => "TaskExpanded",
            Self::CheckpointSaved { .. } => "CheckpointSaved",
            Self::StepRecorded { .. } => "StepRecorded",
            Self::SignalReceived { .. } => "SignalReceived",
            Self::SignalDelivered { .. } => "SignalDelivered",
        }
    }
}
