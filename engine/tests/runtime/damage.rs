//! Histories that cannot be followed are refused alone, with the reason; a log that cannot be read
//! is no damage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, PauseMode};
use annals_engine::log::{EventLog, LogError, MemoryDisk, Position, ReadRow, UnknownEvent};
use annals_engine::runtime::{
    Builder, CommandError, Engine, EngineError, JobError, JobHandle, Logged, StartError,
};
use annals_tasks_sdk::JobId;

use super::support::{
    HandClock, Tampered, World, injected, kill, laws, plan, status_of, submit, until,
    until_listed_as_ended, until_viewed, within,
};

const HOUR: Duration = Duration::from_hours(1);

/// Why a job cannot be run.
async fn refusal(job: &JobHandle) -> String {
    let answers = [
        within(job.snapshot()).await.map(drop),
        within(job.ended()).await.map(drop),
        within(job.changed(0)).await.map(drop),
        match within(job.command(Command::CANCEL, Ask::default())).await {
            Err(CommandError::Job(error)) => Err(error),
            other => panic!("{other:?}"),
        },
    ];
    let whys = answers.map(|answer| match answer {
        Err(JobError::Unreadable { job: id, why }) if id == job.id() => why,
        other => panic!("{other:?}"),
    });
    assert!(whys.iter().all(|why| *why == whys[0]));
    whys[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_is_refused_alone() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let start = || within(world.engine_at(&clock).views_every(1).start());
    let engine = start().await.unwrap();
    let sleep =
        r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}, {"id": "b", "kind": "noop"}"#;
    let (bad, good) = (submit(&engine, plan(sleep)).await, submit(&engine, plan(sleep)).await);
    let ended = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    within(ended.ended()).await.unwrap();
    until_viewed(&engine).await;
    let first = |history: Vec<Logged>| history[0].position;
    let places =
        [first(bad.history(0, 1).await.unwrap()), first(ended.history(0, 1).await.unwrap())];
    let (bad, good, ended) = (bad.id(), good.id(), ended.id());
    within(engine.shutdown()).await.unwrap();
    drop(engine);
    for place in places {
        world.disk.damage(place, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
        });
    }
    for _ in 0..2 {
        let engine = start().await.unwrap();
        for (id, place) in [(bad, places[0]), (ended, places[1])] {
            let why = refusal(&engine.job(id)).await;
            assert!(why.contains(&format!("position {}", place.0)), "{why}");
        }
        let now = within(engine.job(good).snapshot()).await.unwrap();
        assert_eq!(now.job.status(), JobStatus::Running);
        // The ended one was not looked at by the start: nothing of it goes on.
        let known = within(engine.unreadable()).await.unwrap();
        assert!(known.keys().eq([&bad]), "{known:?}");
        kill(engine).await;
    }
    clock.advance(HOUR);
    let engine = start().await.unwrap();
    let end = within(engine.job(good).ended()).await.unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
    assert!(within(engine.jobs(None, 10)).await.unwrap().iter().any(|row| row.job == bad));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_of_the_tail_stops_its_job_alone() {
    for place in 0..3 {
        let (world, clock) = (World::in_memory(), HandClock::new());
        let start = |every| within(world.engine_at(&clock).views_every(every).start());
        let engine = start(50_000).await.unwrap();
        let text = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"},
            {"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
        let mut jobs = Vec::new();
        for _ in 0..3 {
            let job = submit(&engine, plan(text)).await;
            until(&job, |now| status_of(&now.job, "s") == "waiting").await;
            jobs.push(job.id());
        }
        let history = engine.job(jobs[1]).history(0, 100).await.unwrap();
        kill(engine).await;
        // The first row, one in the middle, or the last.
        let rows: Vec<Position> = history.iter().map(|logged| logged.position).collect();
        let position = rows[place * (rows.len() - 1) / 2];
        let row = world.disk.open().reader().row(position).unwrap().unwrap().position;
        world.disk.damage(row, |bytes| *bytes.last_mut().unwrap() ^= 1);
        // The views of the first of these go beyond the damage.
        for _ in 0..2 {
            let engine = start(1).await.unwrap();
            let why = refusal(&engine.job(jobs[1])).await;
            assert!(why.contains(&format!("position {}", row.0)), "{why}");
            let now = within(engine.job(jobs[2]).snapshot()).await.unwrap();
            assert_eq!(status_of(&now.job, "s"), "waiting");
            until_viewed(&engine).await;
            kill(engine).await;
        }
        clock.advance(HOUR);
        let engine = start(50_000).await.unwrap();
        for id in [jobs[0], jobs[2]] {
            let end = within(engine.job(id).ended()).await.unwrap();
            assert_eq!(end.job.status(), JobStatus::Completed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_may_be_of_any_job_stops_the_start() {
    // To go on without the row could undo what was acknowledged.
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let text = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
    let (job, other) = (submit(&engine, plan(text)).await, submit(&engine, plan(text)).await);
    for job in [&job, &other] {
        until(job, |now| status_of(&now.job, "s") == "waiting").await;
    }
    let place = job.history(0, 1).await.unwrap()[0].position;
    drop((job, other));
    kill(engine).await;
    world.disk.damage(place, |bytes| bytes.truncate(20));
    match within(world.engine().start()).await.map(drop) {
        Err(StartError::Log(LogError::Damaged(damage))) => {
            assert_eq!(damage.position, Some(place));
        }
        other => panic!("{other:?}"),
    }
}

/// Shows the last event of a job as one of a type that no build knows yet.
fn from_the_future(
    bad: JobId,
    seq: u64,
) -> impl Fn(&mut ReadRow) -> Result<(), LogError> + Send + Sync + 'static {
    move |row| {
        if row.job == bad
            && let Some(place) = row.events.iter().position(|event| event.seq == seq)
        {
            let event = row.events.remove(place);
            row.unknown.push(UnknownEvent {
                seq,
                time: event.time,
                origin: event.origin,
                key: None,
                number: 777,
                version: 1,
                payload: Box::default(),
            });
        }
        Ok(())
    }
}

fn on(disk: &MemoryDisk, change: Option<(JobId, u64)>, dir: &tempfile::TempDir) -> Builder {
    let log: Box<dyn EventLog> = Box::new(disk.open());
    let log: Box<dyn EventLog> = match change {
        Some((bad, seq)) => Box::new(Tampered { log, change: Arc::new(from_the_future(bad, seq)) }),
        None => log,
    };
    Engine::open(dir.path()).log(log)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_an_unknown_event_is_refused_until_a_build_knows_it() {
    let (disk, dir, clock) = (MemoryDisk::new(), tempfile::tempdir().unwrap(), HandClock::new());
    let engine = within(on(&disk, None, &dir).clock(clock.clone()).views_every(1).start());
    let engine = engine.await.unwrap();
    let text =
        r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}, {"id": "b", "kind": "noop"}"#;
    let job = submit(&engine, plan(text)).await;
    until_viewed(&engine).await;
    kill_with(engine, job.id()).await;
    // The views know the job as it is; then something happens that they do not know.
    let engine = within(on(&disk, None, &dir).clock(clock.clone()).start()).await.unwrap();
    let job = engine.job(job.id());
    within(job.command(Command::Pause { mode: PauseMode::Drain }, Ask::default())).await.unwrap();
    let (bad, last) = (job.id(), within(job.snapshot()).await.unwrap().job.seq());
    drop(job);
    kill(engine).await;
    // Two older builds, the views of the first of which go beyond the event.
    clock.advance(HOUR);
    for _ in 0..2 {
        let engine = on(&disk, Some((bad, last)), &dir).clock(clock.clone()).views_every(1);
        let engine = within(engine.start()).await.unwrap();
        let why = refusal(&engine.job(bad)).await;
        assert!(why.contains("777") && why.contains("newer build"), "{why}");
        let row = within(engine.jobs(None, 100)).await.unwrap();
        let row = row.iter().find(|row| row.job == bad).expect("it is listed");
        assert_eq!(row.head.seq, last);
        until_viewed(&engine).await;
        kill(engine).await;
    }
    // A build that knows it goes on from there.
    let engine = within(on(&disk, None, &dir).clock(clock.clone()).start()).await.unwrap();
    let job = engine.job(bad);
    let now = within(job.snapshot()).await.unwrap().job;
    assert_eq!((now.seq(), now.status()), (last, JobStatus::Paused));
    within(job.command(Command::Resume, Ask::default())).await.unwrap();
    within(job.ended()).await.unwrap();
    assert_eq!(laws(&job).await.status(), JobStatus::Completed);
    assert!(!matches!(within(engine.shutdown()).await, Err(EngineError::Log(_))));
}

async fn kill_with(engine: Engine, job: JobId) {
    let seen = within(engine.job(job).snapshot()).await.unwrap();
    assert_eq!(seen.job.status(), JobStatus::Running);
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_read_for_a_while_makes_no_job_unreadable() {
    let (disk, dir, clock) = (MemoryDisk::new(), tempfile::tempdir().unwrap(), HandClock::new());
    let ill = Arc::new(AtomicBool::new(false));
    let start = |views_every| {
        let is_ill = Arc::clone(&ill);
        let change = move |_: &mut ReadRow| {
            if is_ill.load(Ordering::SeqCst) { Err(injected()) } else { Ok(()) }
        };
        let log = Tampered { log: Box::new(disk.open()), change: Arc::new(change) };
        let engine = Engine::open(dir.path()).log(Box::new(log)).clock(clock.clone());
        within(engine.resident(0).resting_bytes(0).views_every(views_every).start())
    };
    let engine = start(1).await.unwrap();
    let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
    let id = submit(&engine, plan(text)).await.id();
    until(&engine.job(id), |now| status_of(&now.job, "a") == "waiting").await;
    until_viewed(&engine).await;
    // It is parked, and cannot be loaded when it is asked for, nor when it is due.
    ill.store(true, Ordering::SeqCst);
    let refused = within(engine.job(id).snapshot()).await.map(drop);
    assert!(matches!(refused, Err(JobError::Engine(EngineError::Log(_)))), "{refused:?}");
    clock.advance(HOUR);
    engine.look();
    assert!(within(engine.job(id).snapshot()).await.is_err());
    ill.store(false, Ordering::SeqCst);
    // It is tried again by itself.
    clock.advance(Duration::from_secs(10));
    engine.look();
    until_listed_as_ended(&engine, id).await;
    assert_eq!(within(engine.job(id).ended()).await.unwrap().job.status(), JobStatus::Completed);
    // At the start it is all or nothing.
    kill(engine).await;
    let engine = start(50_000).await.unwrap();
    let id = submit(&engine, plan(text)).await.id();
    kill(engine).await;
    ill.store(true, Ordering::SeqCst);
    let refused = start(50_000).await.map(drop);
    assert!(matches!(refused, Err(StartError::Log(LogError::Io { .. }))), "{refused:?}");
    ill.store(false, Ordering::SeqCst);
    let engine = start(50_000).await.unwrap();
    clock.advance(HOUR);
    engine.look();
    assert_eq!(within(engine.job(id).ended()).await.unwrap().job.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_followed_when_it_is_due_stays_refused() {
    let (disk, dir, clock) = (MemoryDisk::new(), tempfile::tempdir().unwrap(), HandClock::new());
    let ill = Arc::new(AtomicBool::new(false));
    let is_ill = Arc::clone(&ill);
    let change = move |row: &mut ReadRow| {
        if is_ill.load(Ordering::SeqCst) {
            from_the_future(row.job, row.events[0].seq)(row)?;
        }
        Ok(())
    };
    let log = Tampered { log: Box::new(disk.open()), change: Arc::new(change) };
    let engine = Engine::open(dir.path()).log(Box::new(log)).clock(clock.clone());
    let engine = engine.resident(0).resting_bytes(0).views_every(1);
    let engine = within(engine.start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
    let job = submit(&engine, plan(text)).await;
    until(&job, |now| status_of(&now.job, "a") == "waiting").await;
    until_viewed(&engine).await;
    let watching = job.clone();
    let mut watching = std::pin::pin!(watching.ended());
    tokio::select! {
        biased;
        _ = &mut watching => panic!("it sleeps"),
        now = job.snapshot() => assert_eq!(status_of(&now.unwrap().job, "a"), "waiting"),
    }
    ill.store(true, Ordering::SeqCst);
    clock.advance(HOUR);
    engine.look();
    let told = within(watching).await.map(drop);
    assert!(matches!(told, Err(JobError::Unreadable { .. })), "{told:?}");
    ill.store(false, Ordering::SeqCst);
    assert!(refusal(&job).await.contains("777"));
    // It is no worse for a start by which its history can be followed.
    let id = job.id();
    drop(job);
    kill(engine).await;
    let engine = within(on(&disk, None, &dir).clock(clock.clone()).start()).await.unwrap();
    let end = within(engine.job(id).ended()).await.unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
}
