//! Forks: jobs that go on from what others have done, and that stand alone.

use std::time::{Duration, Instant};

use annals_engine::Ask;
use annals_engine::job::{Command, Event, ForkFrom, Job, JobStatus, Origin, PauseMode};
use annals_engine::log::Fault;
use annals_engine::runtime::{
    Accepted, CommandError, Engine, EngineError, Fork, ForkError, Forked, IdempotencyKey, JobError,
    JobHandle,
};
use annals_engine::views::Reason;
use annals_tasks_sdk::{JobId, TaskId, Timestamp};

use super::support::{
    Gate, HandClock, Store, Tally, World, counting, kill, laws, loops, nothing, outcomes, plan,
    plan_of, status_of, submit, task, until, until_viewed, within,
};

/// `b` counts its attempts and waits at a gate.
const CHAIN: &str = r#"{"id": "a", "kind": "echo", "input": {"n": 12.50}},
    {"id": "b", "kind": "count"},
    {"id": "c", "kind": "echo", "input": {"$output": "a", "pointer": "/n"}}"#;

async fn start(world: &World, tally: &Tally, gate: &Gate, loops: usize) -> Engine {
    let engine = world.engine().loops(loops).views_every(1);
    let engine = engine.task(task("count"), counting(tally, gate));
    within(engine.task(task("echo"), nothing).start()).await.unwrap()
}

fn from_task(task: &str) -> Fork {
    Fork::new(ForkFrom::Task(TaskId::new(task).unwrap()))
}

fn asking(key: Option<&str>) -> Ask {
    let key = key.map(|key| IdempotencyKey::new("tester", "/jobs/1/fork", key, b"body"));
    Ask { origin: Origin::actor("tester"), key, ..Ask::default() }
}

async fn forked(job: &JobHandle, fork: Fork, key: Option<&str>) -> Result<Accepted, ForkError> {
    match within(job.fork(fork, asking(key))).await? {
        Forked::Accepted(accepted) => Ok(accepted),
        Forked::Rehearsed { .. } => panic!("it was no dry run"),
    }
}

/// A job of which `a` is done, and `b` runs.
async fn begun(engine: &Engine, tally: &Tally) -> JobHandle {
    let before = tally.now().ever;
    let job = submit(engine, plan(CHAIN)).await;
    within(tally.until(move |counts| counts.ever > before)).await;
    until(&job, |now| now.job.is_live()).await;
    job
}

