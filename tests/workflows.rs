//! Small workflows that users of other engines write, on the real binary: what runs, in which
//! order, what is skipped, and how the job ends.

mod common;

use common::Place;
use serde_json::{Value, json};

/// Runs a plan, which ends with this code, and gives its job.
#[track_caller]
fn run(plan: &Value, code: i32) -> (Place, Value) {
    let place = Place::new();
    place.write("plan.json", plan.to_string());
    place.annals(&["run", "plan.json"]).expect(code);
    let job = place.json(&["show", &place.newest_id()]);
    (place, job)
}

/// `{"id": ..., "kind": "shell", "input": {"script": ...}}` with fields beside.
fn shell(id: &str, script: &str, more: &Value) -> Value {
    let mut task = json!({"id": id, "kind": "shell", "input": {"script": script}});
    let more = more.as_object().into_iter().flatten();
    more.for_each(|(field, value)| task[field] = value.clone());
    task
}

fn task<'a>(job: &'a Value, id: &str) -> &'a Value {
    let mut tasks = job["tasks"].as_array().expect("tasks").iter();
    tasks.find(|task| task["id"] == id).unwrap_or_else(|| panic!("{id}: {job}"))
}

fn statuses(job: &Value, ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| task(job, id)["status"].as_str().unwrap().to_owned()).collect()
}

fn log(place: &Place, id: &str) -> String {
    place.annals(&["logs", &place.newest_id(), id]).expect(0).stdout
}

/// Whether the first task was over when the second one started.
#[track_caller]
fn comes_before(job: &Value, first: &str, second: &str) {
    let over = task(job, first)["attempts"][0]["finished_at"].as_str().unwrap();
    let starts = task(job, second)["attempts"][0]["started_at"].as_str().unwrap();
    assert!(over <= starts, "{first} is over at {over}, {second} starts at {starts}");
}

const NONE: Value = Value::Null;

#[test]
fn one_step_and_then_two_side_by_side() {
    let plan = json!({"name": "steps", "tasks": [
        shell("hello1", "echo hello world", &NONE),
        shell("hello2a", "echo hello2a", &json!({"needs": ["hello1"]})),
        shell("hello2b", "echo hello2b", &json!({"needs": ["hello1"]})),
    ]});
    let (place, job) = run(&plan, 0);
    assert_eq!(log(&place, "hello1"), "hello world\n");
    assert_eq!(log(&place, "hello2a") + &log(&place, "hello2b"), "hello2a\nhello2b\n");
    comes_before(&job, "hello1", "hello2a");
    comes_before(&job, "hello1", "hello2b");
}

#[test]
fn outputs_are_passed_on() {
    let plan = json!({"name": "passed on", "tasks": [
        shell("draw", "echo $(( ($$ % 100) + 1 )) > $ANNALS_OUTPUT", &NONE),
        {"id": "tell", "kind": "shell", "input": {
            "env": {"N": {"$output": "draw"}}, "script": "echo \"result was: $N\""}},
        shell("fails", "echo code > code; exit 123", &json!({"on_failure": "continue"})),
        shell("read", "echo \"from a file: $(cat code)\"", &NONE),
    ]});
    let (place, job) = run(&plan, 0);
    let number = task(&job, "draw")["output"].as_u64().unwrap();
    assert!((1..=100).contains(&number));
    assert_eq!(log(&place, "tell"), format!("result was: {number}\n"));
    assert_eq!(task(&job, "fails")["attempts"][0]["exit_code"], 123);
    assert_eq!(log(&place, "read"), "from a file: code\n");
}

#[test]
fn the_end_of_a_task_decides_which_one_follows() {
    let looks =
        |end: &str| json!({"needs": ["flakey"], "when": {"task": "flakey", "status": [end]}});
    let plan = json!({"name": "status", "tasks": [
        shell("flakey", "exit 1", &json!({"on_failure": "continue"})),
        shell("failed", "echo the flakey container failed", &looks("failed")),
        shell("succeeded", "echo the flakey container passed", &looks("completed")),
    ]});
    let (place, job) = run(&plan, 0);
    let ids = ["flakey", "failed", "succeeded"];
    assert_eq!(statuses(&job, &ids), ["failed", "completed", "skipped"]);
    assert_eq!(log(&place, "failed"), "the flakey container failed\n");
    assert_eq!(job["status"], "completed");
}

