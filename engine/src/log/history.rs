//! One job's history, found backwards from its head.

use annals_tasks_sdk::JobId;

use super::waypoints::Walk;
use super::{Damage, Link, LogError, LogReader, Position, ReadRow, Waypoints};

/// The rows of a job that hold events after `after_seq`, ascending.
///
/// `head_row` is the [`Head::row`](super::Head::row) of the job. Each row proves the one before
/// it: position, seq and hash must connect.
pub fn history(
    reader: &dyn LogReader,
    head_row: Position,
    after_seq: u64,
) -> Result<Vec<ReadRow>, LogError> {
    let mut rows: Vec<ReadRow> = Vec::new();
    let mut wanted = head_row;
    while wanted != Position(0) {
        let row = reader.row(wanted)?.filter(|row| row.position == wanted);
        let Some(row) = row else {
            return Damage { job: rows.last().map(|row| row.job), ..missing(wanted) }.error();
        };
        if let Some(next) = rows.last() {
            connects(&row.link(), &next.link())?;
        }
        if row.after.seq <= after_seq {
            break;
        }
        wanted = row.before.row;
        rows.push(row);
    }
    rows.reverse();
    Ok(rows)
}

/// How much of a history is read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// No more rows than it takes for so many events that this build knows...
    pub events: usize,
    /// ...and no more than it takes for so many bytes, as they lie in the log.
    pub bytes: usize,
}

impl PageLimit {
    /// So many events, however large.
    pub fn events(events: usize) -> Self {
        Self { events, bytes: usize::MAX }
    }
}

/// The first rows of a job that hold events after `after_seq`, ascending, until one of the limits
/// is reached.
///
/// There is no way to a job's events but back from its head, or from a row behind them that is
/// known already. Only links are read on it, so a page costs its own events and a look at each
/// row of that way.
pub fn history_page(
    reader: &dyn LogReader,
    waypoints: &Waypoints,
    (job, head): (JobId, Position),
    after_seq: u64,
    limit: PageLimit,
) -> Result<Vec<ReadRow>, LogError> {
    let mut page = Page { rows: Vec::new(), after_seq, events: 0, bytes: 0 };
    while !page.is_full(limit) {
        let known = waypoints.behind(job, page.seq());
        let mut walk = Walk::default();
        let way = way_back(reader, known.unwrap_or(head), page.seq(), &mut walk)?;
        waypoints.keep(job, walk);
        for position in way.into_iter().rev() {
            if page.is_full(limit) {
                break;
            }
            page.read(reader, position)?;
        }
        if known.is_none() {
            break;
        }
    }
    Ok(page.rows)
}

struct Page {
    rows: Vec<ReadRow>,
    after_seq: u64,
    events: usize,
    bytes: usize,
}

impl Page {
    /// The seq up to which everything is here, or not wanted.
    fn seq(&self) -> u64 {
        self.rows.last().map_or(self.after_seq, |row| row.after.seq)
    }

    fn is_full(&self, limit: PageLimit) -> bool {
        self.events >= limit.events || self.bytes >= limit.bytes
    }

    fn read(&mut self, reader: &dyn LogReader, position: Position) -> Result<(), LogError> {
        let row = reader.row(position)?.filter(|row| row.position == position);
        let Some(row) = row else { return missing(position).error() };
        if let Some(last) = self.rows.last() {
            connects(&last.link(), &row.link())?;
        }
        self.events += row.events.iter().filter(|event| event.seq > self.after_seq).count();
        self.bytes += row.bytes;
        self.rows.push(row);
        Ok(())
    }
}

/// Where the rows are that hold events after `after_seq`, the last one first.
fn way_back(
    reader: &dyn LogReader,
    from: Position,
    after_seq: u64,
    walk: &mut Walk,
) -> Result<Vec<Position>, LogError> {
    let (mut positions, mut next) = (Vec::new(), None::<Link>);
    let mut wanted = from;
    while wanted != Position(0) {
        let Some(link) = reader.link(wanted)? else {
            return Damage { job: next.map(|next| next.job), ..missing(wanted) }.error();
        };
        if let Some(next) = &next {
            connects(&link, next)?;
        }
        if link.after.seq <= after_seq {
            break;
        }
        walk.pass(&link);
        positions.push(wanted);
        (wanted, next) = (link.before.row, Some(link));
    }
    Ok(positions)
}

fn missing(position: Position) -> Damage {
    Damage::at(position, "a row of the job's history is missing")
}

/// Whether `next` continues the job where `row` ends.
fn connects(row: &Link, next: &Link) -> Result<(), LogError> {
    // The walk must go back, or damaged links could lead it in a circle.
    let back = row.position < next.position && row.job == next.job;
    if back && row.after == next.before {
        return Ok(());
    }
    Damage::at(next.position, "the row does not continue the job's row before it")
        .of(next.job)
        .error()
}
