//! `annals bulk`: one command for many jobs, on a server and in a store.

use serde_json::Value;

use crate::Served;
use crate::common::Place;

fn pending(label: &str) -> String {
    format!(
        "name: n\nstart: manual\nlabels: {{g: {label}}}\ntasks: [{{id: a, kind: noop}}, {{id: b, \
         kind: noop}}]\n"
    )
}

#[track_caller]
fn counts(place: &Place, args: &[&str], code: i32) -> (u64, u64, usize) {
    let shown = place.annals(&[&["bulk", "--yes", "--json"], args].concat()).expect(code).stdout;
    let answer: Value = serde_json::from_str(&shown).expect("it is JSON");
    let number = |name: &str| answer[name].as_u64().unwrap();
    (number("matched"), number("accepted"), answer["refused"].as_array().unwrap().len())
}

#[test]
fn many_jobs_are_given_a_command_on_a_server_and_in_a_store() {
    let served = Served::new();
    let ids: Vec<String> = (0..3).map(|_| served.submit(&pending("x"))).collect();
    let other = served.submit(&pending("y"));
    let place = &served.place;
    place.annals(&["bulk", "cancel", "--label", "g:x"]).expect(2);
    place.annals(&["bulk", "cancel", "--yes"]).expect(2);
    place.annals(&["bulk", "cancel", "--yes", "--all", "--label", "g:x"]).expect(2);
    for verb in ["remove", "retry"] {
        let answer = place.annals(&["bulk", verb, "--yes", "--all"]).expect(2);
        assert!(answer.stderr.contains(&format!("{verb} needs --task")), "{}", answer.stderr);
    }
    // None of them has been started.
    let retry = ["retry", "--all", "--task", "a", "--reason", "again"];
    assert_eq!(counts(place, &retry, 5), (4, 0, 4));
    place.annals(&["bulk", "cancel", "--yes", "--all", "--interrupt"]).expect(2);
    let dry = place.annals(&["bulk", "cancel", "--label", "g:x", "--dry-run"]).expect(0).stdout;
    assert_eq!(dry, "cancel: of 3 jobs 3 would have accepted, 0 would have refused\n");
    assert_eq!(counts(place, &["pause", "--label", "g:x", "--reason", "later"], 0), (3, 3, 0));
    served.until(&ids[0], "paused");
    assert_eq!(served.show(&other)["status"], "pending");
    let skip = ["skip", "--status", "paused,failed", "--label", "g:x", "--task", "a"];
    assert_eq!(counts(place, &skip, 0), (3, 3, 0));
    // Those that are paused refuse it.
    let shown = place.annals(&["bulk", "execute", "--yes", "--all"]).expect(5).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "execute: of 4 jobs 1 accepted, 3 refused");
    assert!(lines[1..].iter().all(|line| line.contains(": cannot execute a job that is paused")));
    served.until(&other, "completed");

    let Served { place, server } = served;
    server.end();
    let place = &place;
    assert_eq!(counts(place, &["resume", "--label", "g:x"], 0), (3, 3, 0));
    let remove = ["remove", "--all", "--task", "b", "--dry-run"];
    assert_eq!(counts(place, &remove, 5), (4, 3, 1));
    assert_eq!(counts(place, &["cancel", "--all"], 5), (4, 3, 1));
    // They were paused before their start, and it skipped the other task.
    let retry = ["retry", "--label", "g:x", "--task", "b", "--reason", "again"];
    assert_eq!(counts(place, &retry, 0), (3, 3, 0));
    assert_eq!(place.json(&["show", &ids[2]])["status"], "running");
}

/// Three jobs of three steps, each of which fails at another one until a file is there.
fn failed_at_each(served: &Served) -> [String; 3] {
    let dir = served.place.path("").display().to_string();
    ["a", "b", "c"].map(|bad| {
        let task = |id: &str| {
            let fails = if id == bad { format!("; test -e {dir}/mended") } else { String::new() };
            let script = format!("echo {id} >> {dir}/ran-{bad}{fails}");
            format!("{{id: {id}, kind: shell, input: {{script: '{script}'}}}}")
        };
        let tasks = ["a", "b", "c"].map(task).join(", ");
        let id = served.submit(&format!("name: bad at {bad}\ntasks: [{tasks}]\n"));
        served.until(&id, "failed");
        id
    })
}

#[test]
fn jobs_that_failed_at_different_steps_go_on_each_from_its_own() {
    let served = Served::new();
    let ids = failed_at_each(&served);
    served.place.write("mended", "");
    let (place, failed) = (&served.place, ["execute", "--status", "failed"]);
    assert_eq!(counts(place, &failed, 0), (3, 3, 0));
    for (id, bad) in ids.iter().zip(["a", "b", "c"]) {
        served.until(id, "completed");
        let ran = place.read(&format!("ran-{bad}"));
        let again = [["a", "a", "b", "c"], ["a", "b", "b", "c"], ["a", "b", "c", "c"]];
        let wanted = again[usize::from(bad.as_bytes()[0] - b'a')];
        assert_eq!(ran.lines().collect::<Vec<_>>(), wanted, "{bad}");
    }
}
