//! The payloads of what happens between a job and its children.

use annals_tasks_sdk::{JobId, TaskId};
use serde::{Deserialize, Serialize};

use crate::job::{self, Event, Parent, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;
use crate::log::v1::{Failure, PauseMode};

#[derive(Serialize, Deserialize)]
struct JobLinked<'a> {
    parent: u128,
    task: u32,
    task_id: &'a str,
    depth: u32,
}

#[derive(Serialize, Deserialize)]
struct HoldPlaced {
    mode: PauseMode,
}

#[derive(Serialize, Deserialize)]
struct ChildStarted {
    task: u32,
    child: u128,
    after: u64,
}

#[derive(Serialize, Deserialize)]
struct ChildPaused {
    task: u32,
}

#[derive(Serialize, Deserialize)]
struct ChildEnded<'a> {
    task: u32,
    end: ChildEnd,
    seq: u64,
    #[serde(borrow)]
    error: Failure<'a>,
}

#[derive(Serialize, Deserialize)]
enum ChildEnd {
    Failed,
    Cancelled,
    Gone,
}

impl From<job::ChildEnd> for ChildEnd {
    fn from(end: job::ChildEnd) -> Self {
        match end {
            job::ChildEnd::Failed => Self::Failed,
            job::ChildEnd::Cancelled => Self::Cancelled,
            job::ChildEnd::Gone => Self::Gone,
        }
    }
}

impl From<ChildEnd> for job::ChildEnd {
    fn from(end: ChildEnd) -> Self {
        match end {
            ChildEnd::Failed => Self::Failed,
            ChildEnd::Cancelled => Self::Cancelled,
            ChildEnd::Gone => Self::Gone,
        }
    }
}

/// Appends the payload of what happens between a job and its children.
pub(in crate::log) fn put_child(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::JobLinked(link) => {
            let Parent { job, task, task_id, depth } = &**link;
            let (parent, task_id) = (job.as_u128(), task_id.as_str());
            write(out, &JobLinked { parent, task: task.0, task_id, depth: *depth })
        }
        Event::HoldPlaced { mode } => write(out, &HoldPlaced { mode: (*mode).into() }),
        Event::HoldLifted => Ok(()),
        Event::ChildStarted { task, child, after } => {
            let (task, child) = (task.0, child.as_u128());
            write(out, &ChildStarted { task, child, after: *after })
        }
        Event::ChildPaused { task } => write(out, &ChildPaused { task: task.0 }),
        Event::ChildEnded { task, end, seq, error } => {
            let (task, end, error) = (task.0, (*end).into(), error.into());
            write(out, &ChildEnded { task, end, seq: *seq, error })
        }
        _ => Err(CodecError::Encode("it is nothing between a job and its children".into())),
    }
}

/// Reads the payload of what happens between a job and its children; `None` for any other type.
pub(in crate::log) fn get_child(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    Ok(Some(match number {
        types::JOB_LINKED => {
            let JobLinked { parent, task, task_id, depth } = read(bytes)?;
            let task_id = TaskId::known(task_id);
            let task_id = task_id.map_err(|error| CodecError::Damaged(error.to_string()))?;
            let (job, task) = (JobId::from_u128(parent), TaskNumber(task));
            Event::JobLinked(Box::new(Parent { job, task, task_id, depth }))
        }
        types::HOLD_PLACED => Event::HoldPlaced { mode: read::<HoldPlaced>(bytes)?.mode.into() },
        types::HOLD_LIFTED => {
            read::<()>(bytes)?;
            Event::HoldLifted
        }
        types::CHILD_STARTED => {
            let ChildStarted { task, child, after } = read(bytes)?;
            let (task, child) = (TaskNumber(task), JobId::from_u128(child));
            Event::ChildStarted { task, child, after }
        }
        types::CHILD_PAUSED => {
            Event::ChildPaused { task: TaskNumber(read::<ChildPaused>(bytes)?.task) }
        }
        types::CHILD_ENDED => {
            let ChildEnded { task, end, seq, error } = read(bytes)?;
            let (task, end) = (TaskNumber(task), end.into());
            Event::ChildEnded { task, end, seq, error: error.into() }
        }
        _ => return Ok(None),
    }))
}
