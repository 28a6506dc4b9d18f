//! The server under load: `annals serve` as a process, and its clients as a second one.
//!
//! Durable submits stand beside those of the engine alone, in this process, with the same plan on
//! the same disk; reads of jobs and of lists; and what a server takes that has nothing to do.
//! Figures are ratios of one run: `cargo bench --bench http`. One of `submits`, `reads` and `idle`
//! as argument runs that part alone.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/common/mod.rs"]
mod common;
mod support;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use annals_engine::job::Origin;
use annals_engine::{Engine, Submission};
use common::Place;
use common::process::Process;
use common::server::Server;
use serde_json::json;
use support::chain;
use support::load::{Load, is_load, percentile};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Clients that wait for an answer at the same time.
const CLIENTS: usize = 64;
/// How many submissions a second a server is given that is not to be at its limit, and how many.
const PACE: u32 = 2_000;
const PACED: usize = 20_000;
/// How many jobs a run submits.
const SUBMITS: usize = 50_000;
/// How many jobs there are to be read, and how many reads a run makes.
const JOBS: usize = 1_000;
const READS: usize = 100_000;
const LISTS: usize = 10_000;
/// How long a server is watched that has nothing to do.
const WATCHED: Duration = Duration::from_secs(10);

fn main() {
    if is_load() {
        return;
    }
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let wants = |part: &str| wanted.as_deref().is_none_or(|wanted| wanted == part);
    if wants("submits") {
        submits();
    }
    if wants("reads") {
        reads();
    }
    if wants("idle") {
        idle();
    }
}

/// What a run of submits has measured.
struct Submits {
    per_second: f64,
    /// In milliseconds: the median, and what 1 of 100 takes longer than.
    p50: f64,
    p99: f64,
    /// What a commit took in the mean, in milliseconds.
    commit: f64,
}

/// Engine and server in turn, three times each, so that a drift of the machine shows.
fn submits() {
    println!("durable submits of a job of one noop, {CLIENTS} clients, {SUBMITS} jobs");
    let mut pairs: Vec<(Submits, Submits)> = (0..3)
        .map(|_| {
            let pair = (by_the_engine(), over_http(SUBMITS, None));
            println!("  engine  {}", pair.0);
            println!("  server  {}", pair.1);
            pair
        })
        .collect();
    let share = |(engine, server): &(Submits, Submits)| server.per_second / engine.per_second;
    pairs.sort_by(|a, b| share(a).total_cmp(&share(b)));
    let middle = &pairs[pairs.len() / 2];
    let mut late: Vec<f64> = pairs.iter().map(|(_, server)| server.late()).collect();
    late.sort_by(f64::total_cmp);
    println!(
        "  server / engine: {:.0} % of the submits/s; p99 of the server: {:.1} commits",
        share(middle) * 100.0,
        late[late.len() / 2],
    );
    println!("  the same where {PACE} come in a second");
    let mut paced: Vec<Submits> = (0..3).map(|_| over_http(PACED, Some(PACE))).collect();
    for run in &paced {
        println!("  server  {run}");
    }
    paced.sort_by(|a, b| a.late().total_cmp(&b.late()));
    println!("  p99 of the server: {:.1} commits", paced[paced.len() / 2].late());
}

impl Submits {
    /// How many commits the slow ones take.
    fn late(&self) -> f64 {
        self.p99 / self.commit
    }
}

impl fmt::Display for Submits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_second, p50, p99, commit } = self;
        write!(
            f,
            "{per_second:8.0} submits/s  a commit {commit:5.2} ms  \
             p50 {p50:6.2} ms = {:4.1} commits  p99 {p99:6.2} ms = {:4.1} commits",
            p50 / commit,
            p99 / commit,
        )
    }
}

/// The engine in this process, asked by as many tasks as the server has clients.
fn by_the_engine() -> Submits {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Engine::open(folder.path().join("store")).start().await.expect("an engine");
        let next = Arc::new(AtomicUsize::new(0));
        let begun = Instant::now();
        let clients = (0..CLIENTS).map(|_| tokio::spawn(submit(engine.clone(), Arc::clone(&next))));
        let mut micros = Vec::with_capacity(SUBMITS);
        for client in clients.collect::<Vec<_>>() {
            micros.extend(client.await.expect("a client"));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let stats = engine.writer_stats();
        engine.shutdown().await.expect("an end");
        micros.sort_unstable();
        Submits {
            per_second: SUBMITS as f64 / seconds,
            p50: percentile(&micros, 50),
            p99: percentile(&micros, 99),
            commit: stats.commit_time.as_secs_f64() * 1e3 / stats.commits as f64,
        }
    })
}

