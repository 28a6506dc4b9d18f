//! Conclude: what a state demands of itself. A job that has nothing left to do ends, one that is
//! to be quiet and is quiet is paused.

use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::plan::JobEnd;

use crate::job::event::{Event, Failure, Part, PauseMode};
use crate::job::state::Job;
use crate::job::status::{Intent, JobStatus};

/// The event that the state itself demands, if it demands one.
pub(super) fn conclude(job: &Job, now: Timestamp, instances: usize) -> Option<Event> {
    if let Some(answer) = job.answers().or_else(|| job.ripens()) {
        return Some(answer);
    }
    let next = || job.declines().or_else(|| job.expands(instances)).or_else(|| job.delivers());
    if job.starts_tasks(now)
        && let Some(next) = next()
    {
        return Some(next);
    }
    if job.is_to_go_on_undoing() {
        return Some(then_finally(job, job.goes_on_undoing()));
    }
    // A condition that is neither true nor false fails its task, which may pause the job.
    if job.ending.is_none() && job.dispatches() && job.waits_for_operator() {
        return Some(Event::PauseRequested { mode: PauseMode::Drain });
    }
    if job.is_live() {
        return None;
    }
    if job.children().len() > 0 {
        // What the others are up to is asked of them; until they have ended the job does not.
        let quiets = job.intent == Some(Intent::Pause) && !job.has_loud_children();
        return quiets.then(|| paused(job, now));
    }
    let end = match job.ending {
        Some(_) if job.dispatches() && job.can_go_on() => return None,
        Some(_) if job.turn == Part::Undo => return Some(then_finally(job, job.end_of_undone())),
        Some(JobEnd::Completed) => return Some(Event::JobCompleted),
        Some(JobEnd::Failed) => return Some(failed(job)),
        Some(JobEnd::Cancelled) => return Some(Event::JobCancelled),
        None => end_of_work(job, now)?,
    };
    let next = match job.compensates_before(&end) {
        Some(compensating) => compensating,
        None if job.ends_in_order(&end) => begin_to_end(end),
        None => end,
    };
    // What comes before the end waits while the job is held.
    let waits = matches!(next, Event::JobCompensating { .. } | Event::JobEnding { .. });
    Some(if waits && job.intent == Some(Intent::Pause) { paused(job, now) } else { next })
}

/// The end of what is undone, behind the tasks of `finally`.
fn then_finally(job: &Job, end: Event) -> Event {
    if job.has_finally_before_it() { begin_to_end(end) } else { end }
}

/// The end is decided, and tasks of `finally` come before it.
fn begin_to_end(end: Event) -> Event {
    let (end, error) = match end {
        Event::JobFailed { error } => (JobEnd::Failed, Some(error)),
        Event::JobCancelled => (JobEnd::Cancelled, None),
        Event::JobCompleted => (JobEnd::Completed, None),
        other => return other,
    };
    Event::JobEnding { end, error }
}

/// What becomes of a job of which nothing is alive, but for the tasks of `finally`.
fn end_of_work(job: &Job, now: Timestamp) -> Option<Event> {
    match (job.status, job.intent) {
        (JobStatus::Running | JobStatus::Paused, Some(Intent::Cancel)) => Some(Event::JobCancelled),
        (JobStatus::Running, Some(Intent::Fail)) => Some(failed(job)),
        (JobStatus::Pending, Some(Intent::Pause)) => Some(Event::JobPaused),
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
            Some(paused(job, now))
        }
        (JobStatus::Running, None) if !job.can_go_on() => Some(failed(job)),
        _ => None,
    }
}

/// The time of the run counts until the job is quiet, so it may be over by then.
fn paused(job: &Job, now: Timestamp) -> Event {
    job.deadline_passed(now).unwrap_or(Event::JobPaused)
}

fn completed(job: &Job) -> Event {
    match job.output() {
        Ok(_) => Event::JobCompleted,
        Err(error) => Event::JobFailed { error },
    }
}

impl Job {
    /// Whether tasks of `finally` run before this end. A job that stood in line for its key, and
    /// has not begun, has nothing to end in order; nor does one that is to end at once.
    fn ends_in_order(&self, end: &Event) -> bool {
        let ends =
            matches!(end, Event::JobCompleted | Event::JobFailed { .. } | Event::JobCancelled);
        let never_began =
            self.exclusive().is_some_and(|own| !own.taken) && !matches!(end, Event::JobCompleted);
        ends && !never_began && self.has_finally_before_it()
    }

    pub(in crate::job) fn has_finally_before_it(&self) -> bool {
        let mut finally = self.tasks.iter().filter(|task| task.part == Part::Finally);
        !self.cut_short && finally.any(|task| !task.settled && !task.is_passed_over())
    }
}

fn failed(job: &Job) -> Event {
    let error = job.error().map(|(error, _)| error.clone());
    let error = error.unwrap_or_else(|| {
        Failure::new("stuck", "no task can start: each needs another that is not settled")
    });
    Event::JobFailed { error }
}
