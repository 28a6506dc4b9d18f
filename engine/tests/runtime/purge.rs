//! Purges: whoever asks for a job that was purged is told so, whatever became of the engine and of
//! its views since, and nothing else of it is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_engine::job::{Command, Event, ForkFrom, JobStatus, Origin, Tombstone};
use annals_engine::log::{PageLimit, Position, ValueKey, verify};
use annals_engine::runtime::{
    Answer, CommandError, Engine, Fork, ForkError, Forked, IdempotencyKey, JobError, JobHandle,
    SubmitError,
};
use annals_engine::{Ask, Submission};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskId, TaskResult};

use super::support::{
    Gate, Store, World, kill, laws, loops, plan, plan_of, submit, task, until, until_viewed, within,
};

/// `a` saves a checkpoint and takes a step; `b` takes what it gives.
const CHAIN: &str = r#"{"id": "a", "kind": "saver", "input": {"secret": "x"}},
    {"id": "b", "kind": "saver", "input": {"$output": "a"}}"#;

async fn saver(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    cx.checkpoint(&"saved").await?;
    cx.step("kept", async { Ok("secret".to_owned()) }).await?;
    Ok(input)
}

async fn start(world: &World, loops: usize) -> Engine {
    let engine = world.engine().loops(loops).views_every(1).resident(1);
    within(engine.task(task("saver"), saver).start()).await.unwrap()
}

fn asking(reason: &str) -> Ask {
    let origin = Origin { reason: Some(reason.into()), ..Origin::actor("ada") };
    Ask { origin, ..Ask::default() }
}

fn keyed() -> Submission {
    let key = IdempotencyKey::new("tester", "/jobs", "k", b"body");
    Submission { key: Some(key), ..Submission::new(plan(CHAIN), Origin::actor("tester")) }
}

async fn purge(job: &JobHandle) -> Result<Answer, CommandError> {
    within(job.purge(asking("asked for"))).await
}

/// A job that has ended, with a key.
async fn ended(engine: &Engine) -> JobHandle {
    let job = within(engine.accept(keyed())).await.unwrap().job;
    assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Completed);
    job
}

fn told<T>(answer: Result<T, JobError>) -> Arc<Tombstone> {
    match answer {
        Err(JobError::Purged { tombstone, .. }) => tombstone,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was purged"),
    }
}

