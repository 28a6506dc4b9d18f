//! Recovery: what the log says is folded into jobs again.

use annals_tasks_sdk::JobId;

use super::error::JobError;
use super::executor::{Entries, Entry, Executor, Parked, row};
use super::ids::JobMap;
use crate::job::{Illegal, Job};
use crate::log::{Head, JobRow, LogError, LogReader, Position, ReadRow, history};

/// How many rows of the tail are read at once; a read transaction is held no longer.
const PAGE: usize = 1024;

/// Loads a job from its history.
pub(super) fn load(reader: &dyn LogReader, id: JobId, head: Head) -> Result<Job, JobError> {
    let rows = history(reader, head.row, 0).map_err(|error| unreadable(id, &error))?;
    let mut job = None;
    for row in &rows {
        fold(&mut job, row).map_err(|why| JobError::Unreadable { job: id, why })?;
    }
    job.ok_or(JobError::NotFound(id))
}

fn unreadable(job: JobId, error: &LogError) -> JobError {
    JobError::Unreadable { job, why: error.to_string() }
}

/// Takes a row in. A job with an event that this build does not know is not run.
fn fold(job: &mut Option<Job>, row: &ReadRow) -> Result<(), String> {
    if let Some(unknown) = row.unknown.first() {
        return Err(format!(
            "its event {} is of a type or version (number {}, version {}) that this build does \
             not know; use a newer build",
            unknown.seq, unknown.number, unknown.version
        ));
    }
    for recorded in &row.events {
        let taken = match job {
            Some(job) => job.evolve(recorded),
            None => Job::begin(row.job, recorded).map(|begun| *job = Some(begun)),
        };
        taken.map_err(|illegal: Illegal| illegal.to_string())?;
    }
    Ok(())
}

/// What recovery found.
pub(super) struct Recovered {
    /// Jobs that have not ended.
    pub(super) open: Entries,
    /// When the parked ones among them are due.
    pub(super) due: Vec<JobRow>,
    /// Rows that the views do not have yet.
    pub(super) rows: Vec<JobRow>,
    /// Jobs whose history cannot be followed, and why.
    pub(super) broken: JobMap<String>,
    /// How many events lie behind the views.
    pub(super) tail_events: u64,
}

/// Reads the views and the tail of records behind them. Jobs with something to do at once are
/// loaded; of the others only the place of their history is kept.
pub(super) fn recover(reader: &dyn LogReader) -> Result<Recovered, LogError> {
    let mut found = Recovered {
        open: Entries::default(),
        due: Vec::new(),
        rows: Vec::new(),
        broken: JobMap::default(),
        tail_events: 0,
    };
    let mut tail: JobMap<(Job, Head)> = JobMap::default();
    let mut from = Position(reader.viewed().0 + 1);
    loop {
        let rows = reader.rows(from, PAGE)?;
        let Some(last) = rows.last() else { break };
        from = last.end();
        for row in &rows {
            found.tail_events += row.hashes.len() as u64;
            take_in(reader, row, &mut tail, &mut found.broken);
        }
    }
    for viewed in reader.open_rows()? {
        let id = viewed.job;
        if tail.contains_key(&id) || found.broken.contains_key(&id) {
            continue;
        }
        if viewed.active {
            match load(reader, id, viewed.head) {
                Ok(job) => {
                    let executor = Executor::new(job, viewed.head);
                    found.open.insert(id, Entry::Loaded(Box::new(executor)));
                }
                Err(error) => {
                    found.broken.insert(id, error.to_string());
                }
            }
        } else {
            found.open.insert(id, Entry::Parked(Parked { head: viewed.head }));
            found.due.push(viewed);
        }
    }
    for (id, (job, head)) in tail {
        found.rows.push(row(&job, head));
        if !job.status().is_ended() {
            found.open.insert(id, Entry::Loaded(Box::new(Executor::new(job, head))));
        }
    }
    Ok(found)
}

fn take_in(
    reader: &dyn LogReader,
    row: &ReadRow,
    tail: &mut JobMap<(Job, Head)>,
    broken: &mut JobMap<String>,
) {
    let id = row.job;
    if broken.contains_key(&id) {
        return;
    }
    let mut job = match tail.remove(&id) {
        Some((job, head)) if head.hash == row.before.hash => Some(job),
        Some(_) => {
            broken.insert(id, "its history does not hang together".into());
            return;
        }
        None if row.before.seq == 0 => None,
        None => match load(reader, id, row.before) {
            Ok(job) => Some(job),
            Err(error) => {
                broken.insert(id, error.to_string());
                return;
            }
        },
    };
    match fold(&mut job, row) {
        Ok(()) => {
            if let Some(job) = job {
                tail.insert(id, (job, row.after));
            }
        }
        Err(why) => {
            broken.insert(id, why);
        }
    }
}
