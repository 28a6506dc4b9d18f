//! Retry: a task is tried again now.

use annals_tasks_sdk::{TaskId, Timestamp};

use super::edit::{find, may_touch, rejection, settled};
use super::{lifecycle, refuse};
use crate::job::event::Event;
use crate::job::rejection::Rejection;
use crate::job::state::{Job, Task};
use crate::job::status::{Intent, JobStatus, TaskStatus};
use crate::job::waiting::Waiting;

pub(super) fn retry(job: &Job, task: &TaskId, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    let over = job.intent.is_some_and(Intent::ends);
    if over || matches!(job.status, JobStatus::Pending | JobStatus::Completed) {
        return Err(refuse(job, "retry a task of", ""));
    }
    let (number, task) = find(job, task)?;
    may_touch(job, task.part)?;
    if task.settled || task.is_passed_over() {
        return Err(settled(job, task));
    }
    if matches!(job.status, JobStatus::Failed | JobStatus::Cancelled) {
        return lifecycle::execute(job, false);
    }
    let due = now.max(job.time);
    let parent = job.parent_of(task).map_or(task, |(_, parent)| parent);
    let is_being_skipped = parent.fan().is_some() && parent.skip.is_some();
    let mut instances = job.instances(task).map(|(_, one)| one);
    let again = Event::RetryScheduled { task: number, due };
    match task.status {
        // Nothing of it is to be tried.
        _ if is_being_skipped => Ok(Vec::new()),
        _ if is_to_be_tried(task, due) || instances.any(|one| is_to_be_tried(one, due)) => {
            Ok(vec![again])
        }
        // It is being tried, or will be as soon as the job lets it.
        TaskStatus::Running | TaskStatus::Interrupted => Ok(Vec::new()),
        TaskStatus::Waiting if is_tried_soon(job, task) => Ok(Vec::new()),
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

/// Whether a task has failed, or would be tried later than now.
fn is_to_be_tried(task: &Task, now: Timestamp) -> bool {
    let later = matches!(task.waiting, Some(Waiting::Retry { until }) if until > now);
    task.status == TaskStatus::Failed || later
}

/// Whether a task, or an instance of it, waits for its next try.
fn is_tried_soon(job: &Job, task: &Task) -> bool {
    let waits = |task: &Task| matches!(task.waiting, Some(Waiting::Retry { .. }));
    waits(task) || job.instances(task).any(|(_, one)| waits(one))
}
