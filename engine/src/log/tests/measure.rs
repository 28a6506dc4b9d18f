//! Figures, printed on demand: `cargo test --release -p annals-engine measure -- --ignored
//! --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use annals_tasks_sdk::{Exit, Payload};

use super::{Job, small, viewing};
use crate::job::{Event, JobStatus, LogSize, TaskNumber};
use crate::log::redb::{Options, RedbLog};
use crate::log::{EventLog, Position, Row, decode_row, encode_row, verify};

/// What the end of one task and the start of the next append.
fn step() -> Vec<Event> {
    let completed = Event::TaskCompleted {
        task: TaskNumber(3),
        attempt: 1,
        output: Payload::parse(r#"{"exit_code":0}"#).unwrap(),
        exit: Exit { code: Some(0), signal: None },
        log: LogSize { bytes: 1200, lines: 31 },
    };
    vec![completed, Event::AttemptStarted { task: TaskNumber(4), attempt: 1 }]
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

#[test]
#[ignore = "prints figures"]
fn measure_the_codec() {
    for (name, events) in [("small", vec![small(1)]), ("step of two", step())] {
        let job = Job::new(0x0197_f0c2_7b3e_7c11_9f0e_1d2c_3b4a_5968);
        let recorded = job.record(&events);
        let encode = || encode_row(job.id, &job.head, black_box(&recorded), Vec::new()).unwrap().0;
        let mut row = encode();
        row.place(Position(1));
        let (rounds, bytes) = (300_000, row.bytes);
        let start = Instant::now();
        (0..rounds).for_each(|_| drop(black_box(encode())));
        let encoded = each(start, rounds * events.len() as u64);
        let start = Instant::now();
        (0..rounds).for_each(|_| drop(black_box(decode_row(Position(1), &bytes).unwrap())));
        let decoded = each(start, rounds * events.len() as u64);
        println!(
            "{name}: {} bytes a row, {encoded:.0} ns/event encoding, {decoded:.0} decoding",
            bytes.len()
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn measure_appends() {
    for batch in [1_u64, 256, 4096] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let mut log = RedbLog::open(dir.path(), &Options::default()).unwrap();
        let events = step();
        let (commits, mut position) = ((40_000 / batch).clamp(30, 300), 1);
        let (mut encoding, mut appending) = (0.0, 0.0);
        for _ in 0..commits {
            let start = Instant::now();
            let rows: Vec<Row> = (0..batch.div_ceil(2))
                .map(|id| {
                    let row = Job::new(u128::from(id) + 1).row(position, &events);
                    position += 2;
                    row
                })
                .collect();
            encoding += start.elapsed().as_secs_f64();
            let start = Instant::now();
            log.append(&rows).unwrap();
            appending += start.elapsed().as_secs_f64();
        }
        let events = f64::from(u32::try_from(position - 1).unwrap());
        println!(
            "batch {batch}: {:.0} events/s appended, {:.0} ns/event encoding, {:.1} ms a commit",
            events / appending,
            encoding * 1e9 / events,
            appending * 1e3 / f64::from(u32::try_from(commits).unwrap())
        );
    }
}

#[test]
#[ignore = "prints figures"]
fn measure_a_start() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let mut log = RedbLog::open(dir.path(), &Options::default()).unwrap();
    let (jobs, events) = (100_000_u64, step());
    let mut views = Vec::new();
    for first in (0..jobs).step_by(2_000) {
        let mut rows = Vec::new();
        for id in first..first + 2_000 {
            let mut job = Job::new(u128::from(id) + 1);
            rows.push(job.row(2 * id + 1, &events));
            views.push(job.view(JobStatus::Running));
        }
        log.append(&rows).unwrap();
    }
    let start = Instant::now();
    log.checkpoint(&viewing(&views, Position(2 * jobs))).unwrap();
    println!("checkpoint of {jobs} jobs: {:.0} ns a job", each(start, jobs));
    let start = Instant::now();
    log.checkpoint(&viewing(&views[..100], Position(2 * jobs))).unwrap();
    println!("checkpoint of 100 jobs: {:?}", start.elapsed());
    drop(log);
    let start = Instant::now();
    let log = RedbLog::open(dir.path(), &Options::default()).unwrap();
    println!("opening with {jobs} open jobs: {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(log.reader().open_rows().unwrap().len() as u64, jobs);
    println!("reading the open jobs: {:?}", start.elapsed());
    let (start, mut from) = (Instant::now(), Position(1));
    while let Some(row) = log.reader().rows(from, 256).unwrap().last() {
        from = row.end();
    }
    println!("reading all: {:.0} ns an event", each(start, 2 * jobs));
    let start = Instant::now();
    assert_eq!(verify(&*log.reader()).unwrap().damage, []);
    println!("the audit: {:.0} ns an event", each(start, 2 * jobs));
}
