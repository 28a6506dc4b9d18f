//! Jobs that start at a time: then, through restarts, and not before.

use std::time::Duration;

use annals_engine::job::{JobStatus, PauseMode};
use annals_tasks_sdk::JobId;

use super::support::{
    HandClock, Store, World, almost, execute, kill, laws, loops, pause, plan_of, resume, submit,
    until_viewed, within,
};

const HOUR: Duration = Duration::from_hours(1);
/// The clock of these tests begins 8 hours before this time.
const PLAN: &str = r#"{"name": "test", "start": "2027-01-15T16:00:00Z",
    "tasks": [{"id": "a", "kind": "noop"}]}"#;

async fn status(engine: &annals_engine::Engine, id: JobId) -> JobStatus {
    let job = engine.job(id);
    // The second question is asked in a later turn.
    within(job.snapshot()).await.unwrap();
    within(job.snapshot()).await.unwrap().job.status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_starts_at_its_time_whatever_happens_before() {
    for store in Store::BOTH {
        for loops in loops() {
            let (world, clock) = (World::new(store), HandClock::new());
            let start = async || {
                let builder = world.engine_at(&clock).loops(loops).resident(0).views_every(1);
                within(builder.start()).await.unwrap()
            };
            let engine = start().await;
            let (alone, held) = (
                submit(&engine, plan_of(PLAN)).await.id(),
                submit(&engine, plan_of(PLAN)).await.id(),
            );
            let early = submit(&engine, plan_of(PLAN)).await;
            execute(&early).await;
            within(early.ended()).await.unwrap();
            drop(early);
            pause(&engine.job(held), PauseMode::Drain).await;
            until_viewed(&engine).await;
            kill(engine).await;
            clock.advance(almost(8 * HOUR));
            let engine = start().await;
            assert_eq!(status(&engine, alone).await, JobStatus::Pending);
            clock.advance(Duration::from_millis(1));
            engine.look();
            within(engine.job(alone).ended()).await.unwrap();
            assert_eq!(laws(&engine.job(alone)).await.status(), JobStatus::Completed);
            assert_eq!(status(&engine, held).await, JobStatus::Paused);
            resume(&engine.job(held)).await;
            within(engine.job(held).ended()).await.unwrap();
            let late = submit(&engine, plan_of(PLAN)).await;
            within(late.ended()).await.unwrap();
        }
    }
}
