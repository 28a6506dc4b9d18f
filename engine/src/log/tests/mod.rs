//! Tests of the log: its bytes, the laws of its stores, its writer.

mod codec;
mod conformance;
mod damage;
mod golden;
mod gone;
mod history;
mod keys;
mod kill;
mod measure;
mod redb;
mod samples;
mod values;
mod writer;

use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};

use super::{EventLog, Head, Hour, JobRow, Position, Row, ValueKey, ViewsUpdate, encode_row};
use crate::job::{Event, JobStatus, Origin, Recorded, TaskNumber};

/// A job whose rows are made by hand.
#[derive(Clone, Copy)]
struct Job {
    id: JobId,
    head: Head,
}

impl Job {
    fn new(id: u128) -> Self {
        Self { id: JobId::from_u128(id), head: Head::default() }
    }

    /// The next row of the job, at a position.
    fn row(&mut self, position: u64, events: &[Event]) -> Row {
        self.row_with(position, events, Vec::new())
    }

    fn row_with(
        &mut self,
        position: u64,
        events: &[Event],
        values: Vec<(ValueKey, Arc<[u8]>)>,
    ) -> Row {
        let recorded = self.record(events);
        let (mut row, hash) = encode_row(self.id, &self.head, &recorded, values).unwrap();
        row.place(Position(position));
        let seq = self.head.seq + events.len() as u64;
        self.head = Head { row: row.position, seq, hash };
        row
    }

    fn record(&self, events: &[Event]) -> Vec<Recorded> {
        let number = |(event, seq): (&Event, u64)| Recorded {
            seq,
            time: Timestamp::from_millis(1_700_000_000_000 + i64::try_from(seq).unwrap()),
            origin: Origin::ENGINE,
            leads: seq == 1,
            key: None,
            event: event.clone(),
        };
        events.iter().zip(self.head.seq + 1..).map(number).collect()
    }

    /// What the views would keep of it.
    fn view(&self, status: JobStatus) -> JobRow {
        JobRow { job: self.id, head: self.head, status, ..samples::job_row() }
    }
}

/// What the views are to take in, without keys.
fn viewing(rows: &[JobRow], upto: Position) -> ViewsUpdate {
    ViewsUpdate { rows: rows.to_vec(), keys: Vec::new(), keys_since: Hour(i64::MIN), upto }
}

/// An event that is as small as most are.
fn small(attempt: u32) -> Event {
    Event::AttemptStarted { task: TaskNumber(1), attempt }
}

/// Appends one small row for each of the positions, all of one new job.
fn fill(log: &mut dyn EventLog, id: u128, positions: std::ops::RangeInclusive<u64>) -> Job {
    let mut job = Job::new(id);
    for position in positions {
        let row = job.row(position, &[small(u32::try_from(position).unwrap())]);
        log.append(&[row]).unwrap();
    }
    job
}
