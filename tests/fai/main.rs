//! The set-up of a real server that nobody here has written: the scripts of FAI, the Fully
//! Automatic Installation of Debian, run by a server over HTTP, and compared with what FAI's own
//! runner makes of the same root.
//!
//! The packages come from Debian, and the root by debootstrap, once, into `target/fai`; what
//! cannot be had is a failure. Slow, and for root, so run by `cargo xtask fai`.

#[path = "../common/mod.rs"]
mod common;
mod install;
mod manifest;
mod site;

use std::collections::BTreeMap;

use common::server::Server;
use common::until;
use rustix::process::Signal;
use serde_json::Value;
use site::{SCRIPTS, Site};

/// Speaks of variables and functions that a whole FAI has and its runner alone has not, and
/// succeeds.
const COMPLAINS: &str = "DEBIAN:30-interface";
/// What bash says in it, in bytes.
const COMPLAINT: usize = 651;
/// Behind so many tasks the server is killed.
const BEFORE_KILL: usize = 4;

#[test]
#[ignore = "slow: needs root, Debian's packages and its mirror; cargo xtask fai runs it"]
fn a_server_is_set_up_as_by_fais_own_runner() {
    let site = Site::new();
    let reference = site.reference();
    site.let_end();
    let server = Server::start(&site.place, &["--allow-shell"]);
    let job = site.submit(&server);
    let shown = site::completed(&server, &job);
    for task in tasks(&shown) {
        assert_eq!(outcomes(task), ["completed"], "{task:#}");
        assert_eq!(task["attempts"][0]["exit_code"], 0, "{task:#}");
    }
    let once = SCRIPTS.map(|script| (site::task_id(script), vec![1]));
    assert_eq!(site.begun(), BTreeMap::from(once));
    complains(&server, &job);
    reference.assert_same_logs(&server, &job);
    site.assert_same_root(&reference);
    server.end();
}

#[test]
#[ignore = "slow: needs root, Debian's packages and its mirror; cargo xtask fai runs it"]
fn a_kill_on_the_way_changes_nothing() {
    let site = Site::new();
    let reference = site.reference();
    let server = Server::start(&site.place, &["--allow-shell"]);
    let job = site.submit(&server);
    let path = format!("/api/v1/jobs/{job}");
    let is_completed = |task: &Value| task["status"] == "completed";
    let completed = |shown: &Value| tasks(shown).iter().filter(|task| is_completed(task)).count();
    until("the tasks before the kill to complete", || {
        completed(&server.get(&path).expect(200).json()) >= BEFORE_KILL
    });
    server.signal(Signal::KILL);
    server.wait();
    // Until now the last script has waited: the job cannot have ended before the kill.
    site.let_end();

    let server = Server::start(&site.place, &["--allow-shell"]);
    let shown = site::completed(&server, &job);
    let numbers = gone_on_with(&shown);
    let begun = site.begun();
    for (task, numbers) in &numbers {
        let begun = &begun[task.as_str()];
        // The attempt that was lost may not have come to its script.
        assert!(begun == numbers || begun[..] == numbers[1..], "{task}: {begun:?} of {numbers:?}");
    }
    site::runs_once(&server, &job);
    complains(&server, &job);
    site.assert_same_root(&reference);
    server.end();
    let report = site.place.json(&["verify"]);
    assert_eq!(report["sound"], true, "{report}");
}

/// One attempt was lost, of a task behind the kill, and is followed by another. Gives the
/// attempts of each task.
fn gone_on_with(shown: &Value) -> BTreeMap<String, Vec<u64>> {
    let mut lost = 0;
    for (number, task) in tasks(shown).iter().enumerate() {
        let outcomes = outcomes(task);
        if number >= BEFORE_KILL && outcomes.len() == 2 {
            assert_eq!(outcomes, ["lost", "completed"], "{task:#}");
            lost += 1;
        } else {
            assert_eq!(outcomes, ["completed"], "{task:#}");
        }
    }
    assert_eq!(lost, 1, "what a server was at when it was killed is one lost attempt: {shown:#}");
    let numbers = |task: &Value| {
        let attempts = task["attempts"].as_array().unwrap().iter();
        let numbers = attempts.map(|attempt| attempt["number"].as_u64().unwrap()).collect();
        (task["id"].as_str().unwrap().to_owned(), numbers)
    };
    tasks(shown).iter().map(numbers).collect()
}

/// The log has what a task wrote to stderr, though it succeeded, byte for byte.
fn complains(server: &Server, job: &str) {
    let said = site::log(server, job, COMPLAINS, "&stream=stderr");
    assert_eq!(said.len(), COMPLAINT, "{COMPLAINS} has written to stderr:\n{said}");
    assert_eq!(said.matches("ifclass: command not found\n").count(), 3, "{said}");
}

fn tasks(shown: &Value) -> &[Value] {
    shown["tasks"].as_array().unwrap()
}

/// How the attempts of a task ended.
fn outcomes(task: &Value) -> Vec<&str> {
    let attempts = task["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["outcome"].as_str().unwrap_or("none")).collect()
}
