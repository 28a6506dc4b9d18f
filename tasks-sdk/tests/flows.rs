//! Workflow functions: the plan each makes, and what is refused before any job runs.

use annals_tasks_sdk::flow::{self, FlowErrors};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Payload, prelude::*};
use std::collections::BTreeMap;
use std::time::Duration;

const LOAD: TaskKind<String, Vec<u32>> = TaskKind::new("load");
const SUM: TaskKind<Vec<u32>, u32> = TaskKind::new("sum");
const JOIN: TaskKind<(u32, u32, String), String> = TaskKind::new("join");
const TICK: TaskKind<(), ()> = TaskKind::new("tick");

fn build<O>(function: impl flow::WorkflowFn<String, O>) -> Result<Plan, FlowErrors> {
    let workflow: Workflow<String, O> = Workflow::new("report");
    flow::build_plan(workflow, function, Payload::of("path").unwrap())
}

fn needs(plan: &Plan) -> Vec<Option<Vec<&str>>> {
    let needs = plan.tasks.iter().map(|task| task.needs.as_deref());
    needs.map(|needs| Some(needs?.iter().map(annals_tasks_sdk::TaskId::as_str).collect())).collect()
}

#[test]
fn wires_become_references_and_needs() {
    fn report(flow: &Flow, path: Wire<String>) -> Wire<String> {
        let numbers = flow.task(LOAD, path).title("Read the file");
        let one = flow.task(SUM, numbers).attempts(3).timeout(minutes(5));
        let other = flow.task(SUM, flow.value(vec![1, 2])).id("sum.fixed").at_once();
        let tick = flow.task(TICK, ()).cancel_grace(millis(1)).heartbeat_timeout(seconds(5));
        flow.task(JOIN, (one, other.wire(), path)).after(tick).on_lost(OnLost::Pause).wire()
    }
    let plan = build(report).unwrap();
    assert_eq!(&*plan.name, "report");
    assert_eq!(plan.input.as_str(), "\"path\"");
    assert_eq!(plan.output.as_ref().unwrap().as_str(), r#"{"$output":"join"}"#);
    let inputs: Vec<&str> = plan.tasks.iter().map(|task| task.input.as_str()).collect();
    let joined = r#"[{"$output":"sum"},{"$output":"sum.fixed"},{"$input":""}]"#;
    let expected = [r#"{"$input":""}"#, r#"{"$output":"load"}"#, "[1,2]", "null", joined];
    assert_eq!(inputs, expected);
    let expected =
        [None, Some(vec!["load"]), Some(vec![]), None, Some(vec!["sum", "sum.fixed", "tick"])];
    assert_eq!(needs(&plan), expected);
    assert_eq!(plan.tasks[1].policy.retry.max_attempts, 3);
    assert_eq!(plan.tasks[1].policy.timeout, Some(Duration::from_mins(5)));
    assert_eq!(plan.tasks[3].policy.heartbeat_timeout, Some(Duration::from_secs(5)));
    assert_eq!(plan.tasks[4].policy.on_lost, OnLost::Pause);
    let again = Plan::from_json(plan.to_json().as_str(), &Limits::default()).unwrap();
    assert_eq!(again, plan);
}

#[test]
fn a_workflow_may_end_in_a_step_or_be_a_closure() {
    fn total(flow: &Flow, path: Wire<String>) -> Step<'_, u32> {
        let numbers = flow.task(LOAD, path);
        flow.task(SUM, numbers).retry(Retry { max_attempts: 2, ..Retry::default() })
    }
    let plan = build(total).unwrap();
    assert_eq!(plan.output.unwrap().as_str(), r#"{"$output":"sum"}"#);
    let copies = 3;
    let closure = move |flow: &Flow, path: Wire<String>| {
        let loads: Vec<Wire<Vec<u32>>> = (0..copies)
            .map(|copy| flow.task(LOAD, path).id(&format!("load-{copy}")).at_once().wire())
            .collect();
        loads[0]
    };
    assert_eq!(build(closure).unwrap().tasks.len(), 3);
}

#[test]
fn values_that_look_like_references_stay_values() {
    const SEND: TaskKind<BTreeMap<String, u32>, ()> = TaskKind::new("send");
    fn send(flow: &Flow, _: Wire<String>) -> Wire<()> {
        flow.task(SEND, Value(BTreeMap::from([("$input".into(), 1)]))).wire()
    }
    let plan = build(send).unwrap();
    assert_eq!(plan.tasks[0].input.as_str(), r#"{"$literal":{"$input":1}}"#);
}

#[test]
fn what_is_wrong_with_a_workflow_is_said_in_its_words() {
    fn twice(flow: &Flow, path: Wire<String>) -> Wire<Vec<u32>> {
        flow.task(LOAD, path);
        flow.task(LOAD, path).wire()
    }
    let error = build(twice).unwrap_err();
    let expected = "the workflow `report` makes no valid plan:\n/tasks/1/id: task 1 (kind `load`) \
        and task 2 (kind `load`) both have the id `load`; give one of them another with .id(\"…\")";
    assert_eq!(error.to_string(), expected);

    // Found without an input, so that an engine can refuse the workflow when it starts.
    let erased = flow::erase_workflow(Workflow::<String, Vec<u32>>::new("report"), twice);
    assert_eq!(erased.name(), "report");
    assert!(erased.check().unwrap_err().to_string().contains("both have the id"));
}

#[test]
fn a_workflow_without_tasks_makes_no_plan() {
    fn empty(_: &Flow, path: Wire<String>) -> Wire<String> {
        path
    }
    assert!(build(empty).unwrap_err().to_string().contains("at least one task"));
}

#[test]
fn names_and_values_that_do_not_do_are_told_with_their_places() {
    const ODD: TaskKind<BTreeMap<(u8, u8), u8>, ()> = TaskKind::new("odd");
    fn misnamed(flow: &Flow, path: Wire<String>) -> Wire<Vec<u32>> {
        flow.task(LOAD, path).id("no id").attempts(0).wire()
    }
    fn no_json(flow: &Flow, _: Wire<String>) -> Wire<()> {
        flow.task(ODD, Value(BTreeMap::from([((1, 2), 3)]))).wire()
    }
    assert_eq!(build(misnamed).unwrap_err().errors.0[0].pointer, "/tasks/0/id");
    let error = build(no_json).unwrap_err().to_string();
    assert!(error.contains("/tasks/0/input: a value has no JSON form"), "{error}");
}

#[test]
fn a_workflow_may_have_a_deadline_which_is_checked_like_any() {
    fn within(flow: &Flow, path: Wire<String>, deadline: Duration) -> Wire<Vec<u32>> {
        flow.deadline(hours(1)).deadline(deadline);
        flow.task(LOAD, path).wire()
    }
    let day = |flow: &Flow, path: Wire<String>| within(flow, path, hours(24));
    let plan = build(day).unwrap();
    assert_eq!(plan.deadline, Some(Duration::from_hours(24)), "what is said last counts");
    assert!(plan.to_json().as_str().contains(r#""deadline":"1d""#), "{}", plan.to_json().as_str());
    let none = |flow: &Flow, path: Wire<String>| within(flow, path, Duration::ZERO);
    let error = build(none).unwrap_err();
    assert_eq!(error.errors.0[0].pointer, "/deadline");
}

#[test]
fn an_input_that_does_not_fit_makes_no_plan() {
    fn load(flow: &Flow, path: Wire<String>) -> Wire<Vec<u32>> {
        flow.task(LOAD, path).wire()
    }
    let erased = flow::erase_workflow(Workflow::new("report"), load);
    let errors = erased.plan(Payload::of(&7).unwrap()).unwrap_err();
    assert_eq!(errors.0[0].pointer, "/input");
    assert!(errors.0[0].detail.starts_with("the input does not fit `report`: invalid type"));
    assert_eq!(erased.plan(Payload::of("x").unwrap()).unwrap().tasks.len(), 1);
    erased.check().unwrap();
}
