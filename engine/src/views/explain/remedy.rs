//! Remedies: commands that would change what keeps a job.

use annals_tasks_sdk::{Payload, SignalName, TaskId, Timestamp};

use super::reason::Reason;
use crate::job::{CancelMode, Command, Context, Job, LossRule, Origin, PauseMode, decide};

/// A command that would change what keeps a job, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Start it, or go on with it.
    Execute,
    /// Take the pause back.
    Resume,
    /// Stop what runs instead of waiting until it ends.
    Interrupt,
    /// End it.
    Cancel,
    /// End it without what is to be done before.
    CancelNow,
    /// Try a task again now.
    Retry {
        /// Which one.
        task: TaskId,
    },
    /// Send the signal that a task waits for.
    Signal {
        /// Its name.
        name: SignalName,
    },
    /// Go on without a task.
    Skip {
        /// Which one.
        task: TaskId,
        /// Whether those that would lose an input have to go with it.
        cascade: bool,
    },
}

impl Remedy {
    /// The command's name.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Resume => "resume",
            Self::Interrupt => "pause",
            Self::Cancel | Self::CancelNow => "cancel",
            Self::Retry { .. } => "retry",
            Self::Signal { .. } => "signal",
            Self::Skip { .. } => "skip",
        }
    }

    /// The command itself.
    pub fn command(&self) -> Command {
        match self {
            Self::Execute => Command::Execute { paused: false },
            Self::Resume => Command::Resume,
            Self::Interrupt => Command::Pause { mode: PauseMode::Interrupt },
            Self::Cancel => Command::CANCEL,
            Self::CancelNow => Command::Cancel { mode: CancelMode::Now },
            Self::Retry { task } => Command::Retry { task: task.clone() },
            Self::Signal { name } => Command::Signal { name: name.clone(), payload: Payload::NULL },
            Self::Skip { task, cascade } => {
                Command::Skip { task: Some(task.clone()), output: None, cascade: *cascade }
            }
        }
    }

    /// The commands that would change this, each of which the job would accept as it stands.
    pub(super) fn all_of(reason: &Reason, job: &Job, now: Timestamp) -> Vec<Self> {
        let candidates = match reason {
            Reason::Failed { .. } | Reason::Cancelled { .. } => vec![Self::Execute],
            Reason::Undoing { .. } | Reason::Finishing { .. } => vec![Self::CancelNow],
            Reason::NotExecuted | Reason::StartsAt { .. } => vec![Self::Execute, Self::Cancel],
            Reason::WantsKey { .. } => vec![Self::Cancel],
            Reason::Paused { .. } => vec![Self::Resume, Self::Cancel],
            Reason::Pausing { .. } => vec![Self::Resume, Self::Interrupt, Self::Cancel],
            Reason::Retries { task, .. } | Reason::TaskFailed { task, .. } => {
                let mut all = vec![Self::Retry { task: task.clone() }];
                all.extend(Self::of_task(task, job, now));
                all
            }
            Reason::Awaits { task, signals, .. } => {
                let signals = signals.iter().map(|name| Self::Signal { name: name.clone() });
                signals.chain(Self::of_task(task, job, now)).collect()
            }
            Reason::CutOff { task, .. }
            | Reason::Runs { task, .. }
            | Reason::Sleeps { task, .. }
            | Reason::Child { task, .. }
            | Reason::WantsKind { task, .. }
            | Reason::WantsSlot { task, .. }
            | Reason::Suspect { task, .. } => Self::of_task(task, job, now),
            _ => Vec::new(),
        };
        candidates.into_iter().filter(|one| one.helps(job, now)).collect()
    }

    fn of_task(task: &TaskId, job: &Job, now: Timestamp) -> Vec<Self> {
        let skip = Self::Skip { task: task.clone(), cascade: false };
        if skip.helps(job, now) {
            return vec![skip];
        }
        vec![Self::Skip { task: task.clone(), cascade: true }]
    }

    /// Whether the job would accept it now, and change.
    fn helps(&self, job: &Job, now: Timestamp) -> bool {
        let (origin, losses) = (Origin::ENGINE, LossRule::default());
        let cx = Context { origin, key: None, now, random: 0.0, losses, instances: 10_000 };
        decide(job, self.command(), &cx).is_ok_and(|events| !events.is_empty())
    }
}
