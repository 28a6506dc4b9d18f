//! Stores that are missing, taken, of another time, or damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::common::{Answer, Place, finish, signal};
use crate::failed;

fn code_of(stderr: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(stderr).expect("a problem in JSON");
    problem["code"].as_str().unwrap().to_owned()
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let place = Place::new();
    for args in [&["list"][..], &["show", "0197"], &["cancel", "0197"], &["verify"]] {
        let answer = place.annals(args).expect(7);
        assert!(answer.stderr.contains("there is no store in ./annals-data"), "{}", answer.stderr);
    }
    place.write("folder", "");
    let answer = place.annals(&["list", "--data", "folder", "--json"]).expect(7);
    assert!(!code_of(&answer.stderr).is_empty());
    assert!(!place.path("annals-data").exists());
}

#[test]
fn a_store_that_another_process_has_is_named_with_that_process() {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    let script = format!("touch {dir}/runs; sleep 60");
    let task = format!("{{id: a, kind: shell, input: {{script: '{script}'}}}}");
    place.write("plan.yaml", format!("name: x\ntasks: [{task}]\n"));
    let child = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    for args in [&["list"][..], &["run", "plan.yaml"], &["verify"]] {
        let answer = place.annals(args).expect(7);
        assert!(answer.stderr.contains(&format!("pid {}", child.id())), "{}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
        let help = "Ctrl-C there holds its job; then this command works\n";
        assert!(answer.stderr.ends_with(help), "{}", answer.stderr);
    }
    let answer = place.annals(&["list", "--json"]).expect(7);
    assert_eq!(code_of(&answer.stderr), "store_in_use");
    signal(&child, rustix::process::Signal::INT);
    finish(child).expect(130);
    place.annals(&["list"]).expect(0);
}

#[test]
fn the_store_is_where_the_flag_or_the_variable_says() {
    let place = Place::new();
    place.write("plan.yaml", "name: x\ntasks: [{id: a, kind: shell, input: {script: exit 1}}]\n");
    let answer = place.annals(&["run", "plan.yaml", "--data", "my store"]).expect(1);
    assert!(answer.stdout.contains("--data 'my store'"), "{}", answer.stdout);
    let listed = place.command(&["list"]).env("ANNALS_DATA", "my store").output().unwrap();
    assert!(listed.status.success());
    let answer = place.command(&["run", "plan.yaml"]).env("ANNALS_DATA", "my store").output();
    let stdout = String::from_utf8(answer.unwrap().stdout).unwrap();
    assert!(!stdout.contains("--data"), "the variable says it already: {stdout}");
}

#[test]
fn a_store_of_a_newer_build_is_left_alone() {
    let (place, _) = failed();
    let format = place.path("annals-data/format");
    let text = fs::read_to_string(&format).expect("the store has a format");
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    fs::write(&format, text.replace(&digits, "99")).unwrap();
    let answer = place.annals(&["list", "--json"]).expect(7);
    assert_eq!(code_of(&answer.stderr), "store_newer");
    let answer = place.annals(&["list"]).expect(7);
    assert!(answer.stderr.contains("use a newer build"), "{}", answer.stderr);
}

#[test]
fn verify_counts_what_is_sound_and_finds_what_is_not() {
    let (place, _) = failed();
    let report = place.json(&["verify"]);
    assert_eq!((&report["sound"], &report["jobs"]), (&true.into(), &1.into()));
    assert!(report["events"].as_u64().unwrap() >= 7);
    assert!(place.annals(&["verify"]).expect(0).stdout.contains("sound: 1 jobs"));
    let records = fs::read_dir(place.path("annals-data/records")).unwrap();
    let file = records.map(|entry| entry.unwrap().path()).next().expect("a record file");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes
        .windows(9)
        .position(|window| window == b"two steps")
        .expect("the plan's name is in the record");
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let answer = place.annals(&["verify"]).expect(1);
    assert!(answer.stdout.contains("DAMAGED"), "{}", answer.stdout);
    let answer = place.annals(&["verify", "--json"]).expect(1);
    let report: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(report["sound"], false);
    assert!(!report["damage"].as_array().unwrap().is_empty());
}

/// A store with a job that has completed one task of two, and was damaged since; its id.
fn damaged() -> (Place, String) {
    let place = Place::new();
    let plan = r#"
name: two
tasks:
  - {id: a, kind: shell, input: {script: 'echo a >> RAN; echo {\"v\":\"AAAA\"} > $ANNALS_OUTPUT'}}
  - {id: b, kind: shell, input: {script: exit 1}}
"#;
    place.write("plan.yaml", plan.replace("RAN", &place.path("ran").display().to_string()));
    place.annals(&["run", "plan.yaml"]).expect(1);
    let id = place.newest_id();
    assert!(place.json(&["show", &id]).to_string().contains(r#""v":"AAAA""#));
    for record in fs::read_dir(place.path("annals-data/records")).unwrap() {
        let record = record.unwrap().path();
        let mut bytes = fs::read(&record).unwrap();
        let starts = 0..bytes.len().saturating_sub(3);
        for at in starts.filter(|&at| bytes[at..].starts_with(b"AAAA")).collect::<Vec<_>>() {
            bytes[at + 3] = b'B';
        }
        fs::write(&record, bytes).unwrap();
    }
    (place, id)
}

/// A job that cannot be read may be the one of this file. A second one beside it would do again
/// what that has done.
#[test]
fn beside_a_damaged_job_nothing_is_begun_unasked() {
    let (place, id) = damaged();
    place.write("other.yaml", "name: other\ntasks: [{id: a, kind: noop}]\n");
    for file in ["plan.yaml", "other.yaml"] {
        let answer = place.annals(&["run", file]).expect(7);
        assert!(answer.stderr.contains(&format!("job {id} of this store")), "{}", answer.stderr);
        let answer = place.annals(&["run", file, "--json"]).expect(7);
        assert_eq!(code_of(&answer.stderr), "store_damaged");
    }
    assert_eq!(place.read("ran"), "a\n", "nothing was repeated");
    place.annals(&["run", "--job", &id]).expect(7);
    place.annals(&["run", "other.yaml", "--new"]).expect(0);
    place.annals(&["run", "other.yaml"]).expect(0);
}

#[test]
fn a_damaged_job_is_listed_as_such() {
    let (place, id) = damaged();
    let answer = place.annals(&["list"]).expect(7);
    let line = answer.stdout.lines().next().unwrap();
    assert!(line.starts_with(&id) && line.ends_with("  damaged"), "{}", answer.stdout);
    assert!(answer.stderr.contains("1 job of this list cannot be read"), "{}", answer.stderr);
    let answer = place.annals(&["list", "--json"]).expect(7);
    let list: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(list["items"], serde_json::json!([{"id": id, "damaged": true}]));
    assert_eq!(code_of(&answer.stderr), "store_damaged");
    place.write("other.yaml", "name: other\ntasks: [{id: a, kind: noop}]\n");
    let answer = place.annals(&["run", "other.yaml", "--new"]).expect(0);
    assert!(!answer.stdout.contains("other jobs of this store"), "{}", answer.stdout);
}

#[test]
fn a_store_that_cannot_be_written_to_says_what_to_do() {
    let place = Place::new();
    place.write("plan.yaml", "name: x\ntasks: [{id: a, kind: noop}]\n");
    fs::create_dir(place.path("locked")).unwrap();
    let mode = |name, bits| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(bits)).unwrap();
    };
    mode("", 0o755);
    mode("locked", 0o555);
    let mut command = place.command(&["run", "plan.yaml", "--data", "locked/store"]);
    if rustix::process::geteuid().is_root() {
        // The administrator writes everywhere; nobody does not.
        command.uid(65_534);
    }
    let answer = Answer::from(command.output().unwrap()).expect(7);
    assert!(answer.stderr.contains("cannot be written to"), "{}", answer.stderr);
}
