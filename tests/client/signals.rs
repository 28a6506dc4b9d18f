//! Signals on the command line: told to a server, and to a store that no server holds.

use crate::common::Place;
use crate::{Served, problem};

const WAIT: &str = "name: wait\ntasks:\n  - {id: a, kind: wait, input: {signal: approved}}\n  \
    - {id: b, kind: noop}\n";

#[test]
fn a_signal_ends_a_wait_and_what_is_typed_for_it_is_shown() {
    let served = Served::new();
    let place = &served.place;
    let id = served.submit(WAIT);
    crate::common::until("waiting", || served.show(&id)["tasks"][0]["status"] == "waiting");
    let why = place.annals(&["explain", &id]).expect(0).stdout;
    assert!(why.contains("task a waits for signal approved"), "{why}");
    assert!(why.contains(&format!("signal {id} approved")), "{why}");
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains("task a waits for signal approved"), "{shown}");
    let dry = place.annals(&["signal", &id, "approved", "true", "--dry-run"]).expect(0).stdout;
    assert!(dry.contains("  SignalDelivered  a\n"), "{dry}");
    place.write("payload.json", r#"{"by": "ada"}"#);
    place.annals(&["signal", &id, "approved", "@payload.json", "--reason", "fine"]).expect(0);
    served.until(&id, "completed");
    assert_eq!(served.show(&id)["tasks"][0]["output"]["by"], "ada");
    for (args, code, word) in [
        (&["signal", &id, "approved"][..], 5, "not_in_this_status"),
        (&["signal", &id, "approved", "{oops"], 2, "usage"),
        (&["signal", &id, "approved", "@nowhere.json"], 2, "usage"),
        (&["signal", "01890000-0000-7000-8000-000000000000", "approved"], 6, "no_such_job"),
    ] {
        let answer = place.annals(&[args, &["--json"]].concat()).expect(code);
        assert_eq!(problem(&answer.stderr)["code"], word, "{args:?}");
    }
}

#[test]
fn a_store_is_told_the_same_and_by_a_key_once() {
    let place = Place::new();
    place.write("plan.yaml", WAIT);
    let job = place.json(&["submit", "plan.yaml"]);
    let id = job["id"].as_str().unwrap();
    let told =
        || place.annals(&["signal", id, "approved", "1", "--idempotency-key", "k"]).expect(0);
    assert!(told().stdout.starts_with("accepted: "));
    told();
    let shown = place.json(&["show", id]);
    assert_eq!(shown["kept_signals"]["approved"], 1, "{shown}");
    let reused = place.annals(&["signal", id, "approved", "2", "--idempotency-key", "k", "--json"]);
    assert_eq!(problem(&reused.expect(5).stderr)["code"], "idempotency_key_reused");
    place.annals(&["run", "--job", id]).expect(0);
    let ended = place.json(&["show", id]);
    assert_eq!((&ended["status"], &ended["tasks"][0]["output"]), (&"completed".into(), &1.into()));
}
