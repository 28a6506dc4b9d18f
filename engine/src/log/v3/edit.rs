//! The payloads of edits of the plan, and of what they do to its tasks.

use serde::{Deserialize, Serialize};

use super::plan::TaskSpec;
use crate::job::{self, Event, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;
use crate::log::v1::{Json, payload, text};

#[derive(Deserialize)]
struct TaskInserted<'a> {
    task: u32,
    #[serde(borrow)]
    spec: TaskSpec<'a>,
    part: Part,
    after: Option<u32>,
    needed_by: Vec<u32>,
}

#[derive(Deserialize)]
struct TaskEdited<'a> {
    task: u32,
    #[serde(borrow)]
    spec: TaskSpec<'a>,
    reset: bool,
}

#[derive(Serialize, Deserialize)]
struct TaskSkipped<'a> {
    task: u32,
    by: SkippedBy,
    #[serde(borrow)]
    output: Option<Json<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) enum Part {
    Tasks,
    Finally,
}

#[derive(Serialize, Deserialize)]
enum SkippedBy {
    Request,
    Condition,
}

impl TryFrom<job::Part> for Part {
    type Error = CodecError;

    fn try_from(part: job::Part) -> Result<Self, CodecError> {
        match part {
            job::Part::Tasks => Ok(Self::Tasks),
            job::Part::Finally => Ok(Self::Finally),
            job::Part::Undo => Err(CodecError::Encode("nobody inserts what undoes a task".into())),
        }
    }
}

impl From<Part> for job::Part {
    fn from(part: Part) -> Self {
        match part {
            Part::Tasks => Self::Tasks,
            Part::Finally => Self::Finally,
        }
    }
}

/// Appends the payload of an edit of the plan.
pub(in crate::log) fn put_edit(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::TaskSkipped { task, by, output } => {
            let by = match by {
                job::SkippedBy::Request => SkippedBy::Request,
                job::SkippedBy::Condition => SkippedBy::Condition,
            };
            write(out, &TaskSkipped { task: task.0, by, output: text(output.as_ref()) })
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
        types::TASK_SKIPPED => {
            let TaskSkipped { task, by, output } = read(bytes)?;
            let by = match by {
                SkippedBy::Request => job::SkippedBy::Request,
                SkippedBy::Condition => job::SkippedBy::Condition,
            };
            Event::TaskSkipped { task: TaskNumber(task), by, output: payload(output) }
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}
