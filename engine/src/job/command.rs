//! Commands and reports: what people want of a job, and what the runtime tells it.

use annals_tasks_sdk::plan::{TaskPatch, TaskSpec};
use annals_tasks_sdk::{Done, JobId, Payload, SignalName, TaskError, TaskId, Timestamp};

use super::child::{News, Wish};
use super::event::{CancelMode, LogSize, Origin, PauseMode, TaskNumber, ValueDigest};
use super::key::IdempotencyKey;
use super::waiting::Wait;

/// What a job is given. Commands and reports are apart, so that who may command cannot report.
#[derive(Debug)]
pub enum Input {
    /// What is wanted of it.
    Command(Command),
    /// What the runtime reports.
    Report(Report),
}

impl From<Command> for Input {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl From<Report> for Input {
    fn from(report: Report) -> Self {
        Self::Report(report)
    }
}

/// What is wanted of a job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Command {
    /// Start a pending job, or go on with a failed or cancelled one. With `paused` it is opened
    /// again but held.
    Execute {
        /// Whether it is held in `paused` until a resume.
        paused: bool,
    },
    /// Start nothing more.
    Pause {
        /// How it treats live attempts.
        mode: PauseMode,
    },
    /// Take a pause back.
    Resume,
    /// Stop everything and end.
    Cancel {
        /// Whether the tasks of `finally` run before.
        mode: CancelMode,
    },
    /// Leave nothing of an ended job but a tombstone.
    Purge {
        /// The hash of the job's last event, for the tombstone. The engine puts in what it is,
        /// whatever stands here.
        head: [u8; 32],
    },
    /// Go on without a task. Without a name: the only one that runs, waits, is interrupted or
    /// has failed.
    Skip {
        /// Which one.
        task: Option<TaskId>,
        /// What it gives instead of its own output.
        output: Option<Payload>,
        /// Whether the tasks that would lose an input are skipped with it.
        cascade: bool,
    },
    /// Take a task out of the plan.
    Remove {
        /// Which one.
        task: TaskId,
        /// Whether the tasks that would lose an input are removed with it.
        cascade: bool,
    },
    /// Put a task into the plan.
    Insert {
        /// What the plan is to say of it.
        task: Box<TaskSpec>,
        /// Where it is to stand.
        place: Place,
        /// Tasks that are to need it beside what they need already.
        needed_by: Vec<TaskId>,
    },
    /// Put a task elsewhere in the plan.
    Move {
        /// Which one.
        task: TaskId,
        /// Where it is to stand.
        place: Place,
    },
    /// Have the plan say something else of a task.
    Edit {
        /// Which one.
        task: TaskId,
        /// What is replaced.
        patch: TaskPatch,
        /// Whether its checkpoint and its steps are dropped, so that it begins anew.
        reset: bool,
    },
    /// Try a task again now: at once where it waits for that, with a new budget where it has
    /// failed.
    Retry {
        /// Which one.
        task: TaskId,
    },
    /// Tell the job something that a task of it waits for, or will.
    Signal {
        /// What the task knows it by.
        name: SignalName,
        /// What it says.
        payload: Payload,
    },
}

impl Command {
    /// Leave nothing of an ended job but a tombstone.
    pub const PURGE: Self = Self::Purge { head: [0; 32] };
    /// A cancel in good order.
    pub const CANCEL: Self = Self::Cancel { mode: CancelMode::Orderly };
}

/// A place in the order of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// Before all others.
    First,
    /// Directly before this one.
    Before(TaskId),
    /// Directly behind this one.
    After(TaskId),
    /// Behind all others.
    #[default]
    Last,
}

/// What the runtime reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum Report {
    /// A slot was found for a task that wanted one.
    Start {
        /// The task.
        task: TaskNumber,
    },
    /// A task that was ready waits instead.
    Park {
        /// The task.
        task: TaskNumber,
        /// What it waits for.
        wait: Wait,
    },
    /// The child of a task that was ready is there: the task waits for it.
    Spawned {
        /// The task.
        task: TaskNumber,
        /// The child.
        child: JobId,
        /// The event with which the child ended last, where it is one that the task had before.
        after: u64,
    },
    /// The job's parent wants this of it.
    Wished(Wish),
    /// The child that a task waits for has something to say.
    Heard {
        /// The task.
        task: TaskNumber,
        /// The child.
        child: JobId,
        /// What.
        news: News,
    },
    /// A task that was ready cannot start: its input is wrong.
    Refuse {
        /// The task.
        task: TaskNumber,
        /// What is wrong with its input.
        error: TaskError,
    },
    /// An attempt is over.
    Ended {
        /// Its task.
        task: TaskNumber,
        /// Its number in the task.
        attempt: u32,
        /// How it ended.
        outcome: Outcome,
        /// The size of its step log.
        log: LogSize,
    },
    /// An attempt saved a checkpoint.
    Checkpoint {
        /// Its task.
        task: TaskNumber,
        /// Its number in the task.
        attempt: u32,
        /// What the log proves about the value.
        value: ValueDigest,
    },
    /// A step of an attempt gave its result.
    Step {
        /// Its task.
        task: TaskNumber,
        /// The attempt's number in the task.
        attempt: u32,
        /// The step's name.
        name: Box<str>,
        /// What the log proves about the result.
        value: ValueDigest,
    },
    /// A time that the job waited for has come.
    Tick,
    /// The engine has started: whatever was alive is lost.
    Recover,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Outcome {
    /// It gave a result.
    Completed(Done),
    /// It gave an error.
    Failed(TaskError),
    /// Its timeout fired, or nothing was heard of it for too long, as the code of the error says.
    /// Whatever it then gave is in the error.
    TimedOut(TaskError),
    /// It was told to stop, and ended without a result.
    Interrupted(TaskError),
}

/// What a decision needs to know beside the job and the command.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who asks.
    pub origin: Origin,
    /// The key that the command came with.
    pub key: Option<Box<IdempotencyKey>>,
    /// What the time is.
    pub now: Timestamp,
    /// A number in 0..1 for the jitter of retries.
    pub random: f64,
    /// What losses mean.
    pub losses: LossRule,
    /// Into how many instances a task may turn.
    pub instances: usize,
}

/// When a task that the engine keeps dying under is suspected, and when it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossRule {
    /// After so many losses in a row a task is a suspect: suspects run one at a time.
    pub suspect_after: u32,
    /// After so many more it fails with `crash_loop`.
    pub fail_after: u32,
}

impl Default for LossRule {
    fn default() -> Self {
        Self { suspect_after: 3, fail_after: 3 }
    }
}
