//! Deadlines on the command line: what is shown of them, and how a run ends that is out of time.

use serde_json::Value as Json;

use crate::Served;
use crate::common::Place;

const SLOW: &str = "tasks:\n  - {id: a, kind: sleep, input: {for: 10h}}\n  - {id: b, kind: noop}\n";

#[test]
fn show_and_explain_say_when_it_passes_unless_it_stands_still() {
    let served = Served::new();
    let id = served.submit(&format!("name: slow\ndeadline: 2h 30m\n{SLOW}"));
    let place = &served.place;
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    let line = |text: &str| text.lines().find(|line| line.starts_with("deadline  ")).map(str::len);
    assert_eq!(line(&shown), Some("deadline  2026-03-01 12:00:01".len()), "{shown}");
    let why = place.annals(&["explain", &id]).expect(0).stdout;
    assert!(why.contains("\n  the deadline of the run passes at "), "{why}");
    place.annals(&["pause", &id]).expect(0);
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert_eq!(line(&shown), None, "{shown}");
    let why = place.annals(&["explain", &id]).expect(0).stdout;
    assert!(!why.contains("deadline"), "{why}");
}

#[test]
fn a_run_in_the_foreground_ends_with_it() {
    let place = Place::new();
    place.write("plan.yaml", format!("name: slow\ndeadline: 100ms\n{SLOW}"));
    let answer = place.annals(&["run", "plan.yaml"]).expect(1);
    assert!(answer.stdout.contains("past its deadline"), "{}", answer.stdout);
    let words = "the run took longer than its deadline of 100ms [deadline_exceeded]";
    assert!(answer.stdout.contains(words), "{}", answer.stdout);
    assert_eq!(place.newest()["error"]["code"], "deadline_exceeded");
    // With more time it is another plan.
    place.write("plan.yaml", format!("name: slow\ndeadline: 10h\n{SLOW}"));
    let answer = place.annals(&["run", "plan.yaml"]).expect(5);
    assert!(answer.stderr.contains("deadline"), "{}", answer.stderr);

    place.write("wrong.yaml", format!("name: slow\ndeadline: 0s\n{SLOW}"));
    let answer = place.annals(&["validate", "wrong.yaml"]).expect(2);
    let words = "a deadline must be longer than zero";
    assert!(answer.stderr.contains(words), "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stderr.contains("wrong.yaml:2:"), "{}", answer.stderr);
}

#[test]
fn one_that_passed_while_no_engine_ran_is_not_shown_as_to_come() {
    let place = Place::new();
    place.write("plan.yaml", format!("name: slow\ndeadline: 1ms\n{SLOW}"));
    place.annals(&["submit", "plan.yaml"]).expect(0);
    let id = place.newest_id();
    let show = || place.annals(&["show", &id]).expect(0).stdout;
    crate::common::until("the deadline has passed", || show().contains("  has passed: the job"));
    let shown = show();
    assert!(shown.contains(&format!("`annals run --job {id}` has it fail\n")), "{shown}");
    let why = place.annals(&["explain", &id]).expect(0).stdout;
    assert!(why.contains("\n  the deadline of the run passed at "), "{why}");
    assert!(why.ends_with(", and the job fails as soon as an engine runs\n"), "{why}");
    let why = place.json(&["explain", &id]);
    assert_eq!(why["deadline_passed"], true);
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.contains("; the deadline of the run passed "), "{summary}");
    place.annals(&["run", "--job", &id]).expect(1);
    assert_eq!(place.newest()["error"]["code"], "deadline_exceeded");
    let why = place.json(&["explain", &id]);
    assert_eq!((&why["deadline_at"], &why["deadline_passed"]), (&Json::Null, &Json::Null));
}
