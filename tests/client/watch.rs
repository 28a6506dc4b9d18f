//! `annals watch` and `submit --watch`: what is shown, and how it ends.

use rustix::process::Signal;

use crate::common::{Place, finish, signal};
use crate::{Served, problem, waits};

const NAP: &str = "name: nap\ntasks:\n  - {id: a, kind: noop}\n  \
    - {id: b, kind: sleep, input: {for: 200ms}}\noutput: {done: true}\n";

#[test]
fn a_job_is_shown_from_its_submission_to_its_end() {
    let served = Served::new();
    served.place.write("plan.yaml", NAP);
    let answer = served.place.annals(&["submit", "plan.yaml", "--watch"]).expect(0);
    let ran = Place::new();
    ran.write("plan.yaml", NAP);
    let run = ran.annals(&["run", "plan.yaml"]).expect(0);
    let shape = |text: &str| -> Vec<String> {
        // Without ids and times it is what `run` shows.
        let words = text.lines().map(|line| {
            let words = line.split_whitespace().filter(|word| !word.contains(['.', '-', ':']));
            words.collect::<Vec<_>>().join(" ")
        });
        words.collect()
    };
    assert_eq!(shape(&answer.stdout), shape(&run.stdout), "{}\n{}", answer.stdout, run.stdout);
    assert_eq!(answer.stderr, "");
}

#[test]
fn what_has_happened_is_summed_up_and_the_rest_is_followed() {
    let served = Served::new();
    let plan = waits(&served.place).replace("tasks:\n", "tasks:\n  - {id: before, kind: noop}\n");
    let id = served.submit(&plan);
    served.place.wait_for("runs");
    let child = served.place.start(&["watch", &id]);
    let second = served.place.start(&["watch", &id]);
    served.until(&id, "running");
    served.place.write("go", "0");
    for child in [child, second] {
        let answer = finish(child).expect(0);
        let lines: Vec<&str> = answer.stdout.lines().collect();
        let begin = format!("job {id}: waits is ");
        assert!(lines[0].starts_with(&begin), "{lines:#?}");
        let with = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        for task in [
            "before           completed",
            "wait             completed",
            "behind           completed",
        ] {
            assert_eq!(with(task), 1, "{task}: {lines:#?}");
        }
        assert_eq!(with("completed: 3 of 3 tasks"), 1, "{lines:#?}");
    }
}

