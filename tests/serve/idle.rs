//! A server that nobody asks anything: it takes little, and nothing of it wakes.

use serde_json::{Value, json};

use crate::common::process::Process;
use crate::common::server::Server;
use crate::common::{Place, until};

/// Threads beside those for each core: the first one, one that turns a loop, three that write the
/// records, the views and the server's log, and four that read jobs.
const THREADS: usize = 9;
/// So many for each core serve HTTP, run tasks of the kinds that every server has, and wait for
/// `shell` tasks.
const THREADS_A_CORE: usize = 3;
/// Memory that is no part of a file, in KiB.
const ANONYMOUS_MAX: u64 = 8 << 10;

/// The other server says when this time is over.
const STRETCH: &str = "3s";

#[test]
fn an_idle_server_has_few_threads_and_none_wakes() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let (server, clock) = (Server::start(&place, &[]), Server::start(&elsewhere, &[]));
    // Also one that has worked comes to rest.
    let job = json!({"name": "one", "tasks": [{"id": "a", "kind": "noop"}]});
    let job = server.post("/api/v1/jobs?wait=1m", &job).expect(202).json();
    assert_eq!(job["status"], "completed", "{job}");
    let process = Process(server.pid());
    // One core has two threads for tasks, so that one may be blocked.
    let cores = std::thread::available_parallelism().map_or(1, usize::from).max(2);
    let most = THREADS + THREADS_A_CORE * cores;
    // Threads for what may block go when they were of no use for a while.
    until("few threads", || process.threads().len() <= most);
    until("a stretch in which nothing wakes", || {
        let (before, ticks) = (process.threads(), process.ticks());
        stretch(&clock);
        (before, ticks) == (process.threads(), process.ticks())
    });
    if !huge_pages_come_unasked() {
        let anonymous = process.kilobytes("RssAnon");
        assert!(anonymous < ANONYMOUS_MAX, "{anonymous} KiB");
    }
    clock.end();
    server.end();
}

/// Waits for a job of another server that does nothing but take its time.
fn stretch(clock: &Server) {
    let task = json!({"id": "a", "kind": "sleep", "input": {"for": STRETCH}});
    let job = json!({"name": "stretch", "tasks": [task]});
    let job: Value = clock.post("/api/v1/jobs?wait=1m", &job).expect(202).json();
    assert_eq!(job["status"], "completed", "{job}");
}

/// Where the system gives pages of 2 MiB to who has not asked for them, memory says little.
fn huge_pages_come_unasked() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| setting.contains("[always]"))
}
