//! The job state machine: pure. Nothing below does I/O, reads a clock, draws a random number or
//! awaits; all of that comes in as arguments.
//!
//! Three total functions make it up: [`decide()`] turns a command or a report into events,
//! [`Job::evolve`] takes an event in, and [`Job::effects`] tells what the runtime must do. [`step`]
//! strings the first two together.

mod attempts;
mod begin;
mod child;
mod command;
mod condition;
mod deadline;
mod decide;
mod draft;
mod effect;
mod ending;
mod event;
mod evolve;
mod expand;
mod fan;
mod fork;
mod glance;
mod graph;
mod header;
mod instances;
mod key;
mod kinds;
mod legal;
mod linked;
mod parts;
mod purge;
mod references;
mod rejection;
mod replan;
mod retry;
mod signals;
mod size;
mod sorted;
mod state;
mod status;
mod steps;
mod undo;
mod waiting;

pub(crate) use child::FAMILY;
pub use child::{Child, ChildEnd, News, Order, Parent, Wish};
pub use command::{Command, Context, Input, LossRule, Outcome, Place, Report};
pub use deadline::Deadline;
pub use decide::{StepError, begin, decide, step, submit};
pub(crate) use decide::{invalid, step_into};
pub use effect::Effect;
pub use event::{
    AttemptEnd, CancelMode, Event, Failure, LogSize, Origin, Part, PauseMode, Purged, Recorded,
    SkippedBy, Submitted, TaskNumber, ValueDigest,
};
pub use evolve::Illegal;
pub use fan::Items;
pub use fork::{ForkError, ForkFrom, fork};
pub(crate) use fork::{kind_is_closed, no_such_event};
pub use header::{Counts, Exclusive, ForkedFrom, Header};
pub use key::IdempotencyKey;
pub use purge::Tombstone;
pub use references::Dependant;
pub use rejection::Rejection;
pub use signals::SIGNALS_KEPT_MAX;
pub use state::{Attempt, Checkpoint, Job, StopReason, Task};
pub use status::{AttemptOutcome, Intent, JobStatus, TaskStatus};
pub use steps::{RecordedStep, Steps};
pub use undo::Undoing;
pub use waiting::{Wait, Waiting};
