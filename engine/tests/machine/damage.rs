//! Histories that cannot be: each is refused with its place, and the job stays as it was.

use annals_engine::job::{AttemptEnd, Event, Failure, Job, LogSize, Origin, PauseMode, Recorded};
use annals_engine::job::{CancelMode, SkippedBy, TaskNumber, Wait};
use annals_tasks_sdk::{Exit, JobId, Payload, Timestamp};

use crate::dsl::World;

const A: TaskNumber = TaskNumber(1);
const B: TaskNumber = TaskNumber(2);

fn completed(task: TaskNumber, attempt: u32) -> Event {
    let (output, exit, log) = (Payload::NULL, Exit::default(), LogSize::default());
    Event::TaskCompleted { task, attempt, output, exit, log }
}

fn failure() -> Failure {
    Failure::new("error", "it broke")
}

fn over(task: TaskNumber, attempt: u32) -> Event {
    let (error, log) = (failure(), LogSize::default());
    let end = AttemptEnd { error, retryable: true, exit: Exit::default(), output: None, log };
    Event::AttemptFailed { task, attempt, end }
}

/// After the history on a job `a b`, none of the events can follow.
#[track_caller]
fn never(given: &str, events: &[Event]) {
    let mut job = World::new("a b").given(given).job;
    for event in events {
        let before = job.clone();
        let next = record(job.seq() + 1, 1_000_000, event.clone());
        let illegal = job.evolve(&next).expect_err(&format!("{given} | {event:?}"));
        assert_eq!((illegal.seq, illegal.event), (next.seq, event.type_name()));
        assert_eq!(job, before, "{event:?}");
    }
}

fn cancel() -> Event {
    Event::CancelRequested { mode: CancelMode::Orderly }
}

fn record(seq: u64, millis: i64, event: Event) -> Recorded {
    let (time, origin) = (Timestamp::from_millis(millis), Origin::ENGINE);
    Recorded { seq, time, origin, leads: false, key: None, event }
}

#[test]
fn events_that_cannot_follow_are_refused() {
    let start = |task, attempt| Event::AttemptStarted { task, attempt };
    let timer = Wait::Timer { until: Timestamp::from_millis(5) };
    let drain = Event::PauseRequested { mode: PauseMode::Drain };
    let failed = Event::JobFailed { error: failure() };
    let (skip, due) = (
        Event::TaskSkipped { task: A, by: SkippedBy::Request, output: None },
        Timestamp::from_millis(9),
    );
    let retry = Event::RetryScheduled { task: A, due };
    let waits = Event::TaskWaiting { task: A, wait: timer };
    let (lost, broke) = (
        Event::AttemptLost { task: A, attempt: 1 },
        Event::TaskFailed { task: A, error: failure() },
    );
    let removed = Event::TaskRemoved { task: A };

    never("", &[Event::JobStarted, Event::JobPaused, Event::JobResumed, Event::JobCompleted]);
    never("", &[failed.clone(), Event::JobCancelled, Event::JobReopened { held: false }]);
    never("", &[completed(A, 1), completed(A, 0), over(A, 1), lost.clone(), retry.clone()]);
    never("", &[start(A, 2), start(A, 0), start(B, 1), start(TaskNumber(0), 1)]);
    never("", &[start(TaskNumber(3), 1), Event::SkipRequested { task: A, output: None }]);
    never("start a", &[start(A, 1), start(A, 2), completed(A, 2), removed.clone(), skip.clone()]);
    never("start a", &[waits.clone(), broke.clone(), Event::JobCancelled, Event::JobCompleted]);
    never("start a; done a", &[completed(A, 1), start(A, 2), skip.clone(), removed.clone()]);
    never("start a; cancel", &[drain.clone(), cancel(), Event::JobResumed]);
    never("start a; cancel", &[start(B, 1), Event::JobPaused, Event::JobCancelled]);
    never("skip a", &[start(A, 1), waits.clone(), broke.clone(), skip, completed(A, 0)]);
    never("remove b", &[start(B, 1), Event::TaskRemoved { task: B }]);
    never("start a; fail a", &[broke, drain, cancel(), completed(A, 1), failed]);
    never("pause", &[start(A, 1), waits, Event::JobPaused, Event::JobStarted, Event::JobCompleted]);
    let all = "skip a; skip b";
    never(all, &[Event::JobCancelled, Event::JobReopened { held: true }, removed, lost]);
}

#[test]
fn a_wait_is_not_over_before_its_time() {
    let mut job = World::new("a b").given("sleep a 60").job;
    let early = record(job.seq() + 1, 59_999, completed(A, 0));
    assert!(job.evolve(&early).is_err());
    let mut job = World::new("a*2 b").given("start a; fail a").job;
    let early = record(job.seq() + 1, 9_999, Event::AttemptStarted { task: A, attempt: 2 });
    assert!(job.evolve(&early).is_err());
}

#[test]
fn gaps_and_steps_back_in_time_are_refused() {
    let mut job = World::new("a b").given("+5; start a").job;
    let seq = job.seq() + 1;
    assert!(job.evolve(&record(seq + 1, 9_000, completed(A, 1))).is_err());
    assert!(job.evolve(&record(seq - 1, 9_000, completed(A, 1))).is_err());
    assert!(job.evolve(&record(seq, 4_999, completed(A, 1))).is_err());
    let illegal = job.evolve(&record(seq, 4_999, completed(A, 1))).unwrap_err();
    assert!(illegal.to_string().contains("TaskCompleted"), "{illegal}");
    assert!(job.evolve(&record(seq, 5_000, completed(A, 1))).is_ok());
}

#[test]
fn a_history_begins_with_its_submission() {
    let first = World::new("a").history.remove(0);
    let begin = |first: &Recorded| Job::begin(JobId::from_u128(1), first);
    assert!(begin(&first).is_ok());
    assert!(begin(&Recorded { seq: 2, ..first.clone() }).is_err());
    assert!(begin(&record(1, 0, Event::JobStarted)).is_err());
    let Event::JobSubmitted(mut submitted) = first.event.clone() else { panic!() };
    submitted.plan.tasks[0].needs = Some([crate::dsl::id("nobody")].into());
    let illegal = begin(&Recorded { event: Event::JobSubmitted(submitted), ..first }).unwrap_err();
    assert!(illegal.why.contains("nobody"), "{illegal}");
}
