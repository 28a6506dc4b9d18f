//! The log under `kill -9`: this test program starts itself as the process that is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Job, small, viewing};
use crate::job::JobStatus;
use crate::log::redb::{Options, RedbLog};
use crate::log::{EventLog, LogReader, Position, history, verify};

const STORE: &str = "ANNALS_TEST_STORE";
/// So many kills a store bears, since all of it is looked at after each.
const ROUNDS_EACH: u32 = 100;

/// How often to kill: a few times, or as often as `ANNALS_TEST_ROUNDS` says.
fn rounds(few: u32) -> u32 {
    let rounds = std::env::var("ANNALS_TEST_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(few)
}

fn options() -> Options {
    Options { roll_bytes: 50_000, ..Options::default() }
}

/// Opens the log and goes on with job 1 where it stands.
fn goes_on(dir: &Path) -> (RedbLog, Job) {
    let log = RedbLog::open(dir, &options()).unwrap();
    let mut job = Job::new(1);
    let reader = log.reader();
    let end = Position(reader.next_position().0 - 1);
    if let Some(row) = reader.row(end).unwrap() {
        job.head = row.after;
    }
    (log, job)
}

/// Not a test: what runs in the process that is killed. Says each position once it is durable.
#[test]
#[ignore = "runs only as the child of another test"]
fn appends_until_it_is_killed() {
    let Some(dir) = std::env::var_os(STORE) else { return };
    let (mut log, mut job) = goes_on(Path::new(&dir));
    loop {
        let first = log.reader().next_position().0;
        log.append(&[job.row(first, &[small(1), small(2), small(3)])]).unwrap();
        println!("durable {}", first + 2);
        match first % 7 {
            0 => {
                log.checkpoint(&viewing(&[job.view(JobStatus::Running)], Position(first))).unwrap();
            }
            1 => log.idle().unwrap(),
            _ => {}
        }
    }
}

fn start(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "log::tests::kill::appends_until_it_is_killed"]);
    command.args(["--ignored", "--nocapture"]).env(STORE, dir);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the child after a while, and gives the last position that it said.
fn kill(mut child: Child, after: Duration) -> u64 {
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let position = |line: String| line.strip_prefix("durable ")?.parse().ok();
    lines.filter_map(position).max().unwrap_or(0)
}

fn check(reader: &dyn LogReader, job: &Job, said: u64) {
    let end = reader.next_position().0 - 1;
    assert!(end >= said, "position {said} was durable, the log ends at {end}");
    let found = verify(reader).unwrap();
    assert_eq!((found.events, found.free, found.damage), (end, 0, Vec::new()));
    let rows = history(reader, job.head.row, 0).unwrap();
    assert_eq!(rows.iter().map(|row| row.events.len() as u64).sum::<u64>(), end);
}

#[test]
fn what_was_durable_survives_kills() {
    let mut dir = tempfile::tempdir().unwrap();
    let (mut random, mut most) = (fastrand::Rng::with_seed(3), 0);
    let rounds = rounds(25);
    for round in 0..rounds {
        if round % ROUNDS_EACH == 0 {
            dir = tempfile::tempdir().unwrap();
        }
        let said = kill(start(dir.path()), Duration::from_micros(random.u64(1_000..150_000)));
        let (log, job) = goes_on(dir.path());
        check(&*log.reader(), &job, said);
        most = most.max(said);
    }
    assert!(most > 100, "{most}");
    println!("kills of a log: {rounds} tried, 0 failed");
}

#[test]
fn a_kill_in_the_first_start_leaves_nothing_that_cannot_be_opened() {
    let mut random = fastrand::Rng::with_seed(4);
    let rounds = rounds(40);
    for _ in 0..rounds {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("store");
        let said = kill(start(&dir), Duration::from_micros(random.u64(500..40_000)));
        let (log, job) = goes_on(&dir);
        check(&*log.reader(), &job, said);
    }
    println!("kills of the first start of a log: {rounds} tried, 0 failed");
}
