//! What a machine does to a server that runs on it: it is stopped for a while, its disk fills up,
//! its data is taken away, its clock is set, other processes want its store.

#[path = "../common/mod.rs"]
mod common;

mod clock;
mod full;
mod removed;
mod stopped;
mod two;

use std::io::Write;

use common::server::Server;
use serde_json::{Value, json};

/// Where this is set, what cannot be tried is a failure.
const ALL: &str = "ANNALS_HOST_ALL";

/// Says, past whoever gathers what tests print, that one of them tries nothing.
fn skipped(why: &str) {
    assert!(std::env::var_os(ALL).is_none(), "{why}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// A plan of tasks that do nothing, one after the other.
fn nothing(name: &str) -> Value {
    json!({"name": name, "tasks": [{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}]})
}

/// A plan of one script.
fn script(name: &str, script: &str) -> Value {
    let input = json!({"script": script});
    json!({"name": name, "tasks": [{"id": "a", "kind": "shell", "input": input}]})
}

/// Submits a plan that must be accepted; gives the job's id.
#[track_caller]
fn submit(server: &Server, plan: &Value) -> String {
    let accepted = server.post("/api/v1/jobs", plan).expect(202).json();
    accepted["id"].as_str().expect("an id").to_owned()
}

/// The job as it is shown, if need be after a wait for its end.
#[track_caller]
fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/api/v1/jobs/{id}?wait=30s")).expect(200).json()
}

/// How the attempts of a task ended.
fn outcomes(job: &Value, task: usize) -> Vec<&str> {
    let attempts = job["tasks"][task]["attempts"].as_array().expect("a list").iter();
    attempts.map(|attempt| attempt["outcome"].as_str().unwrap_or("none")).collect()
}

/// What makes the server unfit: the detail of the first reason, and its code. Nothing while it is
/// well.
fn unfit(server: &Server) -> Option<(String, String)> {
    let ready = server.get("/readyz");
    if ready.status == 200 {
        return None;
    }
    let reason = ready.expect(503).json()["reasons"][0].clone();
    let text = |name: &str| reason[name].as_str().expect("a text").to_owned();
    Some((text("detail"), text("code")))
}
