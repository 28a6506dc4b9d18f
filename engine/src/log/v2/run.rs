//! The payloads of what happens to a run.

use serde::{Deserialize, Serialize};

use crate::job::Event;
use crate::log::codec::{CodecError, read, write};
use crate::log::types;
use crate::log::v1::Failure;

#[derive(Serialize, Deserialize)]
struct DeadlinePassed<'a> {
    #[serde(borrow)]
    error: Failure<'a>,
}

/// Appends the payload of what happens to a run.
pub(in crate::log) fn put_run(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::DeadlinePassed { error } => write(out, &DeadlinePassed { error: error.into() }),
        _ => Err(CodecError::Encode("it does not happen to a run".into())),
    }
}

/// Reads the payload of what happens to a run; `None` for any other type.
pub(in crate::log) fn get_run(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    Ok(match number {
        types::DEADLINE_PASSED => {
            let DeadlinePassed { error } = read(bytes)?;
            Some(Event::DeadlinePassed { error: error.into() })
        }
        _ => None,
    })
}
