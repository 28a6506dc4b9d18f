//! What the engine and a supervisor say to each other: one JSON line each.
//!
//! The engine sends a [`Spec`], with which a descriptor may come that is to be the program's
//! standard input, and then [orders](Order); the supervisor sends [reports](Report). Both are the
//! same binary, so the lines need no version.

use std::path::PathBuf;

use super::memory::MemoryPlace;
use serde::{Deserialize, Serialize};

/// The hidden first argument that makes a program with
/// [`isolated_entry`](super::isolated_entry) a supervisor.
pub(crate) const SUPERVISE: &str = "--annals-supervise";

/// The variable that marks every process of an attempt: its value is a path that no other
/// attempt of any data folder on this machine has.
pub(crate) const MARKER: &str = "ANNALS_OUTPUT";

/// What a supervisor is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Runs first; the attempt is done if it succeeds.
    pub(crate) unless: Option<Vec<String>>,
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// What the program is told that it is called, where that is not its path.
    pub(crate) name: Option<String>,
    /// What to take over from the environment of the engine.
    pub(crate) inherit: Inherit,
    /// Variables to set, or to leave out.
    pub(crate) env: Vec<(String, Option<String>)>,
    /// Variables to set where nothing above did.
    pub(crate) fallback: Vec<(String, String)>,
    /// Where to run.
    pub(crate) cwd: PathBuf,
    /// As whom to run: user and group.
    pub(crate) user: Option<(u32, u32)>,
    /// Where to leave the record of the live attempt.
    pub(crate) live: PathBuf,
    /// The value of the [`MARKER`].
    pub(crate) marker: PathBuf,
    /// Where to make a cgroup for the attempt.
    pub(crate) cgroups: Option<PathBuf>,
    /// How much memory its processes may have together, where that can be limited.
    pub(crate) memory: Option<MemoryLimit>,
}

/// A limit of the memory of all processes of an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MemoryLimit {
    /// Where to make a cgroup that holds them to it.
    pub(crate) place: MemoryPlace,
    /// In bytes.
    pub(crate) bytes: u64,
    /// What the program is told that it is called where the cgroup was made; the path of that
    /// follows. It is to enter by itself: no process can be moved there in time by another.
    pub(crate) name: String,
}

/// What is taken over from an environment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Inherit {
    /// Nothing but these variables, where they are set.
    These(Vec<String>),
    /// All of it.
    Everything,
}

/// What the engine asks for while a supervisor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Ask everything to end.
    Terminate,
    /// End everything.
    Kill,
}

/// What a supervisor has to say. All but `Stuck` are its last word, given when nothing of the
/// attempt lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The main process ended, by itself or after it was asked to.
    Ended {
        /// Its exit code, where it exited.
        code: Option<i32>,
        /// The number of the signal that ended it, where one did.
        signal: Option<i32>,
        /// Whether it was still alive when it was asked to end.
        asked: bool,
        /// Whether the kernel ended anything of the attempt for want of memory.
        out_of_memory: bool,
    },
    /// `unless` succeeded, so nothing else ran.
    AlreadyDone,
    /// The order to end came before the main process began.
    NotBegun,
    /// Something could not be started.
    Failed {
        /// Why, as a sentence.
        message: String,
    },
    /// These processes have been killed and are still there.
    Stuck {
        /// Their process ids.
        pids: Vec<i32>,
    },
}
