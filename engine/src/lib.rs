//! The engine of Annals.
#![forbid(unsafe_code)]

pub mod job;
pub mod log;
