//! Commands on a store that nothing runs on.

use crate::common::Place;
use crate::failed;

#[test]
fn a_dry_run_shows_everything_and_does_nothing() {
    let (place, id) = failed();
    let before = place.json(&["show", &id]);
    let answer = place.annals(&["execute", &id, "--dry-run"]).expect(0);
    assert!(answer.stdout.contains("would be accepted"), "{}", answer.stdout);
    assert!(answer.stdout.contains("JobReopened"), "{}", answer.stdout);
    let dry = place.json(&["execute", &id, "--dry-run"]);
    assert_eq!(dry["events"][0]["type"], "JobReopened");
    assert_eq!(dry["job"]["status"], "running");
    assert_eq!(place.json(&["show", &id]), before);
}

#[test]
fn a_command_is_recorded_with_who_and_why_and_nothing_runs() {
    let (place, id) = failed();
    let ran = place.read("ran");
    let answer = place.annals(&["execute", &id, "--reason", "try again"]).expect(0);
    let go_on = format!("`annals run --job {id}` goes on");
    assert!(answer.stdout.contains("accepted: "), "{}", answer.stdout);
    assert!(answer.stdout.contains(&go_on), "{}", answer.stdout);
    assert_eq!(place.read("ran"), ran, "nothing ran");
    let events = place.annals(&["events", &id, "--json"]).expect(0).stdout;
    let reopened = events.lines().find(|line| line.contains("JobReopened")).unwrap();
    assert!(reopened.contains(r#""actor":"ada""#) && reopened.contains("try again"), "{reopened}");
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains("no engine runs on this store now"), "{shown}");
    let answer = place.annals(&["execute", &id]).expect(0);
    assert!(answer.stdout.contains("nothing to do"), "{}", answer.stdout);
    std::fs::remove_file(place.path("broken")).unwrap();
    place.annals(&["run", "--job", &id]).expect(0);
}

#[test]
fn expected_seq_guards_against_what_was_not_seen() {
    let (place, id) = failed();
    let answer = place.annals(&["execute", &id, "--expected-seq", "1", "--json"]).expect(5);
    let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(problem["code"], "stale");
    let seq = place.json(&["show", &id])["seq"].to_string();
    place.annals(&["execute", &id, "--expected-seq", &seq]).expect(0);
}

#[test]
fn pause_resume_and_cancel_follow_the_table() {
    let (place, id) = failed();
    let status = |args: &[&str]| place.json(args)["status"].as_str().unwrap().to_owned();
    place.annals(&["pause", &id]).expect(5);
    place.annals(&["resume", &id]).expect(5);
    assert_eq!(status(&["execute", &id, "--paused"]), "paused");
    place.annals(&["execute", &id]).expect(5);
    assert_eq!(status(&["resume", &id]), "running");
    assert_eq!(status(&["pause", &id, "--interrupt"]), "paused");
    assert_eq!(status(&["cancel", &id]), "cancelled");
    assert_eq!(status(&["cancel", &id]), "cancelled");
    let answer = place.annals(&["pause", &id, "--json"]).expect(5);
    let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(problem["code"], "not_in_this_status");
    assert_eq!(problem["job_status"], "cancelled");
    assert!(problem["allowed"].as_array().unwrap().contains(&"execute".into()));
}

fn chained() -> (Place, String) {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: chain\ntasks:\n  - {id: a, kind: shell, input: {script: exit 1}}\n  \
         - {id: b, kind: noop, input: {from: {$output: a}}}\n  - {id: c, kind: noop}\n",
    );
    place.annals(&["run", "plan.yaml"]).expect(1);
    let id = place.newest_id();
    (place, id)
}

