//! Tasks that take the whole process with them. Each crash is a numbered, lost attempt; whatever
//! else was running is lost with it, and finishes; the tasks that kill are given up after a
//! bounded number of restarts.
//!
//! The program starts itself as the engine that crashes, again and again as a supervisor of
//! services would, so it has a main of its own instead of the test harness.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use annals_engine::job::{AttemptOutcome, Event, Job, JobStatus, LossRule, Origin, TaskStatus};
use annals_engine::{Engine, Mode, Submission, log};
use annals_tasks_sdk::plan::{Plan, TaskSpec};
use annals_tasks_sdk::{KindName, TaskContext, TaskId, TaskKind, TaskResult};
use rustix::process::{Resource, Rlimit, setrlimit};

const ENGINE: &str = "--be-an-engine";
const INNOCENTS: usize = 20;
const POISONS: [&str; 3] = [ABORT.name(), OVERFLOW.name(), EXHAUST.name()];

const STEADY: TaskKind<(), u32> = TaskKind::new("steady");
const ABORT: TaskKind<(), ()> = TaskKind::new("abort");
const OVERFLOW: TaskKind<(), ()> = TaskKind::new("overflow");
const EXHAUST: TaskKind<(), ()> = TaskKind::new("exhaust");

/// What the engine that crashes may address, in bytes.
const ADDRESS_SPACE: u64 = 16 << 30;

/// Longer than a poison takes to strike, so that what runs beside it is lost with it.
const STEADY_FOR: Duration = Duration::from_millis(150);
const STRIKES_AFTER: Duration = Duration::from_millis(100);
/// How long all may take on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(2);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let [word, folder] = &arguments[..]
        && word == ENGINE
    {
        return runtime.block_on(be_an_engine(Path::new(folder)));
    }
    let begun = Instant::now();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let crashes = supervise(folder.path());
    runtime.block_on(look_at(folder.path(), crashes));
    println!("test crashes_are_counted_and_bounded ... ok ({crashes} in {:?})", begun.elapsed());
}

/// Restarts the engine until it ends by itself; gives how often it crashed.
fn supervise(folder: &Path) -> u32 {
    let (begun, mut crashes) = (Instant::now(), 0);
    loop {
        let mut engine = Command::new(std::env::current_exe().expect("this program has a path"));
        engine.arg(ENGINE).arg(folder).stderr(Stdio::piped());
        let output = engine.output().expect("this program starts");
        if output.status.success() {
            return crashes;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), None, "it is killed by a signal or succeeds: {said}");
        crashes += 1;
        assert!(crashes <= crashes_max(), "{crashes} restarts are no bounded number: {said}");
        assert!(begun.elapsed() < PATIENCE, "after {crashes} crashes: {said}");
    }
}

/// As many as if the poisons never struck together.
fn crashes_max() -> u32 {
    let rule = LossRule::default();
    u32::try_from(POISONS.len()).unwrap_or(u32::MAX) * (rule.suspect_after + rule.fail_after)
}

async fn be_an_engine(folder: &Path) {
    let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: Some(ADDRESS_SPACE) };
    setrlimit(Resource::As, limit).expect("a limit can be set");
    let engine = Engine::open(folder)
        .task(STEADY, steady)
        .task(ABORT, abort)
        .task(OVERFLOW, overflow)
        .task(EXHAUST, exhaust)
        .start()
        .await
        .expect("the engine starts after any crash");
    let known = engine.jobs(None, 1_000).await.expect("a list");
    // The innocent ones first, so that all are there when the first poison strikes.
    for plan in plans().filter(|plan| known.iter().all(|job| job.name != plan.name)) {
        let submission = Submission::new(plan, Origin::actor("test"));
        engine.submit_plan(submission).await.expect("the job is accepted");
    }
    for row in engine.jobs(None, 1_000).await.expect("a list") {
        engine.job(row.job).ended().await.expect("the job ends");
    }
    engine.shutdown().await.expect("the store is closed");
}

fn plans() -> impl Iterator<Item = Plan> {
    let innocents = (0..INNOCENTS).map(|number| {
        plan(&format!("innocent-{number}"), &[("first", STEADY.name()), ("second", STEADY.name())])
    });
    let poisons = POISONS
        .into_iter()
        .map(|kind| plan(kind, &[("before", "noop"), ("poison", kind), ("behind", STEADY.name())]));
    innocents.chain(poisons)
}

