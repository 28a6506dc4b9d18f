//! Recovery: what the log says is folded into jobs again.

use std::sync::Arc;

use annals_tasks_sdk::JobId;

use super::error::{EngineError, JobError};
use super::executor::{Entries, Entry, Executor, Parked, row};
use super::ids::JobMap;
use super::keys::key_row;
use super::startup::{Startup, Told};
use crate::job::{Illegal, Job, JobStatus, Tombstone};
use crate::log::{
    Damage, Head, Hour, JobRow, KeyRow, LogError, LogReader, Position, ReadRow, history,
};

/// How many rows of the tail are read at once; a read transaction is held no longer.
const PAGE: usize = 1024;

/// Loads a job from its history.
pub(super) fn load(reader: &dyn LogReader, id: JobId, head: Head) -> Result<Job, JobError> {
    match read(reader, id, head) {
        Ok(Ok(job)) => Ok(job),
        Ok(Err(why)) => Err(JobError::Unreadable { job: id, why }),
        Err(error) => Err(EngineError::from(error).into()),
    }
}

/// Reads a job's history. What is wrong with the history is told apart from what is wrong with
/// the log as a whole.
fn read(reader: &dyn LogReader, id: JobId, head: Head) -> Result<Result<Job, String>, LogError> {
    let rows = match history(reader, head.row, 0) {
        Ok(rows) => rows,
        Err(error @ (LogError::Damaged(_) | LogError::Codec { .. })) => {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let mut job = None;
    for row in &rows {
        if let Err(why) = fold(&mut job, row) {
            return Ok(Err(why));
        }
    }
    Ok(job.filter(|job| job.id() == id).ok_or_else(|| "the log does not hold it".into()))
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

/// A job whose history cannot be followed.
pub(super) struct Broken {
    pub(super) why: String,
    /// Its row, where the views do not have it: the views must show where its history ends, or
    /// the next start would take the part that they know for the whole.
    pub(super) row: Option<JobRow>,
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
    pub(super) broken: JobMap<Broken>,
    /// Idempotency keys that the views do not have yet.
    pub(super) keys: Vec<KeyRow>,
    /// How many events lie behind the views.
    pub(super) tail_events: u64,
}

/// Reads the views and the tail of records behind them. Jobs with something to do at once are
/// loaded; of the others only the place of their history is kept.
pub(super) fn recover(
    reader: &dyn LogReader,
    keys_since: Hour,
    told: &Told,
) -> Result<Recovered, LogError> {
    let tail = Tail::read(reader, keys_since, told)?;
    let mut found = Recovered {
        open: Entries::default(),
        due: Vec::new(),
        rows: Vec::new(),
        broken: tail.broken,
        keys: tail.keys,
        tail_events: tail.events,
    };
    for viewed in reader.open_rows()? {
        let id = viewed.job;
        if tail.jobs.contains_key(&id) || found.broken.contains_key(&id) {
            continue;
        }
        if let Some(purged) = Executor::of_purged(&viewed) {
            found.open.insert(id, Entry::Loaded(Box::new(purged)));
        } else if viewed.active {
            match read(reader, id, viewed.head)? {
                Ok(job) => {
                    let executor = Executor::new(job, viewed.head);
                    found.open.insert(id, Entry::Loaded(Box::new(executor)));
                }
                Err(why) => {
                    tracing::error!(job = %id, why, "a job is not run");
                    found.broken.insert(id, Broken { why, row: None });
                }
            }
        } else {
            found.open.insert(id, Entry::Parked(Parked::of_row(&viewed).0));
            found.due.push(viewed);
        }
    }
    for (id, (job, head)) in tail.jobs {
        found.rows.push(row(&job, head));
        // The files of one that was purged may still be there.
        if !job.status().is_ended() || job.purged().is_some() {
            found.open.insert(id, Entry::Loaded(Box::new(Executor::new(job, head))));
        }
    }
    Ok(found)
}

/// The idempotency keys in a row, also of events that this build does not know.
fn keys_of(row: &ReadRow) -> impl Iterator<Item = KeyRow> {
    let of = |time, key: &Option<Box<_>>| key_row(row.job, time, key.as_deref());
    let known = row.events.iter().filter_map(move |event| of(event.time, &event.key));
    known.chain(row.unknown.iter().filter_map(move |event| of(event.time, &event.key)))
}

/// How much of the way from `first` to `next` is behind `from`.
fn share(first: Position, from: Position, next: Position) -> f64 {
    let part = |upto: Position| upto.0.saturating_sub(first.0);
    // A share for people needs no more digits than fit.
    #[expect(clippy::cast_precision_loss)]
    let (done, all) = (part(from.min(next)) as f64, part(next) as f64);
    if all > 0.0 { done / all } else { 1.0 }
}

/// The records behind the views, folded into the jobs that they belong to.
#[derive(Default)]
struct Tail {
    jobs: JobMap<(Job, Head)>,
    broken: JobMap<Broken>,
    /// Damaged rows of jobs that nothing else is known of yet.
    strange: Vec<(JobId, Damage)>,
    /// Idempotency keys that are young enough.
    keys: Vec<KeyRow>,
    events: u64,
}

impl Tail {
    fn read(reader: &dyn LogReader, keys_since: Hour, told: &Told) -> Result<Self, LogError> {
        let mut tail = Self::default();
        let (first, next) = (Position(reader.viewed().0 + 1), reader.next_position());
        let mut from = first;
        let mut page = PAGE;
        loop {
            told.tell(Startup::Recovering { fraction: share(first, from, next) });
            match reader.rows(from, page) {
                Ok(rows) => {
                    let Some(last) = rows.last() else { break };
                    from = last.end();
                    for row in &rows {
                        tail.events += row.hashes.len() as u64;
                        tail.keys.extend(keys_of(row).filter(|key| key.hour >= keys_since));
                        tail.take_in(reader, row)?;
                    }
                }
                // One of these rows is damaged: read singly, they show which.
                Err(LogError::Damaged(_)) if page > 1 => page = 1,
                Err(LogError::Damaged(damage)) => {
                    from = tail.pass_over(reader, *damage)?;
                    page = PAGE;
                }
                Err(error) => return Err(error),
            }
        }
        // If it cannot be known whose history has a hole, then no job may go on: it could be
        // one of those whose last events are missing.
        let is_purged =
            |id: &JobId| tail.jobs.get(id).is_some_and(|(job, _)| job.purged().is_some());
        let unknown =
            |(job, _): &(JobId, Damage)| !tail.broken.contains_key(job) && !is_purged(job);
        match tail.strange.iter().position(unknown) {
            Some(place) => Err(LogError::Damaged(Box::new(tail.strange.swap_remove(place).1))),
            None => Ok(tail),
        }
    }

    /// Gives up the job that a damaged row belongs to. Gives where to read on.
    fn pass_over(&mut self, reader: &dyn LogReader, damage: Damage) -> Result<Position, LogError> {
        let (Some(position), Some(id)) = (damage.position, damage.job) else {
            return Err(LogError::Damaged(Box::new(damage)));
        };
        if let Some(broken) = self.broken.get_mut(&id) {
            if let Some(known) = &mut broken.row {
                known.head.row = position;
            }
            return Ok(Position(position.0 + 1));
        }
        let known = match self.jobs.remove(&id) {
            Some((job, head)) => Some(row(&job, head)),
            None => reader.job_row(id)?,
        };
        if let Some(known) = known {
            let why = damage.to_string();
            tracing::error!(job = %id, why, "a job is not run");
            let head = Head { row: position, ..known.head };
            self.broken.insert(id, Broken { why, row: Some(not_to_be_run(known, head)) });
        } else {
            self.strange.push((id, damage));
        }
        Ok(Position(position.0 + 1))
    }

    fn take_in(&mut self, reader: &dyn LogReader, row: &ReadRow) -> Result<(), LogError> {
        take_in(reader, row, &mut self.jobs, &mut self.broken)
    }
}

fn take_in(
    reader: &dyn LogReader,
    row: &ReadRow,
    tail: &mut JobMap<(Job, Head)>,
    broken: &mut JobMap<Broken>,
) -> Result<(), LogError> {
    let id = row.job;
    // Whatever became of the history before it, there is nothing to be followed any more.
    if let Some(tombstone) = row.events.last().and_then(Tombstone::of)
        && row.unknown.is_empty()
    {
        broken.remove(&id);
        tail.insert(id, (Job::of_tombstone(id, Arc::new(tombstone)), row.after));
        return Ok(());
    }
    if let Some(broken) = broken.get_mut(&id) {
        if let Some(known) = &mut broken.row {
            known.head = row.after;
        }
        return Ok(());
    }
    let (mut job, hangs_together) = match tail.remove(&id) {
        Some((job, head)) => (Some(job), Ok(head == row.before)),
        None if row.before.seq == 0 => (None, Ok(true)),
        None => match read(reader, id, row.before)? {
            Ok(job) => (Some(job), Ok(true)),
            Err(why) => (None, Err(why)),
        },
    };
    let taken = match hangs_together {
        Ok(true) => fold(&mut job, row),
        Ok(false) => Err("its history does not hang together".into()),
        Err(why) => Err(why),
    };
    match (taken, job) {
        (Ok(()), Some(job)) => {
            tail.insert(id, (job, row.after));
        }
        (Ok(()), None) => {}
        (Err(why), job) => {
            tracing::error!(job = %id, why, "a job is not run");
            let row = Some(row_of_broken(reader, job.as_ref(), row));
            broken.insert(id, Broken { why, row });
        }
    }
    Ok(())
}

/// What the views are to know of a job that cannot be followed: what was known of it last, and
/// where its history really ends.
fn row_of_broken(reader: &dyn LogReader, job: Option<&Job>, last: &ReadRow) -> JobRow {
    let known = job.map(|job| row(job, last.after));
    let known = known.or_else(|| reader.job_row(last.job).ok().flatten());
    let time = last.events.first().map(|event| event.time);
    let time = time.or_else(|| last.unknown.first().map(|event| event.time));
    let known = known.unwrap_or_else(|| JobRow::unknown(last.job, time.unwrap_or_default()));
    not_to_be_run(known, last.after)
}

/// The row of a job that cannot be followed: it is open, so that every start finds it, and its
/// head leads to what is wrong.
fn not_to_be_run(mut known: JobRow, head: Head) -> JobRow {
    known.head = head;
    known.active = true;
    if known.status.is_ended() {
        known.status = JobStatus::Running;
    }
    known
}