#[test]
fn skip_names_who_would_lose_an_input() {
    let (place, id) = chained();
    let answer = place.annals(&["skip", &id, "--json"]).expect(5);
    let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(problem["code"], "output_is_taken");
    assert_eq!(problem["dependants"][0]["task"], "b");
    let answer = place.annals(&["skip", &id]).expect(5);
    assert!(answer.stderr.ends_with("(--output JSON, --cascade)\n"), "{}", answer.stderr);
    place.annals(&["skip", &id, "a", "--output", "{oops"]).expect(2);
    let answer = place.annals(&["skip", &id, "a", "--output", r#"{"n": 1e400}"#]).expect(0);
    let done = format!("task a is skipped; job {id} is ");
    assert!(answer.stdout.starts_with(&done), "{}", answer.stdout);
    place.annals(&["run", "plan.yaml"]).expect(0);
    let shown = place.annals(&["show", &id, "--json"]).stdout;
    assert!(shown.contains(r#""output":{"n":1e400}"#), "{shown}");
}

#[test]
fn remove_takes_tasks_out_along_with_their_dependants() {
    let (place, id) = chained();
    let answer = place.annals(&["remove", &id, "a"]).expect(5);
    assert!(answer.stderr.ends_with("(--cascade)\n"), "{}", answer.stderr);
    let job = place.json(&["remove", &id, "a", "--cascade"]);
    let statuses: Vec<_> =
        job["tasks"].as_array().unwrap().iter().map(|task| task["status"].clone()).collect();
    assert_eq!(statuses, ["removed", "removed", "pending"]);
    assert_eq!(job["progress"]["total_tasks"], 1);
    place.annals(&["run", "plan.yaml"]).expect(0);
}

#[test]
fn a_script_that_fails_is_mended_and_the_job_goes_on() {
    let (place, id) = chained();
    place.write("more.yaml", "id: more\nkind: shell\ninput: {script: touch more}\n");
    place.write("bad.yaml", "id: more\nkind: shell\ntimeout: 5\n");
    let answer = place.annals(&["insert", &id, "@bad.yaml"]).expect(2);
    assert!(answer.stderr.contains("bad.yaml:3:"), "{}", answer.stderr);
    let job = place.json(&["insert", &id, "@more.yaml", "--after", "a", "--needed-by", "c"]);
    assert_eq!(job["tasks"][1]["id"], "more");
    place.annals(&["move", &id, "more"]).expect(2);
    place.annals(&["move", &id, "more", "--before", "c"]).expect(0);
    let mended = r#"{"input": {"script": "echo '7' > $ANNALS_OUTPUT"}}"#;
    let dry = place.annals(&["edit", &id, "a", mended, "--dry-run"]).expect(0);
    assert!(dry.stdout.contains("TaskEdited  a"), "{}", dry.stdout);
    place.annals(&["edit", &id, "a", mended, "--reason", "a typing error"]).expect(0);
    place.annals(&["edit", &id, "a", r#"{"id": "z"}"#]).expect(2);
    place.annals(&["retry", &id, "a"]).expect(0);
    place.annals(&["run", "--job", &id]).expect(0);
    let job = place.json(&["show", &id]);
    let ids: Vec<_> =
        job["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
    assert_eq!(ids, ["a", "b", "more", "c"]);
    assert_eq!(job["tasks"][0]["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn a_task_can_be_the_first_without_a_name_for_who_was() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: x\nstart: manual\ntasks: [{id: a, kind: noop}, {id: b, kind: noop}]\n",
    );
    place.annals(&["submit", "plan.yaml"]).expect(0);
    let id = place.newest_id();
    place.annals(&["move", &id, "b", "--before", "a", "--first"]).expect(2);
    let job = place.json(&["move", &id, "b", "--first"]);
    assert_eq!(job["tasks"][0]["id"], "b");
    let job = place.json(&["insert", &id, r#"{"id": "c", "kind": "noop"}"#, "--first"]);
    let ids: Vec<_> =
        job["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
    assert_eq!(ids, ["c", "b", "a"]);
}

#[test]
fn what_is_not_there_is_said_to_be_not_there() {
    let (place, id) = chained();
    let unknown = "01890000-0000-7000-8000-000000000000";
    for (args, code) in [
        (&["show", unknown][..], 6),
        (&["cancel", unknown], 6),
        (&["show", "ffff"], 6),
        (&["show", "last"], 2),
        (&["skip", &id, "nobody"], 6),
        (&["remove", &id, "nobody"], 6),
        (&["logs", &id, "nobody"], 6),
        (&["logs", &id, "b"], 6),
        (&["logs", &id, "a", "--attempt", "9"], 6),
        (&["run", "--job", unknown], 6),
    ] {
        let answer = place.annals(args).expect(code);
        assert!(answer.stderr.starts_with("annals: "), "{args:?}: {}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{args:?}: {}", answer.stderr);
    }
}

#[test]
fn due_times_have_their_day_where_it_is_not_today() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: x\ntasks:\n  - {id: nap, kind: sleep, input: {until: '2400-01-01T00:00:00Z'}}\n  \
         - {id: a, kind: shell, needs: [], on_failure: pause, input: {script: exit 1}}\n",
    );
    let answer = place.annals(&["run", "plan.yaml"]).expect(4);
    assert!(answer.stdout.contains("until 2400-01-01 00:00:00"), "{}", answer.stdout);
    let id = place.newest_id();
    let waits = "task nap waits until 2400-01-01 00:00:00";
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains(waits), "while it is paused: {shown}");
    let commands = ["skip", "edit", "retry"].map(|verb| format!("`annals {verb} {id} a"));
    assert!(commands.iter().all(|command| shown.contains(command)), "{shown}");
    assert!(shown.contains(": the job stays paused until it is resumed\n"), "{shown}");
    place.annals(&["resume", &id]).expect(0);
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains(waits), "while it is running: {shown}");
    let today = shown.lines().find_map(|line| line.strip_prefix("created   ")).unwrap();
    let events = place.annals(&["events", &id]).expect(0).stdout;
    assert!(events.lines().all(|line| line.contains(&today[..8])), "{events}");
}

#[test]
fn the_beginning_of_an_id_is_enough_where_it_is_unique() {
    let (place, id) = chained();
    assert_eq!(place.json(&["show", &id[..30]])["id"], id.as_str());
    assert_eq!(place.json(&["show", &id.to_uppercase()])["id"], id.as_str());
    place.annals(&["run", "plan.yaml", "--new"]).expect(1);
    let answer = place.annals(&["show", &id[..4]]).expect(2);
    assert!(answer.stderr.contains("beginning of several ids"), "{}", answer.stderr);
    assert!(answer.stderr.contains(&id), "{}", answer.stderr);
}

#[test]
fn a_purge_leaves_a_tombstone_and_nothing_else() {
    let (place, id) = failed();
    let (steps, work) = (place.path("annals-data/steps"), place.path("annals-data/work"));
    assert!(steps.join(&id).exists() && work.join(&id).exists());
    let seq = place.json(&["show", &id])["seq"].as_u64().unwrap();
    let dry = place.annals(&["purge", &id, "--dry-run"]).expect(0).stdout;
    assert!(dry.starts_with(&format!("would be accepted: of job {id} and its {seq} ")), "{dry}");
    place.annals(&["purge", &id, "--expected-seq", "1"]).expect(5);
    place.annals(&["show", &id]).expect(0);
    let done = place.annals(&["purge", &id, "--reason", "asked for"]).expect(0).stdout;
    assert!(done.starts_with(&format!("purged: of job {id} and its {seq} events")), "{done}");
    assert!(!steps.join(&id).exists() && !work.join(&id).exists());
    let again = place.annals(&["purge", &id]).expect(0).stdout;
    let words = format!("nothing to do: job {id} was purged at ");
    assert!(again.starts_with(&words) && again.ends_with(" by ada\n"), "{again}");
    let left = place.json(&["purge", &id]);
    assert_eq!((&left["id"], &left["status"]), (&id.clone().into(), &"failed".into()));
    assert_eq!((&left["seq"], &left["events"]), (&(seq + 1).into(), &seq.into()));
    for args in [&["show", &id][..], &["events", &id], &["execute", &id], &["run", "--job", &id]] {
        let answer = place.annals(&[args, &["--json"]].concat()).expect(6);
        let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
        assert_eq!((&problem["code"], &problem["purged"]), (&"purged".into(), &left), "{args:?}");
    }
    assert_eq!(place.annals(&["list", "--json"]).expect(0).stdout.matches(&id).count(), 0);
    let audit = place.json(&["verify"]);
    assert_eq!((&audit["sound"], &audit["purged_jobs"]), (&true.into(), &1.into()));
    assert!(place.annals(&["verify"]).expect(0).stdout.contains("1 of the jobs were purged"));
}

#[test]
fn many_jobs_are_purged_by_one_command() {
    let (place, id) = failed();
    place.annals(&["bulk", "purge", "--status", "running", "--yes"]).expect(0);
    place.annals(&["show", &id]).expect(0);
    let answer = place.annals(&["bulk", "purge", "--status", "failed", "--yes"]).expect(0);
    assert!(answer.stdout.contains("purge: of 1 job 1 accepted"), "{}", answer.stdout);
    place.annals(&["show", &id]).expect(6);
}
