//! chain-10: jobs of ten `noop` tasks, each result durable before the next task starts.
//!
//! The engine runs beside a model that does nothing but the durable steps: per job eleven rows in
//! turn, each waiting for its group commit, with the bytes that the engine writes. Figures are
//! ratios of one run: `cargo bench --bench chain10`. A number of jobs in flight (`1`, `1000`,
//! `10000`), `memory`, `signals` or `back-off` as argument runs that part alone.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod support;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use std::time::{Duration, Instant};

use annals_engine::job::{Origin, Recorded};
use annals_engine::log::{Durable, EventLog, Head, Options, RedbLog, Ticket, Writer, encode_row};
use annals_engine::{Engine, Submission};
use annals_tasks_sdk::plan::Plan;
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError};
use support::{FAILS, Figures, chain, cpu_seconds, resident_bytes};
use tokio::sync::oneshot;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Jobs in flight, and how many jobs are run for the figures.
const PARTS: [(usize, usize); 3] = [(1, 200), (1_000, 20_000), (10_000, 50_000)];

fn main() {
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let wants = |part: &str| wanted.as_deref().is_none_or(|wanted| wanted == part);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // First, while the allocator keeps nothing that others have freed.
    if wants("memory") {
        runtime.block_on(memory(support::sleeping_chain(10), "asleep"));
    }
    if wants("signals") {
        runtime.block_on(memory(support::waiting_chain(10), "waiting for a signal"));
    }
    if wants("back-off") {
        runtime.block_on(memory(support::failing_chain(10), "in back-off"));
    }
    for (in_flight, jobs) in PARTS {
        if wants(&in_flight.to_string()) {
            runtime.block_on(beside_the_model(in_flight, jobs));
        }
    }
}

/// Runs model and engine in turn, three times each, so that a drift of the machine shows.
async fn beside_the_model(in_flight: usize, jobs: usize) {
    let rows = Arc::new(rows_of_a_job().await);
    println!("chain-10, {in_flight} in flight, {jobs} jobs");
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let model = model(&rows, in_flight, jobs).await;
        let engine = engine(in_flight, jobs).await;
        println!("  model   {model}");
        println!("  engine  {engine}");
        ratios.push((engine.jobs_per_second / model.jobs_per_second, engine, model));
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, engine, _) = &ratios[ratios.len() / 2];
    println!(
        "  engine / model: {:.0} % of the jobs/s, {:.2} times the time of a job; \
         {:.0} µs CPU a job; {:.2} steps a commit",
        ratio * 100.0,
        1.0 / ratio,
        engine.cpu_micros,
        engine.steps_per_commit,
    );
}

/// The events that the engine writes for one job, by row.
async fn rows_of_a_job() -> Vec<Vec<Recorded>> {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::open(folder.path()).start().await.expect("an engine");
    let job = submit(&engine, chain(10)).await;
    job.ended().await.expect("an end");
    let read = annals_engine::log::history(
        &*engine.reader(),
        job.history(0, 1_000).await.expect("a history").last().map_or_else(
            Default::default,
            |last| {
                // The job's last row holds its last two events.
                annals_engine::log::Position(last.position.0 - 1)
            },
        ),
        0,
    )
    .expect("rows");
    let rows: Vec<_> = read.into_iter().map(|row| row.events).collect();
    assert_eq!(rows.len(), 11, "one row for the submission and one for each task");
    engine.shutdown().await.expect("an end");
    rows
}

async fn submit(engine: &Engine, plan: Plan) -> annals_engine::JobHandle {
    engine.submit_plan(Submission::new(plan, Origin::actor("bench"))).await.expect("a job")
}

