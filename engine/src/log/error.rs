//! What can go wrong with a log.

use std::fmt;
use std::path::{Path, PathBuf};

use annals_tasks_sdk::JobId;

use super::Position;

/// Why the log could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Another handle has the store.
    #[error("the store {} is open in {}; stop that one first", .dir.display(), holder(*.pid))]
    AlreadyOpen {
        /// The store's folder.
        dir: PathBuf,
        /// The process that has it, where its lock file says so.
        pid: Option<u32>,
    },
    /// The place cannot be written to.
    #[error(
        "{} cannot be written to: {source}; make it writable for this user or choose another place",
        .path.display()
    )]
    ReadOnly {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk, or the quota on it, is full.
    #[error("no space is left for {}: {source}; free some, then start again", .path.display())]
    Full {
        /// The file that was to grow.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store is not where it was opened.
    #[error(
        "{} was removed, renamed or replaced while the store was in use, so nothing more is \
         accepted; put the store back as it was, then start again",
        .path.display()
    )]
    Gone {
        /// The file that is not there any more.
        path: PathBuf,
    },
    /// A later build wrote the store.
    #[error(
        "{} has format {found}, this build reads up to {known}; use a newer build", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this build reads.
        known: u32,
    },
    /// What was read is not what was written.
    #[error("{0}")]
    Damaged(Box<Damage>),
    /// The folder holds something else.
    #[error(
        "{} holds files but no store; choose an empty or a new folder", .dir.display()
    )]
    NotAStore {
        /// The folder.
        dir: PathBuf,
    },
    /// There is no store, and none was to be made.
    #[error("there is no store in {}; check the path", .dir.display())]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// The system refused something else.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An earlier write or read failed, so what is on disk is not known.
    #[error(
        "an earlier operation of the log failed; nothing more is written until it is opened anew"
    )]
    Poisoned,
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// Rows were handed over in the wrong order, which is a fault in the program.
    #[error("a row came for position {found} where {due} or a later one was due")]
    OutOfOrder {
        /// The row's position.
        found: u64,
        /// The first position that was free.
        due: u64,
    },
    /// Views were handed over that are ahead of the records, which is a fault in the program.
    #[error("the views came for position {upto}, but the records end before position {next}")]
    Ahead {
        /// What the views were said to reflect.
        upto: u64,
        /// The first position that is free.
        next: u64,
    },
    /// A later build wrote a row.
    #[error(
        "the row at position {}{} cannot be read: {source}",
        .position.0,
        in_file(.file.as_deref())
    )]
    Codec {
        /// The file.
        file: Option<PathBuf>,
        /// The row's position.
        position: Position,
        /// Why.
        source: super::CodecError,
    },
}

fn in_file(file: Option<&Path>) -> String {
    file.map_or_else(String::new, |file| format!(" in {}", file.display()))
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => "this process already".into(),
        Some(pid) => format!("another process (pid {pid})"),
        None => "another process".into(),
    }
}

/// Where something is damaged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Damage {
    /// The file.
    pub file: Option<PathBuf>,
    /// Position of the row; none where it is the file as a whole.
    pub position: Option<Position>,
    /// The last position that cannot be read because of it, where that is known.
    pub upto: Option<Position>,
    /// The job.
    pub job: Option<JobId>,
    /// What is wrong, as a sentence.
    pub detail: String,
}

impl Damage {
    pub(super) fn at(position: Position, detail: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            upto: Some(position),
            detail: detail.into(),
            ..Self::default()
        }
    }

    /// Damage in a row that was read, of the job that its header names. The header is not proved
    /// then, but what hit it is unlikely to have left the name of another job.
    pub(super) fn in_row(position: Position, bytes: &[u8]) -> Self {
        let job = super::codec::row_header(bytes).ok().map(|header| header.job);
        Self { job, ..Self::at(position, "") }
    }

    pub(super) fn of(mut self, job: JobId) -> Self {
        self.job = Some(job);
        self
    }

    pub(super) fn error<T>(self) -> Result<T, LogError> {
        Err(LogError::Damaged(Box::new(self)))
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the log is damaged")?;
        if let Some(file) = &self.file {
            write!(f, " in {}", file.display())?;
        }
        if let Some(Position(position)) = self.position {
            write!(f, " at position {position}")?;
        }
        if let Some(job) = self.job {
            write!(f, " (job {job})")?;
        }
        write!(f, ": {}; restore the store from a backup", self.detail)
    }
}

/// A row that could not be decoded, at a known place.
pub(super) fn undecodable<T>(error: super::CodecError, at: Damage) -> Result<T, LogError> {
    match error {
        super::CodecError::Damaged(detail) => Damage { detail, ..at }.error(),
        source => {
            let position = at.position.unwrap_or_default();
            Err(LogError::Codec { file: at.file, position, source })
        }
    }
}
