//! Writing a bundle.

use std::io::{self, Write};
use std::sync::Arc;

use annals_engine::job::{Job, Task, TaskNumber};
use annals_engine::log::{
    Damage, LogError, LogReader, PageLimit, Position, ValueKey, Waypoints, history_page,
};
use annals_engine::runtime::{JobError, Snapshot};
use annals_engine::steplog::{Filter, LogName, StepLogs};
use annals_engine::{Engine, JobHandle};
use serde_json::value::RawValue;

use super::format::{Base64, End, Header, Line, Log, Row, VERSION, Value};
use crate::dto;

/// What is read of the log at a time.
const PAGE: PageLimit = PageLimit { events: 1_024, bytes: 1 << 20 };

/// So many parts of a step log make a line.
const ENTRIES: usize = 256;

/// A bundle cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The job cannot be read.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A step log cannot be read.
    #[error("the log of attempt {attempt} of task {task} cannot be read: {error}")]
    StepLog {
        /// The task.
        task: String,
        /// The attempt.
        attempt: u32,
        /// Why not.
        error: io::Error,
    },
    /// It cannot be written to where it should be.
    #[error("the bundle cannot be written: {0}")]
    Write(io::Error),
}

/// A job as it is now, to be written into a bundle.
pub struct Export {
    job: Arc<Job>,
    head: Position,
    hash: [u8; 32],
    reader: Arc<dyn LogReader>,
    logs: StepLogs,
}

impl Export {
    /// Looks the job up. What happens to it later is not in the bundle.
    ///
    /// # Errors
    ///
    /// Where the job cannot be read, or the log.
    pub async fn of(engine: &Engine, handle: &JobHandle) -> Result<Self, ExportError> {
        let job = handle.snapshot().await?.job;
        let unreadable = |why: &str| JobError::Unreadable { job: handle.id(), why: why.into() };
        let last = handle.history(job.seq() - 1, 1).await?.into_iter().next();
        let last = last.ok_or_else(|| unreadable("its last event cannot be read"))?;
        let (head, hash) = (last.position, last.hash);
        Ok(Self { job, head, hash, reader: engine.reader(), logs: engine.step_logs().clone() })
    }

    /// Writes the bundle. It reads files, and is not for threads that must not wait.
    ///
    /// # Errors
    ///
    /// Where something of the job cannot be read, or not be written. What was written then has no
    /// end, and is refused by whoever reads it.
    pub fn write(&self, out: &mut impl Write) -> Result<(), ExportError> {
        let mut lines = Lines { out, hash: blake3::Hasher::new(), count: 0 };
        lines.put(&Line::AnnalsBundle(Header {
            version: VERSION,
            job_id: self.job.id().to_string(),
            name: self.job.header().name.to_string(),
            head_seq: self.job.seq(),
            head_hash: dto::hex(&self.hash),
        }))?;
        self.rows(&mut lines)?;
        for (number, task) in self.job.tasks() {
            self.values(number, task, &mut lines)?;
            self.step_logs(number, task, &mut lines)?;
        }
        let state = dto::Job::at(&Snapshot::of(Arc::clone(&self.job))).to_json();
        let state = RawValue::from_string(state).map_err(|error| ExportError::Write(error.into()));
        lines.put(&Line::State(state?))?;
        lines.end()
    }

    fn rows(&self, lines: &mut Lines<'_, impl Write>) -> Result<(), ExportError> {
        let reader = &*self.reader;
        let gone = |position| {
            let detail = "the row is gone".into();
            LogError::Damaged(Box::new(Damage {
                position: Some(position),
                detail,
                ..Damage::default()
            }))
        };
        let head = reader.row(self.head)?.ok_or_else(|| gone(self.head))?.position;
        let (waypoints, mut after) = (Waypoints::default(), 0);
        while after < self.job.seq() {
            let of = (self.job.id(), head);
            let page = history_page(reader, &waypoints, of, after, PAGE)?;
            let last = page.last().ok_or_else(|| gone(head))?;
            after = last.after.seq;
            for row in &page {
                let bytes = reader.bytes(row.position)?;
                let bytes = bytes.ok_or_else(|| gone(row.position))?;
                lines.put(&Line::Row(Row { position: row.position.0, bytes: Base64(bytes) }))?;
            }
        }
        Ok(())
    }

    /// What is missing is told by whoever reads the bundle.
    fn values(
        &self,
        number: TaskNumber,
        task: &Task,
        lines: &mut Lines<'_, impl Write>,
    ) -> Result<(), ExportError> {
        let value = |key, digest| self.reader.value(self.job.id(), key, digest);
        if let Some(kept) = task.checkpoint() {
            let key = ValueKey::Checkpoint { task: number.0 };
            if let Some(bytes) = value(key, &kept.value)? {
                let (checkpoint, bytes) = (Some(number.0), Base64(bytes));
                lines.put(&Line::Value(Value { checkpoint, step: None, bytes }))?;
            }
        }
        for step in task.steps().as_slice() {
            if let Some(bytes) = value(ValueKey::Step { seq: step.seq }, &step.value)? {
                let (step, bytes) = (Some(step.seq), Base64(bytes));
                lines.put(&Line::Value(Value { checkpoint: None, step, bytes }))?;
            }
        }
        Ok(())
    }

    fn step_logs(
        &self,
        number: TaskNumber,
        task: &Task,
        lines: &mut Lines<'_, impl Write>,
    ) -> Result<(), ExportError> {
        let id = task.spec.id.as_str();
        for attempt in task.attempts() {
            let attempt = attempt.number;
            let cannot = |error| ExportError::StepLog { task: id.to_owned(), attempt, error };
            let name = LogName { job: self.job.id(), number: number.0, attempt };
            let mut entries = self.logs.entries(name, Filter::default()).map_err(cannot)?;
            loop {
                let part: Result<Vec<_>, io::Error> = entries
                    .by_ref()
                    .take(ENTRIES)
                    .map(|entry| Ok(RawValue::from_string(dto::LogEntry::of(&entry?).to_json())?))
                    .collect();
                let entries = part.map_err(cannot)?;
                if entries.is_empty() {
                    break;
                }
                lines.put(&Line::Log(Log { task: id.to_owned(), attempt, entries }))?;
            }
        }
        Ok(())
    }
}

/// Lines that are written, and the hash of them.
struct Lines<'w, W> {
    out: &'w mut W,
    hash: blake3::Hasher,
    count: u64,
}

impl<W: Write> Lines<'_, W> {
    fn put(&mut self, line: &Line) -> Result<(), ExportError> {
        let mut text = serde_json::to_vec(line).map_err(|e| ExportError::Write(e.into()))?;
        text.push(b'\n');
        self.hash.update(&text);
        self.count += 1;
        self.out.write_all(&text).map_err(ExportError::Write)
    }

    fn end(mut self) -> Result<(), ExportError> {
        let hash = self.hash.finalize().to_hex().to_string();
        self.put(&Line::End(End { lines: self.count, hash }))?;
        self.out.flush().map_err(ExportError::Write)
    }
}