fn refused<T>(answer: Result<T, CommandError>) -> Arc<Tombstone> {
    match answer {
        Err(CommandError::Job(error)) => told(Err::<T, _>(error)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was purged"),
    }
}

/// Asks for a purged job in every way that there is.
async fn is_gone(engine: &Engine, id: JobId, tombstone: &Tombstone) {
    let job = engine.job(id);
    let mut all = vec![
        told(within(job.snapshot()).await),
        told(within(job.ended()).await),
        told(within(job.changed(0)).await),
        told(within(job.changed(u64::MAX)).await),
        told(within(job.history(0, 10)).await),
        told(within(job.explain()).await),
        told(within(job.missing_kinds()).await),
    ];
    let commands = [
        Command::Execute { paused: false },
        Command::CANCEL,
        Command::Resume,
        Command::Retry { task: TaskId::new("a").unwrap() },
    ];
    for command in commands {
        for dry_run in [false, true] {
            let ask = Ask { dry_run, ..Ask::default() };
            all.push(refused(within(job.command(command.clone(), ask)).await));
        }
    }
    for from in [ForkFrom::Task(TaskId::new("a").unwrap()), ForkFrom::Seq(1)] {
        match within(job.fork(Fork::new(from), Ask::default())).await {
            Err(ForkError::Command(error)) => all.push(refused(Err::<(), _>(error))),
            _ => panic!("nothing is left to be forked"),
        }
    }
    match within(engine.accept(keyed())).await {
        Err(SubmitError::Job(error)) => all.push(told(Err::<(), _>(error))),
        _ => panic!("the key stands for the job that was purged"),
    }
    assert!(within(engine.submit_plan(keyed())).await.is_err());
    assert!(all.iter().all(|told| **told == *tombstone));
    let again = purge(&job).await.unwrap();
    assert!(again.events.is_empty());
    assert_eq!(again.snapshot.job.purged().map(|told| &**told), Some(tombstone));
    let listed = within(engine.jobs(None, usize::MAX)).await.unwrap();
    assert!(listed.iter().all(|row| row.job != id));
    let of_job = events_of(engine, id).await;
    assert!(matches!(of_job[..], [Event::JobPurged(purged)] if purged == tombstone.purged));
}

/// What the whole log says of a job.
async fn events_of(engine: &Engine, id: JobId) -> Vec<Event> {
    let (mut after, mut events) = (Position(0), Vec::new());
    loop {
        let page = within(engine.events(after, PageLimit::events(3))).await.unwrap();
        if page.upto == after {
            return events;
        }
        after = page.upto;
        let of_job = page.events.into_iter().filter(|(job, _)| *job == id);
        events.extend(of_job.map(|(_, logged)| logged.recorded.event));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_anything_but_that_it_was_purged() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let world = World::new(store);
        let engine = start(&world, loops).await;
        let job = ended(&engine).await;
        let fork = Fork::new(ForkFrom::Task(TaskId::new("b").unwrap()));
        let Forked::Accepted(fork) = within(job.fork(fork, Ask::default())).await.unwrap() else {
            panic!("it was no dry run")
        };
        within(fork.job.ended()).await.unwrap();
        let history = within(job.history(0, 1_000)).await.unwrap();
        let last = history.last().unwrap();
        let (reader, id) = (engine.reader(), job.id());
        let kept = history.iter().filter_map(|logged| match logged.recorded.event {
            Event::CheckpointSaved { task, value, .. } => {
                Some((ValueKey::Checkpoint { task: task.0 }, value))
            }
            Event::StepRecorded { value, .. } => {
                Some((ValueKey::Step { seq: logged.recorded.seq }, value))
            }
            _ => None,
        });
        let kept: Vec<_> = kept.collect();
        let found = || {
            kept.iter()
                .filter(|(key, value)| reader.value(id, *key, value).unwrap().is_some())
                .count()
        };
        assert_eq!((kept.len(), found()), (4, 4));

        let answer = purge(&job).await.unwrap();
        let tombstone = Arc::clone(answer.snapshot.job.purged().unwrap());
        assert_eq!(
            (tombstone.purged.events, tombstone.seq()),
            (last.recorded.seq, 1 + last.recorded.seq)
        );
        assert_eq!((tombstone.purged.tasks, tombstone.purged.attempts), (2, 2));
        assert_eq!(tombstone.purged.head, last.hash, "it proves what there was");
        assert_eq!(tombstone.origin.reason.as_deref(), Some("asked for"));
        assert!(matches!(&answer.events[..], [one] if one.leads && one.seq == tombstone.seq()));
        is_gone(&engine, job.id(), &tombstone).await;
        assert_eq!(found(), 0);
        drop(reader);
        let fork_id = fork.job.id();
        drop((job, fork));
        kill(engine).await;
        for life in 0..4 {
            if life == 2 {
                world.lose_views();
            }
            let engine = start(&world, loops).await;
            is_gone(&engine, id, &tombstone).await;
            let found = verify(&*engine.reader()).unwrap();
            assert_eq!((found.purged, found.damage), (1, Vec::new()));
            // What was forked from it stands alone.
            let fork = laws(&engine.job(fork_id)).await;
            assert_eq!(fork.output().unwrap().unwrap().as_str(), r#"{"secret": "x"}"#);
            until_viewed(&engine).await;
            is_gone(&engine, id, &tombstone).await;
            kill(engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_ended_is_purged_and_a_dry_run_purges_nothing() {
    let (world, gate) = (World::in_memory(), Gate::new());
    let waiting = gate.clone();
    let wait = move |cx: TaskContext, input: Payload| {
        let gate = waiting.clone();
        async move {
            cx.or_cancelled(gate.pass()).await?;
            Ok::<_, annals_tasks_sdk::TaskError>(input)
        }
    };
    let engine = within(world.engine().task(task("hold"), wait).start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "hold"}"#)).await;
    let live = until(&job, |now| now.job.is_live()).await.job;
    match purge(&job).await {
        Err(CommandError::Rejected(refusal)) => {
            assert_eq!((refusal.code, refusal.status), ("not_in_this_status", JobStatus::Running));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(within(job.snapshot()).await.unwrap().job, live);
    gate.open();
    let seq = within(job.ended()).await.unwrap().job.seq();
    let dry = within(job.purge(Ask { dry_run: true, ..asking("x") })).await.unwrap();
    assert!(matches!(&dry.events[..], [one] if one.seq == seq + 1));
    assert!(dry.snapshot.job.purged().is_some());
    laws(&job).await;
    let early = Ask { expected_seq: Some(seq - 1), ..asking("x") };
    assert!(matches!(within(job.purge(early)).await, Err(CommandError::Stale { .. })));
    laws(&job).await;
    let exact = Ask { expected_seq: Some(seq), ..asking("x") };
    let key = Some(IdempotencyKey::new("tester", "/jobs/bulk", "k", b"body"));
    let done = within(job.purge(Ask { key, ..exact.clone() })).await.unwrap();
    assert_eq!((done.events.len(), done.replayed), (1, false));
    // The same once more, by the key and without it.
    let again = within(job.purge(Ask { key, ..exact.clone() })).await.unwrap();
    assert!(again.events.is_empty() && again.replayed && again.snapshot.job.purged().is_some());
    assert!(matches!(within(job.purge(exact)).await, Err(CommandError::Stale { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_it_is_told_when_that_is_durable() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let world = World::new(store);
        let engine = start(&world, loops).await;
        let job = ended(&engine).await;
        let seq = within(job.snapshot()).await.unwrap().job.seq();
        let disk = Gate::new();
        let mut closed = world.gate.close(&disk);
        let watch = |after| {
            let job = job.clone();
            tokio::spawn(async move { job.changed(after).await })
        };
        let waiting = [watch(seq), watch(seq + 7)];
        let purging = tokio::spawn({
            let job = job.clone();
            async move { job.purge(Ask::default()).await }
        });
        within(closed.arrival()).await;
        // Nobody hears of it before.
        let reading = tokio::spawn({
            let job = job.clone();
            async move { job.snapshot().await }
        });
        for number in 0..300 {
            let nobody = engine.job(JobId::from_u128(number));
            assert!(matches!(within(nobody.snapshot()).await, Err(JobError::NotFound(_))));
        }
        assert!(!purging.is_finished() && !reading.is_finished());
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        disk.open();
        let answer = within(purging).await.unwrap().unwrap();
        let tombstone = answer.snapshot.job.purged().unwrap();
        for waiting in waiting {
            assert_eq!(told(within(waiting).await.unwrap()), *tombstone);
        }
        assert_eq!(told(within(reading).await.unwrap()), *tombstone);
    }
}

/// The folders of a job, with something in them.
fn furnish(world: &World, id: JobId) -> [PathBuf; 2] {
    let folders = ["steps", "work"].map(|name| world.folder().join(name).join(id.to_string()));
    for folder in &folders {
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), "text").unwrap();
    }
    folders
}

/// Keeps a folder from being removed: what stands there is none.
fn obstruct(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    fs::write(folder, "no folder").unwrap();
}

fn clear_the_way(folder: &Path) {
    fs::remove_file(folder).unwrap();
    fs::create_dir(folder).unwrap();
}

async fn until_gone(folder: &Path) {
    within(async {
        while folder.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_files_are_removed_now_or_by_the_next_start_or_by_another_purge() {
    for lose_views in [false, true] {
        let world = World::new(Store::Disk);
        let engine = start(&world, 2).await;
        let (job, other) = (ended(&engine).await, submit(&engine, plan(CHAIN)).await);
        within(other.ended()).await.unwrap();
        let ([steps, work], others) = (furnish(&world, job.id()), furnish(&world, other.id()));
        // Nothing of them is left when a purge is answered.
        assert!(purge(&other).await.is_ok());
        assert!(others.iter().all(|folder| !folder.exists()));
        obstruct(&work);
        assert!(purge(&job).await.is_ok(), "it is purged all the same");
        assert!(!steps.exists() && work.exists());
        until_viewed(&engine).await;
        let id = job.id();
        drop((job, other));
        kill(engine).await;
        if lose_views {
            world.lose_views();
        }
        clear_the_way(&work);
        let engine = start(&world, 2).await;
        until_gone(&work).await;
        // What is known to be gone is not looked for again.
        until_viewed(&engine).await;
        let left = || engine.reader().open_rows().unwrap().iter().any(|row| row.job == id);
        within(Box::pin(async {
            while left() {
                until_viewed(&engine).await;
                submit(&engine, plan(CHAIN)).await.ended().await.unwrap();
            }
        }))
        .await;

        let job = submit(&engine, plan(CHAIN)).await;
        within(job.ended()).await.unwrap();
        let [_, work] = furnish(&world, job.id());
        obstruct(&work);
        assert!(purge(&job).await.is_ok() && work.exists());
        clear_the_way(&work);
        let again = purge(&job).await.unwrap();
        assert!(again.events.is_empty() && !work.exists());
        drop(job);
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_it_shared_goes_to_the_next_in_line() {
    for loops in loops() {
        let world = World::in_memory();
        let engine = start(&world, loops).await;
        let text = r#"{"name": "m", "exclusive": "host", "tasks": [{"id": "a", "kind": "noop"}]}"#;
        for _ in 0..50 {
            let first = submit(&engine, plan_of(text)).await;
            let second = submit(&engine, plan_of(text)).await;
            // As soon as it lets itself be purged, often before it has given the key back.
            while let Err(error) = purge(&first).await {
                assert!(matches!(error, CommandError::Rejected(_)), "{error}");
            }
            within(second.ended()).await.unwrap();
            told(within(first.ended()).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_list_are_full_although_jobs_between_are_purged() {
    let world = World::in_memory();
    let engine = start(&world, 3).await;
    let mut kept = Vec::new();
    for number in 0..60 {
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
        within(job.ended()).await.unwrap();
        if number % 3 == 0 {
            kept.push(job.id());
        } else {
            purge(&job).await.unwrap();
        }
    }
    kept.reverse();
    for limit in [1, 2, 7, 20, 60] {
        let mut listed = Vec::new();
        loop {
            let before = listed.last().copied();
            let page = within(engine.jobs(before, limit)).await.unwrap();
            listed.extend(page.iter().map(|row| row.job));
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(listed, kept);
    }
}
