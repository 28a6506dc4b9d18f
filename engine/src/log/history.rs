//! One job's history, found backwards from its head.

use super::{Damage, Link, LogError, LogReader, Position, ReadRow};

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

/// The first rows of a job that hold events after `after_seq`, ascending, until they hold `limit`
/// of those that this build knows.
///
/// There is no way to a job's events but back from its head. Only links are read on it, so a page
/// costs its own events and a look at each row behind it.
pub fn history_page(
    reader: &dyn LogReader,
    head_row: Position,
    after_seq: u64,
    limit: usize,
) -> Result<Vec<ReadRow>, LogError> {
    let (mut rows, mut found) = (Vec::<ReadRow>::new(), 0);
    for position in way_back(reader, head_row, after_seq)?.into_iter().rev() {
        if found >= limit {
            break;
        }
        let row = reader.row(position)?.filter(|row| row.position == position);
        let Some(row) = row else { return missing(position).error() };
        if let Some(last) = rows.last() {
            connects(&last.link(), &row.link())?;
        }
        found += row.events.iter().filter(|event| event.seq > after_seq).count();
        rows.push(row);
    }
    Ok(rows)
}

/// Where the rows are that hold events after `after_seq`, the last one first.
fn way_back(
    reader: &dyn LogReader,
    head_row: Position,
    after_seq: u64,
) -> Result<Vec<Position>, LogError> {
    let (mut positions, mut next) = (Vec::new(), None::<Link>);
    let mut wanted = head_row;
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
