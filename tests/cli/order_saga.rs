//! examples/order-saga: an order that comes to its end, and one that is undone.

use std::fs;

use crate::common::Place;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/order-saga/order-saga.yaml");

/// Runs the example with its files below the place.
#[track_caller]
fn run(place: &Place, more: &[&str], code: i32) -> String {
    let root = format!("/root={}", place.path("out").display());
    place.annals(&[&["run", FILE, "--set", &root], more].concat()).expect(code).stdout
}

fn count(place: &Place, folder: &str) -> usize {
    fs::read_dir(place.path("out").join(folder)).expect("a folder").count()
}

#[test]
fn an_order_that_comes_to_its_end_stays() {
    let place = Place::new();
    run(&place, &[], 0);
    assert_eq!((count(&place, "warehouse"), count(&place, "bank")), (1, 1));
    assert_eq!(place.read("out/mail"), "it is on its way\n");
}

#[test]
fn an_order_that_fails_is_undone_and_told() {
    let place = Place::new();
    let told = run(&place, &["--set", "/parcels=no"], 1);
    for line in ["(job)            undoing", "charge~undo      completed", "fork"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(!told.contains("go on:"), "it does not: {told}");
    assert_eq!((count(&place, "warehouse"), count(&place, "bank")), (0, 0));
    assert_eq!(place.read("out/mail"), "sorry\n");
    let shown = place.annals(&["show", &place.newest_id()]).expect(0).stdout;
    assert!(shown.contains("--from-task reserve` makes a new job that does"), "{shown}");
    let job = place.json(&["show", &place.newest_id()]);
    assert_eq!((&job["status"], &job["error"]["task"]), (&"failed".into(), &"ship".into()));
    let undone = |id: &str| {
        let tasks = job["tasks"].as_array().expect("tasks");
        let task = tasks.iter().find(|task| task["id"] == id).expect("the task");
        assert_eq!(task["status"], "completed", "{id}");
        task["attempts"][0]["finished_at"].as_str().expect("a time").to_owned()
    };
    assert!(undone("charge~undo") <= undone("reserve~undo"), "the last one first");
}
