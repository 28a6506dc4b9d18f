//! Which signals have come and were not delivered, for the [laws](super::laws).

use super::laws::Law;
use crate::job::Job;

/// The events with which signals have come that no task was given, in their order.
#[derive(Debug, Default)]
pub(super) struct Undelivered(Vec<u64>);

impl Undelivered {
    /// Those of a job.
    pub(super) fn of(job: &Job) -> Self {
        let mut kept: Vec<u64> = job.kept_signals().map(|(seq, ..)| seq).collect();
        kept.sort_unstable();
        Self(kept)
    }

    /// One has come.
    #[expect(clippy::unnecessary_wraps, reason = "it is what the laws say to an event")]
    pub(super) fn add(&mut self, seq: u64) -> Result<(), Law> {
        self.0.push(seq);
        Ok(())
    }

    /// One was delivered; a second time it breaks a law.
    pub(super) fn deliver(&mut self, signal: u64) -> Result<(), Law> {
        let place = self.0.binary_search(&signal).map_err(|_| Law::OneDelivery)?;
        self.0.remove(place);
        Ok(())
    }
}
