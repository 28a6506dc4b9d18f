//! Where jobs are: in a store that no server holds, or on a server.

use std::path::{Path, PathBuf};

use annals_engine::job::JobStatus;
use annals_tasks_sdk::JobId;

use super::text::shell_quoted;

/// Where the jobs are that a command is about.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In the store in this folder.
    Store(PathBuf),
}

impl Place {
    /// The folder of the store, for what works on a store alone.
    pub(super) fn store(&self) -> &Path {
        match self {
            Self::Store(dir) => dir,
        }
    }

    /// What to type for `annals WORDS`, with the place where it is not the usual one.
    pub(super) fn command(&self, words: &str) -> String {
        match self {
            Self::Store(dir) if usual_store() == *dir => format!("annals {words}"),
            Self::Store(dir) => {
                format!("annals {words} --data {}", shell_quoted(&dir.display().to_string()))
            }
        }
    }

    /// Whether nothing runs there while it is looked at.
    pub(super) fn runs_nothing(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// What to type so that a job in this status moves.
    pub(super) fn go_on(&self, job: JobId, status: JobStatus) -> String {
        let _ = status;
        match self {
            Self::Store(_) => self.command(&format!("run --job {job}")),
        }
    }
}

/// The store that is meant where none is named.
fn usual_store() -> PathBuf {
    std::env::var_os("ANNALS_DATA").map_or_else(|| "./annals-data".into(), PathBuf::from)
}
