//! The job state machine: pure. Nothing below does I/O, reads a clock, draws a random number or
//! awaits; all of that comes in with the command.

mod command;
mod event;
mod status;

pub use command::{Command, Context, Outcome, Report};
pub use event::{
    AttemptEnd, Event, Failure, LogSize, Origin, PauseMode, Recorded, Submitted, TaskNumber,
    ValueDigest, Wait,
};
pub use status::{AttemptOutcome, Intent, JobStatus, TaskStatus};
