//! The payload of each event: the version that it is written in, and those that are read.
//!
//! An event is written in the last version that its type has. Whatever was ever written is read:
//! an older version becomes the machine's type of now.

use super::codec::CodecError;
use super::{types, v1, v2, v3, v4};
use crate::job::Event;

/// The version that the payload of an event is written in.
pub(super) const fn version(event: &Event) -> u16 {
    match event {
        Event::JobLinked(_)
        | Event::HoldPlaced { .. }
        | Event::HoldLifted
        | Event::ChildStarted { .. }
        | Event::ChildPaused { .. }
        | Event::ChildEnded { .. }
        | Event::TaskWaiting { .. }
        | Event::SignalReceived { .. }
        | Event::SignalDelivered { .. }
        | Event::JobSubmitted(_)
        | Event::TaskInserted { .. }
        | Event::TaskEdited { .. }
        | Event::TaskExpanded { .. }
        | Event::JobCompensating { .. } => v4::VERSION,
        Event::CancelRequested { .. } | Event::JobEnding { .. } | Event::TaskSkipped { .. } => {
            v3::VERSION
        }
        Event::DeadlinePassed { .. } | Event::TaskMoved { .. } => v2::VERSION,
        _ => v1::VERSION,
    }
}

/// Appends an event's payload to `out`, in its [`version`].
pub(super) fn put(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::JobLinked(_)
        | Event::HoldPlaced { .. }
        | Event::HoldLifted
        | Event::ChildStarted { .. }
        | Event::ChildPaused { .. }
        | Event::ChildEnded { .. } => v4::put_child(event, out),
        Event::TaskWaiting { .. }
        | Event::SignalReceived { .. }
        | Event::SignalDelivered { .. } => v4::put_wait(event, out),
        Event::JobSubmitted(submitted) => v4::put_submitted(submitted, out),
        Event::CancelRequested { .. } | Event::JobEnding { .. } => v3::put_run(event, out),
        Event::TaskInserted { .. } | Event::TaskEdited { .. } => v4::put_edit(event, out),
        Event::TaskExpanded { .. } => v4::put_expanded(event, out),
        Event::JobCompensating { .. } => v4::put_compensating(event, out),
        Event::TaskSkipped { .. } => v3::put_edit(event, out),
        Event::DeadlinePassed { .. } => v2::put_run(event, out),
        Event::TaskMoved { .. } => v2::put_edit(event, out),
        _ => v1::put(event, out),
    }
}

/// Reads an event's payload; `None` when this build does not know the type, or that version of it.
pub(super) fn get(number: u16, version: u16, payload: &[u8]) -> Result<Option<Event>, CodecError> {
    match (number, version) {
        (
            types::JOB_LINKED
            | types::HOLD_PLACED
            | types::HOLD_LIFTED
            | types::CHILD_STARTED
            | types::CHILD_PAUSED
            | types::CHILD_ENDED,
            v4::VERSION,
        ) => v4::get_child(number, payload),
        (types::TASK_WAITING | types::SIGNAL_RECEIVED | types::SIGNAL_DELIVERED, v4::VERSION) => {
            v4::get_wait(number, payload)
        }
        (types::JOB_SUBMITTED, v4::VERSION) => v4::get_submitted(payload),
        (types::TASK_EXPANDED, v4::VERSION) => v4::get_expanded(payload),
        (types::JOB_COMPENSATING, v4::VERSION) => v4::get_compensating(payload).map(Some),
        (_, v4::VERSION) => v4::get_edit(number, payload),
        (types::JOB_SUBMITTED, v3::VERSION) => v3::get_submitted(payload),
        (types::CANCEL_REQUESTED | types::JOB_ENDING, v3::VERSION) => v3::get_run(number, payload),
        (_, v3::VERSION) => v3::get_edit(number, payload),
        (types::JOB_SUBMITTED, v2::VERSION) => v2::get_submitted(payload),
        (types::DEADLINE_PASSED, v2::VERSION) => v2::get_run(number, payload),
        (_, v2::VERSION) => v2::get_edit(number, payload),
        (_, v1::VERSION) => v1::get(number, payload),
        _ => Ok(None),
    }
}
