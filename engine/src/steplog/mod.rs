//! Step logs: what attempts write, one log per attempt, apart from the event log.
//!
//! The format is that of CRI, `TIME stdout|stderr P|F CONTENT`: `F` ends a line, `P` is a piece
//! of one that goes on. The bytes come back exactly, whatever they are. A log has no file until
//! its first byte; it keeps its first and its last part within a budget, and says how much was
//! dropped between them; when its attempt is over it is packed.
//!
//! A folder per job holds `<number>.<attempt>.log` and, while a log that has outgrown the first
//! half of its budget is being written, `<number>.<attempt>.tail/` with its last segments. What
//! a crash leaves is read like a log that is being written. A line that reads
//! `TIME mark F STDOUT STDERR` says how many bytes of each stream came before it; where fewer
//! are there, the others were dropped.
//!
//! On a disk that is nearly full the logs give way: what is left is for the event log, without
//! which nothing goes on.
//!
//! Nothing here is synced to the disk: a power failure may cost the last seconds of a log. And
//! nothing below the folder of all logs is a link that is followed: whoever runs as the engine's
//! user may put one there.

mod entries;
mod files;
mod follow;
mod growth;
mod layer;
mod line;
mod pack;
mod read;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_tasks_sdk::{AttemptId, JobId, Stream};

use files::Place;
use growth::{Growth, Watch};

pub use entries::Entries;
pub use follow::Follower;
pub(crate) use layer::{SPAN, is_watched, line_of};
pub use layer::{StepLogLayer, layer};
pub use read::{Entry, Extent, Part, Raw};
pub use write::AttemptLog;
use write::Bounds;
pub(crate) use write::Listener;

/// How much of an attempt's output is kept, unless a setting says otherwise: 16 MiB.
pub const BUDGET: u64 = 16 * 1024 * 1024;

/// How much of the disk step logs leave to the event log, unless a setting says otherwise: 16 MiB.
pub const RESERVE: u64 = 16 * 1024 * 1024;

/// The step logs below a folder.
#[derive(Debug, Clone)]
pub struct StepLogs {
    folder: Arc<Path>,
    budget: u64,
    reserve: u64,
    growth: Arc<Growth>,
}

/// Which log: ids of tasks are free text of a kind, so files are named by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogName {
    /// The job.
    pub job: JobId,
    /// The task's number.
    pub number: u32,
    /// The attempt.
    pub attempt: u32,
}

impl From<&AttemptId> for LogName {
    fn from(id: &AttemptId) -> Self {
        Self { job: id.job, number: id.number, attempt: id.attempt }
    }
}

/// Which part of a log to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filter {
    /// This stream alone.
    pub stream: Option<Stream>,
    /// What comes after so many bytes of what the filter lets through, dropped ones counted.
    pub after: u64,
}

impl StepLogs {
    /// The logs below `folder`, which need not exist. Each keeps about `budget` bytes of what
    /// its attempt writes; see [`BUDGET`].
    pub fn new(folder: impl Into<PathBuf>, budget: u64) -> Self {
        Self { folder: folder.into().into(), budget, reserve: RESERVE, growth: Arc::default() }
    }

    /// Leaves so many bytes of the disk free, instead of [`RESERVE`]: what is written when there
    /// are no more is dropped, and told as dropped.
    #[must_use]
    pub fn leaving(mut self, reserve: u64) -> Self {
        self.reserve = reserve;
        self
    }

    /// Begins the log of an attempt. Makes no file.
    pub fn open(&self, attempt: &AttemptId) -> AttemptLog {
        let (place, growth) = (self.place(attempt.into()), Arc::clone(&self.growth));
        AttemptLog::new(
            place,
            Bounds { budget: self.budget, reserve: self.reserve },
            growth,
            attempt,
        )
    }

    /// Reads the bytes as they were written. A log without a file is empty.
    pub fn read(&self, name: LogName, filter: Filter) -> io::Result<Raw> {
        Ok(Raw::new(read::Pieces::open(&self.place(name), filter)?))
    }

    /// Reads line by line, for display.
    pub fn entries(&self, name: LogName, filter: Filter) -> io::Result<Entries> {
        Ok(Entries::new(read::Pieces::open(&self.place(name), filter)?))
    }

    /// The last lines.
    pub fn tail(&self, name: LogName, filter: Filter, lines: usize) -> io::Result<Vec<Entry>> {
        self.entries(name, filter)?.last_lines(lines)
    }

    /// Reads line by line as the log grows.
    pub fn follow(&self, name: LogName, filter: Filter) -> Follower {
        let watch = Watch::new(&self.growth, name);
        Follower::new(self.place(name), filter, watch)
    }

    /// How far a log goes, of one stream or of both. Reads through it.
    pub fn extent(&self, name: LogName, stream: Option<Stream>) -> io::Result<Extent> {
        let end = Filter { stream, after: u64::MAX };
        Ok(read::Pieces::open(&self.place(name), end)?.extent())
    }

    /// Removes all logs of a job.
    pub fn remove(&self, job: JobId) -> io::Result<()> {
        match fs::remove_dir_all(self.folder.join(job.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn place(&self, name: LogName) -> Place {
        Place::new(Arc::clone(&self.folder), name)
    }
}
