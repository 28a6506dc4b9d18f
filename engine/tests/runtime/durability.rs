//! Nothing is answered, started or shown before what it rests on is durable.

use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, Origin, PauseMode};
use annals_engine::log::Fault;
use annals_engine::runtime::{
    CommandError, Engine, EngineError, JobError, JobHandle, Submission, SubmitError,
};
use annals_tasks_sdk::{Payload, TaskContext, TaskId};
use tokio::task::JoinHandle;

use super::support::{
    Gate, HandClock, Tally, World, cancel, laws, loops, nothing, plan, submit, task, until, within,
};

/// Asks in the background, and lets the question arrive.
async fn ask<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let asked = tokio::spawn(future);
    tokio::task::yield_now().await;
    asked
}

fn submission() -> Submission {
    Submission::new(plan(r#"{"id": "a", "kind": "count"}"#), Origin::actor("tester"))
}

/// Counts its attempts and waits at a gate.
fn counting(tally: &Tally, gate: &Gate) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let (tally, gate) = (tally.clone(), gate.clone());
    move |cx: TaskContext, input: Payload| {
        let (tally, gate) = (tally.clone(), gate.clone());
        async move {
            let _inside = tally.enter();
            cx.or_cancelled(gate.pass()).await?;
            Ok(input)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_started_or_shown_before_it_is_durable() {
    for loops in loops() {
        let (world, tally, go, disk) = (World::in_memory(), Tally::new(), Gate::new(), Gate::new());
        let engine = world.engine().loops(loops).task(task("count"), counting(&tally, &go));
        let engine = within(engine.start()).await.unwrap();
        let old = submit(&engine, plan(r#"{"id": "a", "kind": "count"}"#)).await;
        within(tally.until(|counts| counts.ever == 1)).await;
        let before = old.snapshot().await.unwrap();
        let mut closed = world.gate.close(&disk);
        // From here on no append returns.
        let other = engine.clone();
        let submitted = ask(async move { other.submit_plan(submission()).await }).await;
        within(closed.arrival()).await;
        let job = old.clone();
        let paused = Command::Pause { mode: PauseMode::Drain };
        let paused = ask(async move { job.command(paused, Ask::default()).await }).await;
        let job = old.clone();
        let seq = before.job.seq();
        let changed = ask(async move { job.changed(seq).await }).await;
        // A question goes through the same inbox, so the pause has been decided before it.
        let job = old.clone();
        let read = ask(async move { job.snapshot().await }).await;
        let other = engine.clone();
        let listed = ask(async move { other.jobs(None, 10).await }).await;
        let job = old.clone();
        let repeated = Command::Pause { mode: PauseMode::Drain };
        let repeated = ask(async move { job.command(repeated, Ask::default()).await }).await;
        let job = old.clone();
        let rejected = ask(async move {
            let task = TaskId::new("a").unwrap();
            job.command(Command::Remove { task, cascade: false }, Ask::default()).await
        })
        .await;
        // Many turns of all loops later nothing has come through.
        for n in 0..300 {
            let unknown = engine.job(annals_tasks_sdk::JobId::from_u128(n));
            assert!(matches!(within(unknown.snapshot()).await, Err(JobError::NotFound(_))));
        }
        assert!(!submitted.is_finished() && !paused.is_finished() && !changed.is_finished());
        assert!(!repeated.is_finished() && !rejected.is_finished(), "a no-op waits as well");
        assert!(!listed.is_finished(), "lists wait for what they show");
        assert_eq!(tally.now().ever, 1, "no attempt has started");
        if read.is_finished() {
            // It came before the pause.
            let seen = read.await.unwrap().unwrap();
            assert_eq!(seen.job.seq(), before.job.seq());
        }
        disk.open();
        within(submitted).await.unwrap().expect("it is accepted");
        within(paused).await.unwrap().expect("it is accepted");
        within(changed).await.unwrap().expect("it has changed");
        within(repeated).await.unwrap().expect("it is accepted");
        within(listed).await.unwrap().expect("it is shown");
        assert!(matches!(within(rejected).await.unwrap(), Err(CommandError::Rejected(_))));
        within(tally.until(|counts| counts.ever == 2)).await;
        go.open();
        until(&old, |now| now.job.status() == JobStatus::Completed).await;
        laws(&old).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_shown_to_other_tasks_when_it_is_durable() {
    let (world, go, disk) = (World::in_memory(), Gate::new(), Gate::new());
    let (looked, mut looks) = tokio::sync::mpsc::unbounded_channel();
    let held = go.clone();
    let first = move |_cx: TaskContext, _input: Payload| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            Ok(Payload::of("first")?)
        }
    };
    let (look, asked) = tokio::sync::mpsc::channel::<()>(1);
    let asked = std::sync::Arc::new(tokio::sync::Mutex::new(asked));
    let curious = move |cx: TaskContext, input: Payload| {
        let (looked, asked) = (looked.clone(), std::sync::Arc::clone(&asked));
        async move {
            while asked.lock().await.recv().await.is_some() {
                looked.send(cx.output_of::<String>("a").ok()).unwrap();
            }
            Ok(input)
        }
    };
    let engine = world.engine().task(task("first"), first).task(task("curious"), curious);
    let engine = within(engine.start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "first"}, {"id": "b", "kind": "curious", "needs": []}"#;
    let job = submit(&engine, plan(text)).await;
    until(&job, |now| now.job.live().count() == 2).await;
    let mut closed = world.gate.close(&disk);
    go.open();
    within(closed.arrival()).await;
    look.send(()).await.unwrap();
    assert_eq!(within(looks.recv()).await, Some(None), "it is not durable yet");
    disk.open();
    until(&job, |now| now.job.live().count() == 1).await;
    look.send(()).await.unwrap();
    assert_eq!(within(looks.recv()).await, Some(Some("first".to_owned())));
    drop(look);
    until(&job, |now| now.job.status() == JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_append_nothing_is_acknowledged() {
    for fault in [Fault::Before, Fault::After] {
        let (world, tally, go, disk) = (World::in_memory(), Tally::new(), Gate::new(), Gate::new());
        let engine = world.engine().loops(3).task(task("count"), counting(&tally, &go)).start();
        let engine = within(engine).await.unwrap();
        let mut jobs = Vec::new();
        for _ in 0..10 {
            jobs.push(submit(&engine, plan(r#"{"id": "a", "kind": "count"}"#)).await);
        }
        within(tally.until(|counts| counts.inside == 10)).await;
        let ended: Vec<_> = jobs
            .iter()
            .cloned()
            .map(|job| tokio::spawn(async move { job.ended().await.map(drop) }))
            .collect();
        world.gate.fail(1, fault);
        let mut closed = world.gate.close(&disk);
        let other = jobs[0].clone();
        let command =
            ask(async move { other.command(Command::Cancel, Ask::default()).await }).await;
        within(closed.arrival()).await;
        // These wait behind it.
        let other = engine.clone();
        let submitted = ask(async move { other.submit_plan(submission()).await }).await;
        disk.open();
        let unknown = |error: &EngineError| matches!(error, EngineError::OutcomeUnknown(_));
        match within(command).await.unwrap() {
            Err(CommandError::Job(JobError::Engine(error))) => assert!(unknown(&error), "{error}"),
            other => panic!("{other:?}"),
        }
        match within(submitted).await.unwrap() {
            Err(SubmitError::Engine(error)) => assert!(unknown(&error), "{error}"),
            other => panic!("{:?}", other.map(|job| job.id())),
        }
        // Also those hear of it whose loop had nothing to write.
        for waiting in ended {
            match within(waiting).await.unwrap() {
                Err(JobError::Engine(error)) => assert!(unknown(&error), "{error}"),
                other => panic!("{other:?}"),
            }
        }
        within(tally.until(|counts| counts.inside == 0)).await;
        assert!(within(engine.jobs(None, 10)).await.is_err());
        // It ends at once, and says that it did not end well.
        assert!(within(engine.shutdown()).await.is_err());
        is_stopped(&jobs[0]).await;
        drop((engine, std::mem::take(&mut jobs)));
    }
}

async fn is_stopped(job: &JobHandle) {
    let stopped = |error: EngineError| {
        assert!(matches!(error, EngineError::Stopped | EngineError::OutcomeUnknown(_)), "{error}");
    };
    match within(job.command(Command::Resume, Ask::default())).await {
        Err(CommandError::Job(JobError::Engine(error))) => stopped(error),
        other => panic!("{other:?}"),
    }
    for error in [
        within(job.snapshot()).await.map(drop).unwrap_err(),
        within(job.ended()).await.map(drop).unwrap_err(),
        within(job.changed(0)).await.map(drop).unwrap_err(),
        within(job.history(0, 10)).await.map(drop).unwrap_err(),
    ] {
        let JobError::Engine(error) = error else { panic!("{error}") };
        stopped(error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_panics_is_a_log_that_failed() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    world.gate.panic();
    let plan = plan(r#"{"id": "a", "kind": "noop"}"#);
    let refused = within(engine.submit_plan(Submission::new(plan, Origin::ENGINE))).await;
    match refused {
        Err(SubmitError::Engine(EngineError::OutcomeUnknown(_))) => {}
        other => panic!("{:?}", other.map(|job| job.id())),
    }
    assert!(within(engine.shutdown()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_and_does_nothing() {
    let (world, tally, go) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().task(task("count"), counting(&tally, &go)).start();
    let engine: Engine = within(engine).await.unwrap();
    let text = r#"{"id": "a", "kind": "count"}, {"id": "b", "kind": "noop"}"#;
    let job = submit(&engine, plan(text)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let before = job.snapshot().await.unwrap();
    let dry = |command| {
        let ask = Ask { dry_run: true, origin: Origin::actor("tester"), ..Ask::default() };
        within(job.command(command, ask))
    };
    let shown = dry(Command::Cancel).await.unwrap();
    assert_eq!(shown.events.len(), 1);
    assert_eq!(shown.snapshot.job.seq(), before.job.seq() + 1);
    assert!(shown.snapshot.job.intent().is_some());
    let task = TaskId::new("b").unwrap();
    let shown = dry(Command::Remove { task, cascade: false }).await.unwrap();
    assert_eq!(shown.snapshot.job.total_tasks(), 1);
    assert!(matches!(
        dry(Command::Skip { task: TaskId::new("x").ok(), output: None, cascade: false }).await,
        Err(CommandError::Rejected(_))
    ));
    assert_eq!(*job.snapshot().await.unwrap().job, *before.job);
    assert_eq!(job.history(0, 100).await.unwrap().len() as u64, before.job.seq());
    go.open();
    until(&job, |now| now.job.status() == JobStatus::Completed).await;
    laws(&job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_command_is_refused() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let text = r#"{"name": "m", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let job = submit(&engine, super::support::plan_of(text)).await;
    let at = |expected| Ask { expected_seq: Some(expected), ..Ask::default() };
    let start = || Command::Execute { paused: false };
    match within(job.command(start(), at(2))).await {
        Err(CommandError::Stale { expected: 2, found: 1 }) => {}
        other => panic!("{other:?}"),
    }
    let answer = within(job.command(start(), at(1))).await.unwrap();
    assert_eq!(answer.events.first().map(|event| event.seq), Some(2));
    assert!(matches!(within(job.command(start(), at(1))).await, Err(CommandError::Stale { .. })));
    until(&job, |now| now.job.status() == JobStatus::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_too_large_hurts_nobody() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
    let job = submit(&engine, plan(text)).await;
    let output = Payload::of(&"x".repeat(70 << 20)).unwrap();
    let huge = Command::Skip { task: None, output: Some(output), cascade: false };
    let refused = within(job.command(huge, Ask::default())).await;
    assert!(matches!(refused, Err(CommandError::TooLarge { .. })));
    let reason: std::sync::Arc<str> = "r".repeat(3 << 20).into();
    let origin = Origin { reason: Some(reason), ..Origin::default() };
    let wordy = within(job.command(Command::Cancel, Ask { origin, ..Ask::default() })).await;
    assert!(matches!(wordy, Err(CommandError::TooLarge { .. })));
    cancel(&job).await;
    laws(&job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_jobs_are_recovered_by_the_first_command_and_not_by_a_dry_run() {
    let (world, clock, tally, go) =
        (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
    let running = || world.engine_at(&clock).task(task("count"), counting(&tally, &go));
    let engine = within(running().start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "count"}"#)).await;
    let sleeps = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
    let sleeper = submit(&engine, plan(sleeps)).await.id();
    within(tally.until(|counts| counts.inside == 1)).await;
    let id = job.id();
    drop(job);
    within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
    within(tally.until(|counts| counts.inside == 0)).await;

    let held = running().mode(annals_engine::Mode::Hold).task(task("ok"), nothing).start();
    let held = within(held).await.unwrap();
    clock.advance(Duration::from_hours(2));
    held.look();
    let job = held.job(id);
    let seen = job.snapshot().await.unwrap().job;
    assert!(seen.is_live(), "nothing was recorded");
    let dry = Ask { dry_run: true, ..Ask::default() };
    let shown = within(job.command(Command::Cancel, dry)).await.unwrap();
    assert_eq!(shown.snapshot.job.status(), JobStatus::Cancelled);
    assert_eq!(job.snapshot().await.unwrap().job, seen, "a dry run records nothing");
    // What the client saw is what counts, although the loss comes first now.
    let ask = Ask { expected_seq: Some(seen.seq()), ..Ask::default() };
    let pause = Command::Pause { mode: PauseMode::Drain };
    let paused = within(job.command(pause, ask)).await.unwrap();
    assert_eq!(paused.snapshot.job.status(), JobStatus::Paused);
    let fresh = submit(&held, plan(r#"{"id": "a", "kind": "ok"}"#)).await;
    assert_eq!(fresh.snapshot().await.unwrap().job.status(), JobStatus::Running);
    let asleep = held.job(sleeper).snapshot().await.unwrap();
    assert_eq!(asleep.job.status(), JobStatus::Running, "no timer fires");
    assert_eq!(tally.now().ever, 1, "nothing starts");
    let fresh = fresh.id();
    drop(job);
    within(held.shutdown()).await.unwrap();

    let engine = within(running().task(task("ok"), nothing).start()).await.unwrap();
    for id in [fresh, sleeper] {
        assert_eq!(
            within(engine.job(id).ended()).await.unwrap().job.status(),
            JobStatus::Completed
        );
    }
    assert_eq!(engine.job(id).snapshot().await.unwrap().job.status(), JobStatus::Paused);
    cancel(&engine.job(id)).await;
    laws(&engine.job(id)).await;
}
