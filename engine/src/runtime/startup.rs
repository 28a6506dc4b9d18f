//! What a start is doing, for whoever waits for it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::log::Notice;

/// What a start is doing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Startup {
    /// It opens the store.
    Opening,
    /// It waits for the store, which another process has.
    Waiting {
        /// The process, where the store's lock file says so.
        pid: Option<u32>,
        /// How long it waits at most.
        patience: Duration,
    },
    /// It repairs a file after a crash.
    Repairing {
        /// The file.
        file: PathBuf,
        /// The share that is done, from 0 to 1.
        fraction: f64,
    },
    /// It has found the views damaged; they are rebuilt from the records.
    RebuildingViews {
        /// Where the damaged file is kept.
        kept: PathBuf,
        /// What was wrong.
        detail: String,
    },
    /// It reads the events behind the views, to find out where every job stands.
    Recovering {
        /// The share that is done, from 0 to 1.
        fraction: f64,
    },
    /// It ends processes that an earlier engine left behind.
    EndingLeftovers,
    /// It has jobs go on.
    Resuming,
}

impl fmt::Display for Startup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded down, so that what is not done is not called so.
        let percent = |fraction: f64| (fraction * 100.0).floor();
        match self {
            Self::Opening => f.write_str("opening the store"),
            Self::Waiting { pid, patience } => {
                write!(f, "waiting up to {patience:?} for the store, which another process has")?;
                pid.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
            }
            Self::Repairing { file, fraction } => {
                write!(f, "repairing {} after a crash, {} %", file.display(), percent(*fraction))
            }
            Self::RebuildingViews { detail, .. } => {
                write!(f, "rebuilding the views, which were damaged: {detail}")
            }
            Self::Recovering { fraction } => {
                write!(f, "recovering jobs, {} %", percent(*fraction))
            }
            Self::EndingLeftovers => f.write_str("ending what an earlier engine left running"),
            Self::Resuming => f.write_str("having jobs go on"),
        }
    }
}

/// Who is told.
#[derive(Clone, Default)]
pub(super) struct Told(Option<Arc<dyn Fn(Startup) + Send + Sync>>);

impl Told {
    pub(super) fn new(told: impl Fn(Startup) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }

    pub(super) fn tell(&self, doing: Startup) {
        if let Some(told) = &self.0 {
            told(doing);
        }
    }

    /// Has what the opening of a store tells come here too.
    pub(super) fn listen(&self, also: Option<Listener>) -> Option<Listener> {
        let Some(told) = self.0.clone() else { return also };
        Some(Arc::new(move |notice: Notice| {
            told(match notice.clone() {
                Notice::Waiting { pid, patience } => Startup::Waiting { pid, patience },
                Notice::Waited => Startup::Opening,
                Notice::Repairing { file, progress } => {
                    Startup::Repairing { file, fraction: progress }
                }
                Notice::ViewsRebuilt { kept, detail } => Startup::RebuildingViews { kept, detail },
            });
            if let Some(also) = &also {
                also(notice);
            }
        }))
    }
}

/// Who listens to the opening of a store.
type Listener = Arc<dyn Fn(Notice) + Send + Sync>;
