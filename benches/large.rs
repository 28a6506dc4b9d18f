//! Jobs of 10,000 tasks: whether a task of a large job costs more when much of it is behind or
//! beside it, how soon such a job goes on after a kill, and how soon a cancel ends it.
//!
//! `cargo bench --bench large`; one of `chain`, `fan`, `graph`, `wide`, `kill` and `cancel` as
//! argument runs that part alone.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use annals_engine::job::{Command, Event, JobStatus, Origin};
use annals_engine::{Ask, Engine, JobHandle, Submission};
use annals_tasks_sdk::plan::Plan;
use annals_tasks_sdk::{JobId, TaskContext, TaskId, TaskKind, Timestamp};
use support::{chain, cpu_seconds};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TASKS: usize = 10_000;
/// The first and the last so many are compared.
const PART: usize = 1_000;
/// A task that waits until it is told to stop.
const WAITS: TaskKind<(), ()> = TaskKind::new("waits");
/// The argument by which the bench knows that it is to be killed.
const VICTIM: &str = "victim";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if let [victim, folder] = arguments.as_slice()
        && victim == VICTIM
    {
        return runtime.block_on(be_killed(Path::new(folder)));
    }
    let wanted = arguments.first().filter(|argument| !argument.starts_with('-'));
    let wants = |part: &str| wanted.is_none_or(|wanted| wanted == part);
    let shapes = [
        ("chain", chain(TASKS), 64),
        ("fan", beside_each_other("noop"), 64),
        ("graph", graph(), 64),
        ("wide", beside_each_other("noop"), TASKS),
    ];
    for (part, plan, slots) in shapes {
        if wants(part) {
            runtime.block_on(costs(part, &plan, slots));
        }
    }
    if wants("kill") {
        runtime.block_on(kill());
    }
    if wants("cancel") {
        runtime.block_on(cancel());
    }
}

/// Tasks that need nothing.
fn beside_each_other(kind: &str) -> Plan {
    let mut plan = chain(TASKS);
    for task in &mut plan.tasks {
        task.kind = annals_tasks_sdk::KindName::new(kind).expect("a kind");
        task.needs = Some(Box::default());
    }
    plan
}

/// Tasks of which each needs up to three of the two hundred before it.
fn graph() -> Plan {
    let mut plan = chain(TASKS);
    let mut random = fastrand::Rng::with_seed(7);
    let ids: Vec<TaskId> = plan.tasks.iter().map(|task| task.id.clone()).collect();
    for (place, task) in plan.tasks.iter_mut().enumerate() {
        let mut needs: Vec<usize> = (0..random.usize(0..=3).min(place))
            .map(|_| random.usize(place.saturating_sub(200)..place))
            .collect();
        needs.sort_unstable();
        needs.dedup();
        task.needs = Some(needs.into_iter().map(|need| ids[need].clone()).collect());
    }
    plan
}

async fn submit(engine: &Engine, plan: Plan) -> JobHandle {
    engine.submit_plan(Submission::new(plan, Origin::actor("bench"))).await.expect("a job")
}

/// What the tasks of a job cost, the first ones beside the last ones.
async fn costs(part: &str, plan: &Plan, slots: usize) {
    println!("{part}: {TASKS} tasks that do nothing, {slots} slots");
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Engine::open(folder.path().join("store")).slots(slots);
        let engine = engine.start().await.expect("an engine");
        let (cpu, begun) = (cpu_seconds(), Instant::now());
        let job = submit(&engine, plan.clone()).await;
        let end = job.ended().await.expect("an end");
        assert_eq!(end.job.status(), JobStatus::Completed);
        let (wall, cpu) = (begun.elapsed(), cpu_seconds() - cpu);
        let times = completions(&job).await;
        let first = times[PART - 1].as_millis() - times[0].as_millis();
        let last = times[TASKS - 1].as_millis() - times[TASKS - PART].as_millis();
        let ratio = last as f64 / first.max(1) as f64;
        println!(
            "  {:6.0} ms, {:5.1} µs CPU a task; the first {PART} {first} ms, the last {last} ms",
            wall.as_secs_f64() * 1e3,
            cpu * 1e6 / TASKS as f64,
        );
        ratios.push(ratio);
        engine.shutdown().await.expect("an end");
    }
    ratios.sort_by(f64::total_cmp);
    // With a slot for each they complete in one turn, within a millisecond or two.
    if slots < TASKS {
        println!("  the last / the first: {:.2} at the median of three", ratios[1]);
    }
}

