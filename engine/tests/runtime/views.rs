//! Views, parked jobs and recovery: what is not loaded is there all the same, and what cannot be
//! followed is refused alone.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, JobStatus, TaskNumber, Waiting};
use annals_engine::log::{EventLog, LogError, MemoryDisk, Position, ReadRow, UnknownEvent};
use annals_engine::runtime::{
    Builder, CommandError, Engine, EngineError, JobError, JobHandle, StartError,
};
use annals_tasks_sdk::{JobId, Payload};

use super::support::{
    Gate, HandClock, Store, Tampered, World, almost, cancel, laws, loops, nothing, plan, skip,
    status_of, submit, task, until, within,
};

const HOUR: Duration = Duration::from_hours(1);

async fn kill(engine: Engine) {
    within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
}

/// Waits until the views reflect all that was written before this was called.
async fn until_viewed(engine: &Engine) {
    let reader = engine.reader();
    let written = Position(reader.next_position().0 - 1);
    within(async {
        while reader.viewed() < written {
            // Each job adds events, which makes the next checkpoint due.
            let job = submit(engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
            job.ended().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_jobs_wait_although_few_are_loaded() {
    for (store, loops, count) in
        [(Store::Memory, 1, 3000), (Store::Memory, 3, 3000), (Store::Disk, 2, 400)]
    {
        let (world, clock) = (World::new(store), HandClock::new());
        let start = || {
            let engine = world.engine_at(&clock).loops(loops).resident(50).views_every(500);
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
        let engine = within(engine.task(task("wait"), wait).start()).await.unwrap();
        let mut ids = Vec::new();
        for n in 0..200 {
            let kind = if n % 2 == 0 { "wait" } else { "noop" };
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
            let refused = within(nobody.command(Command::Cancel, Ask::default())).await;
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
        let end = within(engine.job(job).ended()).await.unwrap();
        assert_eq!(end.job.status(), JobStatus::Completed);
    }
}

/// Why a job cannot be run.
async fn refusal(job: &JobHandle) -> String {
    let answers = [
        within(job.snapshot()).await.map(drop),
        within(job.ended()).await.map(drop),
        within(job.changed(0)).await.map(drop),
        match within(job.command(Command::Cancel, Ask::default())).await {
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
    let first = |history: Vec<annals_engine::runtime::Logged>| history[0].position;
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
        kill(engine).await;
    }
    clock.advance(HOUR);
    let engine = start().await.unwrap();
    let end = within(engine.job(good).ended()).await.unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
    assert!(within(engine.jobs(None, 10)).await.unwrap().iter().any(|row| row.job == bad));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_tail_stops_the_start_and_is_named() {
    // Whose row it is cannot be known, and to go on without it could undo what was acknowledged.
    let world = World::in_memory();
    let engine = within(world.engine().start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    within(job.ended()).await.unwrap();
    let place = job.history(0, 1).await.unwrap()[0].position;
    drop(job);
    kill(engine).await;
    world.disk.damage(place, |bytes| bytes.truncate(bytes.len() / 2));
    match within(world.engine().start()).await.map(drop) {
        Err(StartError::Log(LogError::Damaged(damage))) => {
            assert_eq!(damage.position, Some(place));
        }
        other => panic!("{other:?}"),
    }
}

/// Shows the last event of a job as one of a type that no build knows yet.
fn from_the_future(bad: JobId, seq: u64) -> impl Fn(&mut ReadRow) + Send + Sync + 'static {
    move |row| {
        if row.job == bad
            && let Some(place) = row.events.iter().position(|event| event.seq == seq)
        {
            let event = row.events.remove(place);
            row.unknown.push(UnknownEvent {
                seq,
                time: event.time,
                origin: event.origin,
                number: 777,
                version: 1,
                payload: Box::default(),
            });
        }
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
    within(
        job.command(Command::Pause { mode: annals_engine::job::PauseMode::Drain }, Ask::default()),
    )
    .await
    .unwrap();
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