#[test]
fn what_handles_the_end_runs_and_the_job_stays_failed() {
    let ends = |end: &str| json!({"needs": [], "when": {"status": [end]}});
    let plan = json!({
        "name": "handlers",
        "tasks": [shell("main", "echo intentional failure; exit 1", &NONE)],
        "finally": [
            shell("notify", "echo notified", &json!({"needs": []})),
            shell("celebrate", "echo hooray", &ends("completed")),
            shell("cry", "echo boohoo", &ends("failed")),
        ],
    });
    let (place, job) = run(&plan, 1);
    let ids = ["main", "notify", "celebrate", "cry"];
    assert_eq!(statuses(&job, &ids), ["failed", "completed", "skipped", "completed"]);
    assert_eq!(log(&place, "cry"), "boohoo\n");
    comes_before(&job, "main", "notify");
    assert_eq!((&job["status"], &job["error"]["task"]), (&json!("failed"), &json!("main")));
}

#[test]
fn a_diamond_and_a_graph_of_two_roots() {
    let needs = |needs: &[&str]| json!({"needs": needs});
    let echo = |id: &str, of: &[&str]| shell(id, &format!("echo {id}"), &needs(of));
    let plan = json!({"name": "diamond", "tasks": [
        echo("A", &[]), echo("B", &["A"]), echo("C", &["A"]), echo("D", &["B", "C"]),
    ]});
    let (_, job) = run(&plan, 0);
    for (first, second) in [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")] {
        comes_before(&job, first, second);
    }
    let plan = json!({"name": "two roots", "tasks": [
        echo("A", &[]), echo("B", &[]), echo("C", &["A"]), echo("D", &["A", "B"]),
    ]});
    let (_, job) = run(&plan, 0);
    for (first, second) in [("A", "C"), ("A", "D"), ("B", "D")] {
        comes_before(&job, first, second);
    }
}

#[test]
fn a_graph_goes_on_behind_a_failure_that_was_asked_for_and_fails_for_another() {
    let plan = json!({"name": "goes on", "tasks": [
        shell("A", "true", &json!({"needs": []})),
        shell("B", "exit 1", &json!({"needs": ["A"], "on_failure": "continue"})),
        shell("C", "true", &json!({"needs": ["A"]})),
        shell("D", "true", &json!({
            "needs": ["B", "C"], "when": {"task": "B", "status": ["failed"]}})),
        shell("E", "exit 1", &json!({"needs": ["A"]})),
        shell("G", "true", &json!({"needs": ["E"]})),
    ]});
    let (_, job) = run(&plan, 1);
    let ids = ["A", "B", "C", "D", "E", "G"];
    let ended = ["completed", "failed", "completed", "completed", "failed", "pending"];
    assert_eq!(statuses(&job, &ids), ended);
    assert_eq!((&job["status"], &job["error"]["task"]), (&json!("failed"), &json!("E")));
}

#[test]
fn a_cancel_does_what_is_to_be_done_at_the_end_unless_it_is_to_be_at_once() {
    let place = Place::new();
    let plan = json!({"name": "cleans up", "tasks": [shell("work", "exit 1", &NONE)],
        "finally": [shell("clean", "echo clean >> cleaned", &NONE)]});
    place.write("plan.json", plan.to_string());
    place.annals(&["run", "plan.json"]).expect(1);
    let id = place.newest_id();
    // Each end has its own.
    place.annals(&["run", "--job", &id]).expect(1);
    place.annals(&["execute", &id, "--paused"]).expect(0);
    place.annals(&["cancel", &id]).expect(0);
    place.annals(&["run", "--job", &id]).expect(3);
    let job = place.json(&["show", &id]);
    assert_eq!(job["status"], "cancelled");
    assert_eq!(task(&job, "clean")["attempts"].as_array().map(Vec::len), Some(3));
    // A cancel of the next run that is to be at once does without.
    place.annals(&["execute", &id, "--paused"]).expect(0);
    place.annals(&["cancel", &id, "--now"]).expect(0);
    let job = place.json(&["show", &id]);
    assert_eq!(
        (&job["status"], task(&job, "clean")["status"].as_str()),
        (&json!("cancelled"), Some("pending"))
    );
}

/// What an instance of a task has written.
fn logs(place: &Place, id: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| log(place, &format!("{id}~{at}")).trim_end().to_owned()).collect()
}

fn each(id: &str, list: &Value, script: &str, more: &Value) -> Value {
    let mut task = shell(id, script, more);
    task["for_each"] = list.clone();
    task["input"]["env"] = json!({"ITEM": {"$item": ""}});
    task
}

