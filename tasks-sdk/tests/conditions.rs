//! Conditions, `fail_fast` and `finally`: how they are read, checked and written.

use annals_tasks_sdk::plan::Decision::{Bad, Run, Skip};
use annals_tasks_sdk::plan::{Condition, JobEnd, Limits, Plan, TaskEnd, Test};
use annals_tasks_sdk::{Payload, TaskId, flow, prelude::*};

fn plan(text: &str) -> Plan {
    Plan::from_json(text, &Limits::default()).unwrap_or_else(|errors| panic!("{text}: {errors}"))
}

/// What is wrong with a chain of `a` and `b`, of which `b` has this condition.
#[track_caller]
fn refused(when: &str, pointer: &str, words: &str) {
    let text = format!(
        r#"{{"name": "n", "input": {{"x": 1}}, "tasks": [
            {{"id": "a", "kind": "k"}}, {{"id": "b", "kind": "k", "when": {when}}}]}}"#
    );
    check(&text, pointer, words);
}

#[track_caller]
fn check(text: &str, pointer: &str, words: &str) {
    let errors = Plan::from_json(text, &Limits::default()).expect_err(text);
    let found =
        errors.0.iter().any(|error| error.pointer == pointer && error.detail.contains(words));
    assert!(found, "{text}: {errors}");
}

