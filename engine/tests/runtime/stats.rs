//! What the engine counts, and what its start tells.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_engine::Engine;
use annals_engine::job::{Context, JobStatus, LossRule, Origin, PauseMode, Submitted};
use annals_engine::job::{begin, submit as first_events};
use annals_engine::log::{EventLog, Head, Options, Position, RedbLog, encode_row};
use annals_engine::runtime::{EngineStats, OpenJobs, Startup};
use annals_tasks_sdk::plan::Limits;
use annals_tasks_sdk::{JobId, TaskContext, TaskError, TaskResult, Timestamp};

use super::support::{
    Gate, HandClock, Tally, World, cancel, copy, counting, kill, loops, nothing, pause, plan,
    plan_of, submit, task, until, within,
};

async fn fails(_cx: TaskContext, _input: annals_tasks_sdk::Payload) -> TaskResult<()> {
    Err(TaskError::new("no", "it does not work").give_up())
}

/// Waits until the counts are as wanted: they follow the answers, a turn later at most.
async fn until_counted(engine: &Engine, holds: impl Fn(&EngineStats) -> bool) -> EngineStats {
    within(async {
        loop {
            let stats = engine.stats();
            if holds(&stats) {
                return stats;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_jobs_and_attempts_is_counted() {
    for loops in loops() {
        let (world, tally, go) = (World::in_memory(), Tally::new(), Gate::new());
        let kind = annals_tasks_sdk::TaskKind::new("fails");
        let builder = || {
            let builder = world.engine().loops(loops).slots(2).views_every(1);
            builder.task(task("count"), counting(&tally, &go)).task(kind, fails)
        };
        let engine = within(builder().start()).await.unwrap();
        let count = r#"{"id": "a", "kind": "count"}"#;
        let failed = submit(&engine, plan(r#"{"id": "a", "kind": "fails"}"#)).await;
        within(failed.ended()).await.unwrap();
        let done = submit(&engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
        within(done.ended()).await.unwrap();
        let mut running = Vec::new();
        for _ in 0..3 {
            running.push(submit(&engine, plan(count)).await.id());
        }
        within(tally.until(|counts| counts.inside == 2)).await;
        let text = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
        let sleeper = submit(&engine, plan(text)).await;
        until(&sleeper, |now| now.job.due().is_some()).await;
        let text = r#"{"name": "m", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
        let pending = submit(&engine, plan_of(text)).await;
        let held = submit(&engine, plan_of(text)).await;
        pause(&held, PauseMode::Drain).await;
        let stats = until_counted(&engine, |stats| stats.timers == 1).await;
        let jobs = (stats.jobs.submitted, stats.jobs.completed, stats.jobs.failed);
        assert_eq!((jobs, stats.jobs.cancelled), ((8, 1, 1), 0));
        let open = OpenJobs { pending: 1, running: 4, paused: 1, loaded: 6, broken: 0 };
        assert_eq!(stats.open, open);
        let attempts = stats.attempts;
        assert_eq!((attempts.started, attempts.completed, attempts.failed), (4, 1, 1));
        assert_eq!((stats.live_attempts, stats.late_reports), (2, 0));
        let pool = stats.pools.iter().find(|pool| &*pool.name == "default").unwrap();
        assert_eq!((pool.slots, pool.in_use, pool.waiting), (2, 2, 1));
        assert!(stats.writer.rows >= 8 && stats.writer.commits <= stats.writer.rows);
        assert!(stats.writer.commit_time >= stats.writer.last_commit);
        assert_eq!(stats.next_position, Position(stats.writer.events + 1));
        cancel(&engine.job(running[2])).await;
        cancel(&engine.job(running[0])).await;
        within(engine.job(running[0]).ended()).await.unwrap();
        let counted = |stats: &EngineStats| (stats.jobs.cancelled, stats.open.running);
        let stats = until_counted(&engine, |stats| counted(stats) == (2, 2)).await;
        assert_eq!((stats.attempts.interrupted, stats.live_attempts), (1, 1));
        drop((failed, done, sleeper, pending, held));
        kill(engine).await;
        within(tally.until(|counts| counts.inside == 0)).await;
        // The next engine finds the same jobs, and loses the attempt that was alive.
        let engine = within(builder().start()).await.unwrap();
        within(tally.until(|counts| counts.inside == 1)).await;
        let stats = until_counted(&engine, |stats| stats.timers == 1).await;
        let OpenJobs { pending, running: still, paused, .. } = stats.open;
        assert_eq!((pending, still, paused), (1, 2, 1));
        assert_eq!((stats.attempts.lost, stats.attempts.started), (1, 1));
        assert_eq!(stats.jobs.submitted, 0);
        go.open();
        let end = within(engine.job(running[1]).ended()).await.unwrap();
        assert_eq!(end.job.status(), JobStatus::Completed);
        let last = |stats: &EngineStats| (stats.open.running, stats.jobs.completed);
        until_counted(&engine, |stats| last(stats) == (1, 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_not_loaded_are_counted_too() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let start = || within(world.engine_at(&clock).resident(0).views_every(1).start());
    let engine = start().await.unwrap();
    let text = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
    for _ in 0..20 {
        submit(&engine, plan(text)).await;
    }
    let parked = |stats: &EngineStats| (stats.open.loaded, stats.timers) == (0, 20);
    assert_eq!(until_counted(&engine, parked).await.open.running, 20);
    kill(engine).await;
    let engine = start().await.unwrap();
    assert_eq!(until_counted(&engine, parked).await.open.running, 20);
    clock.advance(Duration::from_hours(1));
    engine.look();
    let over = |stats: &EngineStats| (stats.jobs.completed, stats.open.running) == (20, 0);
    until_counted(&engine, over).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_comes_too_late_is_counted() {
    let (world, go) = (World::in_memory(), Gate::new());
    let (told, mut refusals) = tokio::sync::mpsc::unbounded_channel();
    let held = go.clone();
    let leaves = move |cx: TaskContext, input: annals_tasks_sdk::Payload| {
        let (go, told) = (held.clone(), told.clone());
        // Something of the attempt goes on when that is over.
        tokio::spawn(async move {
            go.pass().await;
            told.send(cx.checkpoint(&1).await.is_err()).unwrap();
        });
        async move { Ok(input) }
    };
    let engine = within(world.engine().task(task("leaves"), leaves).start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "leaves"}"#)).await;
    within(job.ended()).await.unwrap();
    assert_eq!(engine.stats().late_reports, 0);
    go.open();
    assert_eq!(within(refusals.recv()).await, Some(true));
    until_counted(&engine, |stats| stats.late_reports == 1).await;
}

/// A store whose engine was killed in the middle of a commit, with one job that waits.
fn killed(folder: &Path) {
    let whole = folder.join("whole");
    let mut log = RedbLog::open(&whole, &Options::default()).unwrap();
    let text = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}"#;
    let submitted = Submitted { plan: plan(text), workflow: None, source: None };
    let now = Timestamp::from_millis(1_700_000_000_000);
    let (origin, losses) = (Origin::ENGINE, LossRule::default());
    let cx = Context { origin, key: None, now, random: 0.5, losses, instances: 10_000 };
    let events = first_events(submitted, &Limits::default()).unwrap();
    let id = JobId::from_u128(7);
    let (_, recorded) = begin(id, events, &cx).unwrap();
    let (mut row, _) = encode_row(id, &Head::default(), &recorded, Vec::new()).unwrap();
    row.place(Position(1));
    log.append(&[row]).unwrap();
    copy(&whole, &folder.join("killed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_tells_what_it_is_doing() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path());
    let (told, noticed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let (tell, notice) = (Arc::clone(&told), Arc::clone(&noticed));
    let options = Options {
        notify: Some(Arc::new(move |_| *notice.lock().unwrap() += 1)),
        ..Options::default()
    };
    let engine = Engine::open(folder.path().join("killed")).store(options);
    let engine = engine.progress(move |doing| tell.lock().unwrap().push(doing));
    let engine = within(engine.task(task("work"), nothing).start()).await.unwrap();
    let told = told.lock().unwrap().clone();
    assert_eq!(told.first(), Some(&Startup::Opening));
    let is_repair = |doing: &&Startup| matches!(doing, Startup::Repairing { .. });
    let repairs = told.iter().filter(is_repair).count();
    assert!(repairs > 0, "{told:?}");
    assert_eq!(*noticed.lock().unwrap(), repairs, "who listened to the store still does");
    let words: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert!(words[1].ends_with("after a crash, 0 %"), "{words:?}");
    let share = |doing: &Startup| match doing {
        Startup::Recovering { fraction } => Some(*fraction),
        _ => None,
    };
    let shares: Vec<f64> = told.iter().filter_map(share).collect();
    assert!(shares.is_sorted(), "{shares:?}");
    assert_eq!((shares.first(), shares.last()), (Some(&0.0), Some(&1.0)));
    let end = [Startup::EndingLeftovers, Startup::Resuming];
    assert_eq!(told[told.len() - 2..], end);
    assert_eq!(engine.stats().open.running, 1);
}
