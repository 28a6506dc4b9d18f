//! Explain: why a job does not move, or what it is doing, and the commands that would change it.
//!
//! What is seen of a job in one turn of its loop goes in, with who held or ended it, which only
//! the history says; reasons come out, as data that can be shown as sentences. Nothing here reads
//! a clock or the log.

mod cause;
mod make;
mod reason;
mod remedy;
mod sentences;
mod tasks;

#[cfg(test)]
mod tests;

pub use make::{Explained, Explanation, TASKS_EXPLAINED};
pub use reason::{Ahead, Cause, Gone, HeldKey, InLine, Line, Other, Reason, RunDeadline};
pub use remedy::Remedy;

pub(crate) use cause::{Finder, Sought};
pub(crate) use make::{Dispatch, KeyLine, Queued, Seen, explain};
