//! The engine of Annals.
#![forbid(unsafe_code)]

pub mod job;
pub mod kinds;
pub mod log;
pub mod steplog;

pub use kinds::isolated_entry;
