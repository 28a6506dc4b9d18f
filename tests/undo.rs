//! Jobs that undo what they have done, on the real binary, also when that is killed amid it.

mod common;

use common::Place;
use serde_json::{Value, json};

/// A task that adds its name to the file `trail`, and how it is undone.
fn step(place: &Place, id: &str, then: &str, undo: Option<&str>) -> Value {
    let trail = place.path("trail").display().to_string();
    let script = |word: &str, then: &str| format!("echo {word} >> {trail}\n{then}");
    let mut task = json!({"id": id, "kind": "shell", "input": {"script": script(id, then)}});
    if let Some(undo) = undo {
        let id = json!({"$output": id, "pointer": "/id", "default": "none"});
        let input = json!({"env": {"ID": id}, "script": script("undo $ID", undo)});
        task["compensate"] = json!({"kind": "shell", "input": input});
    }
    task
}

fn output(id: &str) -> String {
    format!(r#"echo '{{"id": "{id}"}}' > "$ANNALS_OUTPUT""#)
}

/// An order whose last step fails.
fn order(place: &Place, refund: &str, release: &str) {
    let plan = json!({"name": "order", "compensate_on": ["failed"], "tasks": [
        step(place, "reserve", &output("reserved"), Some(release)),
        step(place, "charge", &output("charged"), Some(refund)),
        step(place, "note", "", None),
        step(place, "ship", "exit 3", Some("")),
    ], "finally": [step(place, "report", "", None)]});
    place.write("order.json", plan.to_string());
}

fn newest(place: &Place) -> Value {
    place.json(&["show", &place.newest_id()])
}

fn task<'a>(job: &'a Value, id: &str) -> &'a Value {
    let mut tasks = job["tasks"].as_array().expect("tasks").iter();
    tasks.find(|task| task["id"] == id).unwrap_or_else(|| panic!("{id}: {job}"))
}

#[test]
fn what_was_done_is_undone_in_reverse_before_the_end() {
    let place = Place::new();
    order(&place, "", "");
    place.annals(&["run", "order.json"]).expect(1);
    let job = newest(&place);
    assert_eq!((&job["status"], &job["error"]["task"]), (&json!("failed"), &json!("ship")));
    assert_eq!(
        place.read("trail"),
        "reserve\ncharge\nnote\nship\nundo charged\nundo reserved\nreport\n"
    );
    for id in ["reserve", "charge", "reserve~undo", "charge~undo", "report"] {
        assert_eq!(task(&job, id)["status"], "completed", "{id}");
    }
    let id = place.newest_id();
    let again = place.annals(&["execute", &id, "--json"]).expect(5);
    assert!(again.stderr.contains("\"compensated\""), "{}", again.stderr);
}

#[test]
fn a_kill_amid_the_undoing_loses_nothing_of_it() {
    let place = Place::new();
    let go = place.path("go").display().to_string();
    let begun = place.path("begun").display().to_string();
    order(&place, &format!("touch {begun}\nuntil [ -e {go} ]; do sleep 0.02; done"), "");
    let mut first = place.start(&["run", "order.json"]);
    place.wait_for("begun");
    first.kill().expect("it runs");
    first.wait().expect("it is dead");
    place.write("go", "");
    place.annals(&["run", "order.json"]).expect(1);
    assert_eq!(
        place.read("trail"),
        "reserve\ncharge\nnote\nship\nundo charged\nundo charged\nundo reserved\nreport\n"
    );
    let job = newest(&place);
    let outcomes: Vec<&str> = task(&job, "charge~undo")["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["lost", "completed"]);
    let audit = place.annals(&["verify"]).expect(0).stdout;
    assert!(audit.starts_with("sound"), "{audit}");
}

#[test]
fn what_cannot_be_undone_is_told_and_finished_later() {
    let place = Place::new();
    let mended = place.path("mended").display().to_string();
    order(&place, &format!("[ -e {mended} ]"), "");
    place.annals(&["run", "order.json"]).expect(1);
    let job = newest(&place);
    assert_eq!(job["error"]["code"], "compensation_failed", "{job}");
    assert_eq!(task(&job, "charge~undo")["status"], "failed");
    assert_eq!(task(&job, "reserve~undo")["status"], "completed", "one does not stop the others");
    place.write("mended", "");
    // What undoes a task can be changed, and that is read again by whoever comes later.
    let edit = r#"{"title": "Give the money back"}"#;
    place.annals(&["edit", &place.newest_id(), "charge~undo", edit]).expect(0);
    place.annals(&["verify"]).expect(0);
    place.annals(&["run", "order.json"]).expect(1);
    let job = newest(&place);
    assert_eq!(task(&job, "charge~undo")["title"], "Give the money back");
    assert_eq!((&job["status"], &job["error"]["task"]), (&json!("failed"), &json!("ship")));
    assert_eq!(task(&job, "charge~undo")["status"], "completed");
    let trail = place.read("trail");
    assert!(trail.ends_with("undo reserved\nreport\nundo charged\nreport\n"), "{trail}");
}
