//! examples/approval: what somebody says, and what is done when nobody says anything.

use std::path::Path;

use crate::common::Place;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/approval/approval.yaml");

/// Submits the example with its files below the place; gives the job's id.
fn submit(place: &Place, more: &[&str]) -> String {
    let root = format!("/root={}", place.path("out").display());
    let job = place.json(&[&["submit", FILE, "--set", &root], more].concat());
    job["id"].as_str().expect("a job has an id").to_owned()
}

fn is_there(place: &Place, file: &str) -> bool {
    Path::new(&place.path("out")).join(file).exists()
}

#[test]
fn what_was_approved_is_published_and_by_whom_is_known() {
    let place = Place::new();
    let id = submit(&place, &[]);
    let says = r#"{"approved": true, "by": "ada"}"#;
    place.annals(&["signal", &id, "approval", says]).expect(0);
    place.annals(&["run", "--job", &id]).expect(0);
    let published = std::fs::read_to_string(place.path("out/published.txt")).unwrap();
    assert_eq!(published, "published 1.4.0, approved by ada\n");
    assert!(is_there(&place, "release.txt"));
}

#[test]
fn what_was_refused_is_cleaned_up() {
    let place = Place::new();
    let id = submit(&place, &[]);
    place.annals(&["signal", &id, "approval", r#"{"approved": false}"#]).expect(0);
    place.annals(&["run", "--job", &id]).expect(0);
    let shown = place.json(&["show", &id]);
    assert_eq!(shown["tasks"][2]["skipped_by"], "when", "{shown}");
    assert!(!is_there(&place, "published.txt") && !is_there(&place, "release.txt"));
}

#[test]
fn when_nobody_says_anything_the_wait_ends_in_its_time() {
    let place = Place::new();
    let id = submit(&place, &["--set", "/wait=1ms"]);
    place.annals(&["run", "--job", &id]).expect(0);
    let shown = place.json(&["show", &id]);
    assert_eq!(shown["tasks"][1]["error"]["code"], "timed_out", "{shown}");
    assert_eq!(shown["tasks"][2]["status"], "skipped");
    assert!(!is_there(&place, "release.txt"));
}
