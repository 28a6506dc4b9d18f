//! Reading a bundle, and checking all that is in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use annals_engine::log::{Head, Position, ReadRow, ValueKey, decode_row, digest};
use annals_engine::runtime::Logged;
use annals_tasks_sdk::JobId;
use serde_json::value::RawValue;

use super::format::{Header, Line, VERSION, Value};
use crate::dto;

/// Longer lines are not read: the limits keep every row and every value far below that.
const LINE_MAX: u64 = 256 << 20;

/// So many faults are told; a bundle with more is no better for the rest of them.
const FAULTS_MAX: usize = 1_000;

/// A file is no bundle, or none that this build reads.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It does not begin as a bundle does.
    #[error("this is no bundle: {0}")]
    NoBundle(String),
    /// A newer build has written it.
    #[error(
        "this bundle has version {0}, and this build reads versions up to {VERSION}: use a newer \
         build"
    )]
    Newer(u32),
}

/// A job that was exported, with all that the log has of it.
#[derive(Debug)]
pub struct Bundle {
    job: JobId,
    name: String,
    head: Head,
    pub(super) events: Vec<Logged>,
    unknown: u64,
    pub(super) values: BTreeMap<ValueKey, Vec<u8>>,
    log_entries: u64,
    pub(super) state: Option<Box<RawValue>>,
    pub(super) faults: Vec<String>,
}

