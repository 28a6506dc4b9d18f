//! What a server says of the jobs at the end, beside what its clients were told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::common::server::Server;
use crate::common::until;
use crate::load::{Deed, STEPS};

/// Takes pauses back, and waits until every job has ended. A step under which the server was killed
/// again and again has failed its job, and is executed.
pub(crate) fn settle(server: &Server, ledger: &[Deed]) {
    for id in submitted(ledger) {
        until("a job to end", || {
            let job = server.get(&format!("/api/v1/jobs/{id}?wait=1s")).expect(200).json();
            let go_on = |command: &str| {
                let path = format!("/api/v1/jobs/{id}/{command}");
                server.post(&path, &json!({})).expect(202);
                false
            };
            match job["status"].as_str().unwrap() {
                "completed" | "cancelled" => true,
                "paused" => go_on("resume"),
                "failed" => {
                    assert_eq!(job["error"]["code"], "crash_loop", "{job}");
                    go_on("execute")
                }
                _ => false,
            }
        });
    }
}

fn submitted(ledger: &[Deed]) -> BTreeSet<&str> {
    submissions(ledger).map(|deed| deed.job.as_str()).collect()
}

fn submissions(ledger: &[Deed]) -> impl Iterator<Item = &Deed> {
    ledger.iter().filter(|deed| deed.path == "/api/v1/jobs")
}

/// Each submission made one job, each command that was accepted is in its job's history once, and
/// none that was refused is.
pub(crate) fn check(server: &Server, ledger: &[Deed]) {
    let jobs = all_jobs(server);
    let by_name: BTreeMap<&str, &str> = jobs
        .iter()
        .map(|job| (job["name"].as_str().unwrap(), job["id"].as_str().unwrap()))
        .collect();
    assert_eq!(by_name.len(), jobs.len(), "a submission made two jobs");
    let told: BTreeMap<&str, &str> =
        submissions(ledger).map(|deed| (deed.key.as_str(), deed.job.as_str())).collect();
    assert_eq!(by_name, told, "the jobs are not those that the clients were told of");
    let mut commands: BTreeMap<&str, Vec<&Deed>> = BTreeMap::new();
    for deed in ledger {
        commands.entry(&deed.job).or_default().push(deed);
    }
    for (job, deeds) in commands {
        let events = history(server, job);
        runs_once(&events);
        for deed in deeds {
            let of_it = events.iter().filter(|event| event["request_id"] == deed.key.as_str());
            let seqs: Vec<u64> = of_it.map(|event| event["seq"].as_u64().unwrap()).collect();
            let happened = deed.status == 202;
            assert_eq!(!seqs.is_empty(), happened, "{deed:?}: {seqs:?}");
            let together = seqs.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert!(together, "it happened twice: {deed:?}: {seqs:?}");
        }
    }
}

fn all_jobs(server: &Server) -> Vec<Value> {
    let (mut jobs, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/jobs?limit=100{cursor}")).expect(200).json();
        jobs.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { return jobs };
        cursor = format!("&cursor={next}");
    }
}

fn history(server: &Server, job: &str) -> Vec<Value> {
    let page = server.get(&format!("/api/v1/jobs/{job}/events?limit=1000")).expect(200).json();
    let events = page["items"].as_array().unwrap().clone();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    events
}

/// No attempt of a task begins behind its success, and none fails by itself.
fn runs_once(events: &[Value]) {
    let mut completed = BTreeSet::new();
    for event in events {
        let task = event["data"]["task"].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "TaskCompleted" => assert!(completed.insert(task), "{event}"),
            "AttemptStarted" => assert!(!completed.contains(task), "{event}"),
            "AttemptFailed" => panic!("{event}"),
            "TaskFailed" => assert_eq!(event["data"]["error"]["code"], "crash_loop", "{event}"),
            _ => {}
        }
    }
    assert!(completed.len() <= STEPS);
}
