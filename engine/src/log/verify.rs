//! The audit of a whole log.

use std::collections::HashMap;

use annals_tasks_sdk::JobId;

use super::{
    Damage, Head, JobRow, LogError, LogReader, PageLimit, Position, ReadRow, ValueKey, Waypoints,
    history_page,
};
use crate::job::{Event, Recorded, ValueDigest};

/// Rows that are held in memory at a time.
const PAGE: usize = 256;

/// How much of a job's history is held in memory at a time: so many events...
const JOB_PAGE: usize = 4_096;
/// ...and about so many bytes.
const JOB_PAGE_BYTES: usize = 4 << 20;

/// How many faults are listed; a log with more is no better for the rest of them.
const DAMAGE_MAX: usize = 1_000;

/// What an audit found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Rows that are sound.
    pub rows: u64,
    /// Events in them.
    pub events: u64,
    /// Events among them that this build does not know.
    pub unknown: u64,
    /// Jobs that they belong to.
    pub jobs: u64,
    /// Jobs among them that were purged.
    pub purged: u64,
    /// Values of checkpoints and steps that are sound.
    pub values: u64,
    /// Positions that no row holds, between the first row and the last.
    pub free: u64,
    /// What is wrong; the first thousand faults. Empty for a sound log.
    pub damage: Vec<Damage>,
}

/// Reads the whole log and checks every hash, the chain of every job, the order of positions,
/// the last checkpoint of every task and each result of its steps, and that the views' heads lie
/// on the jobs' chains.
///
/// Damage is listed, not an error: the rest is still checked. An error means that the audit
/// could not go on.
pub fn verify(reader: &dyn LogReader) -> Result<Verified, LogError> {
    let mut audit = Audit::default();
    audit.rows(reader)?;
    audit.values(reader)?;
    audit.views(reader)?;
    audit.found.jobs = audit.heads.len() as u64;
    audit.found.purged = audit.purged.len() as u64;
    Ok(audit.found)
}

/// Reads the history of one job from its first event up to the row `head`, and checks its hashes,
/// its chain and its values. Gives where it ends as well.
///
/// Damage is listed, not an error. Where there is some the whole log is looked through, because
/// only that finds the first event that is bad: there is no other way to a job's rows but back from
/// its head.
pub fn verify_job(
    reader: &dyn LogReader,
    waypoints: &Waypoints,
    (job, head): (JobId, Position),
) -> Result<(Head, Verified), LogError> {
    let mut audit = Audit::default();
    if let Err(error) = audit.history(reader, waypoints, (job, head)) {
        let LogError::Damaged(damage) = error else { return Err(error) };
        audit.found.damage = verify(reader)?.damage;
        audit.found.damage.retain(|found| found.job.is_none_or(|of| of == job));
        if audit.found.damage.is_empty() {
            audit.damaged(*damage);
        }
    } else {
        audit.values(reader)?;
    }
    audit.found.jobs = 1;
    Ok((audit.heads.get(&job).copied().unwrap_or_default(), audit.found))
}

#[derive(Default)]
struct Audit {
    found: Verified,
    /// The position that is due, once a row was seen.
    due: Option<Position>,
    heads: HashMap<JobId, Head>,
    /// Jobs that were purged, and the row that says so.
    purged: HashMap<JobId, Position>,
    checkpoints: HashMap<(JobId, u32), (Position, ValueDigest)>,
    /// Values that are missing, unless their job turns out to be purged.
    missing: HashMap<JobId, Vec<(Position, ValueKey)>>,
}

