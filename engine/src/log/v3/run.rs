//! The payloads of what happens to a run.

use serde::{Deserialize, Serialize};

use super::condition::JobEnd;
use crate::job::{self, Event};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;
use crate::log::v1::Failure;

#[derive(Serialize, Deserialize)]
struct CancelRequested {
    mode: CancelMode,
}

#[derive(Serialize, Deserialize)]
enum CancelMode {
    Orderly,
    Now,
}

#[derive(Serialize, Deserialize)]
struct JobEnding<'a> {
    end: JobEnd,
    #[serde(borrow)]
    error: Option<Failure<'a>>,
}

/// Appends the payload of what happens to a run.
pub(in crate::log) fn put_run(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::CancelRequested { mode } => {
            let mode = match mode {
                job::CancelMode::Orderly => CancelMode::Orderly,
                job::CancelMode::Now => CancelMode::Now,
            };
            write(out, &CancelRequested { mode })
        }
        Event::JobEnding { end, error } => {
            write(out, &JobEnding { end: (*end).into(), error: error.as_ref().map(Into::into) })
        }
        _ => Err(CodecError::Encode("it does not happen to a run in this version".into())),
    }
}

/// Reads the payload of what happens to a run; `None` for any other type.
pub(in crate::log) fn get_run(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    Ok(match number {
        types::CANCEL_REQUESTED => {
            let mode = match read::<CancelRequested>(bytes)?.mode {
                CancelMode::Orderly => job::CancelMode::Orderly,
                CancelMode::Now => job::CancelMode::Now,
            };
            Some(Event::CancelRequested { mode })
        }
        types::JOB_ENDING => {
            let JobEnding { end, error } = read(bytes)?;
            Some(Event::JobEnding { end: end.into(), error: error.map(Into::into) })
        }
        _ => None,
    })
}
