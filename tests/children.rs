//! Child jobs on the real binary: what people see of them, what is refused, and `kill -9` of the
//! server amid parents and children.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use common::server::Server;
use common::{Place, until};
use fastrand::Rng;
use serde_json::{Value, json};

/// How often the server is killed.
const KILLS: usize = 12;
/// A kill comes up to this long behind a step that has ended.
const KILL_MAX: Duration = Duration::from_millis(60);
const PARENTS: usize = 6;

fn task<'a>(job: &'a Value, id: &str) -> &'a Value {
    let mut tasks = job["tasks"].as_array().expect("tasks").iter();
    tasks.find(|task| task["id"] == id).unwrap_or_else(|| panic!("{id}: {job}"))
}

/// A job task with this child.
fn parent_of(id: &str, child: &Value) -> Value {
    json!({"id": id, "kind": "job", "input": child})
}

/// The documents that a command prints, one a line.
fn lines_of(place: &Place, args: &[&str]) -> Vec<Value> {
    let printed = place.annals(args).expect(0).stdout;
    printed.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

/// A child names the instance that it is of, and whoever opens the store reads that.
#[test]
fn each_element_of_a_list_has_a_child() {
    let place = Place::new();
    let child = json!({"name": "child", "input": {"$item": ""},
        "tasks": [{"id": "b", "kind": "noop"}]});
    let mut each = parent_of("each", &child);
    each["for_each"] = json!([1, 2, 3]);
    place.write("plan.json", json!({"name": "parent", "tasks": [each]}).to_string());
    place.annals(&["run", "plan.json"]).expect(0);
    place.annals(&["verify"]).expect(0);
    let rows = place.json(&["list"])["items"].as_array().unwrap().clone();
    let of = |row: &Value| row["parent"]["task"].as_str().map(str::to_owned);
    let tasks: BTreeSet<String> = rows.iter().filter_map(of).collect();
    assert_eq!(tasks, ["each~0", "each~1", "each~2"].map(str::to_owned).into());
    for row in rows {
        place.annals(&["show", row["id"].as_str().unwrap()]).expect(0);
    }
}

#[test]
fn parent_and_child_name_each_other_wherever_they_are_shown() {
    let place = Place::new();
    let child = json!({"name": "child", "input": {"n": {"$output": "a", "pointer": "/n"}},
        "tasks": [{"id": "b", "kind": "shell", "input": {"output": "stdout",
            "script": "echo \"$N\"", "env": {"N": {"$input": "/n"}}}}]});
    let plan = json!({"name": "parent", "tasks": [
        {"id": "a", "kind": "shell", "input": {"script": "echo '{\"n\": 7}' > $ANNALS_OUTPUT"}},
        parent_of("child", &child),
        {"id": "c", "kind": "shell", "input": {"output": "stdout",
            "script": "echo \"[$CHILD]\"", "env": {"CHILD": {"$output": "child"}}}},
    ]});
    place.write("plan.json", plan.to_string());
    place.annals(&["run", "plan.json"]).expect(0);
    let rows = place.json(&["list"])["items"].as_array().unwrap().clone();
    let (of_child, of_parent): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["parent"].is_object());
    let (child, parent) = (of_child[0], of_parent[0]);
    assert_eq!(child["parent"], json!({"job": parent["id"], "task": "child"}));
    let [of_parent, of_child] = [parent, child].map(|row| row["id"].as_str().unwrap());
    let job = place.json(&["show", of_parent]);
    assert_eq!((&job["output"], &task(&job, "child")["child"]), (&json!([7]), &child["id"]));
    assert_eq!(place.json(&["show", of_child])["parent"], child["parent"]);
    let shown = place.annals(&["show", of_parent]).expect(0).stdout;
    assert!(shown.contains(&format!("child job: {of_child}")), "{shown}");
    let shown = place.annals(&["show", of_child]).expect(0).stdout;
    assert!(shown.contains(&format!("child of  {of_parent} (task child)")), "{shown}");
    let events = lines_of(&place, &["events", of_parent, "--json"]);
    let begun: Vec<_> = events.iter().filter(|event| event["type"] == "ChildStarted").collect();
    assert_eq!((begun.len(), &begun[0]["data"]["child"]), (1, &child["id"]));
}

