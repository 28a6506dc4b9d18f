//! Nothing is answered, started or shown before what it rests on is durable.

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, Origin, PauseMode};
use annals_engine::log::Fault;
use annals_engine::runtime::{
    CommandError, Engine, EngineError, JobError, JobHandle, Submission, SubmitError,
};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskId};
use tokio::task::JoinHandle;

use super::support::{
    Gate, HandClock, Tally, World, counting, kill, laws, loops, plan, submit, task, until, within,
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
        many_turns(&engine).await;
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

/// Has all loops take many turns.
pub(super) async fn many_turns(engine: &Engine) {
    for n in 0..300 {
        let unknown = engine.job(JobId::from_u128(n));
        assert!(matches!(within(unknown.snapshot()).await, Err(JobError::NotFound(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_told_when_it_is_durable_itself() {
    let (world, tally, go) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().task(task("count"), counting(&tally, &go)).start();
    let engine: Engine = within(engine).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "count"}"#)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let before = job.snapshot().await.unwrap().job.seq();
    let waiting = job.clone();
    let ended = ask(async move { waiting.ended().await }).await;
    // The end is decided while an earlier event of the job is on its way to the disk.
    let (first, second) = (Gate::new(), Gate::new());
    let mut closed = world.gate.close(&first);
    let pausing = job.clone();
    let pause = Command::Pause { mode: PauseMode::Drain };
    let paused = ask(async move { pausing.command(pause, Ask::default()).await }).await;
    within(closed.arrival()).await;
    go.open();
    within(tally.until(|counts| counts.inside == 0)).await;
    many_turns(&engine).await;
    let mut again = world.gate.close(&second);
    first.open();
    within(again.arrival()).await;
    many_turns(&engine).await;
    within(paused).await.unwrap().expect("it is durable");
    assert_eq!(within(job.changed(before)).await.unwrap(), before + 1);
    assert!(!ended.is_finished(), "the end is not durable yet");
    second.open();
    let end = within(ended).await.unwrap().unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
    laws(&job).await;
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
            ask(async move { other.command(Command::CANCEL, Ask::default()).await }).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_append_is_told_to_those_who_wait_and_have_written_nothing() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let start = || within(world.engine_at(&clock).loops(3).start());
    let engine = start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..12 {
        let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
        let job = submit(&engine, plan(text)).await;
        until(&job, |now| now.job.due().is_some()).await;
        jobs.push(job.id());
    }
    kill(engine).await;
    // The loops of this one have nothing to write.
    let engine = start().await.unwrap();
    let mut waiting = Vec::new();
    for &id in &jobs {
        let job = engine.job(id);
        waiting.push(ask(async move { job.ended().await.map(drop) }).await);
    }
    world.gate.fail(1, Fault::Before);
    let failed = within(engine.job(jobs[0]).command(Command::CANCEL, Ask::default())).await;
    assert!(failed.is_err());
    for waiting in waiting {
        match within(waiting).await.unwrap() {
            Err(JobError::Engine(EngineError::OutcomeUnknown(_))) => {}
            other => panic!("{other:?}"),
        }
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
