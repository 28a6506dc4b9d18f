//! A log that has been begun, and ways to look at it.

use std::io::Read;
use std::path::Path;

use annals_engine::steplog::{AttemptLog, Entry, Filter, LogName, Part, StepLogs};
use annals_tasks_sdk::{AttemptId, JobId, Stream, TaskId};

pub(crate) struct Begun {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) logs: StepLogs,
    pub(crate) name: LogName,
    pub(crate) log: AttemptLog,
}

pub(crate) fn attempt(job: u128) -> AttemptId {
    let task = TaskId::new("try").unwrap();
    AttemptId { job: JobId::from_u128(job), task, number: 1, attempt: 2 }
}

pub(crate) fn begin(budget: u64) -> Begun {
    let folder = tempfile::tempdir().unwrap();
    let logs = StepLogs::new(folder.path().join("logs"), budget);
    let id = attempt(7);
    Begun { log: logs.open(&id), name: (&id).into(), logs, folder }
}

impl Begun {
    pub(crate) fn raw(&self, filter: Filter) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.logs.read(self.name, filter).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn entries(&self, filter: Filter) -> Vec<Entry> {
        self.logs.entries(self.name, filter).unwrap().map(Result::unwrap).collect()
    }
}

pub(crate) fn all() -> Filter {
    Filter::default()
}

pub(crate) fn only(stream: Stream) -> Filter {
    Filter { stream: Some(stream), after: 0 }
}

pub(crate) fn lines(entries: &[Entry]) -> Vec<String> {
    let text = |entry: &Entry| match &entry.part {
        Part::Line { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
        Part::Piece { bytes, .. } => format!("{}...", String::from_utf8_lossy(bytes)),
        Part::Gap { bytes } => format!("gap {bytes}"),
    };
    entries.iter().map(text).collect()
}

pub(crate) fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}