impl Audit {
    fn rows(&mut self, reader: &dyn LogReader) -> Result<(), LogError> {
        let (mut from, mut limit) = (Position(1), PAGE);
        loop {
            match reader.rows(from, limit) {
                Ok(rows) => {
                    let Some(last) = rows.last() else { return Ok(()) };
                    from = last.end();
                    for row in &rows {
                        self.row(row);
                        self.steps(reader, row)?;
                    }
                }
                // The page is read row by row up to the one that is at fault, and from behind it.
                Err(LogError::Damaged(_)) if limit > 1 => limit = 1,
                Err(LogError::Damaged(damage)) => {
                    let upto = damage.upto.filter(|upto| *upto >= from);
                    self.damaged(*damage);
                    // It is the last file that cannot be read.
                    let Some(upto) = upto else { return Ok(()) };
                    (from, limit) = (Position(upto.0 + 1), PAGE);
                    // How many positions were held there is not known.
                    self.due = None;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The rows of one job.
    fn history(
        &mut self,
        reader: &dyn LogReader,
        waypoints: &Waypoints,
        of: (JobId, Position),
    ) -> Result<(), LogError> {
        let limit = PageLimit { events: JOB_PAGE, bytes: JOB_PAGE_BYTES };
        loop {
            let after = self.heads.get(&of.0).map_or(0, |head| head.seq);
            let rows = history_page(reader, waypoints, of, after, limit)?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in &rows {
                // Between them are rows of others.
                self.due = None;
                self.row(row);
                self.steps(reader, row)?;
            }
        }
    }

    fn damaged(&mut self, damage: Damage) {
        if self.found.damage.len() < DAMAGE_MAX {
            self.found.damage.push(damage);
        }
    }

    fn row(&mut self, row: &ReadRow) {
        self.found.rows += 1;
        self.found.events += row.hashes.len() as u64;
        self.found.unknown += row.unknown.len() as u64;
        let due = self.due.unwrap_or(row.position);
        if row.position < due {
            self.damaged(Damage::at(row.position, "two rows hold the same position").of(row.job));
        }
        self.found.free += row.position.0.saturating_sub(due.0);
        self.due = Some(row.end());
        let head = self.heads.insert(row.job, row.after).unwrap_or_default();
        if head != row.before {
            let detail = format!(
                "the job's chain is broken: event {} follows event {}",
                row.before.seq + 1,
                head.seq
            );
            self.damaged(Damage::at(row.position, detail).of(row.job));
        }
        for recorded in &row.events {
            match &recorded.event {
                Event::CheckpointSaved { task, value, .. } => {
                    self.checkpoints.insert((row.job, task.0), (row.position, *value));
                }
                Event::JobPurged(_) => {
                    self.purged.insert(row.job, row.position);
                    self.missing.remove(&row.job);
                }
                _ => {}
            }
        }
    }

    /// The last checkpoint of each task, and what is missing of jobs that were not purged.
    fn values(&mut self, reader: &dyn LogReader) -> Result<(), LogError> {
        let mut checkpoints = std::mem::take(&mut self.checkpoints);
        // They went with the purge, except from files that were closed by then.
        checkpoints.retain(|(job, _), _| !self.purged.contains_key(job));
        for ((job, task), (position, digest)) in checkpoints {
            self.value(reader, (job, ValueKey::Checkpoint { task }), position, &digest)?;
        }
        for (job, values) in std::mem::take(&mut self.missing) {
            for (position, key) in values {
                self.damaged(Damage::at(position, format!("{key} is missing")).of(job));
            }
        }
        Ok(())
    }

    /// The steps of a row, whose values lie in its file: looked for later they would have that
    /// opened anew.
    fn steps(&mut self, reader: &dyn LogReader, row: &ReadRow) -> Result<(), LogError> {
        for Recorded { seq, event, .. } in &row.events {
            if let Event::StepRecorded { value, .. } = event {
                let key = ValueKey::Step { seq: *seq };
                self.value(reader, (row.job, key), row.position_of(*seq), value)?;
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        reader: &dyn LogReader,
        (job, key): (JobId, ValueKey),
        position: Position,
        digest: &ValueDigest,
    ) -> Result<(), LogError> {
        match reader.value(job, key, digest) {
            Ok(Some(_)) => self.found.values += 1,
            Ok(None) => self.missing.entry(job).or_default().push((position, key)),
            Err(LogError::Damaged(damage)) => self.damaged(*damage),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What was purged is in no list, once the views know of it.
    fn is_listed(&mut self, reader: &dyn LogReader, view: &JobRow) {
        let known = self.purged.get(&view.job).filter(|purged| **purged <= reader.viewed());
        if let Some(&purged) = known {
            let detail = "the views list the job, which was purged";
            self.damaged(Damage::at(purged, detail).of(view.job));
        }
    }

    fn views(&mut self, reader: &dyn LogReader) -> Result<(), LogError> {
        let mut before = None;
        loop {
            let rows = match reader.job_rows(before, PAGE) {
                Ok(rows) => rows,
                Err(LogError::Damaged(damage)) => {
                    self.damaged(*damage);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let Some(last) = rows.last() else { return Ok(()) };
            before = Some(last.job);
            for view in &rows {
                self.is_listed(reader, view);
                let head = self.heads.get(&view.job).copied().unwrap_or_default();
                if view.head.seq > head.seq || (view.head.seq == head.seq && view.head != head) {
                    let detail = format!(
                        "the views know event {} of the job, the records end at event {}",
                        view.head.seq, head.seq
                    );
                    self.damaged(Damage::at(view.head.row, detail).of(view.job));
                }
            }
        }
    }
}
