//! Annals: a durable workflow engine whose event log is the truth.
//!
//! This is the library that programs embed ([`prelude`]), and the library behind the `annals`
//! command: the JSON that answers are made of ([`dto`]), the reading of plan files
//! ([`plan_file`]), and the command line ([`cli`]).
#![forbid(unsafe_code)]

pub mod cli;
pub mod dto;
pub mod json;
pub mod plan_file;

/// Everything that a program needs to write tasks and run them.
pub mod prelude {
    pub use annals_tasks_sdk::prelude::*;
}