/// Eleven durable steps per job and nothing else: a client per job in flight makes the records of
/// a row, chained by their hashes, appends it, waits until its group commit is durable, and goes on
/// to the next.
async fn model(rows: &Arc<Vec<Vec<Recorded>>>, in_flight: usize, jobs: usize) -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { create: true, ..Options::default() };
    let log: Box<dyn EventLog> =
        Box::new(RedbLog::open(&folder.path().join("store"), &options).expect("a store"));
    let waiting = Arc::new(Waiting::default());
    let done = Arc::clone(&waiting);
    let writer =
        Writer::start(log, Arc::new(move |_, outcome| done.tell(&outcome))).expect("a thread");
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let clients = (0..in_flight).map(|client| {
        let (writer, waiting, rows) = (writer.clone(), Arc::clone(&waiting), Arc::clone(rows));
        tokio::spawn(async move {
            for job in (client..jobs).step_by(in_flight) {
                let (job, mut head) = (JobId::from_u128(job as u128 + 1), Head::default());
                for events in rows.iter() {
                    waiting.append(&writer, job, &mut head, events).await;
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client");
    }
    let figures =
        Figures::new(jobs, in_flight, start.elapsed(), cpu_seconds() - cpu, writer.stats());
    writer.close().expect("a clean end");
    figures
}

/// Who waits for which commit.
#[derive(Default)]
struct Waiting(Mutex<VecDeque<(Ticket, oneshot::Sender<()>)>>);

impl Waiting {
    async fn append(&self, writer: &Writer, job: JobId, head: &mut Head, events: &[Recorded]) {
        let (row, hash) = encode_row(job, head, events, Vec::new()).expect("a row");
        let mut row = [row];
        let (tell, durable) = oneshot::channel();
        {
            // Under one lock, so that the order of the queue is that of the tickets.
            let mut waiting = self.0.lock().expect("no panic");
            let ticket = writer.submit(0, &mut row).expect("the writer takes rows");
            waiting.push_back((ticket, tell));
        }
        durable.await.expect("the row is durable");
        let seq = head.seq + events.len() as u64;
        *head = Head { row: row[0].position, seq, hash };
    }

    fn tell(&self, outcome: &Durable) {
        let Durable::UpTo(upto) = outcome else { panic!("the log failed: {outcome:?}") };
        let mut waiting = self.0.lock().expect("no panic");
        while waiting.front().is_some_and(|(ticket, _)| ticket <= upto) {
            if let Some((_, tell)) = waiting.pop_front() {
                tell.send(()).expect("the client waits");
            }
        }
    }
}

async fn engine(in_flight: usize, jobs: usize) -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    // With fewer slots than jobs the slots would be measured, not the engine.
    let engine = Engine::open(folder.path().join("store"));
    let engine = engine.slots(in_flight).start().await.expect("an engine");
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let clients = (0..in_flight).map(|client| {
        let engine = engine.clone();
        let share = jobs / in_flight + usize::from(client < jobs % in_flight);
        tokio::spawn(async move {
            for _ in 0..share {
                let job = submit(&engine, chain(10)).await;
                job.ended().await.expect("an end");
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client");
    }
    let (elapsed, stats) = (start.elapsed(), engine.writer_stats());
    let figures = Figures::new(jobs, in_flight, elapsed, cpu_seconds() - cpu, stats);
    engine.shutdown().await.expect("an end");
    figures
}

/// What jobs that wait take of memory and of the processor: asleep, for a signal, and in back-off.
async fn memory(plan: Plan, what: &str) {
    const JOBS: usize = 100_000;
    const WATCHED: Duration = Duration::from_secs(10);
    let folder = tempfile::tempdir().expect("a folder");
    let fails = |_cx: TaskContext, _input: Payload| async {
        Err::<Payload, _>(TaskError::new("busy", "not now"))
    };
    let engine = Engine::open(folder.path().join("store")).task(FAILS, fails);
    let engine = engine.start().await.expect("an engine");
    let payload = plan.to_json().as_str().len();
    let before = resident_bytes();
    let clients = (0..64).map(|client| {
        let (engine, plan) = (engine.clone(), plan.clone());
        tokio::spawn(async move {
            for _ in (client..JOBS).step_by(64) {
                submit(&engine, plan.clone()).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client");
    }
    // What they did last is done first.
    let mut commits = 0;
    while engine.writer_stats().commits > commits {
        commits = engine.writer_stats().commits;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let each = (resident_bytes().saturating_sub(before)) / JOBS;
    println!(
        "memory: {each} bytes resident for each of {JOBS} jobs {what} (plan of {payload} bytes)"
    );
    let cpu = cpu_seconds();
    tokio::time::sleep(WATCHED).await;
    let used = (cpu_seconds() - cpu) * 1e3;
    println!("  {used:.0} ms of the processor in {} s", WATCHED.as_secs());
    engine.shutdown().await.expect("an end");
}
