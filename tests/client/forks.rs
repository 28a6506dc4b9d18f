//! Forks on the command line: where a server holds the store, and where nobody does.

use serde_json::{Value, json};

use crate::common::Place;
use crate::common::server::Server;

/// `b` fails until a file is there; `a` marks how often it ran.
fn failed() -> (Place, String) {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    place.write(
        "plan.yaml",
        format!(
            "name: broken\ntasks:\n\
             - id: a\n  kind: shell\n  input:\n    script: |\n      echo ran >> {dir}/ran\n      \
             echo said here\n      \
             echo '{{\"n\": 7}}' > $ANNALS_OUTPUT\n\
             - {{id: b, kind: shell, input: {{script: exit 3}}}}\n\
             - {{id: c, kind: noop, input: {{$output: a, pointer: /n}}}}\n"
        ),
    );
    place.annals(&["run", "plan.yaml"]).expect(1);
    let id = place.newest_id();
    place.write(
        "edits.yaml",
        "- command: edit\n  task: b\n  fields: {input: {script: 'true'}}\n\
         - {command: insert, task: {id: d, kind: noop}, after: b}\n",
    );
    (place, id)
}

fn ran(place: &Place) -> usize {
    std::fs::read_to_string(place.path("ran")).unwrap().lines().count()
}

/// What is said of the log of a task that was copied, and the log that is named there.
fn log_of_copy(place: &Place, fork: &str, id: &str) {
    for follow in [&[][..], &["--follow"]] {
        let asked = [&["logs", fork, "a"], follow].concat();
        let told = place.annals(&asked).expect(6).stderr;
        assert!(told.contains(&format!("a fork of job {id}")), "{told}");
        let (_, command) = told.split_once("(`annals ").expect("it says what to type");
        let (command, _) = command.split_once("`)").unwrap();
        assert!(command.starts_with(&format!("logs {id} a")), "{command}");
        let log = place.annals(&command.split(' ').collect::<Vec<_>>()).expect(0).stdout;
        assert_eq!(log, "said here\n");
    }
}

fn statuses(job: &Value) -> Vec<&str> {
    let tasks = job["tasks"].as_array().unwrap().iter();
    tasks.map(|task| task["status"].as_str().unwrap()).collect()
}

const FORK: [&str; 6] = ["--from-task", "b", "--edits", "edits.yaml", "--reason", "the script"];

