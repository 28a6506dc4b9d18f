//! Version 1 of the events' payloads: frozen twins of the machine's types.
//!
//! Nothing here may change once it was released: a change of an event's payload is a struct of
//! its own in a new module, with a conversion to the machine's type. The twins borrow, so that
//! writing an event allocates nothing; `#[serde(borrow)]` is the one attribute that is used,
//! because it has no influence on the bytes. User data is JSON text that nobody parses here.

mod event;
mod parts;
mod plan;
mod purge;
mod view;

pub(super) use event::{get, put};
pub(super) use parts::{Failure, PauseMode, payload, text};
pub(super) use plan::{OnFailure, OnLost, Retry, Span, Start, bad};
pub(super) use purge::TombstoneV1;
pub(super) use view::JobRowV1;

/// The version that every event of this module is written with.
pub(super) const VERSION: u16 = 1;

/// User data: JSON text.
pub(super) type Json<'a> = &'a str;
