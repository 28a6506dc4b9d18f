//! From the signal to the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::server::{Reply, Server};
use crate::common::{Place, until};

#[test]
fn either_signal_ends_it_in_good_order() {
    for which in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let server = Server::start(&place, &[]);
        // A connection that says nothing does not hold it up.
        let mut idle = server.connect();
        server.signal(which);
        server.wait().expect(0);
        assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
        let verified = place.json(&["verify"]);
        assert_eq!(verified["sound"], true, "{verified}");
    }
}

/// A task that runs until something is there, whatever it is told.
fn stubborn(place: &Place) -> Value {
    let dir = place.path("").display().to_string();
    let script =
        format!("trap '' TERM; touch {dir}/runs; until [ -e {dir}/go ]; do sleep 0.01; done");
    let task = json!({"id": "a", "kind": "shell", "input": {"script": script}});
    json!({"name": "stubborn", "tasks": [task]})
}

#[test]
fn the_second_signal_ends_it_at_once() {
    for (second, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let place = Place::new();
        let server = Server::start(&place, &["--allow-shell"]);
        server.post("/api/v1/jobs", &stubborn(&place)).expect(202);
        place.wait_for("runs");
        server.signal(Signal::TERM);
        until("it is about to end", || server.get("/readyz").status == 503);
        server.signal(second);
        server.wait().expect(code);
        // The process of the task has ended with it, and the job goes on.
        place.write("go", "");
        let server = Server::start(&place, &["--allow-shell"]);
        let job = &server.get("/api/v1/jobs").expect(200).json()["items"][0];
        let job = format!("/api/v1/jobs/{}?wait=5m", job["id"].as_str().unwrap());
        assert_eq!(server.get(&job).expect(200).json()["status"], "completed");
        server.end();
    }
}

/// A stream of events, from its first chunk on.
fn stream(server: &Server, path: &str) -> BufReader<TcpStream> {
    let mut stream = server.connect();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    reader
}

#[test]
fn streams_and_long_waits_end_when_the_server_does() {
    let place = Place::new();
    let server = Server::start(&place, &["--allow-shell"]);
    let job = server.post("/api/v1/jobs", &stubborn(&place)).expect(202).json();
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    place.wait_for("runs");
    let streams = [format!("{job}/events"), "/api/v1/events".into(), format!("{job}/tasks/a/log")];
    let streams: Vec<_> = streams.iter().map(|path| stream(&server, path)).collect();
    let polls: Vec<_> = (0..20).map(|_| server.begin("GET", &format!("{job}?wait=5m"))).collect();

    server.signal(Signal::TERM);
    // All of them end while the task still has its time.
    for poll in polls {
        let reply = Reply::read(&mut BufReader::new(poll)).expect("an answer").expect(200);
        assert_eq!(reply.json()["status"], "running");
    }
    for stream in streams {
        // An empty chunk is the end of a body.
        assert!(stream.lines().map_while(Result::ok).any(|line| line == "0"), "no end");
    }
    assert_eq!(server.get("/livez").expect(200).json()["phase"], "stopping");
    // New ones end at once.
    let again = server.get(&format!("{job}?wait=5m")).expect(200).json();
    assert_eq!(again["status"], "running");
    place.write("go", "");
    server.wait().expect(0);
    let server = Server::start(&place, &[]);
    assert_eq!(server.get(&format!("{job}?wait=5m")).expect(200).json()["status"], "completed");
    server.end();
}

#[test]
fn a_task_that_listens_to_nothing_has_its_time_and_no_more() {
    let place = Place::new();
    let server = Server::start(&place, &["--allow-shell", "--shutdown-timeout", "2s"]);
    let job = server.post("/api/v1/jobs", &stubborn(&place)).expect(202).json();
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    place.wait_for("runs");
    server.signal(Signal::TERM);
    server.wait().expect(0);
    place.write("go", "");
    let server = Server::start(&place, &[]);
    let job = server.get(&format!("{job}?wait=5m")).expect(200).json();
    let attempts = job["tasks"][0]["attempts"].as_array().unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|attempt| &attempt["outcome"]).collect();
    assert_eq!(outcomes, ["lost", "completed"]);
    server.end();
}

/// Asks until the server is gone. Gives the ids of jobs that were accepted and those of jobs
/// whose cancel was.
fn ask_to_the_end(server: &Server) -> (Vec<String>, Vec<String>) {
    let plan = json!({"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]});
    let (mut accepted, mut cancelled) = (Vec::new(), Vec::new());
    while let Some(reply) = server.try_post("/api/v1/jobs", &plan) {
        if reply.status != 202 {
            assert_eq!(reply.json()["code"], "stopped", "{reply:?}");
            continue;
        }
        let id = reply.json()["id"].as_str().unwrap().to_owned();
        let cancel = server.try_post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
        let is_cancelled = cancel.is_some_and(|reply| reply.status == 202);
        if is_cancelled { &mut cancelled } else { &mut accepted }.push(id);
    }
    (accepted, cancelled)
}

#[test]
fn what_was_acknowledged_while_it_ended_holds() {
    let place = Place::new();
    let server = Server::start(&place, &["--allow-shell", "--shutdown-timeout", "2s"]);
    // While this runs there is an end to ask during.
    server.post("/api/v1/jobs", &stubborn(&place)).expect(202);
    place.wait_for("runs");
    let (accepted, cancelled) = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| ask_to_the_end(&server))).collect();
        until("there are jobs", || {
            server.get("/api/v1/jobs").json()["items"].as_array().unwrap().len() > 20
        });
        server.signal(Signal::TERM);
        let found = clients.into_iter().map(|client| client.join().expect("it does not panic"));
        let (accepted, cancelled): (Vec<_>, Vec<_>) = found.unzip();
        (accepted.concat(), cancelled.concat())
    });
    server.wait().expect(0);
    assert!(!cancelled.is_empty());
    let server = Server::start(&place, &[]);
    let status = |id: &String| {
        server.get(&format!("/api/v1/jobs/{id}")).expect(200).json()["status"].clone()
    };
    for id in &cancelled {
        assert_eq!(status(id), "cancelled", "{id}");
    }
    for id in &accepted {
        // Whether its cancel happened nobody has said.
        assert!(["pending", "cancelled"].contains(&status(id).as_str().unwrap()), "{id}");
    }
    place.write("go", "");
    server.end();
}
