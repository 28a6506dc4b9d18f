//! A command on a job of ten thousand tasks costs what it touches.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use annals_engine::job::{Command, Outcome, Report, step};
use annals_engine::job::{JobStatus, LogSize, LossRule, TaskNumber};
use annals_tasks_sdk::{Done, TaskError, Timestamp};

use crate::dsl::{World, at};

/// Scans would make this take minutes; the limit is far above what a slow machine needs.
const LIMIT: Duration = Duration::from_mins(1);
const TASKS: u32 = 10_000;

fn wide(mark: &str) -> String {
    (0..TASKS).fold(String::new(), |mut text, n| {
        let _ = write!(text, "t{n}<{mark} ");
        text
    })
}

#[test]
fn starts_ends_and_ticks_do_not_scan_the_job() {
    let mut job = World::new(&wide("")).job;
    let began = Instant::now();
    let mut report = |report: Report| step(&mut job, report, &at(1)).unwrap();
    for task in (1..=TASKS).map(TaskNumber) {
        report(Report::Start { task });
    }
    for n in 1..=TASKS {
        report(Report::Tick);
        // Every other one fails, so that what failed is long while the others go on.
        let outcome = if n % 2 == 0 {
            Outcome::Completed(Done::default())
        } else {
            Outcome::Failed(TaskError::new("error", "no"))
        };
        let log = LogSize::default();
        report(Report::Ended { task: TaskNumber(n), attempt: 1, outcome, log });
    }
    assert_eq!(job.status(), JobStatus::Failed);
    step(&mut job, Command::Execute { paused: false }, &at(1)).unwrap();
    assert_eq!(job.effects(Timestamp::from_millis(0), LossRule::default()).count(), 5_000);
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

#[test]
fn a_cascade_through_a_long_chain_reads_each_input_once() {
    let mut text = "t0 ".to_owned();
    for n in 1..TASKS {
        let _ = write!(text, "t{n}$t{} ", n - 1);
    }
    for verb in ["skip", "remove"] {
        let mut world = World::new(&text);
        let began = Instant::now();
        let told = world.when(&format!("{verb} t1 cascade"));
        assert!(told.ends_with("t9999"), "{verb}");
        assert!(began.elapsed() < LIMIT, "{verb}: {:?}", began.elapsed());
    }
}
