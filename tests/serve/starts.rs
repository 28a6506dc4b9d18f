//! From the command to the first answer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::server::{Reply, Server, exchange};
use crate::common::{Place, until};

#[test]
fn a_server_says_where_it_is() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    assert_eq!(server.get("/api/v1/openapi.json").expect(200).json()["openapi"], "3.1.0");
    assert_eq!(place.read("annals-data/server").trim(), server.url);
    server.end();
    assert!(!place.path("annals-data/server").exists(), "a good end takes the address away");
}

#[test]
fn people_are_told_in_one_line() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--data", "d"]);
    let file = fs::File::create(place.path("out")).unwrap();
    let child = command.stdout(file).stderr(std::process::Stdio::piped()).spawn().unwrap();
    crate::common::until("its line", || place.read("out").ends_with('\n'));
    crate::common::signal(&child, Signal::INT);
    let answer = crate::common::finish(child).expect(0);
    let out = place.read("out");
    assert!(out.starts_with("serving d at http://127.0.0.1:"), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(answer.stderr.contains("INFO"), "{}", answer.stderr);
}

#[test]
fn a_store_that_is_served_is_named_with_the_url() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let again = ["serve", "--listen", "127.0.0.1:0", "--lock-timeout", "100ms"];
    for args in [&["verify"][..], &again] {
        let answer = place.annals(args).expect(7);
        let line = answer.stderr.lines().next_back().unwrap_or_default().to_owned();
        let help = format!(
            "annals: the store ./annals-data is served at {url}: ask that server, with \
             --server {url}",
            url = server.url
        );
        assert_eq!(line, help);
    }
    // The address that a killed server leaves is not believed.
    server.signal(Signal::KILL);
    server.wait();
    assert!(place.path("annals-data/server").exists());
    place.annals(&["list"]).expect(0);
    Server::start(&place, &[]).end();
    assert!(!place.path("annals-data/server").exists());
}

#[test]
fn stores_that_cannot_be_served_are_exit_code_7() {
    let place = Place::new();
    place.write("file", "");
    fs::create_dir(place.path("photos")).unwrap();
    place.write("photos/cat.jpg", "");
    Server::start(&place, &["--data", "newer"]).end();
    place.write("newer/format", "annals store 99\n");
    Server::start(&place, &["--data", "damaged"]).end();
    place.write("damaged/records/00000000000000000001.redb", "no records");
    let records = fs::read_dir(place.path("damaged/records")).unwrap();
    for file in records {
        fs::write(file.unwrap().path(), "no records").unwrap();
    }
    let cases = [
        ("file", "unreachable"),
        ("photos", "not_a_store"),
        ("newer", "store_newer"),
        ("damaged", "store_damaged"),
    ];
    for (data, code) in cases {
        let args = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--json", "--log", "off"];
        let answer = place.annals(&args).expect(7);
        let problem: serde_json::Value = serde_json::from_str(&answer.stderr).expect("JSON");
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(answer.stdout, "", "it was never ready");
    }
}

#[test]
fn an_address_that_is_taken_is_exit_code_7() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let answer = place.annals(&["serve", "--listen", &address]).expect(7);
    assert!(answer.stderr.contains(&format!("cannot listen on {address}")), "{}", answer.stderr);
    assert!(answer.stderr.contains("--listen names another"), "{}", answer.stderr);
    assert!(!place.path("annals-data").exists(), "no store was made");
}

/// A server whose start hangs.
struct Hanging {
    place: Place,
    child: std::process::Child,
    url: String,
}

impl Hanging {
    /// Until the test says which format its store has.
    fn start() -> Self {
        let place = Place::new();
        Server::start(&place, &[]).end();
        fs::remove_file(place.path("annals-data/format")).unwrap();
        let mut make = std::process::Command::new("mkfifo");
        assert!(make.arg(place.path("annals-data/format")).status().unwrap().success());
        Self::of(place, &[])
    }

    /// Until the test lets go of its store, if the server waits so long.
    fn locked(args: &[&str]) -> (Self, fs::File) {
        let place = Place::new();
        Server::start(&place, &[]).end();
        let lock = fs::File::open(place.path("annals-data/lock")).unwrap();
        lock.try_lock().expect("nobody has the store");
        place.write("annals-data/lock", std::process::id().to_string());
        (Self::of(place, args), lock)
    }