#[test]
fn a_job_is_forked_and_mended_where_no_server_is() {
    let (place, id) = failed();
    let before = place.json(&["show", &id]);
    let dry = place.annals(&[&["fork", &id, "--dry-run"], &FORK[..]].concat()).expect(0).stdout;
    let first = format!("would be accepted: a fork of job {id} would be running\n");
    assert!(dry.starts_with(&first), "{dry}");
    assert!(dry.contains("  JobForked  b\n  TaskCompleted  a\n  TaskEdited  b\n"), "{dry}");
    let made = place.annals(&[&["fork", &id], &FORK[..]].concat()).expect(0).stdout;
    let fork = place.newest_id();
    assert_ne!(fork, id);
    assert!(made.starts_with(&format!("job {fork}: broken, 4 tasks\n")), "{made}");
    assert!(made.contains("nothing runs now"), "{made}");
    log_of_copy(&place, &fork, &id);
    let not_yet = place.annals(&["logs", &fork, "d"]).expect(6).stderr;
    assert!(not_yet.ends_with("task d has not run yet\n"), "{not_yet}");
    place.annals(&["run", "--job", &fork]).expect(0);
    let shown = place.json(&["show", &fork]);
    assert_eq!(statuses(&shown), ["completed"; 4]);
    assert_eq!(shown["forked_from"], json!({"job": id, "seq": before["seq"]}));
    assert_eq!(shown["tasks"][0]["output"]["n"], 7);
    assert_eq!(ran(&place), 1, "what is kept does not run again");
    let seen = place.annals(&["show", &fork]).expect(0).stdout;
    assert!(seen.contains(&format!("fork of   {id} (event {})\n", before["seq"])), "{seen}");
    let listed = place.json(&["list", "--forked-from", &id]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(place.json(&["show", &id]), before);
    // The file means the job that was made of it.
    place.annals(&["run", "plan.yaml"]).expect(1);
    assert_eq!(place.newest_id(), fork, "no other job is made");
}

#[test]
fn a_server_forks_a_job_in_the_same_words() {
    let (place, id) = failed();
    let server = Server::start(&place, &["--allow-shell"]);
    let made = place.json(&[&["fork", &id], &FORK[..]].concat());
    let fork = made["id"].as_str().unwrap();
    assert_eq!(made["forked_from"]["job"], id.as_str());
    let watched = place.annals(&["watch", fork]).expect(0).stdout;
    assert!(watched.contains("completed"), "{watched}");
    log_of_copy(&place, fork, &id);
    assert_eq!(ran(&place), 1);
    let events = place.annals(&["events", fork]).expect(0).stdout;
    assert!(events.contains("JobForked") && events.contains("(the script)"), "{events}");
    let again = place.annals(&["fork", fork, "--from-seq", "1"]).expect(0).stdout;
    assert!(again.contains("  watch:  annals watch "), "{again}");
    server.end();
    let closed = Server::start(&place, &[]);
    let refused = place.annals(&[&["fork", &id, "--json"], &FORK[..]].concat()).expect(5);
    assert_eq!(crate::problem(&refused.stderr)["code"], "shell_not_allowed");
    assert!(refused.stderr.contains("edits.yaml"), "{}", refused.stderr);
    closed.end();
}

#[test]
fn what_cannot_be_forked_is_said_with_the_line() {
    let (place, id) = failed();
    place.write(
        "wrong.yaml",
        "- command: skip\n  task: b\n- command: edit\n  task: c\n  fields:\n    timeout: 5\n",
    );
    place.write("none.yaml", "command: skip\n");
    place.write("empty.yaml", "# nothing yet\n");
    place.write("empty.json", "");
    let ask = |place: &Place| {
        for (args, code, words) in [
            (&["--from-task", "nobody"][..], 6, "nobody"),
            (&["--from-seq", "99"], 6, "it has events 1 to"),
            (&["--from-task", "b", "--edits", "wrong.yaml"], 2, "wrong.yaml:6:"),
            (&["--from-task", "b", "--edits", "none.yaml"], 2, "list"),
            (&["--from-task", "b", "--edits", "nowhere.yaml"], 2, "nowhere.yaml"),
            (
                &["--from-task", "b", "--edits", "empty.yaml"],
                2,
                "empty.yaml:1:1: the file holds nothing\nannals: empty.yaml holds no list",
            ),
            (&["--from-task", "b", "--edits", "empty.json"], 2, "the file holds nothing\n"),
            (&["--from-task", "b", "--expected-seq", "1"], 5, "look at it again"),
            (&["--from-task", "b", "--from-seq", "1"], 2, "--from-seq"),
            (&[], 2, "--from-task"),
        ] {
            let answer = place.annals(&[&["fork", &id], args].concat()).expect(code);
            assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
        }
    };
    ask(&place);
    let server = Server::start(&place, &[]);
    ask(&place);
    assert_eq!(place.newest_id(), id, "none was made");
    server.end();
}

/// To do all of a job again is to fork it from its first task: each runs again, and what was then
/// stays as it was.
#[test]
fn a_job_is_done_again_as_a_whole_and_the_first_time_can_still_be_read() {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    let task = |id: &str| {
        let script = format!("echo {id} >> {dir}/ran; echo $(wc -l < {dir}/ran)");
        format!("{{id: {id}, kind: shell, input: {{script: '{script}'}}}}")
    };
    place.write("plan.yaml", format!("name: x\ntasks: [{}, {}]\n", task("a"), task("b")));
    place.annals(&["run", "plan.yaml"]).expect(0);
    let id = place.newest_id();
    let before = place.json(&["show", &id]);
    place.annals(&["fork", &id, "--from-task", "a"]).expect(0);
    let fork = place.newest_id();
    place.annals(&["run", "--job", &fork]).expect(0);
    assert_eq!(place.read("ran").lines().collect::<Vec<_>>(), ["a", "b", "a", "b"]);
    assert_eq!(place.json(&["show", &id]), before);
    for (job, task, line) in [(&id, "a", "1\n"), (&id, "b", "2\n"), (&fork, "b", "4\n")] {
        assert_eq!(place.annals(&["logs", job, task]).expect(0).stdout, line);
    }
}
