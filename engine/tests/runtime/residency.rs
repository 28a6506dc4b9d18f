//! Jobs that are not loaded: they are read aside from what runs, once for all who ask, and as
//! long as nothing happens to them not even that.
//!
//! A loop that reads a history itself keeps all its jobs waiting for it, which shows here as a
//! hang: the reads of one job are held, and others must go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, PauseMode};
use annals_engine::log::Fault;
use annals_engine::runtime::{
    Builder, CommandError, Engine, EngineError, JobError, JobHandle, Snapshot,
};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError, TaskResult};
use tokio::task::JoinHandle;

use super::support::{
    HandClock, Store, World, execute, kill, laws, loops, pause, plan, status_of, submit, task,
    until, until_listed_as_ended, until_viewed, within,
};

const HOUR: Duration = Duration::from_hours(1);
const SLEEP: &str =
    r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}, {"id": "n", "kind": "noop"}"#;

/// A world in which jobs were left alone.
struct Quiet {
    world: World,
    clock: Arc<HandClock>,
    /// It has ended.
    ended: JobId,
    /// It waits for its time, and nobody keeps it loaded.
    parked: JobId,
}

impl Quiet {
    /// Jobs that nothing but the views knows of, or, of the parked one, where its history stands.
    async fn new(store: Store) -> Self {
        let (world, clock) = (World::new(store), HandClock::new());
        let engine = within(world.engine_at(&clock).views_every(1).start()).await.unwrap();
        let ended = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
        within(ended.ended()).await.unwrap();
        let parked = submit(&engine, plan(SLEEP)).await;
        until(&parked, |now| status_of(&now.job, "s") == "waiting").await;
        until_viewed(&engine).await;
        let (ended, parked) = (ended.id(), parked.id());
        kill(engine).await;
        Self { world, clock, ended, parked }
    }

    fn builder(&self, loops: usize) -> Builder {
        self.world.engine_at(&self.clock).loops(loops).resident(0)
    }

    async fn start(&self, loops: usize) -> Engine {
        within(self.builder(loops).start()).await.unwrap()
    }
}

/// What was asked of a job: the seq that the answer rests on.
type Asked = JoinHandle<Result<u64, CommandError>>;

fn ask_for_snapshot(job: &JobHandle) -> Asked {
    let job = job.clone();
    tokio::spawn(async move { Ok(job.snapshot().await?.job.seq()) })
}

fn ask_for_change(job: &JobHandle) -> Asked {
    let job = job.clone();
    tokio::spawn(async move { Ok(job.changed(0).await?) })
}

fn ask_for_end(job: &JobHandle) -> Asked {
    let job = job.clone();
    tokio::spawn(async move { Ok(job.ended().await?.job.seq()) })
}

fn ask_to(job: &JobHandle, command: Command, expected_seq: Option<u64>) -> Asked {
    let (job, ask) = (job.clone(), Ask { expected_seq, ..Ask::default() });
    tokio::spawn(async move { Ok(job.command(command, ask).await?.snapshot.job.seq()) })
}

async fn answers(asked: Vec<Asked>) -> Vec<Result<u64, CommandError>> {
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(within(asked).await.unwrap());
    }
    answers
}

