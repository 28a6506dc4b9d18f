//! The payloads of waits, and of the signals that end them.

use annals_tasks_sdk::{Payload, SignalName, Timestamp};
use serde::{Deserialize, Serialize};

use crate::job::{self, Event, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;
use crate::log::v1::{Json, bad};

#[derive(Serialize, Deserialize)]
struct TaskWaiting<'a> {
    task: u32,
    #[serde(borrow)]
    wait: Wait<'a>,
}

#[derive(Serialize, Deserialize)]
enum Wait<'a> {
    Timer { until: i64 },
    Kind,
    Signal { name: &'a str, until: Option<i64> },
}

#[derive(Serialize, Deserialize)]
struct SignalReceived<'a> {
    name: &'a str,
    payload: Json<'a>,
}

#[derive(Serialize, Deserialize)]
struct SignalDelivered<'a> {
    task: u32,
    name: &'a str,
    signal: u64,
}

/// Appends the payload of a wait, or of a signal.
pub(in crate::log) fn put_wait(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::TaskWaiting { task, wait } => {
            write(out, &TaskWaiting { task: task.0, wait: wait.try_into()? })
        }
        Event::SignalReceived { name, payload } => {
            write(out, &SignalReceived { name: name.as_str(), payload: payload.as_str() })
        }
        Event::SignalDelivered { task, name, signal } => {
            let (task, name, signal) = (task.0, name.as_str(), *signal);
            write(out, &SignalDelivered { task, name, signal })
        }
        _ => Err(CodecError::Encode("it is neither a wait nor a signal".into())),
    }
}

/// Reads the payload of a wait, or of a signal; `None` for any other type.
pub(in crate::log) fn get_wait(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let event = match number {
        types::TASK_WAITING => {
            let TaskWaiting { task, wait } = read(bytes)?;
            Event::TaskWaiting { task: TaskNumber(task), wait: wait.try_into()? }
        }
        types::SIGNAL_RECEIVED => {
            let SignalReceived { name, payload } = read(bytes)?;
            let payload = Payload::trusted(payload);
            Event::SignalReceived { name: self::name(name)?, payload }
        }
        types::SIGNAL_DELIVERED => {
            let SignalDelivered { task, name, signal } = read(bytes)?;
            Event::SignalDelivered { task: TaskNumber(task), name: self::name(name)?, signal }
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}

fn name(name: &str) -> Result<SignalName, CodecError> {
    SignalName::new(name).map_err(|error| bad(&error))
}

impl<'a> TryFrom<&'a job::Wait> for Wait<'a> {
    type Error = CodecError;

    fn try_from(wait: &'a job::Wait) -> Result<Self, CodecError> {
        Ok(match wait {
            job::Wait::Timer { until } => Self::Timer { until: until.as_millis() },
            job::Wait::Kind => Self::Kind,
            job::Wait::Signal { name, until } => {
                Self::Signal { name: name.as_str(), until: until.map(Timestamp::as_millis) }
            }
        })
    }
}

impl TryFrom<Wait<'_>> for job::Wait {
    type Error = CodecError;

    fn try_from(wait: Wait<'_>) -> Result<Self, CodecError> {
        Ok(match wait {
            Wait::Timer { until } => Self::Timer { until: Timestamp::from_millis(until) },
            Wait::Kind => Self::Kind,
            Wait::Signal { name, until } => {
                let until = until.map(Timestamp::from_millis);
                Self::Signal { name: self::name(name)?, until }
            }
        })
    }
}
