//! Pools of a program's own: what runs in them, on what, and that nothing else waits for it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use annals_engine::Pool;
use annals_engine::job::{AttemptOutcome, Job, JobStatus};
use annals_engine::runtime::{Builder, Engine, JobHandle, StartError};
use annals_tasks_sdk::{Payload, TaskContext, TaskResult};

use super::support::{
    Gate, HandClock, Store, Tally, World, cancel, codes, laws, outcomes, plan, status_of, submit,
    task, until, within,
};

const GRACE: Duration = Duration::from_secs(10);

/// What a thread is called, and how nice it is.
async fn who(_cx: TaskContext, _input: Payload) -> TaskResult<(String, i32)> {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let stat = fs::read_to_string("/proc/thread-self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or_else(|| std::io::Error::other("no name"))?;
    let niceness = fields.split_ascii_whitespace().nth(16).unwrap_or_default();
    Ok((name, niceness.parse()?))
}

async fn panics(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    panic!("it panics")
}

/// Computes until it sees that it is to stop, and never awaits.
fn computes(tally: &Tally) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let tally = tally.clone();
    move |cx: TaskContext, _input: Payload| {
        let tally = tally.clone();
        async move {
            let _inside = tally.enter();
            loop {
                cx.ensure_live()?;
                std::thread::yield_now();
            }
        }
    }
}

/// Blocks its thread at a gate.
fn blocks(tally: &Tally, gate: &Gate) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let (tally, gate) = (tally.clone(), gate.clone());
    move |_cx: TaskContext, input: Payload| {
        let (tally, gate) = (tally.clone(), gate.clone());
        async move {
            let _inside = tally.enter();
            gate.block();
            Ok(input)
        }
    }
}

/// Awaits what never comes, whatever it is told.
fn never_ends(tally: &Tally) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let tally = tally.clone();
    move |_cx: TaskContext, _input: Payload| {
        let tally = tally.clone();
        async move {
            let _inside = tally.enter();
            std::future::pending().await
        }
    }
}

/// Registers kinds, all of which run in a pool with threads of its own, but for `who`.
fn kinds(engine: Builder, tally: &Tally, gate: &Gate) -> Builder {
    let kinds = ["computes", "blocks", "panics", "never_ends"];
    engine
        .pool(Pool::new("cpu").threads(2).kinds(kinds))
        .task(task("computes"), computes(tally))
        .task(task("blocks"), blocks(tally, gate))
        .task(task("panics"), panics)
        .task(task("never_ends"), never_ends(tally))
}

async fn start(world: &World, clock: &Arc<HandClock>, tally: &Tally, gate: &Gate) -> Engine {
    within(kinds(world.engine_at(clock), tally, gate).start()).await.expect("it starts")
}

