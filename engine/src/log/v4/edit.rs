//! The payloads of edits of the plan that say what a task is.

use serde::{Deserialize, Serialize};

use super::plan::TaskSpec;
use crate::job::{Event, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;
use crate::log::v3::Part;

#[derive(Serialize, Deserialize)]
struct TaskInserted<'a> {
    task: u32,
    #[serde(borrow)]
    spec: TaskSpec<'a>,
    part: Part,
    after: Option<u32>,
    needed_by: Vec<u32>,
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
        Event::TaskInserted { task, spec, part, after, needed_by } => {
            let (task, spec, after) = (task.0, (&**spec).try_into()?, after.map(|after| after.0));
            let needed_by = needed_by.iter().map(|task| task.0).collect();
            let part = (*part).try_into()?;
            write(out, &TaskInserted { task, spec, part, after, needed_by })
        }
        Event::TaskEdited { task, spec, reset } => {
            write(out, &TaskEdited { task: task.0, spec: (&**spec).try_into()?, reset: *reset })
        }
        _ => Err(CodecError::Encode("it is no edit of this version".into())),
    }
}

/// Reads the payload of an edit of the plan; `None` for any other type.
pub(in crate::log) fn get_edit(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let event = match number {
        types::TASK_INSERTED => {
            let TaskInserted { task, spec, part, after, needed_by } = read(bytes)?;
            Event::TaskInserted {
                task: TaskNumber(task),
                spec: Box::new(spec.try_into()?),
                part: part.into(),
                after: after.map(TaskNumber),
                needed_by: needed_by.into_iter().map(TaskNumber).collect(),
            }
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
