//! Reading what has happened: the history of a job, and the whole log.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use annals_tasks_sdk::JobId;

use super::engine::Engine;
use super::error::{EngineError, JobError};
use super::handle::JobHandle;
use super::message::Message;
use crate::job::{Event, Recorded};
use crate::log::{Damage, LogError, LogReader, PageLimit, Position, ReadRow, history_page};

/// An event with its place in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Its number in the whole log.
    pub position: Position,
    /// Its BLAKE3 hash, which covers that of its predecessor in the job.
    pub hash: [u8; 32],
    /// The event.
    pub recorded: Recorded,
}

impl JobHandle {
    /// Events with a seq greater than `after`, at most `limit`, the oldest first.
    pub async fn history(&self, after: u64, limit: usize) -> Result<Vec<Logged>, JobError> {
        self.page(after, PageLimit::events(limit)).await
    }

    /// As [`JobHandle::history`], but no more than it takes for so many bytes either. None only
    /// where there is none.
    pub async fn page(&self, after: u64, limit: PageLimit) -> Result<Vec<Logged>, JobError> {
        let ((shared, home), job) = (self.shared(), self.id());
        let head = match self.at_rest() {
            Some((_, head)) => Some(head.row),
            None => shared.ask(home, |reply| Message::Head { job, reply }).await??,
        };
        let reading = Arc::clone(shared);
        let read = move || {
            let reader = &*reading.reader;
            // What no loop knows of has ended, or never was. If it has gone on meanwhile, then
            // the views tell of that or do not: either is its history at some time since.
            let head = match head.map_or_else(|| viewed(reader, job), |head| Ok(Ok(head)))? {
                Ok(head) => head,
                Err(error) => return Ok(Err(error)),
            };
            history_page(reader, &reading.waypoints, (job, head), after, limit).map(Ok)
        };
        let rows = shared.read(read).await??;
        let events = rows.into_iter().flat_map(Logged::of);
        Ok(events.filter(|logged| logged.recorded.seq > after).take(limit.events).collect())
    }
}

/// Where the history of a job stands that no loop knows of.
pub(super) fn viewed(
    reader: &dyn LogReader,
    job: JobId,
) -> Result<Result<Position, JobError>, LogError> {
    let row = reader.job_row(job)?;
    Ok(match row.as_ref().map(|row| (row.head.row, row.purged.clone())) {
        None => Err(JobError::NotFound(job)),
        Some((_, Some(tombstone))) => Err(JobError::Purged { job, tombstone }),
        Some((head, None)) => Ok(head),
    })
}

/// A part of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogPage {
    /// What of it cannot be read: the page begins with it, and the events come behind.
    pub damage: Vec<Damage>,
    /// The events that this build knows, each with its job.
    pub events: Vec<(JobId, Logged)>,
    /// Up to where it goes: the position to read on behind.
    pub upto: Position,
}

impl Engine {
    /// Events of all jobs with a position greater than `after`, the oldest first, as far as the
    /// limits allow. It ends where it begins only where there is no event behind. Rows that are
    /// damaged are passed over, and are told. Of jobs that were purged only that is told.
    pub async fn events(&self, after: Position, limit: PageLimit) -> Result<LogPage, EngineError> {
        let shared = Arc::clone(&self.0.shared);
        let read = move || {
            let mut page = log_page(&*shared.reader, after, limit)?;
            leave_out_purged(&mut page.rows, |job| shared.is_purged(job))?;
            Ok(page)
        };
        let Passage { damage, rows, mut upto } = self.0.shared.read(read).await?;
        let events = rows.into_iter().flat_map(|row| {
            let job = row.job;
            Logged::of(row).map(move |logged| (job, logged))
        });
        let mut events: Vec<_> = events.filter(|(_, logged)| logged.position > after).collect();
        if events.len() > limit.events {
            events.truncate(limit.events);
            upto = events.last().map_or(after, |(_, logged)| logged.position);
        }
        Ok(LogPage { damage, events, upto })
    }

    /// The jobs whose histories cannot be followed, and why. What lists say of them is what was
    /// known last.
    pub async fn unreadable(&self) -> Result<BTreeMap<JobId, String>, EngineError> {
        let shared = &self.0.shared;
        let mut all = BTreeMap::new();
        for home in 0..shared.inboxes.len() {
            all.extend(shared.ask(home, |reply| Message::Broken { reply }).await?);
        }
        Ok(all)
    }

    /// Waits until there is an event with a position greater than `after`.
    pub async fn appended(&self, after: Position) -> Result<(), EngineError> {
        let shared = &self.0.shared;
        let mut growth = shared.growth.subscribe();
        // Positions need not be dense, but the last one that was given out has an event.
        while shared.reader.next_position().0.saturating_sub(1) <= after.0 {
            if shared.is_over() {
                return Err(shared.why());
            }
            growth.changed().await.map_err(|_| shared.why())?;
        }
        Ok(())
    }
}

