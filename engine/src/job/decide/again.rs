//! Retry: a task is tried again now.

use annals_tasks_sdk::{TaskId, Timestamp};

use super::edit::{find, rejection, settled};
use super::{lifecycle, refuse};
use crate::job::event::Event;
use crate::job::rejection::Rejection;
use crate::job::state::Job;
use crate::job::status::{Intent, JobStatus, TaskStatus};
use crate::job::waiting::Waiting;

pub(super) fn retry(job: &Job, task: &TaskId, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    let over = job.intent.is_some_and(Intent::ends);
    if over || matches!(job.status, JobStatus::Pending | JobStatus::Completed) {
        return Err(refuse(job, "retry a task of", ""));
    }
    let (number, task) = find(job, task)?;
    if task.settled || task.is_passed_over() {
        return Err(settled(job, task));
    }
    if matches!(job.status, JobStatus::Failed | JobStatus::Cancelled) {
        return lifecycle::execute(job, false);
    }
    let due = now.max(job.time);
    match (task.status, task.waiting) {
        // It is being tried, or will be as soon as the job lets it.
        (TaskStatus::Running | TaskStatus::Interrupted, _) => Ok(Vec::new()),
        (TaskStatus::Waiting, Some(Waiting::Retry { until })) if until <= due => Ok(Vec::new()),
        (TaskStatus::Waiting, Some(Waiting::Retry { .. })) | (TaskStatus::Failed, _) => {
            Ok(vec![Event::RetryScheduled { task: number, due }])
        }
        _ => {
            let message = format!(
                "task {} is {}: only one that has failed, or waits for its next try, is tried \
                 again",
                task.spec.id, task.status
            );
            Err(rejection(job, "nothing_to_retry", message))
        }
    }
}
