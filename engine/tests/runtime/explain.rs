//! Why a job does not move: each reason once, as the engine's own jobs give it.

use std::time::Duration;

use annals_engine::job::PauseMode;
use annals_engine::runtime::{Clock, Engine, JobHandle, Snapshot};
use annals_engine::views::explain;
use annals_tasks_sdk::{Payload, TaskContext, TaskError};

use super::support::{
    Gate, HandClock, Tally, World, cancel, counting, nothing, pause, plan, plan_of, submit, task,
    until, within,
};

async fn fails(_cx: TaskContext, _input: Payload) -> Result<Payload, TaskError> {
    Err(TaskError::new("broken", "the disk is full"))
}

/// The sentences, when the job has come so far that there are as many as wanted, and they agree.
async fn says(job: &JobHandle, clock: &HandClock, wanted: &[&str]) {
    let sentences = |now: &Snapshot| -> Vec<String> {
        explain(now, clock.now()).iter().map(ToString::to_string).collect()
    };
    let now = until(job, |now| sentences(now) == wanted);
    assert_eq!(sentences(&now.await), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_reason_has_its_sentence() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let (gate, tally) = (Gate::new(), Tally::new());
    let engine = world.engine_at(&clock).slots(1).allow_unknown_kinds(true);
    let engine = engine.task(task("held"), counting(&tally, &gate)).task(task("fails"), fails);
    let engine: Engine = within(engine.task(task("ok"), nothing).start()).await.unwrap();

    let retrying = r#"{"id": "a", "kind": "fails", "retry": {"max_attempts": 2,
        "backoff": {"initial": "8s", "jitter": 0}}}"#;
    let table = [
        (r#"{"id": "a", "kind": "ok"}"#, &["the job is completed"][..]),
        (
            r#"{"id": "a", "kind": "fails"}, {"id": "b", "kind": "ok"}"#,
            &["the job is failed", "task a has failed: the disk is full"],
        ),
        (
            r#"{"id": "a", "kind": "fails", "on_failure": "pause"}"#,
            &["the job is paused: resume it", "task a has failed: the disk is full"],
        ),
        (retrying, &["task a waits for its next attempt, due in 8s"]),
        (
            r#"{"id": "a", "kind": "sleep", "input": {"for": "1m"}}, {"id": "b", "kind": "ok"}"#,
            &["task a waits for a time, which comes in 1m"],
        ),
        (
            r#"{"id": "a", "kind": "nobody"}"#,
            &["task a waits for kind nobody, which is not registered here"],
        ),
    ];
    for (tasks, wanted) in table {
        says(&submit(&engine, plan(tasks)).await, &clock, wanted).await;
    }

    let manual = r#"{"name": "test", "start": "manual", "tasks": [{"id": "a", "kind": "ok"}]}"#;
    let manual = submit(&engine, plan_of(manual)).await;
    says(&manual, &clock, &["the job has not been started: execute it"]).await;
    pause(&manual, PauseMode::Drain).await;
    says(&manual, &clock, &["the job is paused: resume it"]).await;
    cancel(&manual).await;
    says(&manual, &clock, &["the job is cancelled"]).await;

    // One holds the only slot.
    let first = submit(&engine, plan(r#"{"id": "a", "kind": "held"}"#)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let second = submit(&engine, plan(r#"{"id": "a", "kind": "held"}"#)).await;
    clock.advance(Duration::from_secs(3));
    says(&first, &clock, &["attempt 1 of task a runs since 3s"]).await;
    says(&second, &clock, &["task a waits for a slot of its pool"]).await;
    gate.open();
    for job in [first, second] {
        within(job.ended()).await.unwrap();
    }
}
