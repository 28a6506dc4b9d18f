//! Contradictions are planted in what a turn is about to write: nothing of that job is written or
//! acknowledged, the engine says so, and other jobs go on.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use annals_tasks_sdk::{Exit, JobId, Payload, SignalName, Timestamp};

use super::driven::Driven;
use crate::job::{
    CancelMode, Command, Event, Illegal, JobStatus, LogSize, Origin, PauseMode, Recorded, Report,
    TaskNumber, step,
};
use crate::runtime::error::{CommandError, EngineError, JobError};
use crate::runtime::laws::Law;
use crate::runtime::message::Ask;

const WAITS: &str = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "gate"}"#;
const NOOP: &str = r#"{"id": "a", "kind": "noop"}"#;

/// Adds events to what the present turn is to write of a job.
fn plant(driven: &mut Driven, job: JobId, events: impl IntoIterator<Item = (u64, Event)>) {
    let time = driven.executor(job).job.time();
    let origin = Origin::ENGINE;
    let recorded = |(seq, event)| Recorded {
        seq,
        time,
        origin: origin.clone(),
        leads: false,
        key: None,
        event,
    };
    let events: Vec<Recorded> = events.into_iter().map(recorded).collect();
    driven.executor(job).add(events);
    driven.each().touch(job);
}

fn completes(task: u32) -> Event {
    let (task, exit, log) = (TaskNumber(task), Exit::default(), LogSize::default());
    Event::TaskCompleted { task, attempt: 1, output: Payload::NULL, exit, log }
}

fn go() -> SignalName {
    SignalName::new("go").unwrap()
}

/// Asserts that the engine has found this at this event, and has given up that job alone.
fn is_found(driven: &mut Driven, job: JobId, (seq, law): (u64, Law)) {
    match driven.engine.health() {
        Err(EngineError::LawBroken(broken)) => {
            assert_eq!((broken.job, broken.seq, broken.law), (job, seq, law), "{broken}");
        }
        other => panic!("{other:?}"),
    }
    let stats = driven.engine.stats();
    let times = Law::ALL.iter().zip(stats.checks.broken_laws).filter(|(_, times)| *times > 0);
    assert_eq!(times.collect::<Vec<_>>(), [(&law, 1)]);
    assert_eq!((stats.open.broken, stats.live_attempts), (1, 0));
    let other = driven.job(NOOP);
    let end = driven.until(other.ended()).unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
}

#[test]
fn what_breaks_a_law_is_not_written() {
    type Plant = fn(u64) -> Vec<(u64, Event)>;
    let table: [(Plant, u64, Law); 7] = [
        (
            |seq| {
                vec![
                    (seq, completes(2)),
                    (seq + 1, Event::JobCompleted),
                    (seq + 2, Event::JobCompleted),
                ]
            },
            2,
            Law::OneEnd,
        ),
        (
            |seq| {
                let start = Event::AttemptStarted { task: TaskNumber(2), attempt: 2 };
                vec![(seq, Event::CancelRequested { mode: CancelMode::Orderly }), (seq + 1, start)]
            },
            1,
            Law::NoLateStart,
        ),
        // The first task has succeeded in another turn.
        (|seq| vec![(seq, completes(1))], 0, Law::OneSuccess),
        (|seq| vec![(seq, completes(3))], 0, Law::OwnTask),
        // What came is given once.
        (
            |seq| {
                let delivered =
                    Event::SignalDelivered { task: TaskNumber(2), name: go(), signal: seq };
                let received = Event::SignalReceived { name: go(), payload: Payload::NULL };
                vec![(seq, received), (seq + 1, delivered.clone()), (seq + 2, delivered)]
            },
            2,
            Law::OneDelivery,
        ),
        (|seq| vec![(seq + 1, completes(2))], 1, Law::NoGap),
        (|seq| vec![(seq, completes(2)), (seq, Event::JobCompleted)], 0, Law::NoGap),
    ];
    for (planted, at, law) in table {
        let mut driven = Driven::new();
        let job = driven.job(WAITS);
        let id = job.id();
        let written = driven.seqs(id);
        let next = written.len() as u64 + 1;
        assert_eq!(written, (1..next).collect::<Vec<_>>());
        let mut end = pin!(job.ended());
        let nobody = &mut Context::from_waker(Waker::noop());
        assert!(end.as_mut().poll(nobody).is_pending());
        driven.settle();
        plant(&mut driven, id, planted(next));
        driven.settle();
        match end.as_mut().poll(nobody) {
            Poll::Ready(Err(JobError::Unreadable { job, .. })) => assert_eq!(job, id),
            other => panic!("{law:?}: {:?}", other.map(|end| end.map(drop))),
        }
        is_found(&mut driven, id, (next + at, law));
        assert_eq!(driven.seqs(id), written, "{law:?}");
        goes_on_after_a_start(driven, id);
    }
}