async fn one(engine: &Engine, kind: &str, more: &str) -> JobHandle {
    submit(engine, plan(&format!(r#"{{"id": "a", "kind": "{kind}"{more}}}"#))).await
}

async fn ended(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_on_the_threads_of_their_pool() {
    type Who = annals_tasks_sdk::TaskKind<Payload, (String, i32)>;
    let world = World::in_memory();
    let named = ["here", "nice", "nicer", "rude", "slots"];
    let engine = named.iter().fold(world.engine(), |engine, kind| engine.task(Who::new(kind), who));
    let engine = engine
        .pool(Pool::new("nice").threads(1).kinds(["nice"]))
        .pool(Pool::new("nicer").threads(1).niceness(19).kinds(["nicer"]))
        .pool(Pool::new("rude").threads(1).niceness(0).kinds(["rude"]))
        .pool(Pool::new("slots").slots(1).kinds(["slots"]));
    let engine = within(engine.start()).await.unwrap();
    let own = rustix::process::getpriority_process(None).unwrap();
    for (kind, thread, niceness) in [
        ("here", "annals-task", 0),
        ("nice", "annals-nice", 10),
        ("nicer", "annals-nicer", 19),
        ("rude", "annals-rude", 0),
        ("slots", "annals-task", 0),
    ] {
        let end = ended(&one(&engine, kind, "").await).await;
        let task = end.task(end.find("a").unwrap()).unwrap();
        let found: (String, i32) = task.output().unwrap().to().unwrap();
        // Whoever runs the tests may have been nice already.
        let niceness = (niceness + own).min(19);
        assert_eq!(found, (thread.to_owned(), niceness), "{kind}");
    }
    let pool = |kind: &str| {
        let found = engine.kinds().into_iter().find(|info| info.name == kind);
        found.and_then(|info| info.pool).map(|pool| pool.to_string())
    };
    assert_eq!(
        ["here", "nice", "noop", "slots"].map(|kind| pool(kind).unwrap()),
        ["default", "nice", "default", "slots"]
    );
}

/// They become durable together, and are polled by as many threads as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn of_those_that_start_together_none_waits_for_one_that_blocks_its_thread() {
    const TASKS: usize = 20;
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().slots(TASKS).task(task("blocks"), blocks(&tally, &gate));
    let engine = within(engine.start()).await.unwrap();
    let task = |n: usize| format!(r#"{{"id": "t{n}", "kind": "blocks", "needs": []}}"#);
    let tasks: Vec<String> = (0..TASKS).map(task).collect();
    let job = submit(&engine, plan(&tasks.join(","))).await;
    within(tally.until(|counts| counts.inside == TASKS)).await;
    gate.open();
    assert_eq!(ended(&job).await.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_those_who_block_the_threads_of_their_pool() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = kinds(world.engine().slots(1), &tally, &gate).start();
    let engine = within(engine).await.unwrap();
    let mut blocked = Vec::new();
    for _ in 0..3 {
        blocked.push(one(&engine, "blocks", "").await);
    }
    within(tally.until(|counts| counts.inside == 2)).await;
    for _ in 0..10 {
        assert_eq!(ended(&one(&engine, "noop", "").await).await.status(), JobStatus::Completed);
    }
    let stats = engine.stats();
    let pool = stats.pools.iter().find(|pool| &*pool.name == "cpu").unwrap();
    assert_eq!((pool.slots, pool.in_use, pool.waiting), (2, 2, 1));
    gate.open();
    for job in &blocked {
        assert_eq!(ended(job).await.status(), JobStatus::Completed);
    }
    assert_eq!((tally.now().most, tally.now().inside), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_computes_without_an_await_is_told_to_stop_in_time() {
    for (limit, code) in [("timeout", "timed_out"), ("heartbeat_timeout", "heartbeat_timeout")] {
        let (world, clock, tally, gate) =
            (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
        let engine = start(&world, &clock, &tally, &gate).await;
        let job = one(&engine, "computes", &format!(r#", "{limit}": "1m""#)).await;
        within(tally.until(|counts| counts.inside == 1)).await;
        within(clock.until_slept_on(Duration::from_mins(1))).await;
        clock.advance(Duration::from_mins(1));
        let end = ended(&job).await;
        let found = (outcomes(&end, "a"), codes(&end, "a"));
        assert_eq!(found, (vec!["timed_out"], vec![code.into()]));
    }
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = within(kinds(world.engine(), &tally, &gate).start()).await.unwrap();
    let job = one(&engine, "computes", "").await;
    within(tally.until(|counts| counts.inside == 1)).await;
    cancel(&job).await;
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Cancelled, vec!["interrupted"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_and_an_end_by_force_are_as_everywhere() {
    let (world, clock, tally, gate) =
        (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
    let engine = start(&world, &clock, &tally, &gate).await;
    let end = ended(&one(&engine, "panics", "").await).await;
    let task = end.task(end.find("a").unwrap()).unwrap();
    let error = task.error().unwrap();
    assert_eq!(&*error.code, "panic");
    assert!(error.message.contains("it panics (at "), "{}", error.message);

    let job = one(&engine, "never_ends", "").await;
    within(tally.until(|counts| counts.inside == 1)).await;
    cancel(&job).await;
    within(clock.until_slept_on(GRACE)).await;
    clock.advance(GRACE);
    let end = ended(&job).await;
    let found = (outcomes(&end, "a"), codes(&end, "a"));
    assert_eq!(found, (vec!["interrupted"], vec!["grace_over".into()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_over_when_its_thread_is_free_and_no_sooner() {
    let (world, clock, tally, gate) =
        (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
    let engine = start(&world, &clock, &tally, &gate).await;
    let job = one(&engine, "blocks", "").await;
    within(tally.until(|counts| counts.inside == 1)).await;
    cancel(&job).await;
    within(clock.until_slept_on(GRACE)).await;
    clock.advance(GRACE);
    // Others come and go meanwhile.
    assert_eq!(ended(&one(&engine, "noop", "").await).await.status(), JobStatus::Completed);
    let now = job.snapshot().await.unwrap();
    assert_eq!((now.job.status(), status_of(&now.job, "a")), (JobStatus::Running, "running"));
    gate.open();
    let end = ended(&job).await;
    // It had no place to be dropped at: it gave its result, late as it was.
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Cancelled, vec!["completed"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_for_blocked_threads_for_ever() {
    let (world, clock, tally, gate) =
        (World::new(Store::Disk), HandClock::new(), Tally::new(), Gate::new());
    let engine = start(&world, &clock, &tally, &gate).await;
    let job = one(&engine, "blocks", "").await.id();
    within(tally.until(|counts| counts.inside == 1)).await;
    let other = engine.clone();
    let stopping = tokio::spawn(async move { other.shutdown_now().await });
    let patience = GRACE + Duration::from_secs(1);
    within(clock.until_slept_on(patience)).await;
    clock.advance(patience);
    within(stopping).await.unwrap().expect("the log is closed in good order");
    drop(engine);
    let engine = start(&world, &clock, &tally, &gate).await;
    let job = engine.job(job);
    until(&job, |now| outcomes(&now.job, "a") == ["lost", "alive"]).await;
    gate.open();
    let end = ended(&job).await;
    let task = end.task(end.find("a").unwrap()).unwrap();
    assert_eq!(task.attempts().last().unwrap().outcome, Some(AttemptOutcome::Completed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_cannot_be_had_is_refused_at_the_start() {
    let world = World::in_memory();
    let engine = world.engine().pool(Pool::new("cpu").kinds(["nop"]));
    let error = within(engine.start()).await.err().expect("it does not start");
    assert!(matches!(error, StartError::Pool { .. }), "{error}");
    let wanted = "pool \"cpu\" cannot be made: its kind `nop` is not registered; did you mean \
                  `noop`?";
    assert_eq!(error.to_string(), wanted);
}