/// Submits one job after the other. Gives what each took, in microseconds.
async fn submit(engine: Engine, next: Arc<AtomicUsize>) -> Vec<u32> {
    let mut micros = Vec::new();
    while next.fetch_add(1, Ordering::Relaxed) < SUBMITS {
        let begun = Instant::now();
        let submission = Submission::new(chain(1), Origin::actor("bench"));
        engine.submit_plan(submission).await.expect("a job");
        micros.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    micros
}

/// As many as come, or so many in a second.
fn over_http(requests: usize, per_second: Option<u32>) -> Submits {
    let place = Place::new();
    let server = start(&place);
    let before = commits(&server);
    let load = Load { per_second, ..load(&server, requests, vec![post(&server)]) };
    let loaded = load.send(202);
    let after = commits(&server);
    server.end();
    Submits {
        per_second: loaded.per_second(),
        p50: loaded.millis(50),
        p99: loaded.millis(99),
        commit: (after.0 - before.0) * 1e3 / (after.1 - before.1),
    }
}

/// The server as it is without any setting, but for what it says of its work.
fn start(place: &Place) -> Server {
    Server::start(place, &["--log", "warn"])
}

/// How long all commits of a server took, in seconds, and how many there were.
fn commits(server: &Server) -> (f64, f64) {
    let page = server.get("/metrics").expect(200).body;
    let sample = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).expect("a server counts its commits")
    };
    (sample("annals_log_commit_seconds_sum"), sample("annals_log_commit_seconds_count"))
}

fn load(server: &Server, requests: usize, messages: Vec<String>) -> Load {
    Load { address: server.address, connections: CLIENTS, requests, per_second: None, messages }
}

/// A submission as it goes over the connection.
fn post(server: &Server) -> String {
    let plan = json!({ "name": "chain", "tasks": [{ "id": "task-0", "kind": "noop" }] });
    let plan = plan.to_string();
    format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{plan}",
        server.address,
        plan.len(),
    )
}

fn get(server: &Server, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address)
}

/// Reads of jobs, each of another one than the last, and of lists.
fn reads() {
    let place = Place::new();
    let server = start(&place);
    load(&server, JOBS, vec![post(&server)]).send(202);
    let list = server.get("/api/v1/jobs?limit=1000").expect(200).json();
    let ids = list["items"].as_array().expect("a list").iter();
    let paths = ids.map(|item| format!("/api/v1/jobs/{}", item["id"].as_str().expect("an id")));
    let messages: Vec<String> = paths.map(|path| get(&server, &path)).collect();
    assert_eq!(messages.len(), JOBS);
    println!("reads by {CLIENTS} clients of a server with {JOBS} jobs that have ended");
    let lists = vec![get(&server, "/api/v1/jobs?limit=50")];
    for (what, requests, messages) in
        [("snapshots", READS, messages), ("lists of 50 jobs", LISTS, lists)]
    {
        let read = load(&server, requests, messages).send(200);
        println!(
            "  {what:16} {:8.0} /s  p50 {:6.2} ms  p99 {:6.2} ms",
            read.per_second(),
            read.millis(50),
            read.millis(99),
        );
    }
    server.end();
}

/// What a server takes that nobody asks anything.
fn idle() {
    let place = Place::new();
    let server = start(&place);
    let process = Process(server.pid());
    let before = process.ticks();
    std::thread::sleep(WATCHED);
    println!("a server that has nothing to do, watched for {} s", WATCHED.as_secs());
    println!(
        "  {:.1} MB resident, of which {:.1} MB are the program's own file; {} threads; \
         {} ticks of the processor",
        process.kilobytes("VmRSS") as f64 / 1024.0,
        process.kilobytes("RssFile") as f64 / 1024.0,
        process.threads().len(),
        process.ticks() - before,
    );
    server.end();
}
