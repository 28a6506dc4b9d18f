//! `annals explain`: why a job does not move, and what to type, on a server and in a store.

use crate::common::Place;
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
