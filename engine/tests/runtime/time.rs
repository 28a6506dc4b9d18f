//! Due times stand, whatever happens meanwhile; nothing acts before its time.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{Job, JobStatus, PauseMode};
use annals_engine::runtime::{Builder, Engine, JobHandle};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError, TaskResult};

use super::support::{
    HandClock, Store, World, almost, laws, loops, nothing, outcomes, pause, plan, resume,
    status_of, submit, task, until, within,
};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const TICK: Duration = Duration::from_millis(1);

/// A world with a clock that is set by hand.
struct Timed {
    world: World,
    clock: Arc<HandClock>,
    loops: usize,
}

impl Timed {
    fn new(store: Store, loops: usize) -> Self {
        Self { world: World::new(store), clock: HandClock::new(), loops }
    }

    fn builder(&self) -> Builder {
        let fail = async |cx: TaskContext, input: Payload| -> TaskResult<Payload> {
            let fails: u32 = input.to()?;
            if cx.attempt().attempt <= fails {
                return Err(TaskError::new("broken", format!("failure {}", cx.attempt().attempt)));
            }
            Ok(input)
        };
        let engine = self.world.engine_at(&self.clock).loops(self.loops);
        engine.task(task("fail"), fail).task(task("ok"), nothing)
    }

    async fn start(&self) -> Engine {
        within(self.builder().start()).await.expect("it starts")
    }

    /// Kills an engine and starts another.
    async fn restart(&self, engine: Engine) -> Engine {
        within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
        self.start().await
    }

    fn advance(&self, engine: &Engine, by: Duration) {
        self.clock.advance(by);
        engine.look();
    }
}

/// The job after its loop has looked at the clock: the second question is asked in a later turn.
async fn now(engine: &Engine, id: JobId) -> Arc<Job> {
    let job = engine.job(id);
    within(job.snapshot()).await.unwrap();
    within(job.snapshot()).await.unwrap().job
}

