//! Attempts in a child process of the same program: what one does there, to its memory, its
//! processor or itself, is its own failure.
//!
//! The engine's side is a [`Handler`](annals_tasks_sdk::Handler) around the task's own: it starts
//! a supervised process, which goes the program's way from `main` to where it starts its engine.
//! There the attempt runs instead, and the process ends. Both talk over a socket, which is the
//! standard input of the process until [`isolated_entry`](crate::isolated_entry) has put it away;
//! when the engine is gone, so is the process. What it writes to standard output and standard error
//! is its step log.
//!
//! Nothing here knows of jobs, and nothing below is done by signals, but for the end by force.

mod child;
mod frame;
mod handler;
mod layer;
mod limits;
mod outcome;
mod talk;
mod wire;

pub(crate) use child::{enter, is_one, serve};
pub(crate) use handler::{Isolated, Setup};
pub(crate) use limits::Limits;
