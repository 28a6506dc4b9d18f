//! Exclusive keys: of the jobs that share one, one runs at a time, and the others wait in order,
//! whatever becomes of it and of the engine.

use annals_engine::job::{JobStatus, PauseMode};
use annals_engine::runtime::{Engine, JobHandle};
use annals_tasks_sdk::JobId;

use super::support::{
    Gate, HandClock, Store, Tally, World, cancel, counting, execute, kill, laws, loops, outcomes,
    pause, plan_of, resume, status_of, submit, task, until, within,
};

/// A job of two tasks that wait at the gate.
async fn with_key(engine: &Engine, key: &str) -> JobHandle {
    let text = format!(
        r#"{{"name": "test", "exclusive": "{key}",
            "tasks": [{{"id": "a", "kind": "hold"}}, {{"id": "b", "kind": "hold"}}]}}"#
    );
    submit(engine, plan_of(&text)).await
}

/// Waits until a job runs an attempt.
async fn until_live(job: &JobHandle) {
    until(job, |now| now.job.is_live()).await;
}

async fn has_begun(job: &JobHandle) -> bool {
    let now = within(job.snapshot()).await.unwrap();
    now.job.exclusive().unwrap().taken
}

async fn says(job: &JobHandle) -> String {
    within(job.explain()).await.unwrap().reasons[0].reason.to_string()
}

fn waits(key: &str, holder: JobId, place: &str) -> String {
    format!(
        "the job waits for its exclusive key {key}, which job {holder} holds until it ends; it is \
         {place} in line"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn one_runs_at_a_time_in_the_order_of_their_starts() {
    for loops in loops() {
        let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
        let engine =
            world.engine().loops(loops).slots(8).task(task("hold"), counting(&tally, &gate));
        let engine = within(engine.start()).await.unwrap();
        let mut jobs = Vec::new();
        for _ in 0..4 {
            jobs.push(with_key(&engine, "host").await);
        }
        let other = with_key(&engine, "other").await;
        until_live(&jobs[0]).await;
        until_live(&other).await;
        let first = jobs[0].id();
        for (job, place) in jobs[1..].iter().zip(["first", "second", "third"]) {
            assert_eq!(says(job).await, waits("host", first, place));
            assert!(!has_begun(job).await);
        }
        // Who waits may leave.
        cancel(&jobs[2]).await;
        assert_eq!(says(&jobs[3]).await, waits("host", first, "second"));
        gate.open();
        let mut before = None;
        for (job, end) in jobs.iter().zip(["completed", "completed", "cancelled", "completed"]) {
            within(job.ended()).await.unwrap();
            let ended = laws(job).await;
            assert_eq!(ended.status().as_str(), end);
            if end == "completed" {
                let begun = ended.task(ended.find("a").unwrap()).unwrap().attempts()[0].started;
                assert!(before.is_none_or(|before| before <= begun), "two ran at the same time");
                before = ended.finished();
            }
        }
        assert_eq!(tally.now().most, 2, "one of each key");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_the_key_is_paused_with_it_and_who_waits_is_passed() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().slots(8).task(task("hold"), counting(&tally, &gate));
    let engine = within(engine.start()).await.unwrap();
    let first = with_key(&engine, "host").await;
    until_live(&first).await;
    let (second, third) = (with_key(&engine, "host").await, with_key(&engine, "host").await);
    pause(&first, PauseMode::Interrupt).await;
    until(&first, |now| now.job.status() == JobStatus::Paused).await;
    // It goes on where it was, so nobody may come in between.
    assert_eq!(says(&second).await, waits("host", first.id(), "first"));
    pause(&second, PauseMode::Drain).await;
    assert_eq!(says(&third).await, waits("host", first.id(), "first"));
    cancel(&first).await;
    until_live(&third).await;
    // It has its old place again, and waits for who has begun meanwhile.
    resume(&second).await;
    assert_eq!(says(&second).await, waits("host", third.id(), "first"));
    // What is opened again begins at the end.
    execute(&first).await;
    assert_eq!(says(&first).await, waits("host", third.id(), "second"));
    gate.open();
    for job in [&third, &second, &first] {
        within(job.ended()).await.unwrap();
        assert_eq!(laws(job).await.status(), JobStatus::Completed);
    }
    assert_eq!(tally.now().most, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_finds_who_held_the_key_and_who_waited() {
    for store in [Store::Memory, Store::Disk] {
        for loops in loops() {
            let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
            let clock = HandClock::new();
            let engine = || {
                let engine = world.engine_at(&clock).loops(loops).slots(8).views_every(1);
                engine.task(task("hold"), counting(&tally, &gate))
            };
            let life = within(engine().start()).await.unwrap();
            // The holder waits for a time when the engine dies, and is one of many.
            let text = r#"{"name": "test", "exclusive": "host", "tasks": [
                {"id": "s", "kind": "sleep", "input": {"for": "1h"}},
                {"id": "a", "kind": "hold"}]}"#;
            let holder = submit(&life, plan_of(text)).await.id();
            let mut waiting = Vec::new();
            for _ in 0..6 {
                waiting.push(with_key(&life, "host").await.id());
            }
            until(&life.job(holder), |now| status_of(&now.job, "s") == "waiting").await;
            kill(life).await;
            let life = within(engine().start()).await.unwrap();
            let last = *waiting.last().unwrap();
            assert_eq!(says(&life.job(last)).await, waits("host", holder, "6th"));
            assert_eq!(tally.now().ever, 0);
            clock.advance(std::time::Duration::from_hours(2));
            until_live(&life.job(holder)).await;
            kill(life).await;
            gate.open();
            let life = within(engine().start()).await.unwrap();
            let ended = within(life.job(holder).ended()).await.unwrap();
            assert_eq!(outcomes(&ended.job, "a"), ["lost", "completed"]);
            for id in waiting {
                within(life.job(id).ended()).await.unwrap();
                assert_eq!(laws(&life.job(id)).await.status(), JobStatus::Completed);
            }
            assert_eq!(tally.now().most, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_gives_the_key_to_who_has_begun_though_another_is_before_it_in_line() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = || world.engine().slots(8).task(task("hold"), counting(&tally, &gate));
    let life = within(engine().start()).await.unwrap();
    let first = with_key(&life, "host").await;
    until_live(&first).await;
    let (second, third) = (with_key(&life, "host").await, with_key(&life, "host").await);
    pause(&second, PauseMode::Drain).await;
    cancel(&first).await;
    until_live(&third).await;
    resume(&second).await;
    assert_eq!(says(&second).await, waits("host", third.id(), "first"));
    let ids = (second.id(), third.id());
    drop((first, second, third));
    kill(life).await;
    let (second, third) = ids;
    let life = within(engine().start()).await.unwrap();
    until_live(&life.job(third)).await;
    assert_eq!(says(&life.job(second)).await, waits("host", third, "first"));
    gate.open();
    for id in [third, second] {
        within(life.job(id).ended()).await.unwrap();
        assert_eq!(laws(&life.job(id)).await.status(), JobStatus::Completed);
    }
    assert_eq!(tally.now().most, 1);
}