#[test]
fn the_exit_code_is_that_of_the_job() {
    let served = Served::new();
    let place = &served.place;
    let completed = served.submit(NAP);
    let failed = served.submit(
        "name: bad\ntasks: [{id: a, kind: shell, input: {script: 'echo no >&2; exit 3'}}]\n",
    );
    let cancelled = served.submit("name: c\nstart: manual\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["cancel", &cancelled]).expect(0);
    let paused = served.submit("name: c\nstart: manual\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["pause", &paused]).expect(0);
    for (id, code, words) in [
        (&completed, 0, "completed: 2 of 2 tasks".to_owned()),
        (&failed, 1, format!("go on:  annals execute {failed}")),
        (&cancelled, 3, format!("go on:  annals execute {cancelled}")),
        (&paused, 4, format!("go on:  annals resume {paused}")),
    ] {
        let answer = place.annals(&["watch", id]).expect(code);
        assert!(answer.stdout.contains(&words), "{words}: {}", answer.stdout);
        let json = place.annals(&["watch", id, "--json"]).expect(code).stdout;
        let events = place.annals(&["events", id, "--json"]).expect(0).stdout;
        let shown = place.annals(&["show", id, "--json"]).expect(0).stdout;
        assert_eq!(json, format!("{events}{shown}"));
    }
    let answer = place.annals(&["watch", &failed]).expect(1);
    for words in ["exit code 3: no", "[exit_status]", &format!("log:    annals logs {failed} a")] {
        assert!(answer.stdout.contains(words), "{words}: {}", answer.stdout);
    }
}

#[test]
fn a_watched_job_may_be_paused_and_cancelled_by_others() {
    for (verb, code) in [("pause", 4), ("cancel", 3)] {
        let served = Served::new();
        let id = served.submit(&waits(&served.place));
        served.place.wait_for("runs");
        let child = served.place.start(&["watch", &id, "--json"]);
        let args: &[&str] =
            if verb == "pause" { &["pause", &id, "--interrupt"] } else { &["cancel", &id] };
        served.place.annals(args).expect(0);
        let answer = finish(child).expect(code);
        let last = answer.stdout.lines().last().unwrap();
        assert!(last.contains(r#""outcome":"interrupted""#), "{last}");
    }
}

#[test]
fn signals_leave_the_job_alone() {
    let served = Served::new();
    let id = served.submit(&waits(&served.place));
    served.place.wait_for("runs");
    for (which, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut command = served.place.command(&["watch", &id]);
        let out = std::fs::File::create(served.place.path("out")).unwrap();
        let child = command.stdout(out).spawn().unwrap();
        // Whatever is shown, the signals are listened to before it.
        crate::common::until("a line", || served.place.read("out").contains('\n'));
        signal(&child, which);
        finish(child).expect(code);
        let words = format!("job {id} goes on; `annals watch {id}` shows it again\n");
        assert!(served.place.read("out").ends_with(&words), "{}", served.place.read("out"));
    }
    assert_eq!(served.show(&id)["status"], "running");
    served.place.write("go", "0");
    served.place.annals(&["watch", &id]).expect(0);
}

#[test]
fn logs_are_followed_until_the_attempt_is_over() {
    let served = Served::new();
    let id = served.submit(&waits(&served.place));
    let out = std::fs::File::create(served.place.path("out")).unwrap();
    let mut command = served.place.command(&["logs", &id, "wait", "--follow"]);
    let child = command.stdout(out).spawn().unwrap();
    crate::common::until("a line", || served.place.read("out") == "begins\n");
    // Without --follow what is there is all, also while the attempt writes.
    let now = served.place.annals(&["logs", &id, "wait"]).expect(0).stdout;
    assert_eq!(now, "begins\n");
    let now = served.place.annals(&["logs", &id, "wait", "--json"]).expect(0).stdout;
    assert_eq!(now.lines().count(), 1, "{now}");
    served.place.write("go", "0");
    finish(child).expect(0);
    assert_eq!(served.place.read("out"), "begins\nends\n");
    let json = served.place.annals(&["logs", &id, "wait", "--follow", "--json"]).expect(0).stdout;
    assert!(json.lines().last().unwrap().contains(r#""text":"ends""#), "{json}");
}

#[test]
fn logs_that_are_not_there_are_exit_code_6() {
    let served = Served::new();
    let id = served.submit(&waits(&served.place));
    served.place.wait_for("runs");
    for (args, code) in [
        (&["logs", &id, "nobody"][..], 6),
        (&["logs", &id, "behind"], 6),
        (&["logs", &id, "wait", "--attempt", "9"], 6),
        (&["logs", &id, "wait", "--attempt", "9", "--follow"], 6),
        (&["logs", &id, "wait", "--stream", "both"], 2),
    ] {
        let answer = served.place.annals(&[args, &["--json"]].concat()).expect(code);
        assert!(problem(&answer.stderr)["code"].is_string(), "{args:?}");
    }
}

#[test]
fn in_a_store_that_nobody_has_a_job_is_shown_as_it_stands() {
    let place = Place::new();
    place.write("plan.yaml", NAP);
    place.annals(&["run", "plan.yaml"]).expect(0);
    let ended = place.newest_id();
    let answer = place.annals(&["watch", &ended]).expect(0);
    assert!(answer.stdout.contains("completed: 2 of 2 tasks"), "{}", answer.stdout);
    let id = place.json(&["submit", "plan.yaml"])["id"].as_str().unwrap().to_owned();
    let answer = place.annals(&["watch", &id]).expect(7);
    let words = format!("nothing to watch: `annals run --job {id}` runs the job and shows it\n");
    assert!(answer.stderr.ends_with(&words), "{}", answer.stderr);
    for args in [&["events", &ended, "--follow"][..], &["logs", &ended, "a", "--follow"]] {
        place.annals(args).expect(0);
    }
}