impl Bundle {
    /// Reads a bundle from a file. [`Bundle::faults`] tells what is wrong with it.
    ///
    /// # Errors
    ///
    /// Where it cannot be read at all.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BundleError> {
        Self::read(BufReader::new(File::open(path)?))
    }

    /// As [`Bundle::open`], from anywhere.
    ///
    /// # Errors
    ///
    /// Where it cannot be read at all.
    pub fn read(input: impl BufRead) -> Result<Self, BundleError> {
        let mut reading = Reading::begin(input)?;
        while reading.line()? {}
        Ok(reading.end())
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Its plan's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its events that this build knows, the oldest first.
    pub fn events(&self) -> &[Logged] {
        &self.events
    }

    /// How many of its events a newer build has written.
    pub fn unknown_events(&self) -> u64 {
        self.unknown
    }

    /// How many values of checkpoints and steps it has.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// How many parts of step logs it has.
    pub fn log_entries(&self) -> u64 {
        self.log_entries
    }

    /// Where its history ends: `seq`, and the hash that covers all of it.
    pub fn head(&self) -> Head {
        self.head
    }

    /// What is wrong with it, the first fault first; nothing where it is as it was written. All of
    /// it is checked: the hash of the file, that of each event and their chain, and those of the
    /// values.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// A bundle that is being read.
struct Reading<I> {
    input: I,
    /// The number of the line that is next, from 1.
    number: u64,
    hash: blake3::Hasher,
    header: Header,
    bundle: Bundle,
    is_over: bool,
}

impl<I: BufRead> Reading<I> {
    fn begin(mut input: I) -> Result<Self, BundleError> {
        let mut hash = blake3::Hasher::new();
        let text = next(&mut input)?;
        let no_bundle = |why: &str| BundleError::NoBundle(why.into());
        let Ok(Line::AnnalsBundle(header)) = serde_json::from_slice(&text) else {
            return Err(no_bundle("its first line is not that of one"));
        };
        if header.version == 0 || header.version > VERSION {
            return Err(BundleError::Newer(header.version));
        }
        let job = header.job_id.parse().map_err(|_| no_bundle("its job has no id"))?;
        hash.update(&text);
        let bundle = Bundle {
            job,
            name: header.name.clone(),
            head: Head::default(),
            events: Vec::new(),
            unknown: 0,
            values: BTreeMap::new(),
            log_entries: 0,
            state: None,
            faults: Vec::new(),
        };
        Ok(Self { input, number: 2, hash, header, bundle, is_over: false })
    }

    /// Takes the next line in; gives whether there was one.
    fn line(&mut self) -> Result<bool, BundleError> {
        let text = next(&mut self.input)?;
        if text.is_empty() {
            return Ok(false);
        }
        if self.is_over {
            self.fault("there is something behind the end");
            return Ok(false);
        }
        match serde_json::from_slice(&text) {
            Ok(Line::End(end)) => {
                let is_whole = end.lines + 1 == self.number
                    && end.hash == self.hash.finalize().to_hex().as_str();
                if !is_whole {
                    self.fault("what comes before the end is not what was written");
                }
                self.is_over = true;
            }
            Ok(line) => self.take(line),
            Err(error) => self.fault(&format!("it cannot be read: {error}")),
        }
        self.hash.update(&text);
        self.number += 1;
        Ok(true)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Row(row) => match decode_row(Position(row.position), &row.bytes.0) {
                Ok(row) => self.row(row),
                Err(error) => self.fault(&format!("the row at {}: {error}", row.position)),
            },
            Line::Value(Value { checkpoint, step, bytes }) => {
                let key = match (checkpoint, step) {
                    (Some(task), None) => ValueKey::Checkpoint { task },
                    (None, Some(seq)) => ValueKey::Step { seq },
                    _ => return self.fault("a value belongs to nothing"),
                };
                self.bundle.values.insert(key, bytes.0);
            }
            Line::Log(log) => self.bundle.log_entries += log.entries.len() as u64,
            Line::State(state) => self.bundle.state = Some(state),
            Line::AnnalsBundle(_) | Line::End(_) => self.fault("another bundle begins"),
        }
    }

    fn row(&mut self, row: ReadRow) {
        let before = self.bundle.head;
        if row.job != self.bundle.job {
            return self.fault(&format!("the row at {} is of job {}", row.position.0, row.job));
        }
        if (row.before.seq, row.before.hash) != (before.seq, before.hash) {
            let (next, last) = (row.before.seq + 1, before.seq);
            self.fault(&format!("the chain is broken: event {next} follows event {last}"));
        }
        self.bundle.head = row.after;
        self.bundle.unknown += row.unknown.len() as u64;
        self.bundle.events.extend(Logged::of(row));
    }

    fn fault(&mut self, what: &str) {
        if self.bundle.faults.len() < FAULTS_MAX {
            self.bundle.faults.push(format!("line {}: {what}", self.number));
        }
    }

    fn end(mut self) -> Bundle {
        let Head { seq, hash, .. } = self.bundle.head;
        if !self.is_over {
            self.fault("the bundle is cut off here");
        }
        if (seq, dto::hex(&hash)) != (self.header.head_seq, self.header.head_hash.clone()) {
            let (end, first) = (seq, self.header.head_seq);
            self.fault(&format!("the history ends at event {end}, and not as said at {first}"));
        }
        self.bundle.check_values();
        self.bundle
    }
}

impl Bundle {
    /// Checks the values that the job has by its events.
    fn check_values(&mut self) {
        let Some(job) = self.fold() else { return };
        let mut wanted = Vec::new();
        for (number, task) in job.tasks() {
            let checkpoint = task.checkpoint().map(|kept| kept.value);
            wanted.extend(checkpoint.map(|value| (ValueKey::Checkpoint { task: number.0 }, value)));
            let steps = task.steps().as_slice().iter();
            wanted.extend(steps.map(|step| (ValueKey::Step { seq: step.seq }, step.value)));
        }
        for (key, value) in wanted {
            let what = match self.values.get(&key) {
                Some(bytes) if digest(bytes) == value => continue,
                Some(_) => "is not what was recorded",
                None => "is missing",
            };
            if self.faults.len() < FAULTS_MAX {
                self.faults.push(format!("{key} {what}"));
            }
        }
    }
}

/// The next line with its line feed; empty at the end.
fn next(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.take(LINE_MAX).read_until(b'\n', &mut line)?;
    Ok(line)
}
