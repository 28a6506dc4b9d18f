//! Jobs that are bad neighbours: one panics again and again, one floods its log with a line that
//! has no end, one fails in a loop without a pause. The others get on, and the server does not
//! grow.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::server::Server;
use crate::common::{Place, until};
use crate::serve;

/// What bad neighbours may add to the memory of a server, in bytes.
const GROWTH_MAX: u64 = 40_000_000;
/// How much of a log is kept, in bytes.
const LOG_BUDGET: usize = 16 << 20;

/// A job with one task.
fn lone(name: &str, kind: &str, input: &Value, attempts: u32) -> Value {
    let backoff = json!({"initial": "0s", "jitter": 0});
    let retry = json!({"max_attempts": attempts, "backoff": backoff});
    json!({"name": name, "tasks": [{"id": "a", "kind": kind, "input": input, "retry": retry}]})
}

fn panics(attempts: u32) -> Value {
    lone("panics", "panic", &Value::Null, attempts)
}

fn fails(attempts: u32) -> Value {
    lone("fails", "fail", &Value::Null, attempts)
}

/// Writes so many bytes, and no line feed.
fn floods(bytes: u64) -> Value {
    let script = format!("head -c {bytes} /dev/zero | tr '\\0' x");
    lone("floods", "shell", &json!({"script": script}), 1)
}

/// Submits a job, and gives its path.
fn submit(server: &Server, plan: &Value) -> String {
    let accepted = server.post("/api/v1/jobs", plan).expect(202);
    accepted.header("location").expect("a location").to_owned()
}

fn is_over(server: &Server, job: &str) -> bool {
    let progress = server.get(&format!("{job}/progress")).expect(200).json();
    progress["status"] != "running"
}

/// Submits a job of three steps as anybody would, and gives how long it took to be completed.
fn neighbour(server: &Server, kind: &str) -> Duration {
    let begun = Instant::now();
    let input = if kind == "shell" { json!({"script": "true"}) } else { Value::Null };
    let task = |id: usize| json!({"id": format!("t{id}"), "kind": kind, "input": input});
    let tasks: Vec<Value> = (0..3).map(task).collect();
    let job = submit(server, &json!({"name": "neighbour", "tasks": tasks}));
    let ended = server.get(&format!("{job}?wait=5m")).expect(200).json();
    assert_eq!(ended["status"], "completed", "{ended}");
    begun.elapsed()
}

/// The memory of a server.
struct Memory {
    pid: u32,
    before: u64,
}

impl Memory {
    /// From here on growth is counted.
    fn watch(server: &Server) -> Self {
        let pid = server.pid();
        // The peak begins anew. Where the kernel does not do that, it was higher at most.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Self { pid, before: bytes_of(pid, "VmRSS:") }
    }

    /// By how many bytes it has been larger since then, at its peak.
    fn growth(&self) -> u64 {
        bytes_of(self.pid, "VmHWM:").saturating_sub(self.before)
    }
}

fn bytes_of(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server is there");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    number.expect("a number of kilobytes") * 1024
}

#[test]
fn bad_neighbours_disturb_nobody_and_are_told_what_became_of_them() {
    const ATTEMPTS: u32 = 100;
    let flood = 64 << 20;
    let place = Place::new();
    let server = serve(&place, &["--allow-shell", "--shell-slots", "2"]);
    for kind in ["noop", "shell"] {
        neighbour(&server, kind);
    }
    let memory = Memory::watch(&server);
    let noise = [panics(ATTEMPTS), fails(ATTEMPTS), floods(flood)];
    let noise = noise.map(|plan| submit(&server, &plan));
    let mut beside = 0;
    while beside < 20 || noise.iter().any(|job| !is_over(&server, job)) {
        neighbour(&server, if beside % 4 == 0 { "shell" } else { "noop" });
        beside += 1;
    }
    let [panics, fails, floods] = noise;
    looks_like(&server, &panics, ("panic", "has lost its nerve"), ATTEMPTS);
    looks_like(&server, &fails, ("no_luck", "had no luck"), ATTEMPTS);
    flooded(&server, &floods, flood);
    let growth = memory.growth();
    assert!(growth < GROWTH_MAX, "{growth} bytes");
    // Nothing is held, and nobody is missing.
    let metrics = server.get("/metrics").expect(200).body;
    for pool in ["default", "shell"] {
        let used = format!("annals_worker_slots{{pool=\"{pool}\",state=\"used\"}} 0");
        assert!(metrics.contains(&used), "{metrics}");
    }
    let said = server.end().stderr;
    // A panic of a task is an answer, not a fault of the server.
    assert!(!said.contains("ERROR"), "{said}");
}

/// A job that has failed by as many attempts as it had, each with its error.
fn looks_like(server: &Server, job: &str, (code, words): (&str, &str), attempts: u32) {
    let ended = server.get(job).expect(200).json();
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&"failed".into(), &code.into()));
    let told = ended["tasks"][0]["attempts"].as_array().expect("a list");
    assert_eq!(told.len(), attempts as usize);
    for (attempt, number) in told.iter().zip(1..) {
        let message = attempt["error"]["message"].as_str().expect("a message");
        assert!(message.contains(&format!("attempt {number} {words}")), "{attempt}");
    }
}

