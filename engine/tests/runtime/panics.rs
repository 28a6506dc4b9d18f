//! Panics of tasks: each is a failed attempt with message and place, and nothing else happens.
//! A panic of the engine itself ends it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_engine::job::{Job, JobStatus};
use annals_engine::runtime::{Clock, Engine, EngineError, JobError, JobHandle, SystemClock};
use annals_tasks_sdk::{Done, Handler, Payload, TaskContext, TaskError, TaskResult, Timestamp};

use super::support::{
    Gate, Tally, World, cancel, codes, counting, laws, nothing, outcomes, plan, submit, task,
    until, within,
};

async fn end_of(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

/// The message with which a task of this kind fails.
async fn message_of(engine: &Engine, kind: &str) -> String {
    let one = format!(r#"{{"id": "a", "kind": "{kind}"}}"#);
    let end = end_of(&submit(engine, plan(&one)).await).await;
    assert_eq!((end.status(), codes(&end, "a")), (JobStatus::Failed, vec!["panic".to_owned()]));
    end.error().expect("it says why").0.message.to_string()
}

/// A handler that panics before it gives a future.
struct Eager;

impl Handler for Eager {
    fn call<'a: 'b, 'b>(
        &'a self,
        _cx: TaskContext,
        _input: Payload,
    ) -> std::pin::Pin<Box<dyn Future<Output = TaskResult<Done>> + Send + 'b>>
    where
        Self: 'b,
    {
        panic!("before there is a future")
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a drop");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_failure_with_message_and_place() {
    let world = World::in_memory();
    let text =
        async |_cx: TaskContext, _input: Payload| -> TaskResult<Payload> { panic!("a plain text") };
    let owned = async |_cx: TaskContext, input: Payload| -> TaskResult<Payload> {
        panic!("an owned text: {input:?}")
    };
    let odd = async |_cx: TaskContext, _input: Payload| -> TaskResult<Payload> {
        std::panic::panic_any(7_u64)
    };
    let bomb = async |_cx: TaskContext, _input: Payload| -> TaskResult<Payload> {
        std::panic::panic_any(Bomb)
    };
    let engine = world.engine().task(task("text"), text).task(task("owned"), owned);
    let engine = engine.task(task("odd"), odd).task(task("bomb"), bomb);
    let engine = within(engine.handler("eager", Arc::new(Eager)).start()).await.unwrap();
    for (kind, says) in [
        ("text", "a plain text"),
        ("owned", "an owned text: null"),
        ("odd", "the panic carries no message"),
        ("bomb", "the panic carries no message"),
        ("eager", "before there is a future"),
    ] {
        let message = message_of(&engine, kind).await;
        assert!(message.contains(says), "{message}");
        assert!(message.contains("panics.rs:"), "{message} has a place");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_drop_hurts_nobody() {
    let (world, gate) = (World::in_memory(), Gate::new());
    let at_its_end = async |_cx: TaskContext, input: Payload| {
        let _bomb = Bomb;
        Ok(input)
    };
    let held = gate.clone();
    let dropped = move |_cx: TaskContext, _input: Payload| {
        let gate = held.clone();
        async move {
            let bomb = Bomb;
            gate.open();
            std::future::pending::<()>().await;
            std::mem::forget(bomb);
            Err::<Payload, _>(TaskError::new("never", "never"))
        }
    };
    let engine = world.engine().task(task("end"), at_its_end).task(task("dropped"), dropped);
    let engine = within(engine.start()).await.unwrap();
    let now = r#"{"id": "a", "kind": "dropped", "cancel_grace": "0s"}"#;
    let job = submit(&engine, plan(now)).await;
    within(gate.pass()).await;
    cancel(&job).await;
    let end = end_of(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Cancelled, vec!["interrupted"]));
    assert!(message_of(&engine, "end").await.contains("in a drop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_with_a_lock_held_poisons_that_lock_alone() {
    let world = World::in_memory();
    let lock = Arc::new(Mutex::new(0));
    let shared = Arc::clone(&lock);
    let locking = move |cx: TaskContext, input: Payload| {
        let lock = Arc::clone(&shared);
        async move {
            let attempt = cx.attempt().attempt;
            let mut count = lock.lock().unwrap_or_else(|poisoned| {
                lock.clear_poison();
                poisoned.into_inner()
            });
            *count += 1;
            assert!(attempt > 1, "with the lock held");
            drop(count);
            Ok(input)
        }
    };
    let engine = within(world.engine().task(task("lock"), locking).start()).await.unwrap();
    let twice = r#"{"id": "a", "kind": "lock",
        "retry": {"max_attempts": 2, "backoff": {"initial": "0s"}}}"#;
    let end = end_of(&submit(&engine, plan(twice)).await).await;
    assert_eq!(outcomes(&end, "a"), ["failed", "completed"]);
    assert_eq!(*lock.lock().unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_panics_beside_a_thousand_healthy_tasks() {
    let world = World::in_memory();
    let panics = async |_cx: TaskContext, _input: Payload| -> TaskResult<Payload> {
        tokio::task::yield_now().await;
        panic!("one of many")
    };
    let engine = world.engine().loops(2).slots(50).task(task("bad"), panics);
    let engine = within(engine.task(task("good"), nothing).start()).await.unwrap();
    let wide = |kind: &str, from: usize| {
        let one = |n| format!(r#"{{"id": "t{n}", "kind": "{kind}", "needs": []}}"#);
        (from..from + 100).map(one).collect::<Vec<_>>().join(",")
    };
    let mut jobs = Vec::new();
    for _ in 0..10 {
        jobs.push((submit(&engine, plan(&wide("bad", 0))).await, true));
        jobs.push((submit(&engine, plan(&wide("good", 0))).await, false));
    }
    for (job, bad) in jobs {
        let end = end_of(&job).await;
        if bad {
            assert_eq!(end.status(), JobStatus::Failed);
            assert!((0..100).all(|n| codes(&end, &format!("t{n}")) == ["panic"]));
        } else {
            assert_eq!((end.status(), end.counts().completed), (JobStatus::Completed, 100));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_task_says_can_be_recorded() {
    let world = World::in_memory();
    let long = async |_cx: TaskContext, _input: Payload| -> TaskResult<Payload> {
        let output = Payload::of(&"x".repeat(70 << 20))?;
        let error = TaskError::new(&"c".repeat(1 << 20), "\0\u{fffe}é".repeat(1 << 20));
        Err(error.with_output(output).give_up())
    };
    let huge = async |_cx: TaskContext, _input: Payload| Ok(Payload::of(&"x".repeat(3 << 20))?);
    let engine = world.engine().task(task("long"), long).task(task("huge"), huge).start();
    let engine = within(engine).await.unwrap();
    let end = end_of(&submit(&engine, plan(r#"{"id": "a", "kind": "long"}"#)).await).await;
    let error = end.error().expect("it failed").0.clone();
    assert!(error.message.len() < 20_000 && error.message.starts_with("\0\u{fffe}é"));
    assert!(error.code.len() < 1_000);
    let end = end_of(&submit(&engine, plan(r#"{"id": "a", "kind": "huge"}"#)).await).await;
    assert_eq!(codes(&end, "a"), ["output_too_large"]);
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    let ended = until(&job, |now| now.job.status() == JobStatus::Completed).await;
    assert!(ended.live.is_empty());
}

/// A clock that panics when a loop asks it, once the test says so.
struct Broken(AtomicBool);

impl Clock for Broken {
    fn now(&self) -> Timestamp {
        let by_loop = std::thread::current().name() == Some("annals-loop-0");
        assert!(!(by_loop && self.0.load(Ordering::SeqCst)), "the clock is broken");
        SystemClock.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_engine_itself_is_told_to_everybody() {
    let world = World::in_memory();
    let (clock, tally) = (Arc::new(Broken(AtomicBool::new(false))), Tally::new());
    let engine = world.engine().clock(clock.clone()).loops(2);
    let engine = engine.task(task("count"), counting(&tally, &Gate::new()));
    let engine = within(engine.start()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "count"}"#)).await;
        waiting.push(tokio::spawn(async move { job.ended().await.map(drop) }));
    }
    within(tally.until(|counts| counts.inside == 20)).await;
    clock.0.store(true, Ordering::SeqCst);
    engine.look();
    let panicked = |error: &EngineError| matches!(error, EngineError::Panicked);
    for waiting in waiting {
        match within(waiting).await.unwrap() {
            Err(JobError::Engine(error)) => assert!(panicked(&error), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    // What runs is told to stop: its end could not be recorded.
    within(tally.until(|counts| counts.inside == 0)).await;
    assert!(panicked(&within(engine.jobs(None, 1)).await.unwrap_err()));
    assert!(panicked(&within(engine.shutdown()).await.unwrap_err()));
}
