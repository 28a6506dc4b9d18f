//! What computing tasks cost the others: how long a job takes from its submission to the start of
//! its task, beside tasks that keep every core busy, and without them, by turns in one run.
//!
//! `cargo bench --bench isolation`; one of `own`, `unniced` and `default` as argument runs the part
//! alone in which the computing tasks are in a pool with threads of their own, in one whose threads
//! are not niced, or in the pool of all others.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use annals_engine::job::{Command, Origin};
use annals_engine::runtime::Builder;
use annals_engine::{Ask, Engine, JobHandle, Pool, Submission};
use annals_tasks_sdk::plan::{Plan, TaskSpec};
use annals_tasks_sdk::{KindName, Payload, TaskContext, TaskId, TaskKind, TaskResult};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROBE: TaskKind<(), ()> = TaskKind::new("probe");
const COMPUTE: TaskKind<(), ()> = TaskKind::new("compute");

/// How often the machine is loaded and let be.
const ROUNDS: usize = 10;
/// How many jobs are measured each time.
const SAMPLES: usize = 200;
/// Between two jobs, so that each finds an engine that has nothing to do.
const PAUSE: Duration = Duration::from_millis(2);

fn main() {
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("from submission to start, {ROUNDS} times {SAMPLES} jobs, beside {cores} tasks that");
    println!("compute and without them");
    let own = Pool::new("cpu").threads(cores).kinds([COMPUTE.name()]);
    let parts = [
        ("own", "a pool with threads of its own", Some(own.clone())),
        ("unniced", "the same, its threads not niced", Some(own.niceness(0))),
        ("default", "the pool of all others", None),
    ];
    for (part, name, pool) in parts {
        if wanted.as_deref().is_none_or(|wanted| wanted == part) {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(measure(name, pool, cores));
        }
    }
}

/// Tells when its task started.
fn probe(started: UnboundedSender<Instant>) -> impl annals_tasks_sdk::Task<(), ()> {
    move |_cx: TaskContext, (): ()| {
        // Who measures listens as long as jobs run.
        let _ = started.send(Instant::now());
        async { Ok(()) }
    }
}

/// Computes until it is told to stop, and never awaits.
async fn compute(cx: TaskContext, (): ()) -> TaskResult<()> {
    let mut number = 1_u64;
    loop {
        cx.ensure_live()?;
        for _ in 0..10_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

fn lone(kind: &str) -> Submission {
    let id = TaskId::new("a").expect("an id");
    let mut plan = Plan::new(kind);
    plan.tasks.push(TaskSpec::new(id, KindName::new(kind).expect("a kind")));
    plan.tasks[0].input = Payload::NULL;
    Submission::new(plan, Origin::actor("bench"))
}

async fn measure(name: &str, pool: Option<Pool>, cores: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (tell, mut started) = unbounded_channel();
    let engine =
        Engine::open(folder.path().join("store")).task(PROBE, probe(tell)).task(COMPUTE, compute);
    let engine = pool.into_iter().fold(engine, Builder::pool).start().await.expect("a start");
    let (mut quiet, mut loud) = (Vec::new(), Vec::new());
    delays(&engine, &mut started).await;
    for _ in 0..ROUNDS {
        quiet.extend(delays(&engine, &mut started).await);
        let busy = busy(&engine, cores).await;
        loud.extend(delays(&engine, &mut started).await);
        for job in busy {
            job.command(Command::CANCEL, Ask::default()).await.expect("a cancel");
            job.ended().await.expect("an end");
        }
    }
    engine.shutdown().await.expect("an end");
    let [quiet, loud] = [&*quiet, &*loud].map(Delays::new);
    println!("{name}:");
    println!("  without  {quiet}");
    println!("  beside   {loud}");
    println!(
        "  ratio    {:.2} at the median, {:.2} in the mean, {:.2} at p95",
        loud.at(50) / quiet.at(50),
        loud.mean() / quiet.mean(),
        loud.at(95) / quiet.at(95)
    );
}

/// Has as many tasks compute as there are cores, and waits until they do.
async fn busy(engine: &Engine, cores: usize) -> Vec<JobHandle> {
    let mut jobs = Vec::new();
    for _ in 0..cores {
        jobs.push(engine.submit_plan(lone(COMPUTE.name())).await.expect("a job"));
    }
    for job in &jobs {
        while job.snapshot().await.expect("a snapshot").job.live().count() == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    jobs
}

/// How long each of some jobs took from its submission to its start.
async fn delays(engine: &Engine, started: &mut UnboundedReceiver<Instant>) -> Vec<Duration> {
    let mut delays = Vec::new();
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        let job = engine.submit_plan(lone(PROBE.name())).await.expect("a job");
        let started = started.recv().await.expect("a start");
        delays.push(started.saturating_duration_since(begun));
        job.ended().await.expect("an end");
        tokio::time::sleep(PAUSE).await;
    }
    delays
}

/// Delays in milliseconds, ascending.
struct Delays(Vec<f64>);

impl Delays {
    fn new(delays: &[Duration]) -> Self {
        let mut millis: Vec<f64> = delays.iter().map(|delay| delay.as_secs_f64() * 1e3).collect();
        millis.sort_unstable_by(f64::total_cmp);
        Self(millis)
    }

    fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100]
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

impl std::fmt::Display for Delays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, p95, p99] = [50, 95, 99].map(|percent| self.at(percent));
        write!(
            f,
            "median {median:.2} ms, mean {:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms",
            self.mean()
        )
    }
}