/// Nothing wrong was written, so the next engine takes the job up where it was.
fn goes_on_after_a_start(driven: Driven, id: JobId) {
    let mut driven = driven.again();
    driven.engine.health().unwrap();
    driven.open_gate();
    let end = driven.until(driven.engine.job(id).ended()).unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
}

#[test]
fn time_that_runs_backwards_is_not_written() {
    let mut driven = Driven::new();
    let id = driven.job(WAITS).id();
    let next = driven.seqs(id).len() as u64 + 1;
    plant(&mut driven, id, [(next, completes(2))]);
    driven.executor(id).fresh[0].time = Timestamp::from_millis(1);
    driven.settle();
    is_found(&mut driven, id, (next, Law::TimeOrder));
    goes_on_after_a_start(driven, id);
}

/// The state falls back behind what was written, as by damage of the memory: the machine finds
/// nothing wrong with it, and would decide on the past.
#[test]
fn a_state_that_has_fallen_back_is_not_believed() {
    let mut driven = Driven::new();
    let job = driven.job(WAITS);
    let id = job.id();
    let before = Arc::clone(&driven.executor(id).job);
    let pause = Command::Pause { mode: PauseMode::Drain };
    driven.until(job.command(pause, Ask::default())).unwrap();
    let written = driven.seqs(id);
    driven.executor(id).job = before;
    let cancelled = driven.until(job.command(Command::CANCEL, Ask::default()));
    match cancelled {
        Err(CommandError::Job(JobError::Unreadable { job, why })) => {
            assert!(job == id && why.contains("no gap"), "{why}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    driven.settle();
    is_found(&mut driven, id, (written.len() as u64, Law::NoGap));
    assert_eq!(driven.seqs(id), written);
}

/// Nor does the row of a job say that it was purged where that could not be written: the next start
/// would believe it.
#[test]
fn a_purge_that_is_not_written_is_none() {
    let mut driven = Driven::new();
    let job = driven.job(WAITS);
    let id = job.id();
    let written = driven.seqs(id);
    // The state is ahead of what was written.
    let cx = driven.each().context(Origin::ENGINE);
    let ahead = driven.executor(id).job_mut();
    step(ahead, Command::CANCEL, &cx).unwrap();
    step(ahead, Report::Recover, &cx).unwrap();
    let seq = ahead.seq();
    match driven.until(job.command(Command::PURGE, Ask::default())) {
        Err(CommandError::Job(JobError::Unreadable { job, .. })) => assert_eq!(job, id),
        other => panic!("{:?}", other.map(drop)),
    }
    driven.settle();
    is_found(&mut driven, id, (seq + 1, Law::NoGap));
    let row = driven.each().rows.get(id).unwrap();
    assert!(row.purged.is_none() && row.active && !row.status.is_ended(), "{row:?}");
    assert_eq!(driven.seqs(id), written);
    goes_on_after_a_start(driven, id);
}

/// What the machine itself refuses of its own is a contradiction no less.
#[test]
fn what_the_machine_refuses_of_its_own_is_told() {
    let mut driven = Driven::new();
    let job = driven.job(WAITS);
    let id = job.id();
    let seq = driven.seqs(id).len() as u64;
    let broken = Illegal { job: id, seq, event: "JobPaused", why: "no".into() };
    driven.each().shared.note_broken_law(0, &(&broken).into());
    driven.each().break_job(id, broken.to_string());
    driven.settle();
    is_found(&mut driven, id, (seq, Law::Legal));
}
