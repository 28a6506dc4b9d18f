//! One job's history, read backwards from its head.

use super::{Damage, LogError, LogReader, Position, ReadRow};

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
            connects(&row, next)?;
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

fn missing(position: Position) -> Damage {
    Damage::at(position, "a row of the job's history is missing")
}

/// Whether `next` continues the job where `row` ends.
fn connects(row: &ReadRow, next: &ReadRow) -> Result<(), LogError> {
    // The walk must go back, or damaged links could lead it in a circle.
    let back = row.position < next.position && row.job == next.job;
    if back && row.after == next.before {
        return Ok(());
    }
    Damage::at(next.position, "the row does not continue the job's row before it")
        .of(next.job)
        .error()
}
