//! Slow and silent clients: they are let go of in time, and keep nobody else waiting.

use std::io::{BufReader, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::clients::{Crowd, Habit};
use crate::common::server::{Reply, Server};
use crate::common::{Place, until};

/// How many clients of each habit.
fn clients_each() -> usize {
    let asked = std::env::var("ANNALS_SLOW_CLIENTS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(210_usize) / Habit::ALL.len()
}

const SHORT: [&str; 8] = [
    "--header-timeout",
    "1s",
    "--body-timeout",
    "1s",
    "--idle-timeout",
    "1s",
    "--write-timeout",
    "1s",
];

/// A number of `/metrics`.
fn number(server: &Server, name: &str) -> u64 {
    let page = server.get("/metrics").expect(200).body;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
}

/// A job whose snapshot is large; gives its path.
fn large(server: &Server) -> String {
    let input = json!({"filler": "x".repeat(1_500_000)});
    let plan = json!({"name": "large", "input": input, "start": "manual",
        "tasks": [{"id": "a", "kind": "noop"}]});
    let accepted = server.post("/api/v1/jobs", &plan).expect(202);
    accepted.header("location").expect("a location").to_owned()
}

#[test]
fn who_keeps_the_server_waiting_is_let_go_of_in_time_and_leaves_nothing_behind() {
    let place = Place::new();
    let server = Server::start(&place, &SHORT);
    let large = large(&server);
    // This connection is one of those that are counted.
    let before = number(&server, "process_open_fds");
    let rounds = 3;
    let mut waits = Vec::new();
    for _ in 0..rounds {
        let crowd = Crowd::gather(&server, &Habit::ALL, clients_each(), &large);
        crowd.outlast(|| {
            let begun = Instant::now();
            server.get("/api/v1/workflows").expect(200);
            waits.push(begun.elapsed());
        });
        until("nobody is there", || number(&server, "annals_http_connections") == 1);
    }
    assert!(number(&server, "process_open_fds") <= before, "files stay open");
    tell(&mut waits, rounds * clients_each() * Habit::ALL.len());
    server.end();
}

/// How long others have waited meanwhile.
fn tell(waits: &mut [Duration], clients: usize) {
    waits.sort_unstable();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!(
        "{clients} slow clients; {} requests of others: median {:.1} ms, p99 {:.1} ms, \
         max {:.1} ms",
        waits.len(),
        at(50),
        at(99),
        at(100)
    );
}

#[test]
fn where_there_is_no_room_those_give_way_who_are_waited_for() {
    let place = Place::new();
    let few = ["--max-connections", "32", "--max-connections-per-peer", "24"];
    let server = Server::start(&place, &few);
    let habits = [Habit::Silent, Habit::SlowLine, Habit::SlowHeaders, Habit::SlowBody, Habit::Idle];
    let mut crowd = Crowd::gather(&server, &habits, 30, "/livez");
    assert_eq!(crowd.len(), 150, "all of them were taken in, one after another");
    for _ in 0..20 {
        server.get("/api/v1/workflows").expect(200);
        crowd.act();
    }
    assert!(number(&server, "annals_http_connections") <= 24);
    assert!(crowd.len() <= 24, "{} are connected", crowd.len());
    // Many of them are still there when it ends, and do not hold it up.
    server.end();
}

#[test]
fn who_is_worked_for_does_not_give_way() {
    let place = Place::new();
    let few = ["--max-connections", "9", "--max-connections-per-peer", "9"];
    let server = Server::start(&place, &few);
    let plan = json!({"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]});
    let job = server.post("/api/v1/jobs", &plan).expect(202).json();
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    let wait = || server.begin("GET", &format!("{job}?wait=5m"));
    let mut waiting: Vec<_> = (0..8).map(|_| wait()).collect();
    let in_flight = || number(&server, "annals_http_requests_in_flight");
    until("all of them wait", || {
        // Who was not heard yet when the numbers were asked for again may have had to go.
        waiting
            .iter_mut()
            .filter(|stream| is_let_go_of(stream))
            .for_each(|stream| *stream = wait());
        in_flight() == 9
    });
    let mut last = wait();
    until("there is no room", || {
        let reply = server.get("/livez");
        if reply.status == 200 {
            // The last one had to go before it was heard.
            last = wait();
            return false;
        }
        // What cannot be taken in is told so in the form of all problems.
        assert_eq!(reply.expect(503).json()["code"], "too_many_connections");
        true
    });
    drop(last);
    until("there is room again", || server.get("/livez").status == 200);
    server.post(&format!("{job}/execute"), &json!({})).expect(202);
    for stream in waiting {
        let reply = Reply::read(&mut BufReader::new(stream)).expect("an answer");
        assert_eq!(reply.expect(200).json()["status"], "completed");
    }
    server.end();
}

/// Whether a client that waits for its answer has got one, or nothing any more.
fn is_let_go_of(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let found = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("a socket");
    !found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_lack_of_files_is_outlasted() {
    let place = Place::new();
    let annals = crate::common::annals().display().to_string();
    // The store, the threads and the listener take some twenty.
    let script = format!(
        "ulimit -n 64; exec '{annals}' serve --json --listen 127.0.0.1:0 --max-connections 1000 \
         --max-connections-per-peer 1000"
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path(""));
    let server = Server::of(command);
    assert_eq!(number(&server, "process_max_fds"), 64);
    let mut crowd = Crowd::gather(&server, &[Habit::Silent], 200, "/livez");
    for _ in 0..10 {
        server.get("/livez").expect(200);
        crowd.act();
    }
    drop(crowd);
    until("nobody is there", || number(&server, "annals_http_connections") == 1);
    server.end();
}

#[test]
fn a_body_that_does_not_come_is_a_problem() {
    let place = Place::new();
    let server = Server::start(&place, &SHORT);
    let headers = [("content-type", "application/json")];
    let reply = server.send_part("POST", "/api/v1/jobs", &headers, "{\"name\": ", 100);
    let problem = reply.expect(408).json();
    assert_eq!(problem["code"], "too_slow", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("64 KiB"), "{problem}");
    server.end();
}
