//! The audit of one job.

use std::sync::Arc;

use super::error::JobError;
use super::handle::JobHandle;
use super::message::Message;
use super::reading::viewed;
use crate::log::{Head, Verified, verify_job};

/// What the audit of a job found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Where its history ends, as far as that was sound.
    pub head: Head,
    /// What is in it, and what is wrong with it.
    pub found: Verified,
}

impl JobHandle {
    /// Reads the whole history of the job anew, and checks every hash, the chain of its events,
    /// and the values of its checkpoints and steps. Damage is found, not an error.
    pub async fn verify(&self) -> Result<Audited, JobError> {
        let ((shared, home), job) = (self.shared(), self.id());
        let head = match self.at_rest() {
            Some((_, head)) => Some(head.row),
            None => match shared.ask(home, |reply| Message::Head { job, reply }).await? {
                Ok(head) => head,
                // The views know where the history of one ends that cannot go on.
                Err(JobError::Unreadable { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let reading = Arc::clone(shared);
        let audit = move || {
            let reader = &*reading.reader;
            let head = match head.map_or_else(|| viewed(reader, job), |head| Ok(Ok(head)))? {
                Ok(head) => head,
                Err(error) => return Ok(Err(error)),
            };
            verify_job(reader, &reading.waypoints, (job, head)).map(Ok)
        };
        let (head, found) = shared.read(audit).await??;
        Ok(Audited { head, found })
    }
}
