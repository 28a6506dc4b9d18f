//! Commands on jobs of a server: what they do, and what is refused with which exit code.

use crate::{Served, problem};

const CHAIN: &str = "name: chain\ntasks:\n  - {id: a, kind: sleep, input: {for: 1h}}\n  \
    - {id: b, kind: noop, input: {from: {$output: a}}}\n  - {id: c, kind: noop}\n";

#[test]
fn commands_steer_a_job_and_say_what_they_did() {
    let served = Served::new();
    let id = served.submit(CHAIN);
    let place = &served.place;
    let status = |args: &[&str]| place.json(args)["status"].as_str().unwrap().to_owned();
    for (args, words) in [
        (&["execute"][..], format!("nothing to do: job {id} is running and stays so\n")),
        (&["pause", "--reason", "tea"], format!("accepted: job {id} is paused\n")),
        (&["pause"], format!("nothing to do: job {id} is paused and stays so\n")),
        (&["resume"], format!("accepted: job {id} is running\n")),
        (&["pause", "--interrupt"], format!("accepted: job {id} is paused\n")),
    ] {
        let answer = place.annals(&[&args[..1], &[&id], &args[1..]].concat()).expect(0);
        assert_eq!(answer.stdout, words, "{args:?}");
    }
    let answer = place.annals(&["remove", &id, "c"]).expect(0);
    assert_eq!(answer.stdout, format!("task c is removed; job {id} is paused\n"));
    let answer = place.annals(&["skip", &id, "a", "--cascade"]).expect(0);
    assert!(answer.stdout.starts_with("tasks a, b are skipped; job "), "{}", answer.stdout);
    place.annals(&["resume", &id]).expect(0);
    served.until(&id, "completed");
    let other = served.submit(CHAIN);
    assert_eq!(status(&["cancel", &other]), "cancelled");
    assert_eq!(status(&["execute", &other, "--paused"]), "paused");
    let events = served.server.get(&format!("/api/v1/jobs/{id}/events")).body;
    assert!(events.contains(r#""actor":"ada""#) && events.contains("tea"), "{events}");
}

#[test]
fn an_output_takes_the_place_of_a_skipped_one_digit_by_digit() {
    let served = Served::new();
    let id = served.submit(CHAIN);
    served.place.annals(&["skip", &id, "a", "--output", r#"{"n": 1e400}"#]).expect(0);
    let shown = served.place.annals(&["show", &id, "--json"]).stdout;
    assert!(shown.contains(r#""output":{"n":1e400}"#), "{shown}");
}

#[test]
fn a_dry_run_shows_everything_and_does_nothing() {
    let served = Served::new();
    let id = served.submit(CHAIN);
    let before = served.show(&id);
    for args in [&["cancel", &id][..], &["remove", &id, "c"], &["skip", &id, "a", "--cascade"]] {
        let answer = served.place.annals(&[args, &["--dry-run"]].concat()).expect(0);
        let words = format!("would be accepted: job {id} would be ");
        assert!(answer.stdout.starts_with(&words), "{args:?}: {}", answer.stdout);
        let dry = served.place.json(&[args, &["--dry-run"]].concat());
        assert!(!dry["events"].as_array().unwrap().is_empty(), "{args:?}: {dry}");
        assert_eq!(dry["job"]["id"], id.as_str());
    }
    let dry = served.place.annals(&["resume", &id, "--dry-run"]).expect(0).stdout;
    assert_eq!(dry, format!("nothing to do: job {id} is running and stays so\n"));
    assert_eq!(served.show(&id), before);
}

#[test]
fn refusals_have_exit_codes_and_the_words_of_the_machine() {
    let served = Served::new();
    let id = served.submit(CHAIN);
    let unknown = "01890000-0000-7000-8000-000000000000";
    for (args, code, word) in [
        (&["show", unknown][..], 6, "no_such_job"),
        (&["cancel", unknown], 6, "no_such_job"),
        (&["remove", unknown, "a"], 6, "no_such_job"),
        (&["show", "last"], 2, "usage"),
        (&["skip", &id, "nobody"], 6, "no_such_task"),
        (&["remove", &id, "nobody"], 6, "no_such_task"),
        (&["remove", &id, "a"], 5, "output_is_taken"),
        (&["skip", &id], 5, "output_is_taken"),
        (&["pause", &id, "--expected-seq", "1"], 5, "stale"),
        (&["remove", &id, "c", "--expected-seq", "1"], 5, "stale"),
        (&["skip", &id, "a", "--output", "{oops"], 2, "usage"),
    ] {
        let answer = served.place.annals(args).expect(code);
        assert!(answer.stderr.starts_with("annals: "), "{args:?}: {}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{args:?}: {}", answer.stderr);
        let answer = served.place.annals(&[args, &["--json"]].concat()).expect(code);
        assert_eq!(problem(&answer.stderr)["code"], word, "{args:?}");
    }
    let answer = served.place.annals(&["skip", &id]).expect(5);
    assert!(answer.stderr.ends_with("(--output JSON, --cascade)\n"), "{}", answer.stderr);
    let answer = served.place.annals(&["remove", &id, "a", "--json"]).expect(5);
    let taken = problem(&answer.stderr);
    assert_eq!(taken["dependants"], serde_json::json!([{"task": "b", "reference": "/from"}]));
    served.place.annals(&["cancel", &id]).expect(0);
    let answer = served.place.annals(&["pause", &id, "--json"]).expect(5);
    let refused = problem(&answer.stderr);
    assert_eq!(refused["code"], "not_in_this_status");
    assert_eq!(refused["job_status"], "cancelled");
    assert!(refused["allowed"].as_array().unwrap().contains(&"execute".into()), "{refused}");
}