/// Has a job of the same engine run from its start to its end.
async fn another_job_runs(engine: &Engine) {
    let other = submit(engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    within(other.ended()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_being_read_keeps_nobody_else_waiting() {
    for loops in loops() {
        let quiet = Quiet::new(Store::Memory).await;
        for (id, neighbour) in [(quiet.ended, quiet.parked), (quiet.parked, quiet.ended)] {
            let engine = quiet.start(loops).await;
            let (job, reads) = (engine.job(id), &quiet.world.reads);
            let (before, held) = (reads.count(id), reads.hold(id));
            let command = if id == quiet.ended {
                Command::Execute { paused: false }
            } else {
                Command::Resume
            };
            let mut asked =
                vec![ask_for_snapshot(&job), ask_for_change(&job), ask_to(&job, command, None)];
            if id == quiet.ended {
                asked.push(ask_for_end(&job));
            }
            within(reads.until_held(1)).await;
            for _ in 0..10 {
                another_job_runs(&engine).await;
            }
            within(engine.job(neighbour).snapshot()).await.unwrap();
            let nobody = within(engine.job(JobId::from_u128(7)).snapshot()).await;
            assert!(matches!(nobody, Err(JobError::NotFound(_))));
            assert!(within(engine.jobs(None, 10)).await.unwrap().len() > 2);
            assert!(asked.iter().all(|asked| !asked.is_finished()), "they wait for the read");
            drop(held);
            for answer in answers(asked).await {
                answer.expect("it is answered");
            }
            assert_eq!(reads.count(id) - before, 1, "it is read once");
            laws(&job).await;
            drop(job);
            kill(engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_at_once_have_a_job_read_once() {
    for store in Store::BOTH {
        let quiet = Quiet::new(store).await;
        for id in [quiet.ended, quiet.parked] {
            let (engine, reads) = (quiet.start(1).await, &quiet.world.reads);
            let (before, held) = (reads.count(id), reads.hold(id));
            let job = engine.job(id);
            let asked = (0..300).map(|n| match n % 3 {
                0 => ask_for_snapshot(&job),
                1 => ask_for_change(&job),
                _ => ask_to(&job, Command::CANCEL, Some(99)),
            });
            let asked: Vec<Asked> = asked.collect();
            within(reads.until_held(1)).await;
            another_job_runs(&engine).await;
            drop(held);
            for (answer, n) in answers(asked).await.into_iter().zip(0..) {
                match answer {
                    Err(CommandError::Stale { .. }) if n % 3 == 2 => {}
                    other => assert!(n % 3 < 2 && other.is_ok(), "{other:?}"),
                }
            }
            // Nothing happens to it any more, and it is not loaded, whoever asks.
            for asked in (0..300).map(|_| ask_for_snapshot(&job)).collect::<Vec<_>>() {
                within(asked).await.unwrap().unwrap();
            }
            assert_eq!((reads.count(id) - before, reads.most_held()), (1, 1));
            assert_eq!(engine.stats().loads, 1);
            // It is let go of at the end of the turn in which it is answered.
            let rests = async {
                while engine.stats().at_rest.jobs == 0 {
                    tokio::task::yield_now().await;
                }
            };
            within(rests).await;
            assert!(engine.stats().at_rest.bytes > 0);
            drop(job);
            kill(engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_room_a_job_is_read_each_time() {
    let quiet = Quiet::new(Store::Memory).await;
    let engine = within(quiet.builder(1).resting_bytes(0).start()).await.unwrap();
    for id in [quiet.ended, quiet.parked] {
        let before = quiet.world.reads.count(id);
        for _ in 0..5 {
            within(engine.job(id).snapshot()).await.unwrap();
        }
        assert_eq!(quiet.world.reads.count(id) - before, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_commands_on_a_job_that_is_being_read_the_first_one_wins() {
    for loops in loops() {
        let quiet = Quiet::new(Store::Memory).await;
        let (engine, reads) = (quiet.start(loops).await, &quiet.world.reads);
        let job = engine.job(quiet.parked);
        let seq = within(job.snapshot()).await.unwrap().job.seq();
        kill(engine).await;
        let engine = quiet.start(loops).await;
        let (job, held) = (engine.job(quiet.parked), reads.hold(quiet.parked));
        let pause = || Command::Pause { mode: PauseMode::Drain };
        let asked: Vec<Asked> = (0..20).map(|_| ask_to(&job, pause(), Some(seq))).collect();
        within(reads.until_held(1)).await;
        another_job_runs(&engine).await;
        drop(held);
        let (taken, refused): (Vec<_>, Vec<_>) =
            answers(asked).await.into_iter().partition(Result::is_ok);
        assert_eq!((taken.len(), refused.len()), (1, 19));
        for refused in refused {
            assert!(matches!(refused, Err(CommandError::Stale { .. })), "{refused:?}");
        }
        assert_eq!(laws(&job).await.status(), JobStatus::Paused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_comes_while_a_job_is_being_read_is_not_missed() {
    for loops in loops() {
        for asked_first in [true, false] {
            let quiet = Quiet::new(Store::Memory).await;
            let (engine, reads) = (quiet.start(loops).await, &quiet.world.reads);
            let (job, held) = (engine.job(quiet.parked), reads.hold(quiet.parked));
            let before = reads.count(quiet.parked);
            let mut asked = Vec::new();
            if asked_first {
                asked.push(ask_for_snapshot(&job));
                within(reads.until_held(1)).await;
            }
            quiet.clock.advance(HOUR);
            engine.look();
            another_job_runs(&engine).await;
            within(reads.until_held(1)).await;
            asked.push(ask_for_snapshot(&job));
            another_job_runs(&engine).await;
            drop(held);
            assert!(answers(asked).await.iter().all(Result::is_ok));
            until_listed_as_ended(&engine, quiet.parked).await;
            assert_eq!(reads.count(quiet.parked) - before, 1);
            assert_eq!(laws(&job).await.status(), JobStatus::Completed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_jobs_whose_time_has_come_one_that_is_slow_to_read_is_late_alone() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let start = || within(world.engine_at(&clock).resident(0).views_every(1).start());
    let engine = start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..300 {
        let job = submit(&engine, plan(SLEEP)).await;
        until(&job, |now| status_of(&now.job, "s") == "waiting").await;
        ids.push(job.id());
    }
    until_viewed(&engine).await;
    kill(engine).await;
    let engine = start().await.unwrap();
    let held: Vec<_> = ids[..3].iter().map(|&id| world.reads.hold(id)).collect();
    clock.advance(HOUR);
    engine.look();
    for &id in &ids[3..] {
        until_listed_as_ended(&engine, id).await;
    }
    assert_eq!(world.reads.held(), 3);
    drop(held);
    for &id in &ids[..3] {
        until_listed_as_ended(&engine, id).await;
    }
    for &id in ids.iter().step_by(50) {
        assert_eq!(world.reads.count(id), 1);
        laws(&engine.job(id)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_reading_of_a_job_is_its_own() {
    let quiet = Quiet::new(Store::Memory).await;
    let engine = quiet.start(1).await;
    // More often than there are threads that read.
    for _ in 0..10 {
        quiet.world.reads.panic(quiet.ended);
        match within(engine.job(quiet.ended).snapshot()).await.map(drop) {
            Err(JobError::Unreadable { job, why }) => {
                assert!(job == quiet.ended && why.contains("the log panics"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    within(engine.job(quiet.parked).snapshot()).await.unwrap();
    laws(&engine.job(quiet.ended)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ends_waits_for_no_read_and_says_so() {
    for fails in [false, true] {
        for store in Store::BOTH {
            let quiet = Quiet::new(store).await;
            let engine = quiet.start(1).await;
            let job = engine.job(quiet.ended);
            let held = quiet.world.reads.hold(quiet.ended);
            let asked = vec![
                ask_for_snapshot(&job),
                ask_for_end(&job),
                ask_to(&job, Command::Execute { paused: false }, None),
            ];
            within(quiet.world.reads.until_held(1)).await;
            another_job_runs(&engine).await;
            if fails {
                quiet.world.gate.fail(1, Fault::Before);
                let other = engine.job(quiet.parked);
                let failed = other.command(Command::CANCEL, Ask::default());
                assert!(within(failed).await.is_err());
            } else {
                within(engine.shutdown()).await.unwrap();
            }
            for answer in answers(asked).await {
                let Err(CommandError::Job(JobError::Engine(error))) = answer else {
                    panic!("{answer:?}");
                };
                let unknown = matches!(error, EngineError::OutcomeUnknown(_));
                assert!(unknown || !fails && matches!(error, EngineError::Stopped), "{error}");
            }
            drop(held);
            drop(job);
            kill(engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_end_of_an_engine_nothing_is_answered_that_it_still_knows() {
    for fails in [false, true] {
        let quiet = Quiet::new(Store::Memory).await;
        let engine = quiet.start(1).await;
        let job = engine.job(quiet.ended);
        let end = within(job.ended()).await.unwrap();
        within(job.snapshot()).await.unwrap();
        if fails {
            quiet.world.gate.fail(1, Fault::After);
            let other = engine.job(quiet.parked);
            let failed = other.command(Command::CANCEL, Ask::default());
            assert!(within(failed).await.is_err());
        } else {
            within(engine.shutdown()).await.unwrap();
        }
        let refused = [
            within(job.snapshot()).await.map(drop),
            within(job.ended()).await.map(drop),
            within(job.changed(end.job.seq() - 1)).await.map(drop),
            within(job.history(0, 1)).await.map(drop),
        ];
        assert!(refused.iter().all(|answer| matches!(answer, Err(JobError::Engine(_)))));
    }
}

async fn fail(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    Err(TaskError::new("broken", "it fails"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_less_than_what_was_acknowledged() {
    for (loops, bytes) in [(1, 64 << 20), (3, 64 << 20), (1, 0)] {
        let world = World::in_memory();
        let engine = world.engine().loops(loops).resident(0).resting_bytes(bytes);
        let engine = within(engine.task(task("fail"), fail).start()).await.unwrap();
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "fail"}"#)).await;
        let first = within(job.ended()).await.unwrap();
        let acknowledged = Arc::new(AtomicU64::new(first.job.seq()));
        let mut reading = Vec::new();
        for _ in 0..4 {
            let (job, acknowledged) = (job.clone(), Arc::clone(&acknowledged));
            reading.push(tokio::spawn(async move {
                let mut seen = 0;
                loop {
                    let least = acknowledged.load(Ordering::SeqCst).max(seen);
                    if least == u64::MAX {
                        return;
                    }
                    seen = within(job.snapshot()).await.unwrap().job.seq();
                    assert!(seen >= least, "{seen} after {least}");
                    tokio::task::yield_now().await;
                }
            }));
        }
        for _ in 0..300 {
            let execute = job.command(Command::Execute { paused: false }, Ask::default());
            let answer = within(execute).await.unwrap();
            acknowledged.fetch_max(answer.snapshot.job.seq(), Ordering::SeqCst);
            let end: Snapshot = within(job.ended()).await.unwrap();
            acknowledged.fetch_max(end.job.seq(), Ordering::SeqCst);
        }
        acknowledged.store(u64::MAX, Ordering::SeqCst);
        for reading in reading {
            within(reading).await.unwrap();
        }
        assert_eq!(laws(&job).await.status(), JobStatus::Failed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_a_job_that_is_not_loaded_hears_when_it_goes_on() {
    for bytes in [64 << 20, 0] {
        let (world, clock) = (World::in_memory(), HandClock::new());
        let engine = world.engine_at(&clock).resident(0).resting_bytes(bytes).views_every(1);
        let engine = within(engine.task(task("fail"), fail).start()).await.unwrap();
        let failed = submit(&engine, plan(r#"{"id": "a", "kind": "fail"}"#)).await;
        let end = within(failed.ended()).await.unwrap().job.seq();
        let parked = submit(&engine, plan(SLEEP)).await;
        let waiting = until(&parked, |now| status_of(&now.job, "s") == "waiting").await.job.seq();
        let watched = parked.clone();
        let changes = tokio::spawn(async move { watched.changed(waiting).await });
        let sleeps = ask_for_end(&parked);
        let watched = failed.clone();
        let mut reopened = tokio::spawn(async move { watched.changed(end).await });
        until_viewed(&engine).await;
        assert!(!reopened.is_finished() && !sleeps.is_finished());
        execute(&failed).await;
        assert!(within(&mut reopened).await.unwrap().unwrap() > end);
        pause(&parked, PauseMode::Drain).await;
        within(changes).await.unwrap().unwrap();
        super::support::resume(&parked).await;
        clock.advance(HOUR);
        engine.look();
        within(sleeps).await.unwrap().unwrap();
        laws(&failed).await;
        laws(&parked).await;
    }
}
