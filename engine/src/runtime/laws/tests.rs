//! The laws, each by histories that keep it and that break it.

use annals_tasks_sdk::plan::JobEnd;
use annals_tasks_sdk::{Exit, Payload};

use super::*;
use crate::job::{Failure, LogSize, Origin, Purged};

const TASKS: usize = 200;

fn recorded(seq: u64, millis: i64, event: Event) -> Recorded {
    let (time, origin) = (Timestamp::from_millis(millis), Origin::ENGINE);
    Recorded { seq, time, origin, leads: false, key: None, event }
}

fn completes(task: u32) -> Event {
    let (task, exit, log) = (TaskNumber(task), Exit::default(), LogSize::default());
    Event::TaskCompleted { task, attempt: 1, output: Payload::NULL, exit, log }
}

fn starts(task: u32) -> Event {
    Event::AttemptStarted { task: TaskNumber(task), attempt: 1 }
}

fn runs_out() -> Event {
    Event::DeadlinePassed { error: Failure::new(Failure::DEADLINE_EXCEEDED, "too long") }
}

fn cancels() -> Event {
    Event::CancelRequested { mode: CancelMode::Orderly }
}

fn cuts() -> Event {
    Event::CancelRequested { mode: CancelMode::Now }
}

fn ending() -> Event {
    Event::JobEnding { end: JobEnd::Cancelled, error: None }
}

fn undoing() -> Event {
    let tasks = [TaskNumber(1)].into();
    Event::JobCompensating { end: JobEnd::Cancelled, error: None, tasks }
}

fn fails() -> Event {
    Event::JobFailed { error: Failure::new("no", "it does not work") }
}

/// The law that the last of these events breaks, which follow on nothing; each is a turn's.
fn broken(events: &[Event]) -> Option<Law> {
    let mut written = Written::nothing();
    let mut found = None;
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(found, None, "only the last may break one: {events:?}");
        let event = recorded(seq, 7, event.clone());
        let taken = written.take_in((JobId::from_u128(1), TASKS), seq - 1, &[event]);
        found = taken.err().map(|broken| broken.law);
    }
    found
}

#[test]
fn a_run_ends_once() {
    use Event::{JobCancelled, JobCompleted, JobStarted};
    let again = || Event::JobReopened { held: false };
    let table: [(&[Event], Option<Law>); 24] = [
        (&[JobStarted, JobCompleted], None),
        (&[JobCompleted, JobCompleted], Some(Law::OneEnd)),
        (&[JobCompleted, fails()], Some(Law::OneEnd)),
        (&[JobCompleted, JobCancelled], Some(Law::OneEnd)),
        (&[fails(), JobCompleted], Some(Law::OneEnd)),
        (&[fails(), JobCancelled], None),
        (&[fails(), JobCancelled, JobCancelled], Some(Law::OneEnd)),
        (&[cancels(), JobCancelled, fails()], Some(Law::OneEnd)),
        (&[fails(), again(), JobCompleted], None),
        (&[fails(), JobCancelled, again(), fails(), again()], None),
        (&[again()], Some(Law::OneEnd)),
        (&[JobCompleted, again()], Some(Law::OneEnd)),
        (&[cancels(), again()], Some(Law::OneEnd)),
        (&[runs_out(), fails(), again(), runs_out(), fails()], None),
        (&[runs_out(), runs_out()], Some(Law::OneEnd)),
        (&[runs_out(), cancels()], Some(Law::OneEnd)),
        (&[cancels(), runs_out()], Some(Law::OneEnd)),
        (&[fails(), runs_out()], Some(Law::OneEnd)),
        (&[cancels(), ending(), JobCancelled, again(), ending(), JobCompleted], None),
        (&[cancels(), cuts(), JobCancelled], None),
        (&[ending(), cuts(), fails()], None),
        (&[ending(), ending()], Some(Law::OneEnd)),
        (&[ending(), cancels()], Some(Law::OneEnd)),
        (&[JobCompleted, cuts()], Some(Law::OneEnd)),
    ];
    for (events, law) in table {
        assert_eq!(broken(events), law, "{events:?}");
    }
}

#[test]
fn a_purge_comes_behind_an_end_and_nothing_behind_it() {
    use Event::{JobCancelled, JobCompleted, JobStarted};
    let purged = |status| {
        Event::JobPurged(Purged { status, events: 2, tasks: 1, attempts: 0, head: [7; 32] })
    };
    let purge = || purged(JobStatus::Failed);
    let last = Some(Law::PurgeIsLast);
    for end in [JobCompleted, fails(), JobCancelled] {
        assert_eq!(broken(&[JobStarted, end.clone(), purge()]), None);
        for more in [purge(), Event::JobReopened { held: true }, starts(1), JobCancelled] {
            assert_eq!(broken(&[end.clone(), purge(), more]), last);
        }
    }
    assert_eq!(broken(&[purge()]), last);
    assert_eq!(broken(&[JobStarted, purge()]), last);
    assert_eq!(broken(&[cancels(), purge()]), last);
    assert_eq!(broken(&[runs_out(), purge()]), last);
}

