//! Reading long histories page by page.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals_tasks_sdk::JobId;

use super::{Job, small};
use crate::job::ValueDigest;
use crate::log::{
    EventLog, Hour, JobRow, KeyRow, Link, LogError, LogReader, MemoryDisk, PageLimit, Position,
    ReadRow, ValueKey, Waypoints, history, history_page,
};

const ROWS: u64 = 3_000;

/// Counts the links that are looked at.
struct Counting {
    reader: Arc<dyn LogReader>,
    links: AtomicUsize,
}

impl LogReader for Counting {
    fn next_position(&self) -> Position {
        self.reader.next_position()
    }
    fn viewed(&self) -> Position {
        self.reader.viewed()
    }
    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        self.reader.row(position)
    }
    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        self.reader.bytes(position)
    }
    fn link(&self, position: Position) -> Result<Option<Link>, LogError> {
        self.links.fetch_add(1, Ordering::Relaxed);
        self.reader.link(position)
    }
    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        self.reader.rows(from, limit)
    }
    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        self.reader.value(job, key, digest)
    }
    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        self.reader.job_row(job)
    }
    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError> {
        self.reader.job_rows(before, limit)
    }
    fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        self.reader.open_rows()
    }
    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        self.reader.keys(since, take)
    }
}

struct Long {
    log: Box<dyn EventLog>,
    job: Job,
    reader: Counting,
    waypoints: Waypoints,
}

impl Long {
    fn new() -> Self {
        let mut log: Box<dyn EventLog> = Box::new(MemoryDisk::default().open());
        let mut job = Job::new(1);
        for position in 1..=ROWS {
            log.append(&[job.row(position, &[small(1)])]).unwrap();
        }
        let reader = Counting { reader: log.reader(), links: AtomicUsize::new(0) };
        Self { log, job, reader, waypoints: Waypoints::default() }
    }

    fn page(&self, after: u64, limit: PageLimit) -> Vec<ReadRow> {
        let job = (self.job.id, self.job.head.row);
        history_page(&self.reader, &self.waypoints, job, after, limit).unwrap()
    }
}

#[test]
fn who_reads_page_by_page_does_not_walk_the_whole_way_for_each_page() {
    let long = Long::new();
    let mut read: Vec<ReadRow> = Vec::new();
    loop {
        let after = read.last().map_or(0, |row| row.after.seq);
        let page = long.page(after, PageLimit::events(100));
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 100);
        read.extend(page);
    }
    assert!(read == history(&long.reader, long.job.head.row, 0).unwrap());
    // The first walk is the whole way; every later one ends at the next waypoint.
    let links = long.reader.links.load(Ordering::Relaxed);
    let most = usize::try_from(ROWS).unwrap() * 4;
    assert!(links < most, "{links} links");
}

#[test]
fn a_page_is_the_same_whatever_was_read_before_it() {
    let mut long = Long::new();
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..200 {
        let (after, events) = (random.u64(0..ROWS + 10), random.usize(1..900));
        let page = long.page(after, PageLimit::events(events));
        let seqs: Vec<u64> = page.iter().map(|row| row.after.seq).collect();
        let end = (after + events as u64).min(long.job.head.seq);
        assert_eq!(seqs, (after + 1..=end).collect::<Vec<_>>(), "round {round}");
        // The job goes on meanwhile.
        let position = long.log.reader().next_position().0;
        long.log.append(&[long.job.row(position, &[small(1)])]).unwrap();
    }
}

#[test]
fn a_page_ends_with_the_row_that_makes_it_large_enough() {
    let long = Long::new();
    let row = long.page(0, PageLimit::events(1))[0].bytes;
    for rows in 1..5 {
        for bytes in [rows * row - row + 1, rows * row] {
            let page = long.page(7, PageLimit { events: 100, bytes });
            assert_eq!(page.len(), rows, "{bytes} bytes, {row} each");
        }
    }
}
