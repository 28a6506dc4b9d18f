//! Signal: the job is told something.

use annals_tasks_sdk::{Payload, SignalName};

use super::edit::rejection;
use super::refuse;
use crate::job::event::Event;
use crate::job::key::IdempotencyKey;
use crate::job::rejection::Rejection;
use crate::job::signals::SIGNALS_KEPT_MAX;
use crate::job::state::Job;
use crate::job::status::{Intent, JobStatus};

pub(super) fn signal(
    job: &Job,
    name: SignalName,
    payload: Payload,
    key: Option<&IdempotencyKey>,
) -> Result<Vec<Event>, Rejection> {
    // By its key it is known again as long as the job is there, and not for some hours alone.
    if let Some(is_same) = key.and_then(|key| job.knows_as_same(key)) {
        return if is_same { Ok(Vec::new()) } else { Err(reused(job, &name)) };
    }
    if !job.takes_signals() {
        let advice = match (job.status, job.intent) {
            (JobStatus::Cancelled, None) => ": execute it first",
            (_, Some(_)) => ": no task that comes before its end is left that could wait for one",
            _ => ": nothing of it waits any more",
        };
        return Err(refuse(job, "signal", advice));
    }
    if job.is_full_for(&name) {
        let message = format!(
            "the job keeps {SIGNALS_KEPT_MAX} signals already that no task of it has waited for, \
             and as many is the most"
        );
        return Err(rejection(job, "too_many_signals", message));
    }
    Ok(vec![Event::SignalReceived { name, payload }])
}

fn reused(job: &Job, name: &SignalName) -> Rejection {
    let message = format!(
        "a signal came before with this key and another payload than this signal {name}: each \
         signal has a key of its own"
    );
    rejection(job, "idempotency_key_reused", message)
}

impl Job {
    /// Whether a signal could still be of use to a task.
    pub(in crate::job) fn takes_signals(&self) -> bool {
        match (self.status, self.intent) {
            (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) => {
                self.has_finally_before_it() || (self.is_being_undone() && !self.cut_short)
            }
            (JobStatus::Completed | JobStatus::Cancelled, None) => false,
            (
                JobStatus::Pending | JobStatus::Running | JobStatus::Paused | JobStatus::Failed,
                _,
            )
            | (_, Some(Intent::Pause)) => true,
        }
    }
}
