//! Conclude: what a state demands of itself. A job that has nothing left to do ends, one that is
//! to be quiet and is quiet is paused.

use annals_tasks_sdk::Timestamp;

use crate::job::event::{Event, Failure};
use crate::job::state::Job;
use crate::job::status::{Intent, JobStatus};

/// The event that the state itself demands, if it demands one.
pub(super) fn conclude(job: &Job, now: Timestamp) -> Option<Event> {
    if job.is_live() {
        return None;
    }
    match (job.status, job.intent) {
        (JobStatus::Running | JobStatus::Paused, Some(Intent::Cancel)) => Some(Event::JobCancelled),
        (JobStatus::Running, Some(Intent::Fail)) => Some(failed(job)),
        (JobStatus::Running, intent) if job.unsettled == 0 => {
            debug_assert_ne!(intent, Some(Intent::Cancel));
            Some(completed(job))
        }
        (JobStatus::Running, Some(Intent::Pause)) => {
            // What drained may have left nothing to start: then the job ends in spite of the
            // pause, unless a task asked for an operator by failing.
            let held = job.can_go_on() || job.waits_for_operator();
            if !held {
                return Some(failed(job));
            }
            // The time of the run counts until the job is quiet, so it may be over by then.
            Some(job.deadline_passed(now).unwrap_or(Event::JobPaused))
        }
        (JobStatus::Running, None) if !job.can_go_on() => Some(failed(job)),
        _ => None,
    }
}

fn completed(job: &Job) -> Event {
    match job.output() {
        Ok(_) => Event::JobCompleted,
        Err(error) => Event::JobFailed { error },
    }
}

fn failed(job: &Job) -> Event {
    let error = job.error().map(|(error, _)| error.clone());
    let error = error.unwrap_or_else(|| {
        Failure::new("stuck", "no task can start: each needs another that is not settled")
    });
    Event::JobFailed { error }
}
