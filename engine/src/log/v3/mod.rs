//! Version 3 of the events' payloads, where they differ from the versions before: tasks have
//! conditions, a plan has tasks for the end of each run and may fail fast, and a cancel may be
//! one that waits for nothing. The same rules hold: nothing here may change once it was released.
//!
//! What was there before is the twin of [version 2](super::v2), and what came to it stands behind.

mod condition;
mod edit;
mod plan;
mod run;

pub(super) use condition::JobEnd;
pub(super) use edit::{Part, get_edit, put_edit};
pub(super) use plan::{Submitted, TaskSpec, get_submitted};
pub(super) use run::{get_run, put_run};

/// The version that every event of this module is written with.
pub(super) const VERSION: u16 = 3;
