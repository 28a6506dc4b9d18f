//! What tasks wait for while they hold no slot.

use annals_tasks_sdk::{SignalName, Timestamp};

use super::deadline::Deadline;
use super::state::Task;

/// What a waiting task waits for, besides its next try.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// A time.
    Timer {
        /// When it is over.
        until: Timestamp,
    },
    /// Its kind, which is not registered here now.
    Kind,
    /// A signal, whose payload is what it gives.
    Signal {
        /// Its name.
        name: SignalName,
        /// When the task fails if none has come; time in which the job is paused does not count.
        until: Option<Timestamp>,
    },
}

/// What a waiting task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Its next attempt.
    Retry {
        /// Not before this time.
        until: Timestamp,
    },
    /// A time.
    Timer {
        /// Until when.
        until: Timestamp,
    },
    /// Its kind, which is not registered here now.
    Kind,
    /// A signal: [`Task::awaits`] names it.
    Signal {
        /// When it fails if none has come.
        timeout: Option<Deadline>,
    },
    /// Its child.
    Job,
}

impl Waiting {
    /// The time that it waits for, as long as that does not stand still.
    pub fn until(self) -> Option<Timestamp> {
        match self {
            Self::Retry { until }
            | Self::Timer { until }
            | Self::Signal { timeout: Some(Deadline::At(until)) } => Some(until),
            Self::Signal { .. } | Self::Kind | Self::Job => None,
        }
    }
}

impl Task {
    /// What it waits for.
    pub fn waiting(&self) -> Option<Waiting> {
        self.waiting
    }

    /// The names of the signals that it waits for.
    pub fn awaits(&self) -> &[SignalName] {
        &self.awaits
    }
}
