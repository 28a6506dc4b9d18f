//! The runtime: the only impure part. It joins the pure machine, the log, and what tasks do.
//!
//! A request goes into the inbox of the loop that drives its job; the loop decides it in a
//! turn, hands the events to the writer, and answers and acts when they are durable. What
//! attempts report takes the same way.

mod act;
mod agenda;
mod ahead;
mod attempt;
mod audit;
mod broken;
mod builder;
#[doc(hidden)]
pub mod by_hand;
mod call;
mod clock;
mod commands;
mod desk;
mod dispatch;
mod driver;
mod edits;
mod engine;
mod error;
mod exclusives;
mod executor;
mod explain;
mod family;
mod fork;
mod handle;
mod heartbeat;
mod ids;
mod inbox;
mod keys;
mod laws;
mod lives;
mod loads;
mod lookout;
mod message;
pub(crate) mod panics;
mod past;
mod plans;
mod pool;
mod pool_setup;
mod purges;
mod questions;
mod reading;
mod recovery;
mod registry;
mod residency;
mod resting;
mod rows;
mod start;
mod starting;
mod startup;
mod stats;
mod submit;
mod successes;
mod turn;
mod undelivered;
mod values;
mod views;
mod wants;
mod watchers;
mod workers;

#[cfg(test)]
mod tests;

pub use attempt::GRACE;
pub use audit::Audited;
pub use builder::{Builder, Mode};
pub use clock::{Clock, SystemClock};
pub use engine::Engine;
pub use error::{
    CheckError, CommandError, EngineError, ForkError, JobError, StartError, SubmitError,
};
pub use exclusives::WantedKey;
pub use fork::{Fork, Forked};
pub use handle::{JobHandle, OutputError, OutputHandle};
pub use laws::{BrokenLaw, Law};
pub use lookout::Lack;
pub use message::{Answer, Ask, Live, Snapshot};
pub use past::{Moment, Replayed};
pub use pool_setup::Pool;
pub use reading::{LogPage, Logged};
pub use registry::KindInfo;
pub use startup::Startup;
pub use stats::{AtRest, AttemptCounts, Checks, EngineStats, JobCounts, OpenJobs, PoolStats};
pub use submit::{Accepted, Submission};

pub use crate::job::IdempotencyKey;
