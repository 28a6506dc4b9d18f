//! `annals run`: begin, fail, go on, and what counts as the same job.

use crate::common::Place;
use crate::{failed, two_steps};

#[test]
fn a_plan_runs_to_its_end_and_then_begins_anew() {
    let (place, set) = two_steps();
    let run = ["run", "plan.yaml", "--set", &set];
    let answer = place.annals(&run).expect(0);
    for words in ["two steps, 2 tasks", "first            completed", "completed: 2 of 2 tasks"] {
        assert!(answer.stdout.contains(words), "{words}: {}", answer.stdout);
    }
    assert!(answer.stderr.is_empty(), "{}", answer.stderr);
    let first = place.newest_id();
    place.annals(&run).expect(0);
    assert_ne!(place.newest_id(), first);
    assert_eq!(place.read("ran"), "first\nsecond\nfirst\nsecond\n");
}

#[test]
fn what_has_failed_goes_on_where_it_stood() {
    let (place, id) = failed();
    let set = format!("/dir={}", place.path("").display());
    let run = ["run", "plan.yaml", "--set", &set];
    let answer = place.annals(&run).expect(1);
    for words in [
        "had failed, goes on; 1 of 2 tasks completed",
        "second           failed",
        "exit code 7",
        "it is broken",
        "annals logs",
        "error:  task second: exit code 7: it is broken [exit_status]",
    ] {
        assert!(answer.stdout.contains(words), "{words}: {}", answer.stdout);
    }
    std::fs::remove_file(place.path("broken")).unwrap();
    place.annals(&run).expect(0);
    assert_eq!(place.newest_id(), id, "it is still the same job");
    assert_eq!(place.read("ran"), "first\nsecond\nsecond\nsecond\n");
    let job = place.json(&["show", &id]);
    let outcomes: Vec<_> = job["tasks"][1]["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["failed", "failed", "completed"]);
}

#[test]
fn another_input_is_another_job_and_new_is_new() {
    let (place, id) = failed();
    let set = format!("/dir={}", place.path("").display());
    let answer = place.annals(&["run", "plan.yaml", "--set", &set, "--set", "/other=1"]).expect(1);
    let aside = format!("job {id} of this file is failed and has another input");
    assert!(answer.stdout.contains(&aside), "{}", answer.stdout);
    assert_ne!(place.newest_id(), id);
    place.annals(&["run", "plan.yaml", "--set", &set, "--new"]).expect(1);
    let items = place.json(&["list"])["items"].as_array().unwrap().len();
    assert_eq!(items, 3);
}

#[test]
fn a_changed_file_is_refused_with_the_difference() {
    let (place, id) = failed();
    let set = format!("/dir={}", place.path("").display());
    let plan = place.read("plan.yaml");
    // Layout and comments are no change.
    place.write("plan.yaml", format!("# a comment\n{plan}\n"));
    place.annals(&["run", "plan.yaml", "--set", &set]).expect(1);
    place.write("plan.yaml", plan.replace("echo fine", "echo better"));
    let ran = place.read("ran");
    let answer = place.annals(&["run", "plan.yaml", "--set", &set]).expect(5);
    for words in ["-        echo fine", "+        echo better", "--new", &format!("--job {id}")] {
        assert!(answer.stderr.contains(words), "{words}: {}", answer.stderr);
    }
    assert_eq!(place.read("ran"), ran, "nothing ran");
    let answer = place.annals(&["run", "plan.yaml", "--set", &set, "--json"]).expect(5);
    let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(problem["code"], "plan_changed");
    std::fs::remove_file(place.path("broken")).unwrap();
    let answer = place.annals(&["run", "plan.yaml", "--job", &id]).expect(0);
    assert!(answer.stderr.contains("the stored plan is run"), "{}", answer.stderr);
    assert!(place.annals(&["logs", &id, "second"]).stdout.contains("fine"), "the stored plan ran");
    place.annals(&["run", "plan.yaml", "--set", &set]).expect(0);
    assert_ne!(place.newest_id(), id, "after a completed one a new one begins");
}

#[test]
fn json_is_one_event_per_line_and_the_snapshot_last() {
    let (place, set) = two_steps();
    let answer = place.annals(&["run", "plan.yaml", "--set", &set, "--json"]).expect(0);
    let lines: Vec<serde_json::Value> =
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (snapshot, events) = lines.split_last().unwrap();
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event["seq"], seq);
        assert_eq!(event["hash"].as_str().unwrap().len(), 64);
        assert!(event["position"].as_u64().unwrap() > 0);
        assert!(event["time"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(events[0]["type"], "JobSubmitted");
    assert_eq!(events[0]["actor"], "ada");
    assert_eq!(events.last().unwrap()["type"], "JobCompleted");
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["seq"], events.len());
    assert_eq!(snapshot["progress"]["fraction"], 1.0);
    for digits in [r#""big":3544790567247868102"#, "18446744073709551616"] {
        let lines = answer.stdout.lines().filter(|line| line.contains(digits)).count();
        assert!(lines >= 2, "{digits} are in an event and in the snapshot");
    }
}

#[test]
fn a_paused_job_ends_the_run_and_a_skip_lets_it_go_on() {
    let place = Place::new();
    place.write(
        "plan.json",
        r#"{"name": "pauses", "tasks": [
            {"id": "a", "kind": "shell", "input": {"script": "exit 3"}, "on_failure": "pause"},
            {"id": "b", "kind": "noop"}]}"#,
    );
    let answer = place.annals(&["run", "plan.json"]).expect(4);
    assert!(answer.stdout.contains("paused: 0 of 2 tasks"), "{}", answer.stdout);
    let id = place.newest_id();
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains("annals skip"), "{shown}");
    place.annals(&["skip", &id]).expect(0);
    place.annals(&["run", "plan.json"]).expect(0);
    assert_eq!(place.json(&["show", &id])["tasks"][0]["status"], "skipped");
}

#[test]
fn a_plan_that_starts_by_hand_is_started_by_run() {
    let place = Place::new();
    place.write("plan.yaml", "name: x\nstart: manual\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["run", "plan.yaml"]).expect(0);
}

#[test]
fn cancelled_jobs_go_on_by_name_only() {
    let (place, id) = failed();
    let set = format!("/dir={}", place.path("").display());
    place.annals(&["cancel", &id]).expect(0);
    std::fs::remove_file(place.path("broken")).unwrap();
    place.annals(&["run", "plan.yaml", "--set", &set]).expect(0);
    assert_ne!(place.newest_id(), id);
    place.annals(&["run", "--job", &id]).expect(0);
    assert_eq!(place.json(&["show", &id])["status"], "completed");
    let answer = place.annals(&["run", "--job", &id]).expect(0);
    assert!(answer.stdout.contains("nothing is left to run"), "{}", answer.stdout);
}

#[test]
fn the_example_fails_once_and_goes_on() {
    let place = Place::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/server-init/server-init.yaml");
    let root = format!("/root={}", place.path("root").display());
    let run = ["run", file, "--set", &root, "--set", "/fail_once=true"];
    let answer = place.annals(&run).expect(1);
    assert!(answer.stdout.contains("the template server cannot be reached"), "{}", answer.stdout);
    let answer = place.annals(&run).expect(0);
    assert!(answer.stdout.contains("ready: true"), "{}", answer.stdout);
    assert!(!answer.stdout.contains("preflight"), "what has completed does not run again");
    assert!(place.read("root/etc/app/app.toml").contains("host = \"web-42\""));
    let root = place.json(&["list"])["items"][0]["name"].clone();
    assert_eq!(root, "Set up a server");
}
