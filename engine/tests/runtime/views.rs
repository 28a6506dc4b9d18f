//! Views, parked jobs and recovery: what is not loaded is there all the same, and what cannot be
//! followed is refused alone.

use std::time::Duration;

use annals_engine::job::{Command, JobStatus, Origin, TaskNumber, Waiting};
use annals_engine::log::{JobRow, Position};
use annals_engine::runtime::{CommandError, Engine, JobError};
use annals_engine::{Ask, IdempotencyKey, Submission};
use annals_tasks_sdk::{JobId, Payload};

use super::support::{
    Gate, HandClock, Store, World, almost, cancel, kill, laws, loops, nothing, plan, skip,
    status_of, submit, task, until, until_viewed, within,
};

const HOUR: Duration = Duration::from_hours(1);

/// How many loops and jobs, and after how many events the views are written: often, or when there
/// are more rows than are handed in at a time.
const WORLDS: [(Store, usize, usize, u64); 4] = [
    (Store::Memory, 1, 3000, 500),
    (Store::Memory, 1, 3000, 7_000),
    (Store::Memory, 3, 3000, 500),
    (Store::Disk, 2, 400, 500),
];

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_jobs_wait_although_few_are_loaded() {
    for (store, loops, count, views_every) in WORLDS {
        let (world, clock) = (World::new(store), HandClock::new());
        let start = || {
            let engine = world.engine_at(&clock).loops(loops).resident(50).views_every(views_every);
            within(engine.start())
        };
        let engine = start().await.unwrap();
        let text =
            r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}, {"id": "n", "kind": "noop"}"#;
        let mut submitting = Vec::new();
        for _ in 0..count / 100 {
            let engine = engine.clone();
            submitting.push(tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..100 {
                    ids.push(submit(&engine, plan(text)).await.id());
                }
                ids
            }));
        }
        let mut ids: Vec<JobId> = Vec::new();
        for submitted in submitting {
            ids.extend(within(submitted).await.unwrap());
        }
        ids.sort_unstable();
        // Parked ones answer, and take commands.
        for &id in ids.iter().step_by(97) {
            assert_eq!(
                status_of(&within(engine.job(id).snapshot()).await.unwrap().job, "s"),
                "waiting"
            );
        }
        cancel(&engine.job(ids[0])).await;
        skip(&engine.job(ids[1]), "s").await;
        let skipped = within(engine.job(ids[1]).ended()).await.unwrap();
        assert_eq!(skipped.job.status(), JobStatus::Completed);
        let listed: Vec<JobId> = pages(&engine, 100).await;
        assert!(listed.iter().rev().eq(&ids), "each once, the newest first");
        let engine = if store == Store::Memory || loops == 2 {
            kill(engine).await;
            start().await.unwrap()
        } else {
            engine
        };
        clock.advance(almost(HOUR));
        engine.look();
        assert_eq!(
            status_of(&within(engine.job(ids[2]).snapshot()).await.unwrap().job, "s"),
            "waiting"
        );
        clock.advance(Duration::from_millis(1));
        engine.look();
        until_listed(&engine, |row| row.status.is_ended()).await;
        for &id in &ids {
            let status = within(engine.job(id).ended()).await.unwrap().job.status();
            let expected = if id == ids[0] { JobStatus::Cancelled } else { JobStatus::Completed };
            assert_eq!(status, expected);
        }
        let rows = within(engine.jobs(None, usize::MAX)).await.unwrap();
        assert_eq!(rows.len(), ids.len());
        assert!(rows.iter().all(|row| row.status.is_ended()));
        for &id in ids.iter().step_by(311) {
            laws(&engine.job(id)).await;
        }
        within(engine.shutdown()).await.unwrap();
    }
}

