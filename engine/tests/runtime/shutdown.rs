//! The end of an engine, in good order and otherwise.

use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, Origin};
use annals_engine::log::LogError;
use annals_engine::runtime::{
    Builder, CommandError, Engine, EngineError, JobError, StartError, Submission, SubmitError,
};
use annals_tasks_sdk::{Payload, TaskContext};

use super::support::{
    Gate, HandClock, Store, Tally, World, kill, laws, loops, nothing, outcomes, plan, status_of,
    submit, task, until, within,
};

const DRAIN: Duration = Duration::from_secs(15);
const GRACE: Duration = Duration::from_secs(11);

/// Registers a task that waits at a gate and listens to nothing else, one that ends when it is
/// told to, and one that blocks its thread.
fn kinds(engine: Builder, tally: &Tally, gate: &Gate) -> Builder {
    let (counted, held) = (tally.clone(), gate.clone());
    let wait = move |_cx: TaskContext, input: Payload| {
        let (tally, gate) = (counted.clone(), held.clone());
        async move {
            let _inside = tally.enter();
            gate.pass().await;
            Ok(input)
        }
    };
    let (counted, held) = (tally.clone(), gate.clone());
    let obey = move |cx: TaskContext, input: Payload| {
        let (tally, gate) = (counted.clone(), held.clone());
        async move {
            let _inside = tally.enter();
            cx.or_cancelled(gate.pass()).await?;
            Ok(input)
        }
    };
    let (counted, held) = (tally.clone(), gate.clone());
    let block = move |_cx: TaskContext, input: Payload| {
        let (tally, gate) = (counted.clone(), held.clone());
        async move {
            let _inside = tally.enter();
            gate.block();
            Ok(input)
        }
    };
    let engine = engine.task(task("hold"), wait).task(task("obey"), obey);
    engine.task(task("block"), block).task(task("ok"), nothing)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_in_time_is_recorded_and_nothing_new_starts() {
    for store in Store::BOTH {
        for loops in loops() {
            let (world, clock, tally, gate) =
                (World::new(store), HandClock::new(), Tally::new(), Gate::new());
            let engine = kinds(world.engine_at(&clock).loops(loops), &tally, &gate);
            let engine = within(engine.start()).await.unwrap();
            let text = r#"{"id": "a", "kind": "hold"}, {"id": "b", "kind": "ok"}"#;
            let mut jobs = Vec::new();
            for _ in 0..5 {
                jobs.push(submit(&engine, plan(text)).await.id());
            }
            within(tally.until(|counts| counts.inside == 5)).await;
            let other = engine.clone();
            let stopping = tokio::spawn(async move { other.shutdown().await });
            within(clock.until_slept_on(DRAIN)).await;
            // Submissions are kept for the next engine.
            let late = submit(&engine, plan(r#"{"id": "a", "kind": "ok"}"#)).await.id();
            gate.open();
            within(stopping).await.unwrap().expect("it ends in good order");
            drop(engine);
            let engine = kinds(world.engine_at(&clock).loops(loops), &tally, &gate);
            let engine = within(engine.start()).await.unwrap();
            for id in jobs {
                within(engine.job(id).ended()).await.unwrap();
                let end = laws(&engine.job(id)).await;
                assert_eq!(
                    (end.status(), outcomes(&end, "a")),
                    (JobStatus::Completed, vec!["completed"])
                );
                assert_eq!(outcomes(&end, "b"), ["completed"]);
            }
            let end = within(engine.job(late).ended()).await.unwrap();
            assert_eq!(end.job.status(), JobStatus::Completed);
            assert_eq!(tally.now().ever, 5);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_interrupted_and_goes_on_at_the_next_start() {
    for loops in loops() {
        let (world, clock, tally, gate) =
            (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
        let engine = kinds(world.engine_at(&clock).loops(loops), &tally, &gate).start();
        let engine = within(engine).await.unwrap();
        let obeys = submit(&engine, plan(r#"{"id": "a", "kind": "obey"}"#)).await.id();
        let deaf = plan(r#"{"id": "a", "kind": "hold", "cancel_grace": "5s"}"#);
        let deaf = submit(&engine, deaf).await.id();
        within(tally.until(|counts| counts.inside == 2)).await;
        let other = engine.clone();
        let stopping = tokio::spawn(async move { other.shutdown().await });
        within(clock.until_slept_on(DRAIN)).await;
        clock.advance(DRAIN);
        within(clock.until_slept_on(Duration::from_secs(5))).await;
        clock.advance(Duration::from_secs(5));
        within(stopping).await.unwrap().expect("it ends in good order");
        drop(engine);
        gate.open();
        let engine = kinds(world.engine_at(&clock).loops(loops), &tally, &gate).start();
        let engine = within(engine).await.unwrap();
        for id in [obeys, deaf] {
            within(engine.job(id).ended()).await.unwrap();
            let end = laws(&engine.job(id)).await;
            assert_eq!(outcomes(&end, "a"), ["interrupted", "completed"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_as_long_as_a_task_was_promised() {
    for drains in [true, false] {
        let (world, clock, tally, gate) =
            (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
        let engine = within(kinds(world.engine_at(&clock).loops(3), &tally, &gate).start());
        let engine = engine.await.unwrap();
        let deaf = plan(r#"{"id": "a", "kind": "hold", "cancel_grace": "60s"}"#);
        let deaf = submit(&engine, deaf).await.id();
        within(tally.until(|counts| counts.inside == 1)).await;
        let other = engine.clone();
        let stopping = tokio::spawn(async move {
            if drains { other.shutdown().await } else { other.shutdown_now().await }
        });
        if drains {
            within(clock.until_slept_on(DRAIN)).await;
            clock.advance(DRAIN);
        }
        // The engine's patience, and before it the attempt's own grace.
        within(clock.until_slept_on(Duration::from_secs(61))).await;
        within(clock.until_slept_on(Duration::from_mins(1))).await;
        clock.advance(Duration::from_mins(1));
        within(stopping).await.unwrap().expect("it ends in good order");
        drop(engine);
        gate.open();
        let engine = kinds(world.engine_at(&clock).loops(3), &tally, &gate).start();
        let engine = within(engine).await.unwrap();
        within(engine.job(deaf).ended()).await.unwrap();
        let end = laws(&engine.job(deaf)).await;
        assert_eq!(outcomes(&end, "a"), ["interrupted", "completed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_kept_whatever_a_task_was_promised() {
    let (world, clock, tally, gate) =
        (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
    let engine = within(kinds(world.engine_at(&clock), &tally, &gate).start()).await.unwrap();
    let obeys = submit(&engine, plan(r#"{"id": "a", "kind": "obey"}"#)).await.id();
    let deaf = plan(r#"{"id": "a", "kind": "hold", "cancel_grace": "60s"}"#);
    let deaf = submit(&engine, deaf).await.id();
    within(tally.until(|counts| counts.inside == 2)).await;
    let (other, limit) = (engine.clone(), Duration::from_secs(20));
    let stopping = tokio::spawn(async move { other.shutdown_within(limit).await });
    let drain = limit.saturating_sub(GRACE);
    within(clock.until_slept_on(drain)).await;
    clock.advance(drain);
    within(clock.until_slept_on(GRACE)).await;
    // Its report may take longer than the test's clock.
    until(&engine.job(obeys), |now| outcomes(&now.job, "a") == ["interrupted"]).await;
    clock.advance(GRACE);
    within(stopping).await.unwrap().expect("it ends in good order");
    drop(engine);
    gate.open();
    let engine = within(kinds(world.engine_at(&clock), &tally, &gate).start()).await.unwrap();
    for (id, first) in [(obeys, "interrupted"), (deaf, "lost")] {
        within(engine.job(id).ended()).await.unwrap();
        assert_eq!(outcomes(&laws(&engine.job(id)).await, "a"), [first, "completed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_stopped_is_lost() {
    let (world, clock, tally, gate) =
        (World::new(Store::Disk), HandClock::new(), Tally::new(), Gate::new());
    let engine = within(kinds(world.engine_at(&clock), &tally, &gate).start()).await.unwrap();
    let blocks = submit(&engine, plan(r#"{"id": "a", "kind": "block"}"#)).await.id();
    within(tally.until(|counts| counts.inside == 1)).await;
    let other = engine.clone();
    let stopping = tokio::spawn(async move { other.shutdown_now().await });
    within(clock.until_slept_on(GRACE)).await;
    clock.advance(GRACE);
    within(stopping).await.unwrap().expect("the log is closed in good order");
    drop(engine);
    let engine = kinds(world.engine_at(&clock), &tally, &gate).start();
    let engine = within(engine).await.expect("the store is free, although the task lives");
    let job = engine.job(blocks);
    until(&job, |now| outcomes(&now.job, "a") == ["lost", "alive"]).await;
    gate.open();
    within(job.ended()).await.unwrap();
    // The first attempt ends now too, and nobody listens to it.
    within(tally.until(|counts| counts.inside == 0)).await;
    assert_eq!(outcomes(&laws(&job).await, "a"), ["lost", "completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn to_drop_an_engine_is_to_kill_it() {
    for store in Store::BOTH {
        let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
        let engine = within(kinds(world.engine(), &tally, &gate).start()).await.unwrap();
        let text = r#"{"id": "a", "kind": "ok"}, {"id": "b", "kind": "hold"}"#;
        let id = submit(&engine, plan(text)).await.id();
        within(tally.until(|counts| counts.inside == 1)).await;
        kill(engine).await;
        within(tally.until(|counts| counts.inside == 0)).await;
        gate.open();
        let engine = within(kinds(world.engine(), &tally, &gate).start()).await.unwrap();
        within(engine.job(id).ended()).await.unwrap();
        let end = laws(&engine.job(id)).await;
        assert_eq!(
            (outcomes(&end, "a"), outcomes(&end, "b")),
            (vec!["completed"], vec!["lost", "completed"])
        );
        assert_eq!(status_of(&end, "b"), "completed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_has_one_engine() {
    let dir = tempfile::tempdir().unwrap();
    let first = within(Engine::open(dir.path()).start()).await.unwrap();
    let job = submit(&first, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    match within(Engine::open(dir.path()).start()).await.map(drop) {
        Err(StartError::Log(LogError::AlreadyOpen { .. })) => {}
        other => panic!("{other:?}"),
    }
    // The first is untouched.
    assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Completed);
    within(first.shutdown()).await.unwrap();
    // The handle still lives, and the store is free all the same.
    let second = within(Engine::open(dir.path()).start()).await.unwrap();
    let again = within(second.job(job.id()).snapshot()).await.unwrap();
    assert_eq!(again.job.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_on_an_engine_that_has_stopped_says_so() {
    let world = World::in_memory();
    let engine = within(world.engine().loops(3).start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
    let job = submit(&engine, plan(text)).await;
    let waiting = job.clone();
    let waiting = tokio::spawn(async move { waiting.ended().await.map(drop) });
    within(engine.shutdown()).await.unwrap();
    within(engine.shutdown()).await.expect("a second one finds nothing to do");
    within(engine.shutdown_now()).await.expect("nor does a third");
    let stopped = |error: &JobError| matches!(error, JobError::Engine(EngineError::Stopped));
    assert!(stopped(&within(waiting).await.unwrap().unwrap_err()));
    assert!(stopped(&within(job.snapshot()).await.unwrap_err()));
    assert!(stopped(&within(job.ended()).await.unwrap_err()));
    assert!(stopped(&within(job.changed(0)).await.unwrap_err()));
    assert!(stopped(&within(job.history(0, 9)).await.unwrap_err()));
    match within(job.command(Command::CANCEL, Ask::default())).await {
        Err(CommandError::Job(error)) => assert!(stopped(&error)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(within(engine.jobs(None, 1)).await, Err(EngineError::Stopped)));
    let plan = plan(text);
    match within(engine.submit_plan(Submission::new(plan, Origin::ENGINE))).await {
        Err(SubmitError::Engine(EngineError::Stopped)) => {}
        other => panic!("{:?}", other.map(|job| job.id())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_during_a_shutdown_holds() {
    for store in Store::BOTH {
        let world = World::new(store);
        let engine = within(world.engine().loops(3).start()).await.unwrap();
        let mut asking = Vec::new();
        for _ in 0..8 {
            let engine = engine.clone();
            asking.push(tokio::spawn(async move {
                let mut accepted = Vec::new();
                loop {
                    let plan = plan(r#"{"id": "a", "kind": "noop"}"#);
                    let submission = Submission::new(plan, Origin::actor("tester"));
                    match engine.submit_plan(submission).await {
                        Ok(job) => {
                            accepted.push(job.id());
                            match job.command(Command::CANCEL, Ask::default()).await {
                                Ok(_) | Err(CommandError::Rejected(_)) => {}
                                Err(CommandError::Job(JobError::Engine(EngineError::Stopped))) => {
                                    return accepted;
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                        Err(SubmitError::Engine(EngineError::Stopped)) => return accepted,
                        Err(other) => panic!("{other}"),
                    }
                }
            }));
        }
        // Let some be accepted first.
        within(async {
            while engine.jobs(None, 50).await.unwrap().len() < 50 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        within(engine.shutdown()).await.unwrap();
        let mut accepted = Vec::new();
        for asked in asking {
            accepted.extend(within(asked).await.unwrap());
        }
        drop(engine);
        let engine = within(world.engine().loops(2).start()).await.unwrap();
        assert!(accepted.len() >= 50);
        let there = within(engine.jobs(None, usize::MAX)).await.unwrap().len();
        assert_eq!(there, accepted.len(), "what was not accepted is not there");
        for id in accepted {
            let end = within(engine.job(id).ended()).await.expect("it is there");
            assert!(outcomes(&end.job, "a").iter().all(|outcome| *outcome != "lost"));
        }
    }
}
