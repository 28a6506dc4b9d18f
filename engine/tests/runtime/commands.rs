//! Commands with conditions, commands for show, and commands on a store where nothing runs.

use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, Origin, PauseMode};
use annals_engine::runtime::{CommandError, Engine};
use annals_tasks_sdk::{Payload, TaskId};

use super::support::{
    Gate, HandClock, Tally, World, cancel, counting, laws, nothing, plan, submit, task, until,
    within,
};

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
    let shown = dry(Command::CANCEL).await.unwrap();
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
    let wordy = within(job.command(Command::CANCEL, Ask { origin, ..Ask::default() })).await;
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
    let shown = within(job.command(Command::CANCEL, dry)).await.unwrap();
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
