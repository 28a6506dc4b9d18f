//! Idempotency keys: whatever comes twice is done once, and is answered as what it was.

use std::time::Duration;

use annals_engine::job::{Command, JobStatus, Origin, PauseMode};
use annals_engine::log::Fault;
use annals_engine::runtime::{
    Accepted, CommandError, Engine, EngineError, JobError, JobHandle, SubmitError,
};
use annals_engine::{Ask, IdempotencyKey, Submission};
use annals_tasks_sdk::{JobId, TaskId};
use tokio::task::JoinSet;

use super::support::{
    Gate, HandClock, Store, World, almost, kill, laws, loops, plan, plan_of, submit, until,
    until_viewed, within,
};

const HOUR: Duration = Duration::from_hours(1);

fn key(name: &str) -> IdempotencyKey {
    with_body(name, "body")
}

fn with_body(name: &str, body: &str) -> IdempotencyKey {
    IdempotencyKey::new("tester", "/jobs", name, body.as_bytes())
}

fn keyed(key: IdempotencyKey) -> Submission {
    let text = r#"{"name": "m", "start": "manual", "tasks": [
        {"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}]}"#;
    Submission { key: Some(key), ..Submission::new(plan_of(text), Origin::actor("tester")) }
}

async fn accept(engine: &Engine, key: IdempotencyKey) -> Accepted {
    within(engine.accept(keyed(key))).await.expect("it is accepted")
}

fn asking(key: IdempotencyKey) -> Ask {
    Ask { key: Some(key), origin: Origin::actor("tester"), ..Ask::default() }
}

/// Submits the same many times at once.
fn crowd(engine: &Engine, count: usize) -> JoinSet<Result<Accepted, SubmitError>> {
    let mut crowd = JoinSet::new();
    for _ in 0..count {
        let engine = engine.clone();
        crowd.spawn(async move { within(engine.accept(keyed(key("crowd")))).await });
    }
    crowd
}

async fn count_of_jobs(engine: &Engine) -> usize {
    within(engine.jobs(None, 1_000)).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_equal_submissions_one_makes_a_job() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let world = World::new(store);
        let engine = within(world.engine().loops(loops).start()).await.unwrap();
        let all = crowd(&engine, 100).join_all().await;
        let all: Vec<Accepted> = all.into_iter().map(Result::unwrap).collect();
        assert_eq!(all.iter().filter(|accepted| accepted.replayed).count(), 99);
        assert!(all.iter().all(|accepted| accepted.job.id() == all[0].job.id()));
        assert!(all.iter().all(|accepted| accepted.snapshot.job.seq() == 1));
        assert_eq!(count_of_jobs(&engine).await, 1);
        laws(&all[0].job).await;
        // A repeat is shown the job as it is now.
        within(all[0].job.command(Command::CANCEL, Ask::default())).await.unwrap();
        let again = accept(&engine, key("crowd")).await;
        assert_eq!(again.snapshot.job.status(), JobStatus::Cancelled);
        assert_eq!(engine.stats().keys, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_submissions_wait_for_the_commit_of_the_first_and_fail_with_it() {
    for fault in [Fault::Before, Fault::After] {
        for store in Store::BOTH {
            let (mut world, disk) = (World::new(store), Gate::new());
            let engine = within(world.engine().loops(3).start()).await.unwrap();
            world.gate.fail(1, fault);
            let mut closed = world.gate.close(&disk);
            let mut waiting = crowd(&engine, 100);
            within(closed.arrival()).await;
            for n in 0..100 {
                // Many turns later nobody has heard anything.
                let unknown = engine.job(JobId::from_u128(n));
                assert!(within(unknown.snapshot()).await.is_err());
            }
            assert!(waiting.try_join_next().is_none());
            disk.open();
            while let Some(answer) = waiting.join_next().await {
                match answer.unwrap().map(|accepted| accepted.job.id()) {
                    Err(SubmitError::Engine(EngineError::OutcomeUnknown(_))) => {}
                    other => panic!("{other:?}"),
                }
            }
            drop(closed);
            assert!(within(engine.accept(keyed(key("crowd")))).await.is_err());
            kill(engine).await;
            world.bury();
            let engine = within(world.engine().start()).await.unwrap();
            let jobs = usize::from(fault == Fault::After);
            assert_eq!(count_of_jobs(&engine).await, jobs);
            let all = crowd(&engine, 20).join_all().await;
            let replayed = all.iter().filter(|one| one.as_ref().unwrap().replayed).count();
            assert_eq!((replayed, count_of_jobs(&engine).await), (19 + jobs, 1));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_after_a_restart_is_known_from_the_tail_the_views_or_the_records() {
    for store in Store::BOTH {
        for viewed in [false, true] {
            let world = World::new(store);
            let views_every = if viewed { 1 } else { 50_000 };
            let start = || within(world.engine().loops(2).views_every(views_every).start());
            let engine = start().await.unwrap();
            let mut jobs = Vec::new();
            for n in 0..20 {
                let accepted = accept(&engine, key(&n.to_string())).await;
                let job = accepted.job;
                let pause = Command::Pause { mode: PauseMode::Drain };
                let paused = within(job.command(pause, asking(key(&format!("{n} pause"))))).await;
                assert!(!paused.unwrap().replayed);
                jobs.push((job.id(), within(job.snapshot()).await.unwrap().job.seq()));
            }
            if viewed {
                until_viewed(&engine).await;
            }
            let known = engine.stats().keys;
            kill(engine).await;
            for lost in [false, false, true] {
                if lost {
                    world.lose_views();
                }
                let engine = start().await.unwrap();
                assert_eq!((known, engine.stats().keys), (40, 40));
                for (n, &(id, seq)) in jobs.iter().enumerate() {
                    let again = accept(&engine, key(&n.to_string())).await;
                    assert!(again.replayed);
                    assert_eq!((again.job.id(), again.snapshot.job.seq()), (id, seq));
                    let pause = Command::Pause { mode: PauseMode::Drain };
                    let asked = asking(key(&format!("{n} pause")));
                    let again = within(again.job.command(pause, asked)).await.unwrap();
                    assert!(again.replayed && again.events.is_empty());
                    assert_eq!((again.snapshot.job.id(), again.snapshot.job.seq()), (id, seq));
                    let other = within(engine.accept(keyed(with_body(&n.to_string(), "b")))).await;
                    assert!(matches!(other.map(drop), Err(SubmitError::KeyReused)));
                }
                if viewed {
                    until_viewed(&engine).await;
                }
                kill(engine).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_body_is_refused_at_once_and_changes_nothing() {
    let (world, disk) = (World::in_memory(), Gate::new());
    let engine = within(world.engine().start()).await.unwrap();
    let job = accept(&engine, key("old")).await.job;
    let mut closed = world.gate.close(&disk);
    let other = engine.clone();
    let first = tokio::spawn(async move { other.accept(keyed(key("new"))).await });
    within(closed.arrival()).await;
    for name in ["old", "new"] {
        let refused = within(engine.accept(keyed(with_body(name, "other")))).await;
        assert!(matches!(refused.map(drop), Err(SubmitError::KeyReused)), "{name}");
        let asked = asking(with_body(name, "other"));
        let refused = within(job.command(Command::CANCEL, asked)).await;
        assert!(matches!(refused, Err(CommandError::KeyReused)), "{name}");
    }
    assert!(!first.is_finished());
    disk.open();
    assert!(!within(first).await.unwrap().unwrap().replayed);
    assert_eq!(within(job.snapshot()).await.unwrap().job.seq(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_with_a_key_is_carried_out_once() {
    for loops in loops() {
        let world = World::in_memory();
        let engine = within(world.engine().loops(loops).start()).await.unwrap();
        let text = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
        let job = submit(&engine, plan(text)).await;
        until(&job, |now| now.job.due().is_some()).await;
        let mut pausing = JoinSet::new();
        for _ in 0..50 {
            let job = job.clone();
            let pause = Command::Pause { mode: PauseMode::Drain };
            pausing.spawn(async move { within(job.command(pause, asking(key("pause")))).await });
        }
        let all = pausing.join_all().await;
        let first: Vec<_> =
            all.iter().map(|answer| answer.as_ref().unwrap()).filter(|one| !one.replayed).collect();
        // It was asked for, and it was quiet at once.
        assert_eq!((first.len(), first[0].events.len()), (1, 2));
        within(job.command(Command::Resume, Ask::default())).await.unwrap();
        // It was paused, and that it is not any more changes nothing.
        let pause = Command::Pause { mode: PauseMode::Drain };
        let again = within(job.command(pause, asking(key("pause")))).await.unwrap();
        assert!(again.replayed && again.snapshot.job.status() == JobStatus::Running);
        // With other paths in their keys, commands on two jobs never have the same one.
        let other = engine.job(JobId::from_u128(7));
        let refused = within(other.command(Command::CANCEL, asking(key("pause")))).await;
        assert!(matches!(refused, Err(CommandError::KeyReused)));
        // A condition that held then need not hold now.
        let revision = again.snapshot.job.revision();
        for replayed in [false, true] {
            let asked = Ask { expected_revision: Some(revision), ..asking(key("cancel")) };
            let cancelled = within(job.command(Command::CANCEL, asked)).await.unwrap();
            assert_eq!(cancelled.replayed, replayed);
        }
        within(job.ended()).await.unwrap();
        let history = within(job.history(0, 100)).await.unwrap();
        let kept = history.iter().filter_map(|logged| logged.recorded.key.as_deref());
        let kept: Vec<_> = kept.copied().collect();
        assert_eq!(kept, [key("pause"), key("cancel")]);
        assert!(history.iter().all(|one| one.recorded.key.is_none() || one.recorded.leads));
        laws(&job).await;
    }
}

async fn remove(job: &JobHandle, ask: Ask) -> Result<bool, CommandError> {
    let task = TaskId::new("a").unwrap();
    let remove = Command::Remove { task, cascade: false };
    within(job.command(remove, ask)).await.map(|answer| answer.replayed)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_and_what_was_for_show_leaves_the_key_free() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let job = accept(&engine, key("job")).await.job;
    let dry = || Ask { dry_run: true, ..asking(key("remove")) };
    assert!(!remove(&job, dry()).await.unwrap());
    let stale = Ask { expected_seq: Some(9), ..asking(key("remove")) };
    assert!(matches!(remove(&job, stale).await, Err(CommandError::Stale { .. })));
    let asked = asking(key("skip"));
    let skip = Command::Skip { task: TaskId::new("x").ok(), output: None, cascade: false };
    assert!(matches!(within(job.command(skip, asked)).await, Err(CommandError::Rejected(_))));
    // The same name with another body, since nothing came of the first.
    let asked = asking(with_body("skip", "other"));
    let skip = Command::Skip { task: TaskId::new("b").ok(), output: None, cascade: false };
    assert!(!within(job.command(skip, asked)).await.unwrap().replayed);
    assert!(!remove(&job, asking(key("remove"))).await.unwrap());
    assert!(remove(&job, asking(key("remove"))).await.unwrap());
    // A dry run does not answer from the table either: it is decided as if it came now.
    let shown = within(job.command(Command::CANCEL, dry())).await.unwrap();
    assert!(!shown.replayed && shown.events.len() == 1);
    let unknown = engine.job(JobId::from_u128(7));
    let refused = within(unknown.command(Command::CANCEL, asking(key("unknown")))).await;
    assert!(matches!(refused, Err(CommandError::Job(JobError::NotFound(_)))));
    let broken = plan(r#"{"id": "a", "kind": "strange"}"#);
    let broken = Submission { plan: broken, ..keyed(key("plan")) };
    assert!(matches!(within(engine.accept(broken)).await.map(drop), Err(SubmitError::Plan(_))));
    assert!(!accept(&engine, key("plan")).await.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_command_that_changed_nothing_is_known_until_the_engine_ends() {
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let job = accept(&engine, key("job")).await.job;
    let resume = async |job: &JobHandle| {
        within(job.command(Command::Resume, asking(key("resume")))).await.unwrap()
    };
    let first = resume(&job).await;
    assert!(!first.replayed && first.events.is_empty());
    assert!(resume(&job).await.replayed);
    let id = job.id();
    drop(job);
    within(engine.shutdown()).await.unwrap();
    drop(engine);
    let engine = within(world.engine().start()).await.unwrap();
    assert!(!resume(&engine.job(id)).await.replayed);
    assert!(accept(&engine, key("job")).await.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_loses_nothing() {
    let (world, disk) = (World::in_memory(), Gate::new());
    let engine = within(world.engine().start()).await.unwrap();
    let mut closed = world.gate.close(&disk);
    let other = engine.clone();
    let first = tokio::spawn(async move { other.accept(keyed(key("crowd"))).await.map(drop) });
    within(closed.arrival()).await;
    let waiting = crowd(&engine, 20);
    first.abort();
    assert!(within(first).await.unwrap_err().is_cancelled());
    disk.open();
    let all = waiting.join_all().await;
    assert!(all.iter().all(|answer| answer.as_ref().unwrap().replayed));
    assert_eq!(count_of_jobs(&engine).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_forgotten_by_the_hour() {
    for views_every in [1, 50_000] {
        let (world, clock) = (World::in_memory(), HandClock::new());
        let start = || {
            let engine = world.engine_at(&clock).views_every(views_every);
            within(engine.key_hours(2).start())
        };
        let mut engine = start().await.unwrap();
        // The clock begins at the beginning of an hour.
        accept(&engine, key("first")).await;
        clock.advance(almost(HOUR));
        accept(&engine, key("second")).await;
        clock.advance(Duration::from_millis(1));
        accept(&engine, key("third")).await;
        clock.advance(almost(HOUR * 2));
        for name in ["first", "second", "third"] {
            assert!(accept(&engine, key(name)).await.replayed, "{name}");
        }
        assert_eq!(engine.stats().keys, 3);
        // The last of the first hour is two hours old now, and all of that hour go with it.
        clock.advance(Duration::from_millis(1));
        if views_every == 1 {
            until_viewed(&engine).await;
            kill(engine).await;
            engine = start().await.unwrap();
        }
        assert!(accept(&engine, key("third")).await.replayed);
        assert_eq!(engine.stats().keys, 1);
        assert!(!accept(&engine, key("second")).await.replayed);
        kill(engine).await;
        let engine = start().await.unwrap();
        for (name, replayed) in [("first", false), ("second", true), ("third", true)] {
            assert_eq!(accept(&engine, key(name)).await.replayed, replayed, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_keys_push_out_the_oldest_ones() {
    for views_every in [1, 50_000] {
        let world = World::in_memory();
        let start = || within(world.engine().views_every(views_every).keys_max(64).start());
        let engine = start().await.unwrap();
        for n in 0..200 {
            accept(&engine, key(&n.to_string())).await;
        }
        let known = engine.stats().keys;
        assert!((60..=65).contains(&known), "{known}");
        for n in 160..200 {
            assert!(accept(&engine, key(&n.to_string())).await.replayed, "{n}");
        }
        assert!(!accept(&engine, key("0")).await.replayed);
        if views_every == 1 {
            until_viewed(&engine).await;
        }
        kill(engine).await;
        let engine = start().await.unwrap();
        assert!(accept(&engine, key("199")).await.replayed);
        assert!(accept(&engine, key("0")).await.replayed, "used again last");
        assert!(engine.stats().keys <= 65);
    }
}
