//! Ctrl-C, kill, and a reader that goes away.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Place, annals, finish, signal, until};

/// One task that marks that it runs, and ends once the file `go` is there.
fn waits() -> Place {
    let place = Place::new();
    place.write(
        "plan.yaml",
        format!(
            "name: waits\ntasks:\n  - id: wait\n    kind: shell\n    input:\n      \
             script: |\n        touch {dir}/runs\n        \
             until [ -e {dir}/go ]; do sleep 0.02; done\n",
            dir = place.path("").display()
        ),
    );
    place
}

#[test]
fn ctrl_c_pauses_and_the_next_run_goes_on() {
    let place = waits();
    let child = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    signal(&child, Signal::INT);
    let answer = finish(child).expect(130);
    for words in
        ["stopping what runs", "interrupted", "paused: 0 of 1 task ", "annals run plan.yaml"]
    {
        assert!(answer.stdout.contains(words), "{words}: {}", answer.stdout);
    }
    let id = place.newest_id();
    let job = place.json(&["show", &id]);
    assert_eq!(job["status"], "paused");
    assert_eq!(job["tasks"][0]["attempts"][0]["outcome"], "interrupted");
    place.write("go", "");
    place.annals(&["run", "plan.yaml"]).expect(0);
    assert_eq!(place.newest_id(), id);
}

#[test]
fn sigterm_pauses_too() {
    let place = waits();
    let child = place.start(&["run", "plan.yaml", "--json"]);
    place.wait_for("runs");
    signal(&child, Signal::TERM);
    let answer = finish(child).expect(143);
    let last = answer.stdout.lines().last().unwrap();
    let snapshot: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(snapshot["status"], "paused");
}

#[test]
fn the_end_of_the_terminal_pauses_unless_it_is_to_be_outlived() {
    let place = waits();
    let child = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    signal(&child, Signal::HUP);
    finish(child).expect(129);
    assert_eq!(place.newest()["status"], "paused");
    std::fs::remove_file(place.path("runs")).unwrap();
    // As `nohup` does.
    let script = r#"trap "" HUP; exec "$0" run plan.yaml"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(annals()).current_dir(place.path(""));
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    place.wait_for("runs");
    signal(&child, Signal::HUP);
    place.write("go", "");
    finish(child).expect(0);
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        format!(
            "name: stubborn\ntasks:\n  - id: wait\n    kind: shell\n    input:\n      \
             script: |\n        trap 'touch {dir}/told' TERM\n        touch {dir}/runs\n        \
             while true; do sleep 0.02 || true; done\n",
            dir = place.path("").display()
        ),
    );
    let child = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    signal(&child, Signal::INT);
    place.wait_for("told");
    let begun = Instant::now();
    signal(&child, Signal::INT);
    let answer = finish(child).expect(130);
    assert!(begun.elapsed() < Duration::from_secs(5), "the grace is not waited for");
    assert!(answer.stderr.contains("left at once"), "{}", answer.stderr);
}

#[test]
fn a_killed_run_goes_on_with_the_next() {
    let place = waits();
    let mut child = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    child.kill().unwrap();
    child.wait().unwrap();
    let id = place.newest_id();
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains("task wait ran when its engine ended"), "{shown}");
    let listed = place.annals(&["list"]).expect(0).stderr;
    let words = format!("no engine runs on this store now; `annals run --job {id}` goes on\n");
    assert_eq!(listed, words);
    place.write("go", "");
    let answer = place.annals(&["run", "plan.yaml"]).expect(0);
    for words in ["was running, goes on", "attempt 1 was lost", "completed"] {
        assert!(answer.stdout.contains(words), "{words}: {}", answer.stdout);
    }
    let job = place.json(&["show", &id]);
    assert_eq!(job["tasks"][0]["attempts"][0]["outcome"], "lost");
    assert_eq!(job["tasks"][0]["attempts"][1]["outcome"], "completed");
}

/// The start of an engine can end a job: here it finds one loss too many. A command that opened
/// it again at once would never stop whoever repeats it.
#[test]
fn a_task_that_takes_the_engine_with_it_is_given_up_even_if_run_is_repeated() {
    let place = waits();
    let mut crashes = 0;
    let given_up = loop {
        let mut child = place.start(&["run", "plan.yaml"]);
        until("a task or an end", || {
            place.path("runs").exists() || child.try_wait().unwrap().is_some()
        });
        if !place.path("runs").exists() {
            break finish(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(place.path("runs")).unwrap();
        crashes += 1;
        assert!(crashes < 50, "it was never given up");
    };
    let answer = given_up.expect(1);
    assert!(answer.stdout.contains("[crash_loop]"), "{}", answer.stdout);
    let id = place.newest_id();
    place.write("go", "");
    place.annals(&["run", "plan.yaml"]).expect(0);
    assert_eq!(place.newest_id(), id, "the next run opens it again");
}

#[test]
fn a_run_outlives_the_reader_of_its_output() {
    let place = waits();
    let mut child = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    drop(child.stdout.take());
    place.write("go", "");
    let answer = finish(child).expect(0);
    assert!(answer.stderr.is_empty(), "{}", answer.stderr);
    assert_eq!(place.newest()["status"], "completed");
}

#[test]
fn a_closed_pipe_ends_a_listing_quietly() {
    let place = Place::new();
    place.write("plan.yaml", "name: x\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["run", "plan.yaml"]).expect(0);
    let id = place.newest_id();
    for args in
        [&["list"][..], &["events", &id], &["show", &id], &["--help"], &["completions", "bash"]]
    {
        let mut child = place.start(args);
        drop(child.stdout.take());
        let answer = finish(child).expect(0);
        assert!(answer.stderr.is_empty(), "{args:?}: {}", answer.stderr);
    }
}

/// A job that waits for the key of another one says so, and neither is counted as one that was
/// stopped.
#[test]
fn who_waits_for_a_key_is_told_who_holds_it() {
    let place = Place::new();
    let plan = |name: &str, script: &str| {
        let tasks = format!("tasks: [{{id: a, kind: shell, input: {{script: '{script}'}}}}]");
        format!("name: {name}\nexclusive: host/x\n{tasks}\n")
    };
    place.write(
        "first.yaml",
        plan("first", "touch $DIR/runs; sleep 300").replace(
            "input: {",
            &format!("input: {{env: {{DIR: '{}'}}, ", place.path("").display()),
        ),
    );
    place.write("second.yaml", plan("second", "true"));
    let child = place.start(&["run", "first.yaml"]);
    place.wait_for("runs");
    signal(&child, Signal::INT);
    let said = finish(child).expect(130).stdout;
    assert!(!said.contains("of this store"), "{said}");
    let holder = place.newest_id();

    let mut command = place.command(&["run", "second.yaml"]);
    let out = std::fs::File::create(place.path("out")).unwrap();
    let child = command.stdout(out).spawn().unwrap();
    until("why it waits", || place.read("out").contains("exclusive key"));
    signal(&child, Signal::INT);
    finish(child).expect(130);
    let said = place.read("out");
    let words = format!("waits for its exclusive key host/x, which job {holder} holds");
    assert!(said.contains(&words) && said.contains(&format!("show {holder}")), "{said}");
    assert!(!said.contains("of this store"), "{said}");
}