/// Waits until the list shows every job as wanted. To ask for a job would load it; this does not.
async fn until_listed(engine: &Engine, holds: impl Fn(&JobRow) -> bool) {
    within(async {
        let mut before = None;
        loop {
            let page = engine.jobs(before, 100).await.unwrap();
            match page.last() {
                None => return,
                Some(last) if page.iter().all(&holds) => before = Some(last.job),
                Some(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
}

/// All jobs, page by page.
async fn pages(engine: &Engine, limit: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    loop {
        let page = within(engine.jobs(ids.last().copied(), limit)).await.unwrap();
        ids.extend(page.iter().map(|row| row.job));
        if page.is_empty() {
            return ids;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_no_gaps_and_no_repeats_while_jobs_change() {
    for loops in loops() {
        let (world, gate) = (World::in_memory(), Gate::new());
        let held = gate.clone();
        let wait = move |_cx, input: Payload| {
            let gate = held.clone();
            async move {
                gate.pass().await;
                Ok(input)
            }
        };
        let engine = world.engine().loops(loops).resident(5).views_every(20).slots(500);
        let engine = within(engine.task(task("hold"), wait).start()).await.unwrap();
        let mut ids = Vec::new();
        for n in 0..200 {
            let kind = if n % 2 == 0 { "hold" } else { "noop" };
            let text = format!(r#"{{"id": "a", "kind": "{kind}"}}, {{"id": "b", "kind": "noop"}}"#);
            ids.push(submit(&engine, plan(&text)).await.id());
        }
        let other = engine.clone();
        let busy = tokio::spawn(async move {
            gate.open();
            for _ in 0..200 {
                submit(&other, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
            }
        });
        while !busy.is_finished() {
            let listed = pages(&engine, 7).await;
            assert!(listed.is_sorted_by(|a, b| a > b), "the newest first, none twice");
            let old: Vec<JobId> = listed.into_iter().filter(|id| *id <= ids[199]).collect();
            assert!(old.iter().rev().eq(&ids), "{} of {}", old.len(), ids.len());
        }
        within(busy).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_jobs_answer_and_unknown_ones_are_not_found() {
    for views_every in [1, 50_000] {
        let world = World::in_memory();
        let start = || within(world.engine().views_every(views_every).loops(2).start());
        let engine = start().await.unwrap();
        let text = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}"#;
        let mut ends = Vec::new();
        for _ in 0..20 {
            let job = submit(&engine, plan(text)).await;
            within(job.ended()).await.unwrap();
            ends.push(laws(&job).await);
        }
        kill(engine).await;
        for lose in [false, true] {
            if lose {
                world.disk.lose_views();
            }
            let engine = start().await.unwrap();
            for end in &ends {
                assert_eq!(laws(&engine.job(end.id())).await, *end);
                let job = engine.job(end.id());
                assert_eq!(within(job.changed(end.seq() - 1)).await.unwrap(), end.seq());
                assert_eq!(within(job.history(3, 2)).await.unwrap().len(), 2);
            }
            let nobody = engine.job(JobId::from_u128(42));
            assert!(matches!(within(nobody.snapshot()).await, Err(JobError::NotFound(_))));
            assert!(matches!(within(nobody.ended()).await, Err(JobError::NotFound(_))));
            assert!(matches!(within(nobody.changed(0)).await, Err(JobError::NotFound(_))));
            assert!(matches!(within(nobody.history(0, 1)).await, Err(JobError::NotFound(_))));
            let refused = within(nobody.command(Command::CANCEL, Ask::default())).await;
            assert!(matches!(refused, Err(CommandError::Job(JobError::NotFound(_)))));
            kill(engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_that_is_too_long_is_viewed_after_the_start() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    for _ in 0..20 {
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
        within(job.ended()).await.unwrap();
    }
    kill(engine).await;
    let engine = within(world.engine().views_every(50).start()).await.unwrap();
    until_viewed(&engine).await;
    assert!(engine.reader().viewed() > Position(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_registered_again_is_found_behind_the_views() {
    for views_every in [1, 50_000] {
        let world = World::in_memory();
        let start = || world.engine().views_every(views_every).resident(0);
        let engine = within(start().allow_unknown_kinds(true).start()).await.unwrap();
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "late"}"#)).await.id();
        until(&engine.job(job), |now| {
            now.job.task(TaskNumber(1)).unwrap().waiting() == Some(Waiting::Kind)
        })
        .await;
        if views_every == 1 {
            until_viewed(&engine).await;
        }
        kill(engine).await;
        let engine = within(start().start()).await.unwrap();
        assert_eq!(
            within(engine.job(job).snapshot()).await.unwrap().job.status(),
            JobStatus::Running
        );
        kill(engine).await;
        let engine = within(start().task(task("late"), nothing).start()).await.unwrap();
        until_listed(&engine, |row| row.status == JobStatus::Completed).await;
        laws(&engine.job(job)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_on_when_its_views_stay_as_they_are() {
    for loops in loops() {
        let world = World::in_memory();
        let start = || within(world.engine().loops(loops).views_every(1).resident(0).start());
        let engine = start().await.unwrap();
        let mut jobs = Vec::new();
        let keyed = |n: usize| {
            let key = Some(IdempotencyKey::new("tester", "/jobs", &n.to_string(), b""));
            let plan = plan(r#"{"id": "a", "kind": "noop"}"#);
            Submission { key, ..Submission::new(plan, Origin::actor("tester")) }
        };
        for n in 0..60 {
            if n == 30 {
                world.gate.freeze_views();
            }
            let job = within(engine.accept(keyed(n))).await.unwrap().job;
            within(job.ended()).await.unwrap();
            jobs.push(job.id());
        }
        let mut engine = engine;
        for restarted in [false, true] {
            if restarted {
                kill(engine).await;
                world.gate.heal();
                engine = start().await.unwrap();
            }
            assert!(pages(&engine, 7).await.iter().rev().eq(&jobs));
            for (n, &id) in jobs.iter().enumerate() {
                assert_eq!(laws(&engine.job(id)).await.status(), JobStatus::Completed);
                let again = within(engine.accept(keyed(n))).await.unwrap();
                assert!(again.replayed && again.job.id() == id);
            }
        }
    }
}
