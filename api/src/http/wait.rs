//! Long waits: answers that come when something has happened, or when the client's time is over.

use std::time::Duration;

use annals_engine::JobHandle;

use super::problem::Problem;
use super::query::{Parameters, bad_query};
use super::state::AppState;

/// How long to wait, and for what.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wait {
    /// Not at all where it is left out; no longer than the settings allow.
    pub(super) longest: Option<Duration>,
    /// Until the job's seq is greater than this; until it has ended where it is left out.
    pub(super) after: Option<u64>,
}

impl Wait {
    /// Reads `wait` and `after`.
    pub(super) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let longest = parameters.duration("wait")?;
        let after = parameters.number("after")?;
        if after.is_some() && longest.is_none() {
            return Err(bad_query(
                "`after` says what to wait for: it needs `wait`, as in wait=30s",
            ));
        }
        Ok(Self { longest, after })
    }

    /// Waits until the job has got there, the time is over, or the server ends.
    pub(super) async fn on(self, job: &JobHandle, state: &AppState) -> Result<(), Problem> {
        let Some(longest) = self.longest else { return Ok(()) };
        let longest = longest.min(state.settings().wait_max);
        let there = async {
            match self.after {
                Some(after) => job.changed(after).await.map(|_| ()),
                None => job.ended().await.map(|_| ()),
            }
        };
        tokio::select! {
            there = there => there.map_err(Problem::from),
            () = tokio::time::sleep(longest) => Ok(()),
            () = state.ending().cancelled() => Ok(()),
        }
    }
}
