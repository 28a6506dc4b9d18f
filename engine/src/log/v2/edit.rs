//! The payloads of edits of the plan.

use serde::{Deserialize, Serialize};

use super::plan::TaskSpec;
use crate::job::{Event, Part, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;

#[derive(Serialize, Deserialize)]
struct TaskInserted<'a> {
    task: u32,
    #[serde(borrow)]
    spec: TaskSpec<'a>,
    after: Option<u32>,
    needed_by: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct TaskMoved {
    task: u32,
    after: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct TaskEdited<'a> {
    task: u32,
    #[serde(borrow)]
    spec: TaskSpec<'a>,
    reset: bool,
}

/// Appends the payload of an edit of the plan.
pub(in crate::log) fn put_edit(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::TaskMoved { task, after } => {
            write(out, &TaskMoved { task: task.0, after: after.map(|after| after.0) })
        }
        _ => Err(CodecError::Encode("it is no edit of this version".into())),
    }
}

/// Reads the payload of an edit of the plan; `None` for any other type.
pub(in crate::log) fn get_edit(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let event = match number {
        types::TASK_INSERTED => {
            let TaskInserted { task, spec, after, needed_by } = read(bytes)?;
            Event::TaskInserted {
                task: TaskNumber(task),
                spec: Box::new(spec.try_into()?),
                part: Part::Tasks,
                after: after.map(TaskNumber),
                needed_by: needed_by.into_iter().map(TaskNumber).collect(),
            }
        }
        types::TASK_MOVED => {
            let TaskMoved { task, after } = read(bytes)?;
            Event::TaskMoved { task: TaskNumber(task), after: after.map(TaskNumber) }
        }
        types::TASK_EDITED => {
            let TaskEdited { task, spec, reset } = read(bytes)?;
            let spec = Box::new(spec.try_into()?);
            Event::TaskEdited { task: TaskNumber(task), spec, reset }
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}
