//! `shell`: a script or a program, as a tree of processes that can always be ended.
//!
//! Each attempt runs below a supervisor, as [`processes`](crate::processes) has it. It has an empty
//! standard input, a clean environment, and a work folder that the attempts of its job share.
//!
//! The output is what the attempt wrote as JSON to the file `ANNALS_OUTPUT`; an object, or
//! nothing, gets `exit_code` added (`signal` where a signal ended the attempt), unless the
//! object has one. With `unless`, a task that has nothing to do gives
//! `{"exit_code":0,"already_done":true}`.
//!
//! Nothing here puts limits on memory or on processor time.

mod account;
mod folder;
mod handler;
mod input;
mod outcome;

pub use handler::{Shell, ShellError, ShellSettings};
