//! Signals and the tasks that wait for them: through restarts, while their jobs are not loaded, and
//! with timeouts that act when they are due and not before.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, IdempotencyKey, Job, JobStatus, Origin, PauseMode};
use annals_engine::runtime::{Answer, CommandError, Engine, JobHandle};
use annals_tasks_sdk::{JobId, Payload, SignalName};

use super::support::{
    HandClock, Store, World, almost, execute, kill, laws, loops, pause, plan, plan_of, resume,
    status_of, submit, until, until_viewed, within,
};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const TICK: Duration = Duration::from_millis(1);

const WAIT: &str = r#"{"id": "a", "kind": "wait", "input": {"signal": "go"}},
    {"id": "b", "kind": "noop", "input": {"$output": "a"}}"#;
const TIMED: &str = r#"{"id": "a", "kind": "wait", "input": {"signal": "go", "timeout": "1h"}}"#;

fn name(text: &str) -> SignalName {
    SignalName::new(text).unwrap()
}

async fn tell(job: &JobHandle, payload: &str, key: Option<&str>) -> Result<Answer, CommandError> {
    let key = key.map(|key| IdempotencyKey::new("", "/go", key, payload.as_bytes()));
    let ask = Ask { origin: Origin::actor("tester"), key, ..Ask::default() };
    within(job.signal(name("go"), Payload::parse(payload).unwrap(), ask)).await
}

async fn waiting(job: &JobHandle, task: &str) -> Arc<Job> {
    until(job, |now| status_of(&now.job, task) == "waiting").await.job
}

/// The job after its loop has looked at the clock: the second question is asked in a later turn.
async fn now(engine: &Engine, id: JobId) -> Arc<Job> {
    let job = engine.job(id);
    within(job.snapshot()).await.unwrap();
    within(job.snapshot()).await.unwrap().job
}