    fn of(place: Place, args: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"], args].concat();
        let mut child = place.start(&args);
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).expect("a line of the log");
        // Nothing was read ahead: the next line comes when the test goes on.
        child.stderr = Some(log.into_inner());
        let url = said["url"].as_str().expect("it says where it listens").to_owned();
        Self { place, child, url }
    }

    fn get(&self, path: &str) -> Reply {
        let address = self.url.strip_prefix("http://").unwrap().parse().unwrap();
        exchange(address, "GET", path, &[], "").expect("it answers")
    }

    fn let_go_on(&self) {
        self.place.write("annals-data/format", "annals store 1\n");
    }
}

#[test]
fn it_answers_before_its_store_is_open() {
    let server = Hanging::start();
    let ready = server.get("/readyz").expect(503).json();
    assert_eq!(ready["phase"], "starting", "{ready}");
    assert_eq!(ready["reasons"][0]["code"], "starting", "{ready}");
    assert_eq!(ready["reasons"][0]["detail"], "opening the store", "{ready}");
    assert_eq!(server.get("/livez").expect(200).json()["phase"], "starting");
    assert!(server.get("/metrics").expect(200).body.contains("phase=\"starting\"} 1"));
    for path in ["/api/v1/jobs", "/api/v1/kinds", "/api/v1/events"] {
        let reply = server.get(path).expect(503);
        assert_eq!(reply.json()["code"], "starting");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    server.let_go_on();
    until("it is ready", || server.get("/readyz").status == 200);
    assert_eq!(server.get("/api/v1/jobs").expect(200).json()["items"], Value::Array(Vec::new()));
    crate::common::signal(&server.child, Signal::TERM);
    crate::common::finish(server.child).expect(0);
}

#[test]
fn a_start_can_be_ended() {
    let server = Hanging::start();
    server.get("/livez").expect(200);
    crate::common::signal(&server.child, Signal::TERM);
    let answer = crate::common::finish(server.child).expect(0);
    assert_eq!(answer.stdout, "", "it was never ready");
    assert!(answer.stderr.contains("before the store was open"), "{}", answer.stderr);
}

#[test]
fn a_start_waits_for_a_store_that_somebody_else_has_for_a_moment() {
    // A patience that no machine is too slow for: the lock is let go of once the wait is seen.
    let (server, lock) = Hanging::locked(&["--lock-timeout", "1h"]);
    let waits = format!(
        "waiting up to 3600s for the store, which another process has (pid {})",
        std::process::id()
    );
    let reason = || server.get("/readyz").expect(503).json()["reasons"][0]["detail"].clone();
    until("it waits", || reason() == waits.as_str());
    drop(lock);
    until("it is ready", || server.get("/readyz").status == 200);
    crate::common::signal(&server.child, Signal::TERM);
    let answer = crate::common::finish(server.child).expect(0);
    let told = answer.stderr.lines().filter(|line| line.contains(&waits)).count();
    assert_eq!(told, 1, "{}", answer.stderr);
}

#[test]
fn a_start_that_waits_can_be_ended() {
    for signal in [Signal::TERM, Signal::INT] {
        let (server, lock) = Hanging::locked(&["--lock-timeout", "1h"]);
        until("it waits", || server.get("/readyz").body.contains("another process has"));
        crate::common::signal(&server.child, signal);
        let answer = crate::common::finish(server.child).expect(0);
        assert_eq!(answer.stdout, "", "it was never ready");
        drop(lock);
        server.place.annals(&["verify"]).expect(0);
    }
}

#[test]
fn a_start_that_has_waited_long_enough_says_who_has_the_store() {
    let (server, _lock) = Hanging::locked(&["--lock-timeout", "50ms", "--json"]);
    let answer = crate::common::finish(server.child).expect(7);
    let problem = answer.stderr.lines().next_back().expect("a problem");
    let problem: Value = serde_json::from_str(problem).expect("it is JSON");
    assert_eq!(problem["code"], "store_in_use", "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("another process (pid {})", std::process::id())), "{detail}");
}
