//! `annals explain`: why a job does not move, and what to type, on a server and in a store.

use serde_json::json;

use crate::common::{self, Place};
use crate::{Served, waits};

/// What people read.
#[track_caller]
fn explained(place: &Place, id: &str) -> Vec<String> {
    let shown = place.annals(&["explain", id]).expect(0).stdout;
    shown.lines().map(str::to_owned).collect()
}

#[test]
fn what_is_shown_can_be_typed() {
    let served = Served::new();
    let place = &served.place;
    let id = served.submit(&waits(place));
    place.wait_for("runs");
    let lines = explained(place, &id[..30]);
    assert_eq!(lines[0], format!("job {id} is running"));
    assert!(lines[1].starts_with("  attempt 1 of task wait runs since "), "{lines:?}");
    assert_eq!(lines[2], format!("      annals skip {id} wait"));
    assert_eq!(lines[3], "  task behind waits for wait");
    place.annals(&["pause", &id, "--reason", "for the night"]).expect(0);
    let lines = explained(place, &id);
    assert_eq!(lines[0], format!("job {id} is running (to pause)"));
    assert!(lines[1].contains("is on its way to be paused by ada "), "{lines:?}");
    assert!(lines[1].contains("(for the night): 1 attempt is alive"), "{lines:?}");
    let harder = format!("pause {id} --interrupt");
    assert_eq!(lines[3], format!("      annals {harder}"));
    let harder: Vec<&str> = harder.split(' ').collect();
    place.annals(&harder).expect(0);
    served.until(&id, "paused");
    let json = place.json(&["explain", &id]);
    assert_eq!(json["reasons"][0]["code"], "paused");
    assert_eq!(json["job_id"], id);

    // The same in a store that nothing runs on.
    let Served { place, server } = served;
    server.end();
    let place = &place;
    let lines = explained(place, &id);
    assert_eq!(lines[0], format!("job {id} is paused"));
    assert!(lines[1].contains("paused by ada "), "{lines:?}");
    assert_eq!(lines[2], format!("      annals resume {id}"));
    let runs = lines.iter().position(|line| line.starts_with("  no engine runs on this store now"));
    assert_eq!(lines[runs.expect("it says so") + 1], format!("      annals run --job {id}"));
    let json = place.json(&["explain", &id]);
    assert_eq!(json["reasons"][1]["code"], "nothing_runs");
    place.annals(&["explain", "01890000-0000-7000-8000-000000000000"]).expect(6);
    place.annals(&["explain", "ffff"]).expect(6);
}

/// What two jobs say that share a key: the first holds it, the second waits.
fn share_a_key(place: &Place, first: &str, second: &str) {
    let holds = format!("job {second} waits for the exclusive key host/1 that it holds");
    let wants = format!(
        "the job waits for its exclusive key host/1, which job {first} holds until it ends; it is \
         first in line"
    );
    for (id, says, does_not) in [(first, &holds, &wants), (second, &wants, &holds)] {
        let shown = place.annals(&["show", id]).expect(0).stdout;
        assert!(shown.lines().any(|line| line == says), "{says} is not in {shown}");
        assert!(!shown.contains(does_not.as_str()), "{shown}");
        let lines = explained(place, id);
        assert!(lines.iter().any(|line| line.trim() == says), "{says} is not in {lines:?}");
    }
    let why = place.json(&["explain", first]);
    assert_eq!(
        why["holds_key"],
        json!({"key": "host/1", "waiting": 1, "jobs": [second], "message": holds})
    );
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.ends_with(&format!("; {holds}")), "{summary}");
    let listed = place.annals(&["list"]).expect(0).stdout;
    let line = |id| listed.lines().find(|line| line.starts_with(id)).expect("it is listed");
    let line_of_second = format!("  waits: waits for its key host/1, which job {first} holds");
    assert!(line(second).ends_with(&line_of_second), "{listed}");
    assert!(line(first).ends_with("  waits"), "{listed}");
    let listed = place.json(&["list"]);
    assert_eq!(listed["items"][0]["wants_key"], json!({"key": "host/1", "holder": first}));
    assert_eq!(listed["items"][1].get("wants_key"), None);
}

#[test]
fn jobs_that_share_a_key_say_whom_they_wait_for_and_who_waits() {
    let served = Served::new();
    let plan = "name: waits\nexclusive: host/1\n\
                tasks: [{id: nap, kind: sleep, input: {for: 10h}}]\n";
    let first = served.submit(plan);
    common::until("it sleeps", || served.show(&first)["tasks"][0]["status"] == "waiting");
    let second = served.submit(plan);
    share_a_key(&served.place, &first, &second);
    let Served { place, server } = served;
    server.end();
    share_a_key(&place, &first, &second);
    place.annals(&["cancel", &first]).expect(0);
    let why = place.json(&["explain", &second]);
    assert_eq!(why["reasons"][0]["code"], "nothing_runs");
}
