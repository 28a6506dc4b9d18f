//! What a submission answers with, what commands may be conditioned on, and whether the engine
//! says that it is well.

use annals_engine::job::{Command, JobStatus, Origin};
use annals_engine::log::Fault;
use annals_engine::runtime::{CommandError, EngineError};
use annals_engine::{Ask, Submission};
use annals_tasks_sdk::{Payload, Progress, TaskContext};

use super::support::{
    Gate, Tally, World, counting, execute, laws, nothing, plan, plan_of, submit, task, until,
    within,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_job_is_shown_as_its_first_events_have_made_it() {
    let (world, tally, go) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().task(task("count"), counting(&tally, &go)).start();
    let engine = within(engine).await.unwrap();
    let text = r#"{"id": "a", "kind": "count"}, {"id": "b", "kind": "noop"}"#;
    let submission = Submission::new(plan(text), Origin::actor("tester"));
    let accepted = within(engine.accept(submission)).await.unwrap();
    assert!(!accepted.replayed);
    let shown = &accepted.snapshot.job;
    assert_eq!((shown.id(), shown.revision()), (accepted.job.id(), 1));
    assert_eq!(shown.status(), JobStatus::Running);
    // The first task's start goes with the submission.
    let history = within(accepted.job.history(0, 100)).await.unwrap();
    assert_eq!(history.len() as u64, shown.seq());
    assert_eq!((shown.live().count(), accepted.snapshot.live.len()), (1, 1));
    go.open();
    within(accepted.job.ended()).await.unwrap();
    laws(&accepted.job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_refused_when_another_one_was_faster_and_not_for_what_tasks_did() {
    let (world, tally, go) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().task(task("count"), counting(&tally, &go)).start();
    let engine = within(engine).await.unwrap();
    let text = r#"{"name": "m", "start": "manual", "tasks": [
        {"id": "a", "kind": "count"}, {"id": "b", "kind": "count"}]}"#;
    let job = submit(&engine, plan_of(text)).await;
    let at = |revision| Ask { expected_revision: Some(revision), ..Ask::default() };
    execute(&job).await;
    match within(job.command(Command::CANCEL, at(1))).await {
        Err(CommandError::StaleRevision { expected: 1, found: 2 }) => {}
        other => panic!("{other:?}"),
    }
    go.open();
    until(&job, |now| now.job.counts().completed > 0).await;
    let both = Ask { expected_seq: Some(2), ..at(2) };
    assert!(matches!(
        within(job.command(Command::CANCEL, both)).await,
        Err(CommandError::Stale { expected: 2, .. })
    ));
    let answer = within(job.command(Command::Execute { paused: false }, at(2))).await.unwrap();
    assert!(answer.events.is_empty() && !answer.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_attempt_says_is_counted() {
    let (world, go) = (World::in_memory(), Gate::new());
    let held = go.clone();
    let talks = move |cx: TaskContext, input: Payload| {
        let go = held.clone();
        async move {
            cx.progress(Progress { done: 1, total: 2 });
            cx.message("half of it");
            // Says nothing new, and is a sign of life all the same.
            cx.message("half of it");
            go.pass().await;
            cx.cancelled().await;
            Ok(input)
        }
    };
    let engine = within(world.engine().task(task("talks"), talks).start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "talks"}"#)).await;
    let updates = async || {
        let live = within(job.snapshot()).await.unwrap().live;
        live.values().map(|live| live.updates).sum::<u64>()
    };
    let reach = async |count| {
        while updates().await < count {
            tokio::task::yield_now().await;
        }
        updates().await
    };
    assert_eq!(within(reach(3)).await, 3);
    within(job.command(Command::CANCEL, Ask::default())).await.unwrap();
    assert_eq!(within(reach(4)).await, 4, "that it was told to stop is shown, too");
    go.open();
    within(job.ended()).await.unwrap();
    assert_eq!(updates().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_registered_is_listed() {
    let world = World::in_memory();
    let engine = within(world.engine().task(task("work"), nothing).start()).await.unwrap();
    let kinds = engine.kinds();
    let listed: Vec<_> =
        kinds.iter().map(|kind| (kind.name.as_str(), kind.pool.as_deref())).collect();
    assert!(listed.is_sorted());
    let some = [("noop", Some("default")), ("sleep", None), ("work", Some("default"))];
    assert!(some.iter().all(|kind| listed.contains(kind)), "{listed:?}");
    assert!(engine.workflows().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cannot_write_or_has_ended_is_not_well() {
    let world = World::in_memory();
    let engine = within(world.engine().loops(3).start()).await.unwrap();
    engine.health().unwrap();
    world.gate.fail(1, Fault::Before);
    let failed =
        engine.submit_plan(Submission::new(plan(r#"{"id": "a", "kind": "noop"}"#), Origin::ENGINE));
    assert!(within(failed).await.is_err());
    assert!(matches!(engine.health(), Err(EngineError::OutcomeUnknown(_))));
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    engine.health().unwrap();
    within(engine.shutdown()).await.unwrap();
    assert!(matches!(engine.health(), Err(EngineError::Stopped)));
}
