//! Submissions to a server, and to a store that none has.

use crate::common::Place;
use crate::common::server::Server;
use crate::{Served, problem};

const SMALL: &str = "name: small\ninput: {n: 1}\noutput: {$output: b}\ntasks:\n  \
    - {id: a, kind: noop}\n  - {id: b, kind: noop, input: {n: {$input: /n}}}\n";

#[test]
fn a_job_is_submitted_and_its_id_is_printed() {
    let served = Served::new();
    served.place.write("plan.yaml", SMALL);
    let answer = served.place.annals(&["submit", "plan.yaml", "--set", "/n=7.0"]).expect(0);
    let (first, second) = answer.stdout.split_once('\n').unwrap();
    let id = first.strip_prefix("job ").and_then(|line| line.strip_suffix(": small, 2 tasks"));
    let id = id.unwrap_or_else(|| panic!("{}", answer.stdout));
    assert_eq!(second, format!("  watch:  annals watch {id}\n"));
    served.until(id, "completed");
    let shown = served.place.annals(&["show", id, "--json"]).stdout;
    assert!(shown.contains(r#""input":{"n":7.0}"#), "{shown}");
    let input = ["submit", "plan.yaml", "--input", r#"{"n": 3544790567247868102}"#];
    assert_eq!(served.place.json(&input)["input"]["n"], 3_544_790_567_247_868_102_u64);
}

#[test]
fn a_plan_that_starts_by_hand_says_how() {
    let served = Served::new();
    served.place.write("plan.yaml", format!("{SMALL}start: manual\n"));
    let answer = served.place.annals(&["submit", "plan.yaml"]).expect(0);
    let command = answer.stdout.lines().find_map(|line| line.strip_prefix("  start:  annals "));
    let command: Vec<&str> = command.unwrap_or_else(|| panic!("{answer:?}")).split(' ').collect();
    served.place.annals(&command).expect(0);
    served.until(command[1], "completed");
}

#[test]
fn one_key_is_one_job() {
    let served = Served::new();
    served.place.write("plan.yaml", SMALL);
    let args = ["submit", "plan.yaml", "--idempotency-key", "two words \"7\""];
    let first = served.place.json(&args);
    let again = served.place.annals(&args).expect(0).stdout;
    assert!(again.contains("(submitted before, by this key)"), "{again}");
    assert!(again.contains(first["id"].as_str().unwrap()), "{again}");
    let other = [&args[..], &["--set", "/n=2", "--json"]].concat();
    let answer = served.place.annals(&other).expect(5);
    assert_eq!(problem(&answer.stderr)["code"], "idempotency_key_reused");
    let without = served.place.json(&args[..2]);
    assert_ne!(without["id"], first["id"], "each submission has a key of its own");
    for key in ["", "ü"] {
        served.place.annals(&["submit", "plan.yaml", "--idempotency-key", key]).expect(2);
    }
}

#[test]
fn faults_that_a_server_finds_have_their_places_in_the_file() {
    let served = Served::new();
    let table = [
        ("name: x\ntasks:\n  - id: a\n    knid: noop\n", "p.yaml:4:5: /tasks/0/knid: "),
        ("name: x\ntasks:\n  - {id: a, kind: nope}\n", "p.yaml:3:13: /tasks/0/kind: "),
        ("name: x\ntasks: []\n", "p.yaml:2:1: /tasks"),
        ("name: x\ntasks: [{id: a, kind: noop, needs: [b]}]\n", "p.yaml:2:37: /tasks/0/needs/0"),
    ];
    for (text, words) in table {
        served.place.write("p.yaml", text);
        let answer = served.place.annals(&["submit", "p.yaml"]).expect(2);
        assert!(answer.stderr.contains(words), "{text:?}: {}", answer.stderr);
        let last = "annals: p.yaml holds no valid plan; nothing was started\n";
        assert!(answer.stderr.ends_with(last), "{}", answer.stderr);
        let answer = served.place.annals(&["submit", "p.yaml", "--json"]).expect(2);
        let problem = problem(&answer.stderr);
        assert_eq!(
            (&problem["code"], &problem["file"]),
            (&"invalid_plan".into(), &"p.yaml".into())
        );
        assert!(problem["errors"][0]["line"].is_u64(), "{problem}");
    }
    served.place.write("plan.yaml", SMALL);
    let answer = served.place.annals(&["submit", "plan.yaml", "--input", "{}"]).expect(2);
    assert!(answer.stderr.contains("plan.yaml:6:33: /tasks/1/input/n"), "{}", answer.stderr);
    served.place.annals(&["submit", "nowhere.yaml"]).expect(2);
}

#[test]
fn scripts_are_refused_where_the_server_does_not_take_them() {
    let place = Place::new();
    let _server = Server::start(&place, &[]);
    place.write("plan.yaml", "name: x\ntasks: [{id: a, kind: shell, input: {script: 'true'}}]\n");
    let answer = place.annals(&["submit", "plan.yaml"]).expect(5);
    assert!(answer.stderr.contains("plan.yaml:2:17: /tasks/0/kind: "), "{}", answer.stderr);
    assert!(answer.stderr.contains("--allow-shell"), "{}", answer.stderr);
    let answer = place.annals(&["submit", "plan.yaml", "--json"]).expect(5);
    assert_eq!(problem(&answer.stderr)["code"], "shell_not_allowed");
}

#[test]
fn a_dry_run_submits_nothing() {
    let served = Served::new();
    served.place.write("plan.yaml", SMALL);
    let answer = served.place.annals(&["submit", "plan.yaml", "--dry-run"]).expect(0);
    assert_eq!(answer.stdout, "would be accepted: small, 2 tasks\n");
    let dry = served.place.json(&["submit", "plan.yaml", "--dry-run"]);
    assert_eq!(dry["events"][0]["type"], "JobSubmitted");
    assert_eq!(served.place.json(&["list"])["items"], serde_json::json!([]));
}

#[test]
fn workflows_are_asked_for_by_name() {
    let served = Served::new();
    let args = ["submit", "--workflow", "nope", "--set", "/host=a", "--json"];
    let answer = served.place.annals(&args).expect(2);
    assert_eq!(problem(&answer.stderr)["code"], "unknown_workflow");
    served.place.annals(&["submit"]).expect(2);
    served.place.annals(&["submit", "plan.yaml", "--workflow", "nope"]).expect(2);
}

#[test]
fn in_a_store_that_nobody_has_a_job_is_recorded() {
    let place = Place::new();
    place.write("plan.yaml", SMALL);
    let answer = place.annals(&["submit", "plan.yaml", "--idempotency-key", "k"]).expect(0);
    let id = place.newest_id();
    let begin = format!("job {id}: small, 2 tasks\n  run:    annals run --job {id}\n");
    assert!(answer.stdout.starts_with(&begin), "{}", answer.stdout);
    assert!(answer.stdout.contains("`annals serve`"), "{}", answer.stdout);
    assert_eq!(place.json(&["show", &id])["progress"]["completed_tasks"], 0, "nothing runs");
    let again = place.json(&["submit", "plan.yaml", "--idempotency-key", "k"]);
    assert_eq!(again["id"], id.as_str());
    let server = Server::start(&place, &[]);
    let again = place.json(&["submit", "plan.yaml", "--idempotency-key", "k"]);
    assert_eq!(again["id"], id.as_str(), "a server knows the key, too");
    crate::common::until("the end", || place.json(&["show", &id])["status"] == "completed");
    server.end();
    place.annals(&["submit", "plan.yaml", "--watch"]).expect(2);
    place.annals(&["run", "--job", &id]).expect(0);
}

#[test]
fn a_rehearsal_submits_nothing() {
    let served = Served::new();
    let held = Place::new();
    for place in [&served.place, &held] {
        place.write("plan.yaml", SMALL);
        let shown = place.json(&["submit", "plan.yaml", "--dry-run"]);
        assert_eq!(shown["job"]["name"], "small", "{shown}");
        assert_eq!(shown["events"][0]["type"], "JobSubmitted", "{shown}");
        let told = place.annals(&["submit", "plan.yaml", "--dry-run"]).expect(0).stdout;
        assert_eq!(told, "would be accepted: small, 2 tasks\n");
        assert_eq!(place.json(&["list"])["items"], serde_json::json!([]));
    }
}
