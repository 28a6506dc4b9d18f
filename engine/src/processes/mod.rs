//! Attempts as trees of processes that can always be ended.
//!
//! Each runs below a supervisor: the same binary started anew with a hidden argument, which
//! [`isolated_entry`] recognises. It has a session of its own, and no descriptors but 0 to 2. When
//! it counts as over, no process of it lives: not one in the background, not one in a session of
//! its own. Only where its supervisor was killed, and no cgroup could be made for the attempt, can
//! a process that has left both its session and its environment stay unfound.
//!
//! What is run so is not known here.

mod cgroup;
mod child;
mod descriptor;
mod excerpt;
mod leftovers;
mod live;
mod memory;
mod signal;
mod supervisor;
mod tree;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use cgroup::place as cgroups;
pub(crate) use child::{Child, Kept, Ties};
pub(crate) use leftovers::file_name as record_name;
pub use leftovers::{Leftover, end_leftovers};
pub(crate) use memory::{MemoryPlace, enter as enter_memory, place as memory_place};
pub(crate) use signal::{known as known_signal, name as signal_name};
pub(crate) use wire::{Inherit, MARKER, MemoryLimit, Report, Spec};

/// What runs now, even where its file has been replaced since.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

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
/// Attempts of `shell`, and of pools that are [isolated](crate::runtime::Pool::isolated), run below
/// a process of the same program. Where this is one, the call does its work and never returns. In
/// the process of an isolated attempt itself it takes the limits upon itself, and returns: the
/// attempt begins where the program starts its engine. Everywhere else it returns at once.
pub fn isolated_entry() {
    ENTERED.store(true, Ordering::Relaxed);
    if std::env::args_os().nth(1).is_some_and(|argument| argument == wire::SUPERVISE) {
        std::process::exit(supervisor::main());
    }
    crate::isolated::enter();
}

/// Whether the memory of isolated attempts is limited by cgroups, and so that of all processes of
/// one together. Where none can be made, each process has a limit of its own.
pub fn limits_memory_together() -> bool {
    memory_place().is_some()
}

/// Whether this program can supervise attempts.
pub(crate) fn can_supervise() -> bool {
    ENTERED.load(Ordering::Relaxed)
}