/// A log that kept its beginning and its end, and says so.
fn flooded(server: &Server, job: &str, bytes: u64) {
    let ended = server.get(job).expect(200).json();
    assert_eq!(ended["status"], "completed", "{ended}");
    let size = &ended["tasks"][0]["attempts"][0]["log"];
    assert_eq!(size, &json!({"bytes": bytes, "lines": 1}));
    let log = server.get(&format!("{job}/tasks/a/log")).expect(200);
    assert_eq!(log.header("x-annals-log-next"), Some(&*bytes.to_string()));
    assert_eq!(log.header("x-annals-log-complete"), Some("true"));
    // What was dropped was dropped by rule: nothing is missing.
    assert_eq!(log.header("x-annals-log-missing"), None);
    let (head, rest) = log.body.split_once("\n[").expect("a note");
    let (dropped, tail) = rest.split_once(" bytes were dropped here]\n").expect("a note");
    let dropped: usize = dropped.parse().expect("it says how many");
    assert_eq!((head.len() + dropped + tail.len()) as u64, bytes);
    for kept in [head, tail] {
        assert!(kept.bytes().all(|byte| byte == b'x'));
        assert!((LOG_BUDGET / 4..LOG_BUDGET * 5 / 8).contains(&kept.len()), "{}", kept.len());
    }
}

/// Others may wait so many times as long beside bad neighbours as without them, at the median. A
/// step of theirs waits for the commit that is under way and for its own, which makes two; the
/// rest is for what the neighbours' own work takes of a machine with two cores.
const DELAY_MAX: f64 = 5.0;
/// What is written by the job that floods its log, in bytes.
const FLOOD: u64 = 1 << 30;
/// What else a machine does makes one measurement worse, but not so many in a row.
const TRIES: usize = 3;
/// How many jobs show how long others wait.
const SAMPLES: usize = 150;

/// How long the others waited, the shortest first.
struct Waits(Vec<Duration>);

impl Waits {
    fn measure(server: &Server, mut enough: impl FnMut(usize) -> bool) -> Self {
        let mut waits = Vec::new();
        while !enough(waits.len()) {
            waits.push(neighbour(server, "noop"));
        }
        waits.sort_unstable();
        Self(waits)
    }

    fn add(&mut self, more: Self) {
        self.0.extend(more.0);
        self.0.sort_unstable();
    }

    /// In milliseconds.
    fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1e3
    }
}

/// What bad neighbours cost.
struct Cost {
    /// How many times as long others wait, at the median.
    ratio: f64,
    /// By how many bytes the server was larger at most.
    growth: u64,
}

/// Measures the others with some noise, and without it before and after.
fn beside(server: &Server, name: &str, noise: &[Value]) -> Cost {
    let mut quiet = Waits::measure(server, |count| count == SAMPLES);
    let memory = Memory::watch(server);
    let jobs: Vec<String> = noise.iter().map(|plan| submit(server, plan)).collect();
    let floods = jobs.iter().zip(noise).find(|(_, plan)| plan["name"] == "floods");
    // A flood is to be seen to its end.
    let is_seen = |count: usize| {
        count.is_multiple_of(10) && floods.is_none_or(|(job, _)| is_over(server, job))
    };
    let loud = Waits::measure(server, |count| count >= SAMPLES && is_seen(count));
    for job in jobs.iter().filter(|job| !is_over(server, job)) {
        server.post(&format!("{job}/cancel"), &json!({})).expect(202);
        until("the noise to end", || is_over(server, job));
    }
    let growth = memory.growth();
    if let Some((job, _)) = floods {
        flooded(server, job, FLOOD);
    }
    quiet.add(Waits::measure(server, |count| count == SAMPLES));
    let ratio = loud.at(50) / quiet.at(50);
    let (with, without) = ([50, 95].map(|at| loud.at(at)), [50, 95].map(|at| quiet.at(at)));
    println!(
        "beside {name}: {} jobs, median {:.1} ms, without {:.1} ms: {ratio:.2} times; p95 {:.1} \
         and {:.1} ms; {} kB more memory",
        loud.0.len(),
        with[0],
        without[0],
        with[1],
        without[1],
        growth / 1000,
    );
    Cost { ratio, growth }
}

#[test]
#[ignore = "it measures, with gigabytes: cargo xtask isolation"]
fn what_bad_neighbours_cost_the_others_is_bounded() {
    let place = Place::new();
    let server = serve(&place, &["--allow-shell", "--shell-slots", "2", "--log", "warn"]);
    Waits::measure(&server, |count| count == SAMPLES);
    let (panics, fails, floods) = (panics(u32::MAX), fails(u32::MAX), floods(FLOOD));
    let each = [
        ("a job that panics", vec![panics.clone()]),
        ("a job that fails", vec![fails.clone()]),
        ("a job that floods its log", vec![floods.clone()]),
        ("all of them", vec![panics, fails, floods]),
    ];
    println!("bounds: {DELAY_MAX} times, {} kB", GROWTH_MAX / 1000);
    for (name, noise) in each {
        let held = (0..TRIES).any(|_| {
            let Cost { ratio, growth } = beside(&server, name, &noise);
            assert!(growth < GROWTH_MAX, "{growth} bytes are more than {GROWTH_MAX}");
            ratio <= DELAY_MAX
        });
        assert!(held, "beside {name} others wait more than {DELAY_MAX} times as long");
    }
    server.end();
}