async fn output(job: &JobHandle) -> Payload {
    within(job.ended()).await.unwrap();
    let job = laws(job).await;
    assert_eq!(job.status(), JobStatus::Completed);
    job.task(job.find("a").unwrap()).unwrap().output().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_a_job_that_no_engine_has_kept_in_memory() {
    for store in Store::BOTH {
        for loops in loops() {
            let world = World::new(store);
            let start = async || {
                let builder = world.engine().loops(loops).resident(0).views_every(1);
                within(builder.start()).await.unwrap()
            };
            let engine = start().await;
            let told = submit(&engine, plan(WAIT)).await.id();
            let early = submit(&engine, plan_of(&held(WAIT))).await.id();
            waiting(&engine.job(told), "a").await;
            tell(&engine.job(early), "[1.50]", None).await.unwrap();
            until_viewed(&engine).await;
            kill(engine).await;
            let engine = start().await;
            let told = engine.job(told);
            assert_eq!(now(&engine, early).await.signals_kept(), 1);
            tell(&told, r#"{"by": "ada"}"#, None).await.unwrap();
            assert_eq!(output(&told).await.as_str(), r#"{"by": "ada"}"#);
            let early = engine.job(early);
            execute(&early).await;
            assert_eq!(output(&early).await.as_str(), "[1.50]");
        }
    }
}

/// A plan that waits for its start.
fn held(tasks: &str) -> String {
    format!(r#"{{"name": "test", "start": "manual", "tasks": [{tasks}]}}"#)
}

/// Has the lookout come to every job, also by the second of its rounds.
async fn look_out(engine: &Engine, clock: &HandClock) {
    for _ in 0..3 {
        clock.advance(2 * MINUTE);
        engine.look();
        let job = submit(engine, plan(r#"{"id": "n", "kind": "noop"}"#)).await;
        within(job.ended()).await.unwrap();
    }
    assert_eq!(engine.stats().checks.without_reason, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_holds_nothing_and_is_not_missed() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let start = async |resident| {
        let engine = world.engine_at(&clock).views_every(1).resident(resident);
        within(engine.start()).await.unwrap()
    };
    let engine = start(1_000).await;
    let id = submit(&engine, plan(WAIT)).await.id();
    waiting(&engine.job(id), "a").await;
    let stats = engine.stats();
    assert_eq!((stats.live_attempts, stats.timers), (0, 0));
    assert!(stats.pools.iter().all(|pool| pool.in_use == 0), "{:?}", stats.pools);
    look_out(&engine, &clock).await;
    until_viewed(&engine).await;
    kill(engine).await;
    for resident in [0, 1_000] {
        let engine = start(resident).await;
        look_out(&engine, &clock).await;
        assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
        look_out(&engine, &clock).await;
        until_viewed(&engine).await;
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeout_of_a_wait_stands_through_restarts_and_stands_still_in_a_pause() {
    for store in Store::BOTH {
        for loops in loops() {
            let (world, clock) = (World::new(store), HandClock::new());
            let start = async || {
                let builder = world.engine_at(&clock).loops(loops).resident(0).views_every(1);
                within(builder.start()).await.unwrap()
            };
            let engine = start().await;
            let id = submit(&engine, plan(TIMED)).await.id();
            waiting(&engine.job(id), "a").await;
            clock.advance(20 * MINUTE);
            kill(engine).await;
            let engine = start().await;
            pause(&engine.job(id), PauseMode::Drain).await;
            until_viewed(&engine).await;
            kill(engine).await;
            // Nobody waits while the job is paused, however long that is.
            clock.advance(1_000 * HOUR);
            let engine = start().await;
            assert_eq!(now(&engine, id).await.status(), JobStatus::Paused);
            resume(&engine.job(id)).await;
            until_viewed(&engine).await;
            kill(engine).await;
            clock.advance(almost(40 * MINUTE));
            let engine = start().await;
            assert_eq!(status_of(&*now(&engine, id).await, "a"), "waiting");
            clock.advance(TICK);
            engine.look();
            within(engine.job(id).ended()).await.unwrap();
            let job = laws(&engine.job(id)).await;
            let error = job.task(job.find("a").unwrap()).unwrap().error().unwrap().clone();
            assert_eq!((job.status(), &*error.code), (JobStatus::Failed, "timed_out"));
            assert!(error.message.contains("no signal go"), "{}", error.message);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_are_as_short_or_long_as_they_say() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let engine = within(world.engine_at(&clock).start()).await.unwrap();
    let timed = |span: &str| {
        plan(&format!(
            r#"{{"id": "a", "kind": "wait", "input": {{"signal": "go", "timeout": "{span}"}}}}"#
        ))
    };
    let at_once = submit(&engine, timed("0s")).await;
    assert_eq!(within(at_once.ended()).await.unwrap().job.status(), JobStatus::Failed);
    let forever = submit(&engine, timed("36500d")).await;
    waiting(&forever, "a").await;
    clock.advance(90 * 365 * 24 * HOUR);
    engine.look();
    assert_eq!(status_of(&*now(&engine, forever.id()).await, "a"), "waiting");
    tell(&forever, "1", None).await.unwrap();
    assert_eq!(output(&forever).await.as_str(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_with_a_key_comes_once() {
    let (world, clock) = (World::new(Store::Disk), HandClock::new());
    let start = async || within(world.engine_at(&clock).start()).await.unwrap();
    let engine = start().await;
    let tasks = r#"{"id": "a", "kind": "wait", "input": {"signal": "go"}},
        {"id": "b", "kind": "wait", "input": {"signal": "go"}}"#;
    let id = submit(&engine, plan(tasks)).await.id();
    let job = engine.job(id);
    waiting(&job, "a").await;
    let all = (0..20).map(|_| {
        let job = job.clone();
        tokio::spawn(async move { tell(&job, "1", Some("one")).await.unwrap() })
    });
    let mut first = 0;
    for answer in all.collect::<Vec<_>>() {
        first += usize::from(!within(answer).await.unwrap().replayed);
    }
    assert_eq!(first, 1, "one of them did it");
    waiting(&job, "b").await;
    drop(job);
    kill(engine).await;
    // A day is longer than keys are known for.
    clock.advance(48 * HOUR);
    let engine = start().await;
    let job = engine.job(id);
    let again = tell(&job, "1", Some("one")).await.unwrap();
    assert!(again.events.is_empty(), "{again:?}");
    match tell(&job, "2", Some("one")).await {
        Err(CommandError::Rejected(refused)) => assert_eq!(refused.code, "idempotency_key_reused"),
        Err(CommandError::KeyReused) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(status_of(&*now(&engine, id).await, "b"), "waiting");
    tell(&job, "2", Some("two")).await.unwrap();
    assert_eq!(output(&job).await.as_str(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_a_signal_shows_what_it_would_do() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let job = submit(&engine, plan(WAIT)).await;
    let before = waiting(&job, "a").await;
    let ask = Ask { dry_run: true, ..Ask::default() };
    let command = Command::Signal { name: name("go"), payload: Payload::NULL };
    let answer = within(job.command(command, ask)).await.unwrap();
    let types: Vec<_> = answer.events.iter().map(|each| each.event.type_name()).collect();
    assert_eq!(types, ["SignalReceived", "SignalDelivered", "TaskCompleted"]);
    assert_eq!(*now(&engine, job.id()).await, *before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_whose_input_is_wrong_fails_at_once() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let tasks = r#"{"id": "a", "kind": "wait", "input": {"signal": {"$input": ""}}}"#;
    let text = format!(r#"{{"name": "test", "input": "no name", "tasks": [{tasks}]}}"#);
    let job = submit(&engine, plan_of(&text)).await;
    let ended = within(job.ended()).await.unwrap();
    let (error, _) = ended.job.error().unwrap();
    assert_eq!(&*error.code, "bad_input");
    assert!(error.message.contains("is not a signal name"), "{}", error.message);
}