#[test]
fn one_step_for_each_item_has_its_own_log() {
    let say = |id: &str, list: &[&str]| each(id, &json!(list), "echo \"message $ITEM\"", &NONE);
    let plan = json!({"name": "loops", "tasks": [
        say("up", &["0", "1", "2", "3", "4"]),
        say("down", &["5", "4", "3", "2", "1", "0"]),
        say("users", &["testuser00", "testuser01", "testuser02", "testuser03", "testuser04"]),
    ]});
    let (place, job) = run(&plan, 0);
    assert_eq!(statuses(&job, &["up", "down", "users"]), ["completed"; 3]);
    assert_eq!(job["progress"]["total_tasks"], 3);
    assert_eq!(task(&job, "down")["items"]["completed"], 6);
    let said: Vec<String> = (0..5).map(|at| format!("message {at}")).collect();
    assert_eq!(logs(&place, "up", 5), said);
    assert_eq!(logs(&place, "down", 6)[0], "message 5");
    assert_eq!(logs(&place, "users", 5)[4], "message testuser04");
}

#[test]
fn the_results_of_many_steps_are_a_list_for_a_later_one() {
    let list = "echo '[3, 1, 2]'";
    let square = each(
        "square",
        &json!({"$output": "list"}),
        "echo $((ITEM * ITEM))",
        &json!({"input": {"script": "echo $((ITEM * ITEM))", "output": "stdout"}}),
    );
    let mut sum = shell("sum", "echo \"$ALL\"", &NONE);
    sum["input"]["env"] = json!({"ALL": {"$output": "square"}});
    let plan = json!({"name": "aggregation", "tasks": [
        shell("list", list, &json!({"input": {"script": list, "output": "stdout"}})),
        square,
        sum,
    ]});
    let (place, job) = run(&plan, 0);
    assert_eq!(task(&job, "square")["output"], json!([9, 1, 4]));
    assert_eq!(log(&place, "sum"), "[9,1,4]\n");
}

#[test]
fn never_more_than_two_of_ten_run_at_once() {
    let list: Vec<u32> = (0..10).collect();
    // Each holds one of two places in the work folder that they share; a third finds none.
    let take = "mkdir a 2>/dev/null && mine=a || { mkdir b && mine=b; }";
    let script = &format!("{take}\nseq 20000 > /dev/null\nrmdir $mine");
    let task_of = each("work", &json!(list), script, &json!({"concurrency": 2}));
    let (_, job) = run(&json!({"name": "parallelism", "tasks": [task_of]}), 0);
    assert_eq!(task(&job, "work")["items"]["completed"], 10);
}

#[test]
fn a_task_over_an_empty_list_is_done() {
    let plan = json!({"name": "empty", "input": [], "tasks": [
        each("none", &json!({"$input": ""}), "exit 1", &NONE),
        shell("after", "echo after", &NONE),
    ]});
    let (place, job) = run(&plan, 0);
    assert_eq!(task(&job, "none")["output"], json!([]));
    assert_eq!(
        (log(&place, "after"), &task(&job, "none")["items"]["total"]),
        ("after\n".into(), &json!(0))
    );
}

#[test]
fn failed_instances_are_told_and_tried_again_by_themselves() {
    // The second item fails as long as there is no file for it.
    let script = "test $ITEM != 2 || test -e there || { touch there; echo no $ITEM; exit 3; }";
    let plan = json!({"name": "some fail", "tasks": [
        each("work", &json!([1, 2, 3]), script, &NONE), shell("after", "true", &NONE),
    ]});
    let place = Place::new();
    place.write("plan.json", plan.to_string());
    let first = place.annals(&["run", "plan.json"]).expect(1);
    assert!(
        first.stdout.contains("1 of 3 instances failed: work~1: exit code 3"),
        "{}",
        first.stdout
    );
    let id = place.newest_id();
    let job = place.json(&["show", &id]);
    assert_eq!(job["error"]["code"], "instances_failed");
    assert_eq!(statuses(&job, &["work", "after"]), ["failed", "pending"]);
    place.annals(&["run", "plan.json"]).expect(0);
    let job = place.json(&["show", &id]);
    assert_eq!(statuses(&job, &["work", "after"]), ["completed", "completed"]);
    let attempts = |at: u32| {
        let events = place.annals(&["events", &id, "--json"]).expect(0).stdout;
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = format!("work~{at}");
        let starts =
            |event: &Value| event["type"] == "AttemptStarted" && event["data"]["task"] == *of;
        events.filter(starts).count()
    };
    assert_eq!([0, 1, 2].map(attempts), [1, 2, 1], "what was done is not done again");
}