#[test]
fn a_condition_is_read_and_written_as_it_is() {
    for when in [
        r#"{"$output":"a"}"#,
        r#"{"$output":"a","pointer":"/ok","default":true}"#,
        r#"{"$output":"a","pointer":"/os","equals":{"n":1.50}}"#,
        r#"{"$input":"/x","in":["debian",null,1e3]}"#,
        r#"{"task":"a","status":["failed","skipped"]}"#,
    ] {
        let tasks = format!(r#"{{"id":"a","kind":"k"}},{{"id":"b","kind":"k","when":{when}}}"#);
        let text = format!(r#"{{"name":"n","tasks":[{tasks}]}}"#);
        let read = plan(&text);
        assert_eq!(read.to_json().as_str(), text);
        assert_eq!(read.tasks[1].when.as_deref().unwrap().to_json().as_str(), when);
    }
    let end = r#"{"id":"z","kind":"k","when":{"status":["failed","cancelled"]}}"#;
    let text = format!(
        r#"{{"name":"n","fail_fast":true,"tasks":[{{"id":"a","kind":"k"}}],"finally":[{end}]}}"#
    );
    let read = plan(&text);
    assert!(read.fail_fast);
    let ends = [JobEnd::Failed, JobEnd::Cancelled];
    assert_eq!(read.finally[0].when.as_deref(), Some(&Condition::Job { ends: ends.into() }));
    assert_eq!(read.to_json().as_str(), text);
}

#[test]
fn a_condition_that_is_none_is_refused_with_its_place() {
    let when = "/tasks/1/when";
    refused("true", when, "`when` is {\"$output\": TASK}");
    refused("{}", when, "`when` is {\"$output\": TASK}");
    refused(r#"{"$literal": true}"#, when, "`when` is {\"$output\": TASK}");
    refused(r#"{"$outptu": "a"}"#, when, "did you mean `$output`?");
    refused(r#"{"$output": "a", "equal": 1}"#, when, "`equal` does not belong");
    refused(r#"{"$output": "a", "equals": 1, "in": [1]}"#, when, "once");
    refused(r#"{"$output": "a", "in": 1}"#, "/tasks/1/when/in", "must be a list");
    refused(r#"{"$output": "a", "in": []}"#, "/tasks/1/when/in", "at least one");
    refused(r#"{"$output": "a", "equals": {"b": 1, "b": 2}}"#, "/tasks/1/when/equals", "twice");
    refused(r#"{"$output": "c"}"#, when, "no task has the id `c`");
    refused(r#"{"$output": "b"}"#, when, "cannot take its own output");
    refused(r#"{"task": "a"}"#, when, "`status` is missing");
    refused(r#"{"task": "a", "status": []}"#, "/tasks/1/when/status", "at least one word");
    refused(r#"{"task": "a", "status": "failed"}"#, "/tasks/1/when/status", "must be a list");
    refused(r#"{"task": "a", "status": ["faild"]}"#, "/tasks/1/when/status/0", "`failed`?");
    refused(
        r#"{"task": "a", "status": ["pending"]}"#,
        "/tasks/1/when/status",
        "no task is pending",
    );
    refused(r#"{"task": "z", "status": ["failed"]}"#, when, "no task has the id `z`");
    refused(r#"{"status": ["failed"]}"#, when, "only a task of `finally`");
    refused(r#"{"task": "a", "status": ["failed"], "x": 1}"#, "/tasks/1/when/x", "no field");
}

#[test]
fn what_a_condition_looks_at_comes_before_its_task() {
    let text = r#"{"name": "n", "tasks": [{"id": "a", "kind": "k"},
        {"id": "b", "kind": "k", "needs": [], "when": {"$output": "a"}}]}"#;
    check(text, "/tasks/1/when", "`b` does not need `a`, directly or through others");
    let text = r#"{"name": "n", "tasks": [{"id": "a", "kind": "k", "when": {"$output": "z"}}],
        "finally": [{"id": "z", "kind": "k"}]}"#;
    check(text, "/tasks/0/when", "`z` is a task of `finally`, which runs at the end");
    // The work is over by then, the rest of `finally` is not.
    let text = |needs: &str| {
        format!(
            r#"{{"name": "n", "tasks": [{{"id": "a", "kind": "k"}}], "finally": [
                {{"id": "y", "kind": "k", "when": {{"task": "a", "status": ["pending"]}}}},
                {{"id": "z", "kind": "k"{needs},
                  "when": {{"task": "y", "status": ["skipped"]}}}}]}}"#
        )
    };
    plan(&text(""));
    check(&text(r#", "needs": []"#), "/finally/1/when", "`z` does not need `y`");
}

#[test]
fn what_is_done_at_the_end_stands_by_itself() {
    let text = |finally: &str| {
        format!(r#"{{"name": "n", "tasks": [{{"id": "a", "kind": "k"}}], "finally": [{finally}]}}"#)
    };
    plan(&text(r#"{"id": "z", "kind": "k", "input": {"$output": "a", "default": null}}"#));
    for (finally, pointer, words) in [
        (r#"{"id": "a", "kind": "k"}"#, "/finally/0/id", "is that of /tasks/0 already"),
        (r#"{"id": "z", "kind": "k", "needs": ["a"]}"#, "/finally/0/needs/0", "none of `tasks`"),
        (r#"{"id": "z", "kind": "k", "on_failure": "pause"}"#, "/finally/0/on_failure", "decided"),
        (r#"{"id": "z", "kind": "k", "on_lost": "pause"}"#, "/finally/0/on_lost", "cannot pause"),
        (
            r#"{"id": "z", "kind": "k", "input": {"$output": "a"}}"#,
            "/finally/0/input",
            "give a default",
        ),
        (r#"{"id": "z", "kind": "k", "timeout": "soon"}"#, "/finally/0/timeout", "no duration"),
        (r#"{"id": "z", "kind": "k", "needs": ["z"]}"#, "/finally/0/needs/0", "cannot need itself"),
        ("7", "/finally/0", "must be an object"),
    ] {
        check(&text(finally), pointer, words);
    }
    let text = r#"{"name": "n", "tasks": [{"id": "a", "kind": "k", "needs": ["z"]}],
        "finally": [{"id": "z", "kind": "k"}]}"#;
    check(text, "/tasks/0/needs/0", "`z` is a task of `finally`");
    let text = r#"{"name": "n", "tasks": [{"id": "a", "kind": "k"}],
        "finally": [{"id": "z", "kind": "k"}], "output": {"$output": "z"}}"#;
    check(text, "/output", "before the tasks of `finally` run");
    let text = r#"{"name": "n", "fail_fast": "yes", "tasks": [{"id": "a", "kind": "k"}]}"#;
    check(text, "/fail_fast", "`fail_fast` must be true or false");
    let text = r#"{"name": "n", "tasks": [], "finally": [{"id": "z", "kind": "k"}]}"#;
    check(text, "/tasks", "at least one task");
    let limits = Limits { tasks: 2, ..Limits::default() };
    let text = r#"{"name": "n", "tasks": [{"id": "a", "kind": "k"}, {"id": "b", "kind": "k"}],
        "finally": [{"id": "z", "kind": "k"}]}"#;
    let errors = Plan::from_json(text, &limits).unwrap_err();
    assert_eq!(errors.0[0].pointer, "/finally");
}

const PROBE: TaskKind<String, String> = TaskKind::new("probe");
const IS_OLD: TaskKind<String, bool> = TaskKind::new("is_old");
const PATCH: TaskKind<String, u64> = TaskKind::new("patch");
const REPORT: TaskKind<(Option<u64>, String), ()> = TaskKind::new("report");
const ALERT: TaskKind<Option<u64>, ()> = TaskKind::new("alert");
const CARE: Workflow<String, ()> = Workflow::new("care");

#[test]
fn a_workflow_says_conditions_in_wires() {
    fn care(flow: &Flow, host: Wire<String>) -> Wire<()> {
        flow.fail_fast();
        let os = flow.task(PROBE, host);
        let is_old = flow.task(IS_OLD, host).at_once();
        let patched = flow.task(PATCH, host).when(is_old);
        flow.task(PATCH, host).id("patch-debian").when_in(os, ["debian".to_owned()]);
        flow.task(PATCH, host).id("again").when_ended(patched, &[TaskEnd::Skipped]);
        flow.task(PATCH, host).id("exact").when_equals(os, "hurd".to_owned());
        let report = flow.task(REPORT, (patched.optional(), os));
        flow.finally(ALERT, patched.optional()).when_job_ends(&[JobEnd::Failed]);
        flow.finally(ALERT, patched.optional()).id("last");
        report.wire()
    }
    let plan = flow::build_plan(CARE, care, Payload::of(&"web-42").unwrap()).unwrap();
    assert!(plan.fail_fast);
    let when = |id: &str| {
        let task = plan.all_tasks().find(|task| task.id.as_str() == id).unwrap();
        let needs = task.needs.as_ref().map(|needs| needs.iter().map(TaskId::as_str).collect());
        (task.when.as_ref().unwrap().to_json().as_str().to_owned(), needs)
    };
    let needs = |id| Some(vec![id]);
    assert_eq!(when("patch"), (r#"{"$output":"is_old"}"#.into(), needs("is_old")));
    let debian = (r#"{"$output":"probe","in":["debian"]}"#.to_owned(), needs("probe"));
    assert_eq!(when("patch-debian"), debian);
    let again = (r#"{"task":"patch","status":["skipped"]}"#.to_owned(), needs("patch"));
    assert_eq!(when("again"), again);
    assert_eq!(when("exact").0, r#"{"$output":"probe","equals":"hurd"}"#);
    assert_eq!(when("alert"), (r#"{"status":["failed"]}"#.into(), None));
    assert_eq!(plan.finally[1].needs, None, "behind the one before it");
    let input = r#"{"$output":"patch","default":null}"#;
    assert_eq!(plan.finally[0].input.as_str(), input);
    assert_eq!(
        plan.tasks.last().unwrap().input.as_str(),
        format!(r#"[{input},{{"$output":"probe"}}]"#)
    );
}

#[test]
fn a_condition_that_no_plan_can_have_makes_none() {
    fn known(flow: &Flow, host: Wire<String>) -> Wire<()> {
        let yes = flow.value(true);
        let patched = flow.task(PATCH, host).when(yes);
        flow.task(REPORT, (patched.optional(), host)).wire()
    }
    fn of_end(flow: &Flow, host: Wire<String>) -> Wire<()> {
        let patched = flow.task(PATCH, host).when_job_ends(&[JobEnd::Failed]);
        flow.task(REPORT, (patched.optional(), host)).wire()
    }
    let errors = flow::build_plan(CARE, known, Payload::of(&"web-42").unwrap()).unwrap_err();
    assert!(errors.to_string().contains("/tasks/0/when: a value is known before"), "{errors}");
    let errors = flow::build_plan(CARE, of_end, Payload::of(&"web-42").unwrap()).unwrap_err();
    assert!(errors.to_string().contains("only a task of `finally`"), "{errors}");
}

#[test]
fn tests_compare_values() {
    let value = |text| Payload::parse(text).unwrap();
    for (test, found, decision) in [
        (Test::IsTrue, Some("true"), Run),
        (Test::IsTrue, Some("false"), Skip),
        (Test::IsTrue, Some("null"), Skip),
        (Test::IsTrue, None, Skip),
        (Test::IsTrue, Some("1"), Bad),
        (Test::IsTrue, Some("\"true\""), Bad),
        (Test::Equals(value("1")), Some("1.0"), Run),
        (Test::Equals(value("null")), None, Run),
        (Test::Equals(value("{\"a\":[1]}")), Some("{ \"a\": [1.0] }"), Run),
        (Test::In([value("1"), value("\"x\"")].into()), Some("\"x\""), Run),
        (Test::In([value("1"), value("\"x\"")].into()), Some("\"y\""), Skip),
    ] {
        assert_eq!(test.decide(found.map(value).as_ref()), decision, "{test:?} of {found:?}");
    }
}
