//! Tasks that are done for each element of a list: what a plan may say of them.

use annals_tasks_sdk::Payload;
use annals_tasks_sdk::flow::build_plan;
use annals_tasks_sdk::plan::{Limits, Plan, TaskSpec};
use annals_tasks_sdk::prelude::*;

fn plan(tasks: &str) -> Result<Plan, Vec<String>> {
    let text = format!(r#"{{"name": "p", "input": {{"hosts": [1]}}, "tasks": [{tasks}]}}"#);
    Plan::from_json(&text, &Limits::default()).map_err(|errors| {
        errors.0.into_iter().map(|error| format!("{}: {}", error.pointer, error.detail)).collect()
    })
}

/// A plan with one task more, which has these fields.
fn with(fields: &str) -> Result<Plan, Vec<String>> {
    plan(&format!(r#"{{"id": "a", "kind": "noop"}}, {{"id": "b", "kind": "noop", {fields}}}"#))
}

#[test]
fn a_list_is_a_reference_or_says_its_elements() {
    for (fields, items, concurrency) in [
        (r#""for_each": {"$input": "/hosts"}"#, r#"{"$input": "/hosts"}"#, None),
        (r#""for_each": {"$output": "a", "pointer": "/x"}, "concurrency": 3"#, "", Some(3)),
        (r#""for_each": [1, {"$input": "/hosts/0"}, "c"]"#, "", None),
        (r#""for_each": {"$literal": [{"$x": 1}]}"#, "", None),
        (r#""for_each": []"#, "[]", None),
        (r#""for_each": {"$output": "a", "default": []}"#, "", None),
    ] {
        let plan = with(fields).unwrap();
        let each = plan.tasks[1].for_each.as_ref().unwrap();
        assert_eq!(each.concurrency, concurrency, "{fields}");
        assert!(items.is_empty() || each.items.as_str() == items);
        let again = Plan::from_json(plan.to_json().as_str(), &Limits::default()).unwrap();
        assert_eq!(again, plan, "it is read back as it was written");
    }
    assert_eq!(with(r#""for_each": null, "concurrency": null"#).unwrap().tasks[1].for_each, None);
}

#[test]
fn the_element_stands_in_the_input_alone() {
    let each = r#""for_each": [1], "input": [{"$item": ""}, {"$item": "/n", "default": 2}]"#;
    assert!(with(each).is_ok());
    for (fields, fault) in [
        (r#""input": {"x": {"$item": ""}}"#, "/tasks/1/input/x: `$item` is for the input of"),
        (r#""for_each": [{"$item": ""}]"#, "/tasks/1/for_each/0: the list itself has no `$item`"),
        (r#""for_each": [1], "when": {"$item": ""}"#, "/tasks/1/when: a condition is looked at"),
        (r#""for_each": [1], "input": {"$item": "n"}"#, "/tasks/1/input: \"n\" is no pointer"),
    ] {
        let faults = with(fields).expect_err(fields);
        assert!(faults.len() == 1 && faults[0].starts_with(fault), "{fields}: {faults:?}");
    }
    let text = r#"{"name": "p", "output": {"$item": ""}, "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let errors = Plan::from_json(text, &Limits::default()).unwrap_err().0;
    assert_eq!(errors[0].pointer, "/output");
}

#[test]
fn what_is_no_list_and_what_names_nothing_is_refused_with_its_place() {
    for (fields, fault) in [
        (r#""for_each": 3"#, "/tasks/1/for_each: `for_each` must be a list, or a reference"),
        (r#""for_each": "hosts""#, "/tasks/1/for_each: `for_each` must be a list"),
        (r#""for_each": {"hosts": []}"#, "/tasks/1/for_each: `for_each` must be a list"),
        (r#""for_each": {"$literal": 1}"#, "/tasks/1/for_each: `for_each` must be a list"),
        (r#""for_each": {"$inptu": ""}"#, "/tasks/1/for_each: `$inptu` is no reference"),
        (r#""for_each": {"$input": "/nope"}"#, "/tasks/1/for_each: the plan's input has nothing"),
        (r#""for_each": {"$output": "c"}"#, "/tasks/1/for_each: no task has the id `c`"),
        (r#""for_each": [{"$output": "b"}]"#, "/tasks/1/for_each/0: `b` cannot take its own"),
        (r#""needs": [], "for_each": {"$output": "a"}"#, "/tasks/1/for_each: `b` does not need"),
        (r#""concurrency": 2"#, "/tasks/1/concurrency: `concurrency` is for a task with"),
        (r#""for_each": [], "concurrency": 0"#, "/tasks/1/concurrency: `concurrency` must be at"),
        (r#""for_each": [], "concurrency": "2""#, "/tasks/1/concurrency: `concurrency` must be a"),
        (r#""for_each": [], "concurrency": -1"#, "/tasks/1/concurrency: `concurrency` must be a"),
    ] {
        let faults = with(fields).expect_err(fields);
        assert!(faults.len() == 1 && faults[0].starts_with(fault), "{fields}: {faults:?}");
    }
    let at_end = r#"{"name": "p", "tasks": [{"id": "a", "kind": "noop"}],
        "finally": [{"id": "z", "kind": "noop", "for_each": {"$output": "a"}}]}"#;
    let errors = Plan::from_json(at_end, &Limits::default()).unwrap_err().0;
    assert_eq!(errors[0].pointer, "/finally/0/for_each");
    assert!(errors[0].detail.ends_with("give a default"), "{errors:?}");
}

#[test]
fn a_list_of_the_plan_has_a_limit() {
    let limits = Limits { instances: 2, ..Limits::default() };
    let task = |list: &str| {
        let text = format!(r#"{{"id": "a", "kind": "noop", "for_each": {list}}}"#);
        TaskSpec::from_json(&text, &limits)
    };
    assert!(task("[1, 2]").is_ok());
    for list in ["[1, 2, 3]", r#"{"$literal": [1, 2, 3]}"#] {
        let errors = task(list).unwrap_err().0;
        assert_eq!(errors[0].pointer, "/for_each");
        assert_eq!(errors[0].detail, "the list has 3 elements; the limit `instances` is 2");
    }
}

const SPLIT: TaskKind<String, Vec<String>> = TaskKind::new("split");
const COUNT: TaskKind<String, u64> = TaskKind::new("count");
const SUM: TaskKind<Vec<u64>, u64> = TaskKind::new("sum");
const KNOWN: TaskKind<Vec<Option<u64>>, u64> = TaskKind::new("known");

fn words(flow: &Flow, text: Wire<String>) -> Wire<u64> {
    let parts = flow.task(SPLIT, text);
    let counts = flow.each(COUNT, parts).concurrency(4).attempts(2);
    flow.task(KNOWN, counts.each_optional());
    flow.task(SUM, counts).wire()
}

#[test]
fn the_builder_makes_the_same_plan() {
    let made = build_plan(Workflow::<String, u64>::new("words"), words, Payload::of("x").unwrap());
    let text = r#"{"name": "words", "input": "x", "output": {"$output":"sum"}, "tasks": [
        {"id": "split", "kind": "split", "input": {"$input":""}},
        {"id": "count", "kind": "count", "input": {"$item":""}, "needs": ["split"],
         "for_each": {"$output":"split"}, "concurrency": 4, "retry": {"max_attempts": 2}},
        {"id": "known", "kind": "known", "input": {"$output":"count"}, "needs": ["count"]},
        {"id": "sum", "kind": "sum", "input": {"$output":"count"}, "needs": ["count"]}]}"#;
    assert_eq!(made.unwrap(), Plan::from_json(text, &Limits::default()).unwrap());
}

#[test]
fn the_builder_refuses_what_means_nothing() {
    fn alone(flow: &Flow, text: Wire<String>) -> Wire<Vec<String>> {
        flow.task(SPLIT, text).concurrency(2).wire()
    }
    let name = Workflow::<String, Vec<String>>::new("alone");
    let errors = build_plan(name, alone, Payload::of("x").unwrap()).unwrap_err();
    assert!(errors.to_string().contains("/tasks/0/concurrency"), "{errors}");
}