impl Logged {
    /// The events of a row that this build knows.
    pub fn of(row: ReadRow) -> impl Iterator<Item = Self> {
        let places: Vec<_> = row
            .events
            .iter()
            .map(|event| (row.position_of(event.seq), row.hash_of(event.seq)))
            .collect();
        let events = row.events.into_iter().zip(places);
        events.map(|(recorded, (position, hash))| Self { position, hash, recorded })
    }
}

/// Leaves nothing of jobs that were purged but the events that say so.
fn leave_out_purged(
    rows: &mut [ReadRow],
    is_purged: impl Fn(JobId) -> Result<bool, LogError>,
) -> Result<(), LogError> {
    let mut known = BTreeMap::new();
    for row in rows {
        let purged = match known.entry(row.job) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(is_purged(row.job)?),
        };
        if purged {
            row.events.retain(|recorded| matches!(recorded.event, Event::JobPurged(_)));
        }
    }
    Ok(())
}

/// Rows that are read at a time: they are small as a rule.
const ROWS: usize = 64;

/// Damage, and the rows behind it, up to the next damage or the limit.
fn log_page(
    reader: &dyn LogReader,
    after: Position,
    limit: PageLimit,
) -> Result<Passage, LogError> {
    // Before anything is read: what is appended meanwhile is not passed over.
    let last = Position(reader.next_position().0.saturating_sub(1));
    let from = Position(after.0.saturating_add(1));
    let (mut page, mut events, mut bytes) = (Vec::<ReadRow>::new(), 0, 0);
    // The place may be in the middle of a row.
    let mut rows: Vec<ReadRow> = match reader.row(from) {
        Ok(row) => row.filter(|row| row.position < from).into_iter().collect(),
        // One that begins there is found once more; of another one whoever asks was told.
        Err(LogError::Damaged(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut way = Way::new(reader, rows.last().map_or(from, ReadRow::end), limit.events);
    way.has_passed_rows = !rows.is_empty();
    loop {
        if rows.is_empty() {
            rows = way.more()?;
            if rows.is_empty() {
                return Ok(way.passage(page, after.max(last)));
            }
        }
        for row in rows.drain(..) {
            if events >= limit.events || bytes >= limit.bytes {
                return Ok(way.passage(page, after));
            }
            let wanted = |seq| row.position_of(seq) > after;
            events += row.events.iter().filter(|event| wanted(event.seq)).count();
            bytes += row.bytes;
            page.push(row);
        }
    }
}

/// The way through the log. Damage is passed over at its beginning; behind rows it ends there.
struct Way<'r> {
    reader: &'r dyn LogReader,
    next: Position,
    at_a_time: usize,
    has_passed_rows: bool,
    damage: Vec<Damage>,
    damage_max: usize,
    /// Whether there is more behind, and that is damaged.
    is_cut: bool,
}

/// A part of the log.
struct Passage {
    damage: Vec<Damage>,
    rows: Vec<ReadRow>,
    upto: Position,
}

impl<'r> Way<'r> {
    fn new(reader: &'r dyn LogReader, next: Position, damage_max: usize) -> Self {
        let (damage, has_passed_rows, is_cut) = (Vec::new(), false, false);
        Self { reader, next, at_a_time: ROWS, has_passed_rows, damage, damage_max, is_cut }
    }

    /// The next rows; none at the end.
    fn more(&mut self) -> Result<Vec<ReadRow>, LogError> {
        loop {
            match self.reader.rows(self.next, self.at_a_time) {
                Ok(rows) => {
                    self.next = rows.last().map_or(self.next, ReadRow::end);
                    self.has_passed_rows |= !rows.is_empty();
                    return Ok(rows);
                }
                // Row by row up to the one that is at fault.
                Err(LogError::Damaged(_)) if self.at_a_time > 1 => self.at_a_time = 1,
                Err(LogError::Damaged(_)) if self.has_enough() => {
                    self.is_cut = true;
                    return Ok(Vec::new());
                }
                Err(LogError::Damaged(damage)) => self.pass(damage)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn has_enough(&self) -> bool {
        self.has_passed_rows || self.damage.len() >= self.damage_max
    }

    /// What was passed. `end` is where it goes up to if it has come to an end without a row.
    fn passage(self, rows: Vec<ReadRow>, end: Position) -> Passage {
        let upto = match rows.last() {
            Some(row) => Position(row.end().0 - 1),
            None if self.is_cut => Position(self.next.0 - 1),
            None => end,
        };
        Passage { damage: self.damage, rows, upto }
    }

    fn pass(&mut self, damage: Box<Damage>) -> Result<(), LogError> {
        // Where nobody knows how far it goes, nothing behind it can be found.
        let Some(upto) = damage.upto.filter(|upto| *upto >= self.next) else {
            return Err(LogError::Damaged(damage));
        };
        self.damage.push(*damage);
        (self.next, self.at_a_time) = (Position(upto.0.saturating_add(1)), ROWS);
        Ok(())
    }
}
