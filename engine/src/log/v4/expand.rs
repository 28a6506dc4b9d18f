//! The payload of `TaskExpanded`.

use annals_tasks_sdk::Payload;
use serde::{Deserialize, Serialize};

use crate::job::{Event, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::v1::Json;

#[derive(Serialize, Deserialize)]
struct TaskExpanded<'a> {
    task: u32,
    #[serde(borrow)]
    items: Json<'a>,
}

/// Appends the payload of `TaskExpanded`.
pub(in crate::log) fn put_expanded(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::TaskExpanded { task, items } => {
            write(out, &TaskExpanded { task: task.0, items: items.as_str() })
        }
        _ => Err(CodecError::Encode("no task becomes instances by it".into())),
    }
}

/// Reads the payload of `TaskExpanded`.
pub(in crate::log) fn get_expanded(bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let TaskExpanded { task, items } = read(bytes)?;
    let (task, items) = (TaskNumber(task), Payload::trusted(items));
    Ok(Some(Event::TaskExpanded { task, items }))
}
