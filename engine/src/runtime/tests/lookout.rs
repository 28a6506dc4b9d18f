//! Wake-ups are lost by hand: the lookout sees it, tells it, and tries the job again once.

use std::collections::VecDeque;
use std::time::Duration;

use annals_tasks_sdk::JobId;

use super::driven::Driven;
use crate::job::{Command, JobStatus, PauseMode, TaskNumber};
use crate::log::MemoryDisk;
use crate::runtime::executor::{Entry, Parked};
use crate::runtime::lookout::Lack;
use crate::runtime::message::Ask;
use crate::views::Reason;

const MINUTE: Duration = Duration::from_mins(1);
const SLEEPS: &str = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
const WAITS: &str = r#"{"id": "a", "kind": "gate"}"#;

/// Lets a minute pass. Gives how many jobs have no reason, and how many were tried again so far.
fn look(driven: &mut Driven) -> (u64, u64) {
    driven.pass(MINUTE);
    driven.settle();
    let checks = driven.engine.stats().checks;
    (checks.without_reason, checks.tried_again)
}

fn completes(driven: &mut Driven, id: JobId) {
    let end = driven.until(driven.engine.job(id).ended()).unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
}

#[test]
fn a_time_that_was_forgotten_is_armed_again() {
    let mut driven = Driven::new();
    let id = driven.job(SLEEPS).id();
    assert_eq!(look(&mut driven), (0, 0));
    let due = driven.each().agenda.of(id);
    assert!(due.is_some());
    driven.each().agenda.set(id, None);
    assert_eq!(driven.each().lack(id), Some(Lack::Timer));
    assert_eq!(look(&mut driven), (1, 1));
    assert_eq!(driven.each().agenda.of(id), due);
    assert_eq!(look(&mut driven), (0, 1));
    driven.pass(Duration::from_hours(1));
    completes(&mut driven, id);
}

#[test]
fn so_is_that_of_a_job_that_is_not_loaded() {
    let mut driven = Driven::with(MemoryDisk::new(), |builder| builder.resident(0));
    let id = driven.job(SLEEPS).id();
    assert!(matches!(driven.each().entries.get(&id), Some(Entry::Parked(_))));
    let due = driven.each().agenda.of(id);
    driven.each().agenda.set(id, None);
    assert_eq!(look(&mut driven), (1, 1));
    assert_eq!(driven.each().agenda.of(id), due);
    assert_eq!(look(&mut driven), (0, 1));
    driven.pass(Duration::from_hours(1));
    completes(&mut driven, id);
}

#[test]
fn a_place_in_a_queue_that_was_forgotten_is_taken_again() {
    let mut driven = Driven::with(MemoryDisk::new(), |builder| builder.slots(1));
    let first = driven.job(WAITS).id();
    let second = driven.job(WAITS).id();
    assert_eq!(driven.executor(second).wanting.len(), 1);
    driven.executor(second).wanting.clear();
    assert_eq!(look(&mut driven), (1, 1));
    assert_eq!(driven.executor(second).wanting.len(), 1);
    assert_eq!(look(&mut driven), (0, 1));
    driven.open_gate();
    completes(&mut driven, first);
    completes(&mut driven, second);
}

#[test]
fn a_commit_that_nobody_took_notice_of_is_made_known() {
    let mut driven = Driven::new();
    let id = driven.job(WAITS).id();
    driven.executor(id).durable_seq -= 1;
    assert_eq!(driven.each().lack(id), Some(Lack::Notice));
    assert_eq!(look(&mut driven), (1, 1));
    let executor = driven.executor(id);
    assert_eq!(executor.durable_seq, executor.head.seq);
    assert_eq!(look(&mut driven), (0, 1));
}

/// It is not started again: whether it had an effect is for a new start to say.
#[test]
fn an_attempt_that_is_lost_stays_counted_and_is_told_once() {
    let mut driven = Driven::new();
    let job = driven.job(WAITS);
    let id = job.id();
    driven.executor(id).running.clear();
    let lack = Lack::Attempt(TaskNumber(1));
    for _ in 0..3 {
        assert_eq!(look(&mut driven), (1, 1));
        assert_eq!(driven.each().lack(id), Some(lack));
    }
    let why = driven.until(job.explain()).unwrap();
    let first = &why.reasons[0].reason;
    assert_eq!(*first, Reason::Lacks(lack));
    let told = first.to_string();
    assert!(told.contains("task number 1 was started, and is not alive"), "{told}");
    let mut driven = driven.again();
    driven.open_gate();
    completes(&mut driven, id);
}

#[test]
fn a_stop_that_was_not_told_is_seen() {
    let mut driven = Driven::new();
    let job = driven.job(r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "noop"}"#);
    let id = job.id();
    let task = driven.executor(id).running.make_deaf();
    driven.until(job.command(Command::CANCEL, Ask::default())).unwrap();
    driven.settle();
    assert_eq!(driven.each().lack(id), Some(Lack::Stop(task)));
    assert_eq!(look(&mut driven), (1, 1));
}

#[test]
fn who_has_a_reason_is_left_alone() {
    let mut driven = Driven::with(MemoryDisk::new(), |builder| builder.slots(1));
    assert_eq!(driven.each().next_look(), None, "there is nothing to look at");
    let manual = r#"{"name": "m", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let retries = r#"{"id": "a", "kind": "fails", "retry": {"max_attempts": 2,
        "backoff": {"initial": "1h", "jitter": 0}}}"#;
    let held = driven.submit(manual);
    let paused = driven.submit(manual);
    let mode = PauseMode::Drain;
    driven.until(paused.command(Command::Pause { mode }, Ask::default())).unwrap();
    let mut jobs = vec![held, paused];
    for tasks in [retries, r#"{"id": "a", "kind": "unknown"}"#, SLEEPS, WAITS, WAITS] {
        jobs.push(driven.job(tasks));
    }
    for _ in 0..3 {
        assert_eq!(look(&mut driven), (0, 0));
    }
    assert!(driven.each().next_look().is_some());
    for job in jobs {
        let lack = driven.each().lack(job.id());
        assert_eq!(lack, None);
        driven.until(job.command(Command::CANCEL, Ask::default())).unwrap();
        driven.until(job.ended()).unwrap();
    }
    driven.settle();
    assert_eq!(driven.each().next_look(), None, "nothing is open any more");
}

#[test]
fn many_jobs_are_looked_at_in_parts() {
    let mut driven = Driven::with(MemoryDisk::new(), |builder| builder.resident(0));
    let id = driven.job(SLEEPS).id();
    driven.each().agenda.set(id, None);
    // They are held, so where their history stands is of no matter.
    let entry = match driven.each().entries.get(&id) {
        Some(Entry::Parked(parked)) => *parked,
        _ => panic!("it is parked"),
    };
    let mut ids = fastrand::Rng::with_seed(7);
    for _ in 0..100_000 {
        let held = Parked { status: JobStatus::Paused, ..entry };
        driven.each().entries.insert(JobId::from_u128(ids.u128(..)), Entry::Parked(held));
    }
    driven.pass(MINUTE);
    let mut turns = 0;
    loop {
        driven.each().turn(&mut VecDeque::new(), 0);
        turns += 1;
        let now = driven.each().now;
        if driven.each().next_look() != Some(now) {
            break;
        }
    }
    assert_eq!(turns, 100_001_usize.div_ceil(1024));
    let checks = driven.engine.stats().checks;
    assert_eq!((checks.without_reason, checks.tried_again), (1, 1));
}
