//! How tasks are undone, as plans say it: what is read, written and refused.

use annals_tasks_sdk::plan::{Compensation, JobEnd, Limits, Plan, TaskPatch, TaskSpec};
use annals_tasks_sdk::{KindName, Payload, flow, prelude::*};

fn plan(of_plan: &str, compensate: &str) -> String {
    format!(
        r#"{{"name": "n", {of_plan} "input": {{"n": 1}}, "tasks": [{{"id": "a", "kind": "k"}},
            {{"id": "b", "kind": "k", "compensate": {compensate}}}, {{"id": "c", "kind": "k"}}],
            "finally": [{{"id": "z", "kind": "k"}}]}}"#
    )
}

fn read(text: &str) -> Result<Plan, Vec<(String, String)>> {
    let read = Plan::from_json(text, &Limits::default());
    read.map_err(|errors| errors.0.into_iter().map(|e| (e.pointer, e.detail)).collect())
}

/// The plan is refused for this alone.
#[track_caller]
fn refused(text: &str, pointer: &str, words: &str) {
    let errors = read(text).expect_err(text);
    let [(place, detail)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(place, pointer, "{detail}");
    assert!(detail.contains(words), "{detail}");
}

#[test]
fn it_is_read_and_written() {
    let whole = r#"{"title":"Undo","kind":"u","input":[{"$output":"b"},{"$output":"c","default":0},
        {"$input":"/n"}],"timeout":"1m","retry":{"max_attempts":5},"on_lost":"fail"}"#;
    let ends = r#""compensate_on": ["failed", "cancelled"],"#;
    let read = read(&plan(ends, whole)).unwrap();
    assert_eq!(*read.compensate_on, [JobEnd::Failed, JobEnd::Cancelled]);
    let undo = read.tasks[1].undo().unwrap();
    assert_eq!((undo.id.as_str(), undo.title.as_deref()), ("b~undo", Some("Undo")));
    assert_eq!((undo.policy.retry.max_attempts, undo.needs), (5, Some([].into())));
    let again = Plan::from_json(read.to_json().as_str(), &Limits::default()).unwrap();
    assert_eq!(again, read);
    assert!(read.tasks[0].undo().is_none());
    let unsaid = self::read(&plan("", r#"{"kind": "u"}"#)).unwrap();
    assert_eq!(*unsaid.compensate_on, Compensation::ENDS);
    assert!(!unsaid.to_json().as_str().contains("compensate_on"));
    assert_eq!(self::read(&plan("", "null")).unwrap().tasks[1].compensate, None);
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let of_task = |compensate: &str, place: &str, words: &str| {
        refused(&plan("", compensate), &format!("/tasks/1/compensate{place}"), words);
    };
    of_task("1", "", "`compensate` must be an object, not a number");
    of_task("{}", "", "`kind` is missing");
    of_task(r#"{"kind": "u", "needs": []}"#, "/needs", "no field of `compensate`");
    of_task(r#"{"kind": "u", "when": {}}"#, "/when", "no field of `compensate`");
    of_task(r#"{"kind": "u", "timeuot": "1m"}"#, "/timeuot", "did you mean `timeout`?");
    of_task(r#"{"kind": "u", "timeout": "0s"}"#, "/timeout", "longer than zero");
    of_task(r#"{"kind": "u", "on_lost": "pause"}"#, "/on_lost", "cannot pause its job");
    of_task(r#"{"kind": "job", "input": {"workflow": "w"}}"#, "/kind", "not supported");
    of_task(r#"{"kind": "u", "input": {"$output": "c"}}"#, "/input", "give a default");
    of_task(r#"{"kind": "u", "input": {"$output": "d"}}"#, "/input", "no task has the id `d`");
    of_task(r#"{"kind": "u", "input": {"$input": "/x"}}"#, "/input", "there is no default");
    of_task(r#"{"kind": "u", "input": {"$ouput": "b"}}"#, "/input", "is no reference");
    let of_end = r#"{"kind": "u", "input": {"$output": "z", "default": 0}}"#;
    of_task(of_end, "/input", "is a task of `finally`");
    let fine = r#"{"kind": "u"}"#;
    let on = |ends: &str| plan(&format!(r#""compensate_on": {ends},"#), fine);
    refused(&on("[]"), "/compensate_on", "at least one word");
    refused(&on(r#"["completed"]"#), "/compensate_on/0", "is one of failed, cancelled");
    refused(&on(r#""failed""#), "/compensate_on", "must be a list");
    let last = r#"{"name": "n", "tasks": [{"id": "a", "kind": "k"}],
        "finally": [{"id": "z", "kind": "k", "compensate": {"kind": "u"}}]}"#;
    refused(last, "/finally/0/compensate", "runs when everything is undone");
    let named = r#"{"name": "n", "tasks": [{"id": "a~undo", "kind": "k"}]}"#;
    refused(named, "/tasks/0/id", "is not a task id");
}

#[test]
fn a_plan_that_a_program_put_together_is_held_to_the_same_rules() {
    let mut plan = read(&plan("", r#"{"kind": "u"}"#)).unwrap();
    plan.compensate_on = [JobEnd::Completed].into();
    let errors = plan.check(&Limits::default()).unwrap_err();
    assert_eq!(errors.0[0].pointer, "/compensate_on/0");
    plan.compensate_on = [].into();
    assert!(plan.check(&Limits::default()).is_err());
    plan.compensate_on = Compensation::ENDS.into();
    let id = plan.tasks[1].id.derived("undo");
    plan.tasks.push(TaskSpec::new(id, KindName::new("k").unwrap()));
    let errors = plan.check(&Limits::default()).unwrap_err();
    assert_eq!(errors.0[0].pointer, "/tasks/3/id");
    let limits = Limits { payload_bytes: 4, ..Limits::default() };
    let mut task = plan.tasks.remove(1);
    task.compensate.as_mut().unwrap().input = Payload::parse("[1,2,3]").unwrap();
    let errors = task.check(&Payload::NULL, &limits).unwrap_err();
    assert_eq!(errors.0[0].pointer, "/compensate/input");
}

#[test]
fn what_undoes_a_task_is_edited_by_its_own_name_and_keeps_its_order() {
    let task = r#"{"id": "a", "kind": "k", "compensate": {"kind": "u"}}"#;
    let task = TaskSpec::from_json(task, &Limits::default()).unwrap();
    let mut undo = task.undo().unwrap();
    undo.needs = Some([task.id.derived("undo")].into());
    let patch = r#"{"input": {"x": 1}, "kind": "v"}"#;
    let patch = TaskPatch::from_json(patch, &Limits::default()).unwrap();
    let edited = patch.apply(&undo).unwrap();
    assert_eq!((&edited.id, &edited.needs, edited.kind.as_str()), (&undo.id, &undo.needs, "v"));
    let patch = r#"{"compensate": {"kind": "w"}}"#;
    let patch = TaskPatch::from_json(patch, &Limits::default()).unwrap();
    assert_eq!(patch.undo_kind().map(KindName::as_str), Some("w"));
    assert!(patch.kind().is_none() && patch.says_kind());
    assert_eq!(patch.apply(&task).unwrap().undo().unwrap().kind.as_str(), "w");
    let patch = TaskPatch::from_json(r#"{"compensate": null}"#, &Limits::default()).unwrap();
    assert!(!patch.says_kind() && patch.apply(&task).unwrap().compensate.is_none());
}

const RESERVE: TaskKind<String, u64> = TaskKind::new("reserve");
const RELEASE: TaskKind<(u64, Option<String>), ()> = TaskKind::new("release");
const SHIP: TaskKind<u64, String> = TaskKind::new("ship");
const ORDER: Workflow<String, String> = Workflow::new("order");

const UNSHIP: TaskKind<String, ()> = TaskKind::new("unship");

fn order(flow: &Flow, item: Wire<String>) -> Wire<String> {
    flow.compensate_on(&[JobEnd::Failed]);
    let reserved = flow.task(RESERVE, item);
    let shipped = flow.task(SHIP, reserved);
    let undo = reserved.compensate(RELEASE, (reserved, shipped.optional()));
    undo.title("Release").attempts(5).timeout(minutes(1)).on_lost(OnLost::Fail);
    shipped.wire()
}

fn strict(flow: &Flow, item: Wire<String>) -> Wire<String> {
    let reserved = flow.task(RESERVE, item);
    let shipped = flow.task(SHIP, reserved);
    reserved.compensate(UNSHIP, shipped);
    shipped.wire()
}

#[test]
fn a_workflow_says_it_in_terms_of_wires() {
    let plan = flow::build_plan(ORDER, order, Payload::of(&"clock").unwrap()).unwrap();
    assert_eq!(*plan.compensate_on, [JobEnd::Failed]);
    let undo = plan.tasks[0].compensate.as_deref().unwrap();
    let wants = concat!(
        r#"{"title":"Release","kind":"release","input":[{"$output":"reserve"},"#,
        r#"{"$output":"ship","default":null}],"timeout":"1m","#,
        r#""retry":{"max_attempts":5},"on_lost":"fail"}"#,
    );
    assert_eq!(undo.to_json().as_str(), wants);
    let errors = flow::build_plan(ORDER, strict, Payload::of(&"clock").unwrap()).unwrap_err();
    let error = &errors.errors.0[0];
    assert_eq!(error.pointer, "/tasks/0/compensate/input");
    assert!(error.detail.contains("give a default"), "{error}");
}