async fn ended(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

const RETRIED: &str = r#"{"id": "a", "kind": "fail", "input": 1, "retry":
    {"max_attempts": 2, "backoff": {"initial": "10m", "max": "10m", "jitter": 0}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_keeps_its_due_time_through_pause_and_restart() {
    for store in Store::BOTH {
        for loops in loops() {
            let timed = Timed::new(store, loops);
            let engine = timed.start().await;
            let id = submit(&engine, plan(RETRIED)).await.id();
            until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
            timed.advance(&engine, 4 * MINUTE);
            pause(&engine.job(id), PauseMode::Drain).await;
            let engine = timed.restart(engine).await;
            assert_eq!(now(&engine, id).await.status(), JobStatus::Paused);
            resume(&engine.job(id)).await;
            let engine = timed.restart(engine).await;
            timed.advance(&engine, almost(6 * MINUTE));
            assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
            timed.advance(&engine, TICK);
            let end = ended(&engine.job(id)).await;
            assert_eq!(
                (end.status(), outcomes(&end, "a")),
                (JobStatus::Completed, vec!["failed", "completed"])
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_ask_for_a_longer_wait_and_a_restart_keeps_it() {
    for (code, message) in [("busy".into(), "later".into()), ("b".repeat(999), "l".repeat(99_999))]
    {
        let world = Timed::new(Store::Disk, 1);
        let busy = move |cx: TaskContext, input: Payload| {
            let (code, message) = (code.clone(), message.clone());
            async move {
                let error = TaskError::new(&code, &message).retry_after(HOUR);
                if cx.attempt().attempt == 1 { Err(error) } else { Ok(input) }
            }
        };
        let start = async || {
            let builder = world.builder().task(task("busy"), busy.clone());
            within(builder.start()).await.expect("it starts")
        };
        let engine = start().await;
        let id = submit(&engine, plan(&RETRIED.replace("fail", "busy"))).await.id();
        until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
        within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
        let engine = start().await;
        world.advance(&engine, almost(HOUR));
        assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
        world.advance(&engine, TICK);
        let end = ended(&engine.job(id)).await;
        assert_eq!(outcomes(&end, "a"), ["failed", "completed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_while_paused_or_down_acts_once_afterwards() {
    for loops in loops() {
        let timed = Timed::new(Store::Memory, loops);
        let engine = timed.start().await;
        let sleep = r#"{"id": "a", "kind": "sleep", "input": {"for": "10m"}}"#;
        let paused =
            [submit(&engine, plan(RETRIED)).await.id(), submit(&engine, plan(sleep)).await.id()];
        let down =
            [submit(&engine, plan(RETRIED)).await.id(), submit(&engine, plan(sleep)).await.id()];
        for id in paused.iter().chain(&down) {
            until(&engine.job(*id), |now| status_of(&now.job, "a") == "waiting").await;
        }
        for id in paused {
            pause(&engine.job(id), PauseMode::Drain).await;
        }
        timed.advance(&engine, HOUR);
        for id in down {
            assert_eq!(ended(&engine.job(id)).await.status(), JobStatus::Completed);
        }
        for id in paused {
            assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
            resume(&engine.job(id)).await;
            assert_eq!(ended(&engine.job(id)).await.status(), JobStatus::Completed);
        }
        // Down, this time.
        let ids =
            [submit(&engine, plan(RETRIED)).await.id(), submit(&engine, plan(sleep)).await.id()];
        for id in ids {
            until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
        }
        within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
        timed.clock.advance(HOUR);
        let engine = timed.start().await;
        for id in ids {
            let end = ended(&engine.job(id)).await;
            assert_eq!(end.status(), JobStatus::Completed);
            assert!(outcomes(&end, "a").len() <= 2, "it acts once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleep_goes_on_through_restarts() {
    for store in Store::BOTH {
        let timed = Timed::new(store, 1);
        let mut engine = timed.start().await;
        let text =
            r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}, {"id": "b", "kind": "ok"}"#;
        let id = submit(&engine, plan(text)).await.id();
        until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
        for _ in 0..3 {
            timed.advance(&engine, 19 * MINUTE);
            engine = timed.restart(engine).await;
        }
        timed.advance(&engine, almost(3 * MINUTE));
        assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
        timed.advance(&engine, TICK);
        let end = ended(&engine.job(id)).await;
        assert_eq!((end.status(), outcomes(&end, "a").len()), (JobStatus::Completed, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_wait_after_the_last_attempt() {
    let timed = Timed::new(Store::Memory, 1);
    let engine = timed.start().await;
    let text = r#"{"id": "a", "kind": "fail", "input": 99, "retry":
        {"max_attempts": 3, "backoff": {"initial": "1s", "factor": 2, "jitter": 0}}}"#;
    let job = submit(&engine, plan(text)).await;
    for (attempts, wait) in [(1, 1), (2, 2)] {
        until(&job, |now| outcomes(&now.job, "a") == vec!["failed"; attempts]).await;
        let wait = Duration::from_secs(wait);
        timed.advance(&engine, almost(wait));
        assert_eq!(outcomes(&*now(&engine, job.id()).await, "a").len(), attempts);
        timed.advance(&engine, TICK);
    }
    // The clock stands still from here on.
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Failed, vec!["failed"; 3]));
    assert_eq!(&*end.error().unwrap().0.message, "failure 3", "the last error is reported");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_starts_after_max_elapsed() {
    let timed = Timed::new(Store::Memory, 1);
    let engine = timed.start().await;
    let text = r#"{"id": "a", "kind": "fail", "input": 99, "retry": {"max_attempts": 99,
        "max_elapsed": "10s", "backoff": {"initial": "4s", "factor": 1, "jitter": 0}}}"#;
    let job = submit(&engine, plan(text)).await;
    for attempts in 1..3 {
        until(&job, |now| outcomes(&now.job, "a") == vec!["failed"; attempts]).await;
        timed.advance(&engine, Duration::from_secs(4));
    }
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a").len()), (JobStatus::Failed, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_far_future_and_no_time_at_all() {
    for store in Store::BOTH {
        let timed = Timed::new(store, 3);
        let engine = timed.start().await;
        let mut far = Vec::new();
        for text in [
            r#"{"id": "a", "kind": "sleep", "input": {"until": "9999-12-30T22:00:00Z"}}"#,
            r#"{"id": "a", "kind": "sleep", "input": {"for": "870000h"}}"#,
            r#"{"id": "a", "kind": "fail", "input": 1, "retry": {"max_attempts": 2,
                "backoff": {"initial": "870000h", "max": "870000h"}}}"#,
        ] {
            let id = submit(&engine, plan(text)).await.id();
            until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
            far.push(id);
        }
        let at_once = r#"{"id": "a", "kind": "sleep", "input": {"for": "0s"}},
            {"id": "b", "kind": "sleep", "input": {"until": "1970-01-01T00:00:00Z"}},
            {"id": "c", "kind": "ok", "timeout": "870000h", "cancel_grace": "870000h"},
            {"id": "d", "kind": "fail", "input": 3, "retry":
                {"max_attempts": 4, "backoff": {"initial": "0s"}}}"#;
        let end = ended(&submit(&engine, plan(at_once)).await).await;
        assert_eq!(end.status(), JobStatus::Completed);
        let mut engine = engine;
        for days in [13, 3 * 365] {
            let short = r#"{"id": "a", "kind": "sleep", "input": {"for": "1ms"}}"#;
            let id = submit(&engine, plan(short)).await.id();
            until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
            timed.advance(&engine, Duration::from_hours(24 * days));
            assert_eq!(ended(&engine.job(id)).await.status(), JobStatus::Completed);
            engine = timed.restart(engine).await;
            for &id in &far {
                assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
            }
        }
        timed.advance(&engine, Duration::from_hours(70_000_000));
        for &id in &far {
            assert_eq!(ended(&engine.job(id)).await.status(), JobStatus::Completed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_far_future_on_the_clock_of_the_machine() {
    let world = World::in_memory();
    let engine = within(world.engine().task(task("ok"), nothing).start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "sleep", "input": {"until": "9999-12-30T22:00:00Z"}}"#;
    let far = submit(&engine, plan(text)).await;
    until(&far, |now| status_of(&now.job, "a") == "waiting").await;
    let text = r#"{"id": "a", "kind": "ok", "timeout": "870000h"},
        {"id": "b", "kind": "sleep", "input": {"for": "1ms"}}"#;
    assert_eq!(ended(&submit(&engine, plan(text)).await).await.status(), JobStatus::Completed);
    assert_eq!(status_of(&far.snapshot().await.unwrap().job, "a"), "waiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_confuses_nobody() {
    let timed = Timed::new(Store::Memory, 1);
    let engine = timed.start().await;
    let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "10m"}}, {"id": "b", "kind": "ok"},
        {"id": "c", "kind": "sleep", "input": {"for": "10m"}}"#;
    let job = submit(&engine, plan(text)).await;
    until(&job, |now| status_of(&now.job, "a") == "waiting").await;
    timed.clock.set_back(HOUR);
    engine.look();
    timed.advance(&engine, HOUR);
    assert_eq!(status_of(&*now(&engine, job.id()).await, "a"), "waiting");
    timed.advance(&engine, 10 * MINUTE);
    until(&job, |now| status_of(&now.job, "c") == "waiting").await;
    timed.clock.set_back(HOUR);
    timed.advance(&engine, HOUR + 10 * MINUTE);
    // The laws hold: no event's time is before that of its predecessor.
    assert_eq!(ended(&job).await.status(), JobStatus::Completed);
}
