//! What the oracle knows of a task.

use std::collections::BTreeMap;

use annals_engine::job::{TaskStatus, ValueDigest};
use annals_tasks_sdk::Payload;

/// Whether an attempt is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    None,
    Alive,
    Stopping,
}

/// What a waiting task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Retry(i64),
    Sleep(i64),
    Kind,
    /// The signal of a name; `rest` is what is left of its timeout, while that stands still.
    Signal {
        name: usize,
        until: Option<i64>,
        rest: Option<i64>,
    },
    Child,
}

/// How the last attempt went, as far as retries go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    NoFailure,
    Failure,
    /// One that is never retried.
    FinalFailure,
}

/// What the oracle knows of a task.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that one may know")]
pub(crate) struct Known {
    pub(crate) status: TaskStatus,
    pub(crate) attempts: u32,
    pub(crate) life: Life,
    pub(crate) being_skipped: bool,
    /// The skip that waits brings no output.
    pub(crate) gives_nothing: bool,
    pub(crate) waits: Option<Waits>,
    pub(crate) output: Option<Payload>,
    /// By the events that recorded them, the names, attempts and results of steps.
    pub(crate) steps: BTreeMap<u64, (Box<str>, u32, ValueDigest)>,
    pub(crate) losses: u32,
    pub(crate) failures: u32,
    pub(crate) last: Last,
    /// It was lost, and the plan wants somebody's consent before it runs again.
    pub(crate) wants_consent: bool,
    /// What passed over it was its condition.
    pub(crate) by_condition: bool,
    /// Of a task of `finally`: it was settled for the present end.
    pub(crate) done_at_end: bool,
    /// Of its child: whether it has said that it is quiet, and whether it was told to end.
    pub(crate) quiet: bool,
    pub(crate) child_stops: bool,
}

pub(crate) const NEW: Known = Known {
    status: TaskStatus::Pending,
    attempts: 0,
    life: Life::None,
    being_skipped: false,
    gives_nothing: false,
    waits: None,
    output: None,
    steps: BTreeMap::new(),
    losses: 0,
    failures: 0,
    last: Last::NoFailure,
    wants_consent: false,
    by_condition: false,
    done_at_end: false,
    quiet: false,
    child_stops: false,
};

impl Known {
    pub(crate) fn is_live(&self) -> bool {
        self.life != Life::None
    }

    /// Whether an attempt is alive, or a child that it waits for may be.
    pub(crate) fn is_engaged(&self) -> bool {
        self.is_live() || self.waits == Some(Waits::Child)
    }

    pub(crate) fn is_unsettled_at_end(&self) -> bool {
        !self.done_at_end
    }

    /// The end of its back-off or sleep.
    pub(crate) fn due(&self) -> Option<i64> {
        match self.waits {
            Some(Waits::Retry(due) | Waits::Sleep(due)) => Some(due),
            Some(Waits::Signal { until, .. }) => until,
            Some(Waits::Kind | Waits::Child) | None => None,
        }
    }

    /// Records a step, whose name must be new.
    pub(crate) fn records(&mut self, seq: u64, (name, attempt, value): (&str, u32, ValueDigest)) {
        assert!(self.is_live() && self.attempts == attempt);
        let again = self.steps.values().any(|(known, ..)| **known == *name);
        assert!(!again, "step {name} is recorded twice");
        self.steps.insert(seq, (name.into(), attempt, value));
    }

    pub(crate) fn closes(&mut self, status: TaskStatus, output: Option<Payload>) {
        (self.status, self.being_skipped, self.gives_nothing) = (status, false, false);
        (self.waits, self.output) = (None, output);
    }
}
