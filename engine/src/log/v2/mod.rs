//! Version 2 of the events' payloads, where they differ from [version 1](super::v1): a plan has a
//! deadline, which may pass, a task a heartbeat timeout, and a plan can be edited. The same rules
//! hold: nothing here may change once it was released.

mod edit;
mod plan;
mod run;

pub(super) use edit::{get_edit, put_edit};
pub(super) use plan::{Policy, Submitted, TaskSpec, get_submitted};
pub(super) use run::{get_run, put_run};

/// The version that every event of this module is written with.
pub(super) const VERSION: u16 = 2;