#[test]
fn a_failure_in_a_child_is_told_with_its_cause() {
    let place = Place::new();
    let child = json!({"name": "child", "tasks": [
        {"id": "b", "kind": "shell", "input": {"script": "echo no such host >&2; exit 3"}}]});
    let plan = json!({"name": "parent", "tasks": [parent_of("child", &child)]});
    place.write("plan.json", plan.to_string());
    let answer = place.annals(&["run", "plan.json"]).expect(1);
    let told = format!("{}{}", answer.stdout, answer.stderr);
    for words in ["child_failed", "task b", "no such host"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// A script that comes over HTTP is one also where a child, or a child of a child, has it.
#[test]
fn shell_in_a_child_is_refused_as_it_is_elsewhere() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let shell = json!({"id": "x", "kind": "shell", "input": {"script": "true"}});
    let inner =
        json!({"name": "inner", "tasks": [{"id": "n", "kind": "noop"}], "finally": [shell]});
    let outer = json!({"name": "outer", "tasks": [parent_of("inner", &inner)]});
    let plan = json!({"name": "parent", "tasks": [parent_of("outer", &outer)]});
    let refused = server.post("/api/v1/jobs", &plan).expect(403).json();
    assert_eq!(refused["code"], "shell_not_allowed");
    let place_of_it = "/tasks/0/input/tasks/0/input/finally/0/kind";
    assert_eq!(refused["errors"][0]["pointer"], place_of_it, "{refused}");
    let plan = json!({"name": "plain", "start": "manual", "tasks": [
        {"id": "a", "kind": "noop"}, parent_of("c", &json!({"name": "c", "tasks": [
            {"id": "n", "kind": "noop"}]}))]});
    let job = server.post("/api/v1/jobs", &plan).expect(202).json();
    let path = format!("/api/v1/jobs/{}/tasks", job["id"].as_str().unwrap());
    let insert = json!({"task": parent_of("z", &outer)});
    assert_eq!(server.post(&path, &insert).expect(403).json()["code"], "shell_not_allowed");
    let headers = [("content-type", "application/json")];
    let edit = json!({"input": outer}).to_string();
    let edited = server.send("PATCH", &format!("{path}/c"), &headers, &edit);
    assert_eq!(edited.expect(403).json()["code"], "shell_not_allowed");
    let fork = format!("/api/v1/jobs/{}/fork", job["id"].as_str().unwrap());
    let edits = json!([{"edit": {"task": "c", "patch": {"input": outer}}}]);
    let forked = server.post(&fork, &json!({"from_task": "a", "edits": edits}));
    assert_ne!(forked.status, 202, "{forked:?}");
    server.end();
}

/// A chain of three: the second has a child whose second has a child.
fn family(number: usize) -> Value {
    let mark = |id: &str| {
        json!({"id": id, "kind": "shell", "input": {
            "script": "sleep 0.01; echo \"$ANNALS_JOB $ANNALS_TASK $ANNALS_ATTEMPT\" >> $MARKS",
            "env": {"MARKS": {"$input": "/marks"}}}})
    };
    let handed_on = json!({"marks": {"$input": "/marks"}});
    let leaf = json!({"name": format!("leaf-{number}"), "input": handed_on, "tasks": [mark("x")]});
    let child = json!({"name": format!("child-{number}"), "input": handed_on,
        "tasks": [mark("p"), parent_of("q", &leaf), mark("r")]});
    json!({"name": format!("parent-{number}"),
        "tasks": [mark("a"), parent_of("b", &child), mark("c")]})
}

#[test]
fn a_server_that_is_killed_amid_parents_and_children_goes_on_with_each_once() {
    let place = Place::new();
    let marks = place.path("marks");
    let mut rng = Rng::with_seed(0xfa_311);
    let mut server = Server::start(&place, &["--allow-shell"]);
    let mut parents = Vec::new();
    for number in 0..PARENTS {
        let mut plan = family(number);
        plan["input"] = json!({"marks": marks});
        let job = server.post("/api/v1/jobs", &plan).expect(202).json();
        parents.push(job["id"].as_str().unwrap().to_owned());
    }
    let lines = || place.read("marks").lines().count();
    place.write("marks", "");
    for kill in 0..KILLS {
        let parent = &parents[rng.usize(..parents.len())];
        let command = ["pause", "resume", "cancel", "execute", "resume"][rng.usize(..5)];
        // It may be in no state for that, or have ended.
        let _ = server.try_post(&format!("/api/v1/jobs/{parent}/{command}"), &json!({}));
        let before = lines();
        let all_done = || lines() > before || kill > KILLS / 2;
        until("a step to end", all_done);
        // The moment is what is tried here, so that it is left to chance.
        thread::sleep(KILL_MAX.mul_f64(rng.f64()));
        drop(server);
        server = Server::start(&place, &["--allow-shell"]);
    }
    for parent in &parents {
        settle(&server, parent);
    }
    let rows = server.get("/api/v1/jobs?limit=1000").expect(200).json();
    let rows = rows["items"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 3 * PARENTS, "each parent has one child, and each of these one");
    let mut by_parent = BTreeMap::new();
    for row in &rows {
        assert_eq!(row["status"], "completed", "{row}");
        if row["parent"].is_object() {
            let before = by_parent.insert(row["parent"].to_string(), row["id"].clone());
            assert_eq!(before, None, "a task has two children");
        }
        runs_once(&server, row["id"].as_str().unwrap());
    }
    assert_eq!(by_parent.len(), 2 * PARENTS);
    server.end();
    assert_eq!(place.json(&["verify"])["sound"], true);
}

/// Takes pauses and cancels back until the job has completed.
fn settle(server: &Server, job: &str) {
    until("a job to end", || {
        let shown = server.get(&format!("/api/v1/jobs/{job}?wait=1s")).expect(200).json();
        let go_on = |command: &str| {
            server.post(&format!("/api/v1/jobs/{job}/{command}"), &json!({}));
            false
        };
        match shown["status"].as_str().unwrap() {
            "completed" => true,
            "paused" => go_on("resume"),
            "failed" | "cancelled" => go_on("execute"),
            _ => false,
        }
    });
}

/// No task of a job succeeds twice, and none begins behind its success.
fn runs_once(server: &Server, job: &str) {
    let page = server.get(&format!("/api/v1/jobs/{job}/events?limit=1000")).expect(200).json();
    let mut completed = BTreeSet::new();
    for event in page["items"].as_array().unwrap() {
        let task = event["data"]["task"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "TaskCompleted" => assert!(completed.insert(task), "{event}"),
            "AttemptStarted" | "ChildStarted" => assert!(!completed.contains(&task), "{event}"),
            _ => {}
        }
    }
}