/// When the tasks of a job completed.
async fn completions(job: &JobHandle) -> Vec<Timestamp> {
    let (mut times, mut after) = (Vec::with_capacity(TASKS), 0);
    loop {
        let events = job.history(after, 5_000).await.expect("a history");
        let Some(last) = events.last() else { return times };
        after = last.recorded.seq;
        let completed =
            events.iter().filter(|e| matches!(e.recorded.event, Event::TaskCompleted { .. }));
        times.extend(completed.map(|event| event.recorded.time));
    }
}

/// Runs a chain, says when half of it is behind it, and waits for its death.
async fn be_killed(folder: &Path) {
    let engine = Engine::open(folder).start().await.expect("an engine");
    let job = submit(&engine, chain(TASKS)).await;
    let mut seq = 0;
    while seq < TASKS as u64 {
        seq = job.changed(seq).await.expect("a job");
    }
    println!("{}", job.id());
    job.ended().await.expect("an end");
    std::future::pending::<()>().await;
}

/// How soon a job that was killed in the middle goes on.
async fn kill() {
    println!("kill: a chain of {TASKS} tasks, its engine killed amid it");
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("store");
        let mut victim = Process::new(std::env::current_exe().expect("a bench knows its program"))
            .arg(VICTIM)
            .arg(&store)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a second process");
        let mut line = String::new();
        let output = victim.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says which job");
        victim.kill().expect("it is alive");
        victim.wait().expect("it is dead");
        let begun = Instant::now();
        let engine = Engine::open(&store).start().await.expect("an engine");
        let opened = begun.elapsed();
        let job = engine.job(line.trim().parse::<JobId>().expect("an id"));
        let before = job.snapshot().await.expect("a job").job.seq();
        let after = job.changed(before).await.expect("a job");
        let went_on = begun.elapsed();
        let end = job.ended().await.expect("an end");
        assert_eq!(end.job.status(), JobStatus::Completed);
        println!(
            "  open after {:.0} ms, event {after} after {:.0} ms, all done after {:.0} ms",
            millis(opened),
            millis(went_on),
            millis(begun.elapsed()),
        );
        engine.shutdown().await.expect("an end");
    }
}

/// How soon a cancel ends a job with very many live attempts.
async fn cancel() {
    println!("cancel: a job with {TASKS} live attempts");
    for _ in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let waits = |cx: TaskContext, (): ()| async move {
            cx.cancelled().await;
            Err::<(), _>(annals_tasks_sdk::TaskError::cancelled())
        };
        let engine = Engine::open(folder.path().join("store")).slots(TASKS).task(WAITS, waits);
        let engine = engine.start().await.expect("an engine");
        let begun = Instant::now();
        let job = submit(&engine, beside_each_other(WAITS.name())).await;
        let mut seq = 0;
        // Submission and start of the job, and the start of each task.
        while seq < TASKS as u64 {
            seq = job.changed(seq).await.expect("a job");
        }
        let started = begun.elapsed();
        let begun = Instant::now();
        job.command(Command::CANCEL, Ask::default()).await.expect("it is cancelled");
        let accepted = begun.elapsed();
        let end = job.ended().await.expect("an end");
        assert_eq!(end.job.status(), JobStatus::Cancelled);
        println!(
            "  all started after {:.0} ms; cancel accepted after {:.1} ms, all over after {:.0} ms",
            millis(started),
            millis(accepted),
            millis(begun.elapsed()),
        );
        engine.shutdown().await.expect("an end");
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
