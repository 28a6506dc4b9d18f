//! The engine of Annals: a pure job state machine, an event log, and the runtime that joins them.
#![forbid(unsafe_code)]

pub mod job;
pub mod kinds;
pub mod log;
pub mod runtime;
pub mod steplog;

pub use kinds::isolated_entry;

pub use runtime::{Ask, Builder, Engine, JobHandle, Mode, Submission};
