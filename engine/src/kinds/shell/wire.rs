//! What the engine and a supervisor say to each other: one JSON line each.
//!
//! The engine sends a [`Spec`] and then [orders](Order); the supervisor sends [reports](Report).
//! Both are the same binary, so the lines need no version.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The hidden first argument that makes a program with
/// [`isolated_entry`](super::isolated_entry) a supervisor.
pub(super) const SUPERVISE: &str = "--annals-supervise";

/// The variable that marks every process of an attempt: its value is a path that no other
/// attempt of any data folder on this machine has.
pub(super) const MARKER: &str = "ANNALS_OUTPUT";

/// What a supervisor is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// Runs first; the attempt is done if it succeeds.
    pub(super) unless: Option<Vec<String>>,
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// Variables to take over from the engine where they are set there.
    pub(super) inherit: Vec<String>,
    /// Variables to set, or to leave out.
    pub(super) env: Vec<(String, Option<String>)>,
    /// Variables to set where nothing above did.
    pub(super) fallback: Vec<(String, String)>,
    /// Where to run.
    pub(super) cwd: PathBuf,
    /// As whom to run: user and group.
    pub(super) user: Option<(u32, u32)>,
    /// Where to leave the record of the live attempt.
    pub(super) live: PathBuf,
    /// The value of the [`MARKER`].
    pub(super) marker: PathBuf,
    /// Where to make a cgroup for the attempt.
    pub(super) cgroups: Option<PathBuf>,
}

/// What the engine asks for while a supervisor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Ask everything to end.
    Terminate,
    /// End everything.
    Kill,
}

/// What a supervisor has to say. All but `Stuck` are its last word, given when nothing of the
/// attempt lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The main process ended, by itself or after it was asked to.
    Ended {
        /// Its exit code, where it exited.
        code: Option<i32>,
        /// The number of the signal that ended it, where one did.
        signal: Option<i32>,
        /// Whether it was still alive when it was asked to end.
        asked: bool,
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