fn plan(name: &str, tasks: &[(&str, &str)]) -> Plan {
    let mut plan = Plan::new(name);
    let spec = |(id, kind): &(&str, &str)| {
        TaskSpec::new(TaskId::new(id).expect("an id"), KindName::new(kind).expect("a kind"))
    };
    plan.tasks = tasks.iter().map(spec).collect();
    plan
}

async fn steady(cx: TaskContext, (): ()) -> TaskResult<u32> {
    cx.or_cancelled(tokio::time::sleep(STEADY_FOR)).await?;
    Ok(cx.attempt().attempt)
}

async fn abort(_cx: TaskContext, (): ()) -> TaskResult<()> {
    tokio::time::sleep(STRIKES_AFTER).await;
    std::process::abort()
}

async fn overflow(_cx: TaskContext, (): ()) -> TaskResult<()> {
    tokio::time::sleep(STRIKES_AFTER).await;
    deeper(0);
    Ok(())
}

/// Takes memory until there is none, by a limit that spares the machine.
async fn exhaust(_cx: TaskContext, (): ()) -> TaskResult<()> {
    tokio::time::sleep(STRIKES_AFTER).await;
    let mut taken = Vec::new();
    loop {
        taken.push(std::hint::black_box(Vec::<u8>::with_capacity(64 << 20)));
    }
}

fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 512]);
    if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[7] }
}

/// What the log says when all is over.
async fn look_at(folder: &Path, crashes: u32) {
    let engine = Engine::open(folder).create(false).mode(Mode::Hold).allow_unknown_kinds(true);
    let engine = engine.start().await.expect("the store can be read");
    let rows = engine.jobs(None, 1_000).await.expect("a list");
    assert_eq!(rows.len(), INNOCENTS + POISONS.len());
    let mut lost = 0;
    for row in &rows {
        let job = engine.job(row.job);
        let state = job.snapshot().await.expect("a snapshot").job;
        if POISONS.contains(&&*row.name) {
            is_given_up(&state, crashes);
        } else {
            lost += has_finished(&state, crashes);
        }
        let history = job.history(0, usize::MAX).await.expect("a history");
        let ends = history.iter().filter(|logged| {
            matches!(logged.recorded.event, Event::JobCompleted | Event::JobFailed { .. })
        });
        assert_eq!(ends.count(), 1, "{} ends once", row.name);
    }
    // Otherwise nothing has been seen of what a crash does to those beside it.
    assert!(lost > 0, "no innocent task was lost beside a poison");
    let found = log::verify(&*engine.reader()).expect("the log can be read");
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    engine.shutdown().await.expect("the store is closed");
}

/// Every attempt of a poison is a loss, and the last one ends it.
fn is_given_up(job: &Job, crashes: u32) {
    let name = &job.header().name;
    assert_eq!(job.status(), JobStatus::Failed, "{name}");
    let (error, task) = job.error().expect("a failed job has an error");
    assert_eq!(&*error.code, "crash_loop", "{name}");
    assert_eq!(task, job.find("poison"));
    let statuses: Vec<TaskStatus> = job.tasks().map(|(_, task)| task.status()).collect();
    assert_eq!(statuses, [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Pending]);
    let poison = job.task(task.expect("it is a task's error")).expect("the task");
    let losses = u32::try_from(poison.attempts().len()).expect("few attempts");
    let rule = LossRule::default();
    assert_eq!(losses, rule.suspect_after + rule.fail_after, "{name}");
    assert!(losses <= crashes, "{name}: {losses} losses of {crashes} crashes");
    for (attempt, number) in poison.attempts().iter().zip(1..) {
        assert_eq!(attempt.number, number, "{name}");
        assert_eq!(attempt.outcome, Some(AttemptOutcome::Lost), "{name}");
    }
}

/// Losses have cost an innocent task time, and nothing else; gives how many there were.
fn has_finished(job: &Job, crashes: u32) -> usize {
    let name = &job.header().name;
    assert_eq!(job.status(), JobStatus::Completed, "{name}");
    let mut losses = 0;
    for (_, task) in job.tasks() {
        let (end, lost) = task.attempts().split_last().expect("each task has run");
        assert_eq!(end.outcome, Some(AttemptOutcome::Completed), "{name}");
        assert!(lost.iter().all(|attempt| attempt.outcome == Some(AttemptOutcome::Lost)));
        assert!(u32::try_from(lost.len()).expect("few attempts") <= crashes, "{name}");
        losses += lost.len();
    }
    losses
}
