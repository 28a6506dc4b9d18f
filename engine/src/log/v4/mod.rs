//! Version 4 of the events' payloads, where they differ from the versions before: tasks are done
//! for each element of a list, have child jobs, wait for signals, and what they did is undone. The
//! same rules hold: nothing here may change once it was released.
//!
//! What was there before is the twin of [version 3](super::v3), and what came to it stands behind.

mod child;
mod compensate;
mod edit;
mod expand;
mod plan;
mod view;
mod wait;

pub(super) use child::{get_child, put_child};
pub(super) use compensate::{get_compensating, put_compensating};
pub(super) use edit::{get_edit, put_edit};
pub(super) use expand::{get_expanded, put_expanded};
pub(super) use plan::{get_submitted, put_submitted};
pub(super) use view::{get_row, put_row};
pub(super) use wait::{get_wait, put_wait};

/// The version that every event of this module is written with.
pub(super) const VERSION: u16 = 4;
