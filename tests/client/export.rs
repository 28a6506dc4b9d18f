//! Jobs in files: from a server or from its store the same one, checked and replayed with neither.

use serde_json::Value;

use crate::{Served, problem};

const PLAN: &str = "name: two steps\ntasks:\n\
    - {id: say, kind: shell, input: {script: 'echo one; echo two'}}\n\
    - {id: fail, kind: shell, input: {script: exit 3}}\n";

#[test]
fn an_exported_job_stands_alone() {
    let served = Served::new();
    let id = served.submit(PLAN);
    served.until(&id, "failed");
    let place = &served.place;
    let told = place.annals(&["export", &id, "--output", "served.jsonl"]).expect(0).stdout;
    assert!(told.contains(&format!("served.jsonl: job {id} up to event")), "{told}");
    let show: Value = served.show(&id);
    served.kill();

    let report = place.json(&["export", &id, "-o", "held.jsonl"]);
    assert_eq!(report["head_seq"], show["seq"]);
    assert_eq!(place.read("held.jsonl"), place.read("served.jsonl"));
    let again = place.annals(&["export", &id, "-o", "held.jsonl"]).expect(2);
    assert!(again.stderr.contains("held.jsonl is there already"), "{}", again.stderr);
    assert!(!place.path("held.jsonl.partial").exists());

    std::fs::remove_dir_all(place.path("annals-data")).unwrap();
    let audit = place.json(&["verify", "--bundle", "held.jsonl"]);
    assert_eq!((&audit["sound"], &audit["head_hash"]), (&true.into(), &report["head_hash"]));
    let told = place.annals(&["verify", "--bundle", "held.jsonl"]).expect(0).stdout;
    assert!(told.starts_with(&format!("sound: job {id} (two steps)")), "{told}");
    let told = place.annals(&["replay", "--bundle", "held.jsonl"]).expect(0).stdout;
    assert!(told.contains("tasks/fail/status: interrupted -> failed"), "{told}");
    assert!(told.ends_with("no difference from what the build made of it that exported it\n"));
    assert!(!place.path("annals-data").exists(), "neither needs a store");

    let damaged = place.read("held.jsonl").replacen("\"attempt\":1", "\"attempt\":2", 1);
    place.write("damaged.jsonl", damaged);
    place.annals(&["verify", "--bundle", "damaged.jsonl"]).expect(1);
    let refused = place.annals(&["replay", "--bundle", "damaged.jsonl", "--json"]).expect(1);
    assert_eq!(problem(&refused.stderr)["code"], "bundle_damaged");
    for (file, code) in [("plan.yaml", 2), ("nothing.jsonl", 2)] {
        place.annals(&["verify", "--bundle", file]).expect(code);
    }
    place.annals(&["replay"]).expect(2);
    place.annals(&["replay", &id, "--bundle", "held.jsonl"]).expect(2);
}
