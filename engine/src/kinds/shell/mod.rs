//! `shell`: a script or a program, as a tree of processes that can always be ended.
//!
//! Each attempt runs below a supervisor: the same binary started anew with a hidden argument,
//! which [`isolated_entry`] recognises. The attempt has a session of its own, an empty standard
//! input, a clean environment, no descriptors but 0 to 2, and a work folder that the attempts
//! of its job share. When it counts as over, no process of it lives: not one in the background,
//! not one in a session of its own.
//! Only where its supervisor was killed, and no cgroup could be made for the attempt, can a
//! process that has left both its session and its environment stay unfound.
//!
//! The output is what the attempt wrote as JSON to the file `ANNALS_OUTPUT`; an object, or
//! nothing, gets `exit_code` added (`signal` where a signal ended the attempt), unless the
//! object has one. With `unless`, a task that has nothing to do gives
//! `{"exit_code":0,"already_done":true}`.
//!
//! Nothing here puts limits on memory or on processor time.

mod account;
mod cgroup;
mod child;
mod excerpt;
mod folder;
mod handler;
mod input;
mod leftovers;
mod live;
mod outcome;
mod signal;
mod supervisor;
mod tree;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub use handler::{Shell, ShellError, ShellSettings};
pub use leftovers::{Leftover, end_leftovers};

/// Which program supervises attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Supervisor {
    /// This one, which must have called [`isolated_entry`] first in `main`.
    #[default]
    ThisProgram,
    /// Another one that does so, such as an `annals` binary of the same version.
    Program(PathBuf),
}

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Call this first in `main`, before any thread or runtime starts.
///
/// Attempts of `shell` run below a process of the same program. Where this is one, the call
/// does its work and never returns; everywhere else it returns at once.
pub fn isolated_entry() {
    ENTERED.store(true, Ordering::Relaxed);
    if std::env::args_os().nth(1).is_some_and(|argument| argument == wire::SUPERVISE) {
        std::process::exit(supervisor::main());
    }
}

fn can_supervise() -> bool {
    ENTERED.load(Ordering::Relaxed)
}
