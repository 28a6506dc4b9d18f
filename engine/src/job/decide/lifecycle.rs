//! Execute, pause, resume, cancel and purge.

use super::edit::{compensated, rejection};
use super::refuse;
use crate::job::event::{CancelMode, Event, PauseMode};
use crate::job::rejection::Rejection;
use crate::job::state::Job;
use crate::job::status::{Intent, JobStatus};

pub(super) fn execute(job: &Job, paused: bool) -> Result<Vec<Event>, Rejection> {
    match (job.status, job.intent) {
        (_, Some(Intent::Pause)) | (JobStatus::Paused, None) => {
            Err(refuse(job, "execute", ": resume it"))
        }
        (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) => {
            Err(refuse(job, "execute", ": wait until that is over"))
        }
        // It is released, but held: a resume lets it run.
        (JobStatus::Pending, None) if paused => {
            Ok(vec![Event::JobStarted, Event::PauseRequested { mode: PauseMode::Drain }])
        }
        (JobStatus::Pending, None) => Ok(vec![Event::JobStarted]),
        (JobStatus::Running | JobStatus::Completed, None) => Ok(Vec::new()),
        (JobStatus::Failed | JobStatus::Cancelled, None) if job.is_undone() => {
            Err(compensated(job))
        }
        (JobStatus::Failed | JobStatus::Cancelled, None) => {
            Ok(vec![Event::JobReopened { held: paused }])
        }
    }
}

pub(super) fn pause(job: &Job, mode: PauseMode) -> Result<Vec<Event>, Rejection> {
    match (job.status, job.intent) {
        (JobStatus::Pending, _) => Ok(vec![Event::JobPaused]),
        (JobStatus::Running, None) => Ok(vec![Event::PauseRequested { mode }]),
        // It is held by its parent; from now on by its own pause, too.
        (JobStatus::Running, Some(Intent::Pause)) | (JobStatus::Paused, None)
            if !job.holders.own =>
        {
            Ok(vec![Event::PauseRequested { mode }])
        }
        (JobStatus::Running, Some(Intent::Pause)) => {
            let hardens = mode == PauseMode::Interrupt && hardens(job);
            Ok(if hardens { vec![Event::PauseRequested { mode }] } else { Vec::new() })
        }
        (JobStatus::Paused, None) => Ok(Vec::new()),
        _ => Err(refuse(job, "pause", "")),
    }
}

/// Whether anything of a job drains that an interrupt would stop.
fn hardens(job: &Job) -> bool {
    let drains = |attempt: &crate::job::Attempt| attempt.stop.is_none();
    let attempts = job.live().any(|(_, task)| task.live_attempt().is_some_and(drains));
    let held = job.hold.is_some_and(|hold| hold.mode == PauseMode::Interrupt);
    attempts || (job.has_loud_children() && !held)
}

fn held_by_parent(job: &Job) -> Rejection {
    let by = job.parent().map_or_else(String::new, |parent| format!(" {}", parent.job));
    let message = format!("the job is held since its parent is paused: resume job{by}");
    rejection(job, "held_by_parent", message)
}

pub(super) fn resume(job: &Job) -> Result<Vec<Event>, Rejection> {
    match (job.status, job.intent) {
        (JobStatus::Pending | JobStatus::Running, None) => Ok(Vec::new()),
        (JobStatus::Running, Some(Intent::Pause)) | (JobStatus::Paused, None)
            if !job.holders.own =>
        {
            Err(held_by_parent(job))
        }
        (JobStatus::Running, Some(Intent::Pause)) | (JobStatus::Paused, None) => {
            Ok(vec![Event::JobResumed])
        }
        (JobStatus::Failed | JobStatus::Cancelled, None) => {
            Err(refuse(job, "resume", ": execute it"))
        }
        _ => Err(refuse(job, "resume", "")),
    }
}

pub(in crate::job) fn cancel(job: &Job, mode: CancelMode) -> Result<Vec<Event>, Rejection> {
    match (job.status, job.intent) {
        // What never started, or has failed, has nothing to stop.
        (JobStatus::Pending | JobStatus::Failed, None) => Ok(vec![Event::JobCancelled]),
        (JobStatus::Running | JobStatus::Paused, None | Some(Intent::Pause))
            if job.started.is_none() =>
        {
            Ok(vec![Event::JobCancelled])
        }
        (JobStatus::Running | JobStatus::Paused, None | Some(Intent::Pause)) => {
            Ok(vec![Event::CancelRequested { mode }])
        }
        // The end is decided; what is to come before it may be cut short.
        (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) => {
            let hastens = mode == CancelMode::Now && !job.cut_short;
            Ok(hastens.then_some(Event::CancelRequested { mode }).into_iter().collect())
        }
        (JobStatus::Cancelled, None) => Ok(Vec::new()),
        _ => Err(refuse(job, "cancel", ": nothing of it is left to stop")),
    }
}

pub(super) fn purge(job: &Job, head: [u8; 32]) -> Result<Vec<Event>, Rejection> {
    match (job.status, job.intent) {
        (JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled, None) => {
            Ok(vec![Event::JobPurged(job.leaves(head))])
        }
        (_, Some(Intent::Cancel | Intent::Fail)) => {
            Err(refuse(job, "purge", ": wait until that is over"))
        }
        (JobStatus::Pending | JobStatus::Running | JobStatus::Paused, _) | (_, Some(_)) => {
            Err(refuse(job, "purge", ": only one that has ended is purged, so cancel it first"))
        }
    }
}