#[test]
fn nothing_starts_late() {
    use Event::{JobCancelled, JobCompleted};
    let again = || Event::JobReopened { held: false };
    let late = Some(Law::NoLateStart);
    assert_eq!(broken(&[starts(1), starts(2)]), None);
    assert_eq!(broken(&[cancels(), starts(1)]), late);
    assert_eq!(broken(&[runs_out(), starts(1)]), late);
    assert_eq!(broken(&[runs_out(), fails(), again(), starts(1)]), None);
    assert_eq!(broken(&[JobCancelled, starts(1)]), late);
    assert_eq!(broken(&[JobCompleted, starts(1)]), late);
    assert_eq!(broken(&[fails(), starts(1)]), late);
    assert_eq!(broken(&[cancels(), JobCancelled, again(), starts(1)]), None);
    assert_eq!(broken(&[cancels(), ending(), starts(1)]), None);
    assert_eq!(broken(&[ending(), cuts(), starts(1)]), late);
    assert_eq!(broken(&[cancels(), undoing(), starts(2), ending(), starts(3)]), None);
    assert_eq!(broken(&[undoing(), cuts(), starts(2)]), late);
}

#[test]
fn what_is_undone_is_undone_once_and_before_the_end() {
    let again = || Event::JobReopened { held: false };
    let once = || vec![cancels(), undoing(), completes(2), ending(), completes(3), fails()];
    assert_eq!(broken(&once()), None);
    let next = [once(), vec![again(), undoing(), completes(2)]].concat();
    assert_eq!(broken(&next), Some(Law::OneSuccess), "also in the next run");
    let next = [once(), vec![again(), undoing(), completes(4), ending(), completes(3)]];
    assert_eq!(broken(&next.concat()), None);
    assert_eq!(broken(&[undoing(), cuts(), completes(2), completes(2)]), Some(Law::OneSuccess));
    for late in [
        &[undoing(), undoing()][..],
        &[ending(), undoing()],
        &[fails(), undoing()],
        &[undoing(), cancels()],
        &[undoing(), runs_out()],
    ] {
        assert_eq!(broken(late), Some(Law::OneEnd), "{late:?}");
    }
}

#[test]
fn a_job_ends_behind_its_children() {
    let (child, first) = (JobId::from_u128(2), Some(Law::ChildrenFirst));
    let begun = || Event::ChildStarted { task: TaskNumber(3), child, after: 0 };
    let end = crate::job::ChildEnd::Failed;
    let error = Failure::new("no", "it does not work");
    let over = || Event::ChildEnded { task: TaskNumber(3), end, seq: 9, error: error.clone() };
    for end in [Event::JobCompleted, fails(), Event::JobCancelled, ending()] {
        assert_eq!(broken(&[begun(), end.clone()]), first);
        assert_eq!(broken(&[begun(), over(), end.clone()]), None);
        assert_eq!(broken(&[begun(), completes(3), end]), None);
    }
    assert_eq!(broken(&[cancels(), begun()]), Some(Law::NoLateStart));
}

#[test]
fn a_task_of_finally_succeeds_once_for_each_end() {
    let again = || Event::JobReopened { held: false };
    let once = [ending(), completes(2)];
    assert_eq!(broken(&once), None);
    assert_eq!(broken(&[ending(), completes(2), completes(2)]), Some(Law::OneSuccess));
    assert_eq!(broken(&[ending(), completes(2), fails(), again(), ending(), completes(2)]), None);
    // Also where the attempt has ended well although it was told to stop.
    let cut = [ending(), cuts(), completes(2), fails(), again(), ending(), cuts(), completes(2)];
    assert_eq!(broken(&cut), None);
}

#[test]
fn a_task_of_the_job_succeeds_once() {
    let last = u32::try_from(TASKS).unwrap();
    for task in [1, 63, 64, 65, 127, 128, last] {
        assert_eq!(broken(&[completes(task), completes(task)]), Some(Law::OneSuccess));
        let again = Event::JobReopened { held: true };
        let runs = [completes(task), fails(), again, completes(task)];
        assert_eq!(broken(&runs), Some(Law::OneSuccess), "also in the next run");
    }
    assert_eq!(broken(&(1..=last).map(completes).collect::<Vec<_>>()), None);
    assert_eq!(broken(&(1..=last).rev().map(completes).collect::<Vec<_>>()), None);
    for task in [0, last + 1, u32::MAX] {
        assert_eq!(broken(&[completes(task)]), Some(Law::OwnTask));
    }
}

#[test]
fn numbers_have_no_gap_and_time_does_not_run_backwards() {
    let job = JobId::from_u128(1);
    let take = |before, events: &[(u64, i64)]| {
        let of = |&(seq, time): &(u64, i64)| recorded(seq, time, Event::JobResumed);
        let events: Vec<Recorded> = events.iter().map(of).collect();
        Written::nothing().take_in((job, 1), before, &events)
    };
    let broken = |seq, law| Err(BrokenLaw { job, seq, event: "JobResumed", law });
    assert_eq!(take(4, &[(5, 9), (6, 9), (7, 10)]), Ok(()));
    assert_eq!(take(4, &[(4, 9)]), broken(4, Law::NoGap));
    assert_eq!(take(4, &[(6, 9)]), broken(6, Law::NoGap));
    assert_eq!(take(4, &[(5, 9), (5, 9)]), broken(5, Law::NoGap));
    assert_eq!(take(u64::MAX, &[(1, 9)]), broken(1, Law::NoGap));
    assert_eq!(take(4, &[(5, 9), (6, 8)]), broken(6, Law::TimeOrder));
}

#[test]
fn each_law_has_a_word_of_its_own() {
    let words: std::collections::BTreeSet<_> = Law::ALL.map(Law::name).into();
    assert_eq!(words.len(), Law::ALL.len());
}