async fn all_jobs(engine: &Engine) -> usize {
    within(engine.jobs(None, 1_000)).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_on_also_where_its_origin_and_the_engine_are_gone() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
        let engine = start(&world, &tally, &gate, loops).await;
        let origin = begun(&engine, &tally).await;
        let before = within(origin.snapshot()).await.unwrap().job;
        let fork = forked(&origin, from_task("b"), Some("k")).await.unwrap();
        let from = fork.snapshot.job.forked_from().expect("it is a fork");
        assert_eq!((from.job, from.seq), (origin.id(), before.seq()));
        assert_eq!(within(origin.snapshot()).await.unwrap().job, before);
        within(tally.until(|counts| counts.ever == 2)).await;
        let (origin_id, fork_id) = (origin.id(), fork.job.id());
        drop((origin, fork));
        let (origin, fork) = (origin_id, fork_id);
        kill(engine).await;

        let views = [false, true];
        for lost in views {
            if lost {
                world.lose_views();
            }
            let engine = start(&world, &tally, &gate, loops).await;
            let job = engine.job(fork);
            let again = until(&job, |now| outcomes(&now.job, "b").last() == Some(&"alive")).await;
            assert_eq!(again.job.forked_from(), Some(from));
            assert!(outcomes(&again.job, "a").is_empty(), "what is copied has no attempts");
            let row = within(engine.jobs(None, usize::MAX)).await.unwrap();
            let row = row.iter().find(|row| row.job == fork).unwrap();
            assert_eq!(row.forked_from, Some(from));
            // The key stands for the fork, and is as durable.
            let known = forked(&engine.job(origin), from_task("b"), Some("k")).await.unwrap();
            assert_eq!((known.replayed, known.job.id()), (true, fork));
            drop((known, job));
            until_viewed(&engine).await;
            kill(engine).await;
        }
        let engine = start(&world, &tally, &gate, loops).await;
        gate.open();
        for job in [origin, fork] {
            let ended = within(engine.job(job).ended()).await.unwrap();
            assert_eq!(ended.job.output().unwrap().unwrap().as_str(), "12.50");
            laws(&engine.job(job)).await;
        }
        within(engine.shutdown()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_there_as_a_whole_or_not_at_all() {
    for fault in [Fault::Before, Fault::After] {
        for store in Store::BOTH {
            let (mut world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
            let engine = start(&world, &tally, &gate, 2).await;
            let origin = begun(&engine, &tally).await.id();
            world.gate.fail(1, fault);
            let lost = forked(&engine.job(origin), from_task("b"), Some("k")).await;
            let lost = lost.map(drop).expect_err("its outcome is unknown");
            let is_unknown = |error: &ForkError| {
                matches!(
                    error,
                    ForkError::Command(CommandError::Job(JobError::Engine(
                        EngineError::OutcomeUnknown(_)
                    )))
                )
            };
            assert!(is_unknown(&lost), "{lost}");
            assert_eq!(tally.now().ever, 1, "no attempt of the fork has begun");
            kill(engine).await;
            world.bury();

            let engine = start(&world, &tally, &gate, 2).await;
            let there = usize::from(fault == Fault::After);
            assert_eq!(all_jobs(&engine).await, 1 + there);
            let again = forked(&engine.job(origin), from_task("b"), Some("k")).await.unwrap();
            assert_eq!((again.replayed, all_jobs(&engine).await), (there == 1, 2));
            gate.open();
            let ended = within(again.job.ended()).await.unwrap();
            assert_eq!(status_of(&ended.job, "c"), "completed");
            let history = within(again.job.history(0, 3)).await.unwrap();
            let positions: Vec<u64> = history.iter().map(|logged| logged.position.0).collect();
            assert_eq!(positions[2], positions[0] + 2, "one row");
            laws(&again.job).await;
            within(engine.shutdown()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_is_not_loaded_is_forked_as_it_was_at_any_event() {
    let (world, tally, gate) = (World::new(Store::Disk), Tally::new(), Gate::new());
    gate.open();
    let engine = start(&world, &tally, &gate, 2).await;
    let origin = submit(&engine, plan(CHAIN)).await;
    within(origin.ended()).await.unwrap();
    let id = origin.id();
    drop(origin);
    kill(engine).await;
    let engine = start(&world, &tally, &gate, 2).await;
    let origin = engine.job(id);
    let history = within(origin.history(0, 100)).await.unwrap();
    let mut then: Option<Job> = None;
    for logged in &history {
        match &mut then {
            None => then = Some(Job::begin(origin.id(), &logged.recorded).unwrap()),
            Some(job) => job.evolve(&logged.recorded).unwrap(),
        }
        let (then, seq) = (then.as_ref().unwrap(), logged.recorded.seq);
        let fork = forked(&origin, Fork::new(ForkFrom::Seq(seq)), None).await.unwrap();
        let first = within(fork.job.history(1, 1)).await.unwrap();
        let Event::JobForked { job, seq: of, copied, .. } = first[0].recorded.event else {
            panic!("{first:?}")
        };
        assert_eq!((job, of, copied), (origin.id(), seq, then.counts().completed));
        let ended = within(fork.job.ended()).await.unwrap().job;
        assert_eq!(ended.output().unwrap().unwrap().as_str(), "12.50");
        laws(&fork.job).await;
    }
    for seq in [0, history.len() as u64 + 1] {
        let refused = forked(&origin, Fork::new(ForkFrom::Seq(seq)), None).await.map(drop);
        let Err(ForkError::Command(CommandError::Rejected(refusal))) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(refusal.code, "no_such_event");
    }
    within(engine.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_fork_makes_no_job_and_leaves_its_key_free() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = world.engine().fork_bytes(12).task(task("count"), counting(&tally, &gate));
    let engine = within(engine.task(task("echo"), nothing).start()).await.unwrap();
    let origin = begun(&engine, &tally).await;
    let (next, jobs) = (engine.reader().next_position(), all_jobs(&engine).await);
    let large = forked(&origin, from_task("b"), Some("k")).await.map(drop);
    let Err(ForkError::TooLarge { bytes, limit: 12 }) = large else { panic!("{large:?}") };
    // Inputs and what `a` gave.
    assert!(bytes > 2 * r#"{"n":12.50}"#.len(), "{bytes}");
    let skip = |task: &str| Command::Skip {
        task: Some(TaskId::new(task).unwrap()),
        output: None,
        cascade: false,
    };
    let edits = vec![skip("b"), skip("a")];
    let refused = forked(&origin, Fork { edits, ..from_task("b") }, Some("k")).await.map(drop);
    let Err(ForkError::Edit { index: 1, rejection }) = refused else { panic!("{refused:?}") };
    assert_eq!((rejection.code, rejection.status), ("task_is_settled", JobStatus::Running));
    let stale = Ask { expected_seq: Some(1), ..asking(Some("k")) };
    let stale = within(origin.fork(from_task("b"), stale)).await.map(drop);
    assert!(matches!(stale, Err(ForkError::Command(CommandError::Stale { .. }))), "{stale:?}");
    let nobody = forked(&engine.job(JobId::from_u128(7)), from_task("b"), Some("k")).await;
    let nobody = nobody.map(drop);
    let Err(ForkError::Command(CommandError::Job(error))) = nobody else { panic!("{nobody:?}") };
    assert!(matches!(error, JobError::NotFound(_)), "{error}");
    assert_eq!((engine.reader().next_position(), all_jobs(&engine).await), (next, jobs));
    // Without what was copied it is small enough.
    let small = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    within(small.ended()).await.unwrap();
    assert!(!forked(&small, from_task("a"), Some("k")).await.unwrap().replayed);
    gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_what_a_fork_would_begin_with() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 1).await;
    let origin = begun(&engine, &tally).await;
    let next = engine.reader().next_position();
    let dry = Ask { dry_run: true, ..asking(Some("k")) };
    let rehearsed = within(origin.fork(from_task("b"), dry)).await.unwrap();
    let Forked::Rehearsed { events, snapshot } = rehearsed else { panic!("it was a dry run") };
    let names: Vec<&str> = events.iter().map(|event| event.event.type_name()).collect();
    assert_eq!(names, ["JobSubmitted", "JobForked", "TaskCompleted", "JobStarted"]);
    assert_eq!((snapshot.job.id(), snapshot.job.seq()), (JobId::from_u128(0), 4));
    assert_eq!(engine.reader().next_position(), next, "nothing is written");
    assert!(!forked(&origin, from_task("b"), Some("k")).await.unwrap().replayed);
    gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_what_waits_begins_with_no_wait() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let engine = within(world.engine_at(&clock).start()).await.unwrap();
    let text = r#"{"name": "m", "start": "manual", "tasks": [
        {"id": "s", "kind": "sleep", "input": {"for": "1h"}}]}"#;
    let origin = submit(&engine, plan_of(text)).await;
    within(origin.command(Command::Execute { paused: false }, asking(None))).await.unwrap();
    until(&origin, |now| now.job.due().is_some()).await;
    clock.advance(Duration::from_mins(30));
    let fork = forked(&origin, from_task("s"), None).await.unwrap();
    assert_eq!(fork.snapshot.job.status(), JobStatus::Pending, "it starts as its plan says");
    within(fork.job.command(Command::Execute { paused: false }, asking(None))).await.unwrap();
    let due = |job: &Job| job.due().map(Timestamp::as_millis);
    let fork = until(&fork.job, |now| now.job.due().is_some()).await;
    let origin = within(origin.snapshot()).await.unwrap();
    let later = i64::try_from(Duration::from_mins(30).as_millis()).unwrap();
    assert_eq!(due(&fork.job), due(&origin.job).map(|due| due + later));
}

/// `CHAIN`, with more about the job.
fn chain_with(more: &str) -> annals_tasks_sdk::plan::Plan {
    plan_of(&format!(r#"{{"name": "test", {more}, "tasks": [{CHAIN}]}}"#))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_all_the_time_of_its_deadline_whatever_is_left_of_its_origins() {
    let (world, clock, tally) = (World::in_memory(), HandClock::new(), Tally::new());
    let engine = world.engine_at(&clock).task(task("count"), counting(&tally, &Gate::new()));
    let engine = within(engine.task(task("echo"), nothing).start()).await.unwrap();
    let minutes = Duration::from_mins;
    let origin = submit(&engine, chain_with(r#""deadline": "10m""#)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let until_then = |job: &Job| job.deadline_at().map(|at| at.since(job.started().unwrap()));
    clock.advance(minutes(9));
    let early = forked(&origin, from_task("b"), None).await.unwrap();
    assert_eq!(until_then(&early.snapshot.job), Some(minutes(10)));
    within(tally.until(|counts| counts.inside == 2)).await;
    clock.advance(minutes(1));
    engine.look();
    let code = |job: &Job| job.error().map(|(error, _)| error.code.to_string());
    let out = within(origin.ended()).await.unwrap().job;
    assert_eq!(code(&out).as_deref(), Some("deadline_exceeded"));
    assert_eq!(within(early.job.snapshot()).await.unwrap().job.status(), JobStatus::Running);
    // From one that is out of time goes on what that had no time for.
    let late = forked(&origin, from_task("b"), None).await.unwrap();
    assert_eq!(until_then(&late.snapshot.job), Some(minutes(10)));
    within(tally.until(|counts| counts.ever == 3 && counts.inside == 2)).await;
    clock.advance(minutes(9));
    engine.look();
    let out = within(early.job.ended()).await.unwrap().job;
    assert_eq!(code(&out).as_deref(), Some("deadline_exceeded"));
    assert_eq!(within(late.job.snapshot()).await.unwrap().job.status(), JobStatus::Running);
    laws(&early.job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_stands_in_line_for_the_key_of_its_origin() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
        let engine = start(&world, &tally, &gate, loops).await;
        let origin = submit(&engine, chain_with(r#""exclusive": "host""#)).await;
        within(tally.until(|counts| counts.inside == 1)).await;
        let fork = forked(&origin, from_task("b"), None).await.unwrap().job;
        let why = within(fork.explain()).await.unwrap().reasons.remove(0).reason;
        let Reason::WantsKey { holder, place, .. } = why else { panic!("{why}") };
        assert_eq!((holder, place), (origin.id(), 1));
        let ids = (origin.id(), fork.id());
        drop((origin, fork));
        kill(engine).await;
        within(tally.until(|counts| counts.inside == 0)).await;
        let engine = start(&world, &tally, &gate, loops).await;
        let (origin, fork) = (engine.job(ids.0), engine.job(ids.1));
        until(&origin, |now| now.job.is_live()).await;
        let held = within(origin.explain()).await.unwrap().held_key.expect("somebody waits");
        assert_eq!((held.waiting, held.first), (1, vec![fork.id()]));
        within(origin.command(Command::CANCEL, asking(None))).await.unwrap();
        until(&fork, |now| now.job.is_live()).await;
        gate.open();
        let ended = within(fork.ended()).await.unwrap().job;
        assert_eq!((ended.status(), tally.now().most), (JobStatus::Completed, 1));
        laws(&fork).await;
    }
}

/// A hold is of the job that somebody holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_held_job_runs() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 2).await;
    let origin = begun(&engine, &tally).await;
    let hold = Command::Pause { mode: PauseMode::Interrupt };
    within(origin.command(hold, asking(None))).await.unwrap();
    until(&origin, |now| now.job.status() == JobStatus::Paused).await;
    let from_seq = Fork::new(ForkFrom::Seq(within(origin.snapshot()).await.unwrap().job.seq()));
    gate.open();
    for fork in [from_task("b"), from_seq] {
        let fork = forked(&origin, fork, None).await.unwrap().job;
        let ended = within(fork.ended()).await.unwrap().job;
        assert_eq!(
            (ended.status(), outcomes(&ended, "b")),
            (JobStatus::Completed, vec!["completed"])
        );
    }
    assert_eq!(within(origin.snapshot()).await.unwrap().job.status(), JobStatus::Paused);
}

/// The log of the test says how long a large fork takes.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tasks_are_copied_in_one_row() {
    let (world, tally, gate) = (World::new(Store::Disk), Tally::new(), Gate::new());
    let (done, open) = (Tally::new(), Gate::new());
    open.open();
    let engine = world.engine().slots(64).task(task("count"), counting(&tally, &gate));
    let engine = engine.task(task("quick"), counting(&done, &open));
    let engine = within(engine.start()).await.unwrap();
    let quick = |n| format!(r#"{{"id": "t{n}", "kind": "quick", "input": {n}, "needs": []}}"#);
    let tasks: Vec<String> = (1..10_000).map(quick).collect();
    let last = r#"{"id": "last", "kind": "count", "needs": ["t1"]}"#;
    let origin = submit(&engine, plan(&format!("{}, {last}", tasks.join(",")))).await;
    // Whoever looks at a job of this size has it copied: that is for the end.
    within(done.until(|counts| counts.ever == 9_999 && counts.inside == 0)).await;
    until(&origin, |now| now.job.counts().completed == 9_999 && now.job.is_live()).await;
    let begun = Instant::now();
    let fork = forked(&origin, from_task("last"), None).await.unwrap();
    println!("a fork that copies 9,999 tasks takes {:?}", begun.elapsed());
    assert_eq!(fork.snapshot.job.counts().completed, 9_999);
    let history = within(fork.job.history(0, usize::MAX)).await.unwrap();
    let positions: Vec<u64> = history.iter().map(|logged| logged.position.0).collect();
    assert_eq!(positions[10_000], positions[0] + 10_000, "one row");
    gate.open();
    let ended = within(fork.job.ended()).await.unwrap().job;
    assert_eq!(ended.counts().completed, 10_000);
    laws(&fork.job).await;
}
