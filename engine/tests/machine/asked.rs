//! What a report says that no event does, for the oracle to judge by.

use annals_engine::job::{Input, Outcome, Report};

/// What a failure asks for beside what its event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    /// The least wait, in milliseconds.
    pub(crate) wait: i64,
    /// Whether it has a name that is never retried.
    pub(crate) is_final: bool,
}

impl Asked {
    /// What a report asks for.
    pub(crate) fn by(input: &Input) -> Self {
        let Input::Report(Report::Ended { outcome, .. }) = input else { return Self::default() };
        match outcome {
            Outcome::Failed(error) | Outcome::TimedOut(error) => Self {
                wait: error.retry_wait().map_or(0, |wait| wait.as_millis().try_into().unwrap()),
                is_final: error.alias() == Some("busy_2"),
            },
            _ => Self::default(),
        }
    }
}
