//! Conditions, and what is done at the end of a run, over HTTP.

use annals::http::Settings;
use annals::prelude::*;
use serde_json::{Value, json};

use crate::face::{Answer, Face, at, send};

const FAILS: TaskKind<Value, ()> = TaskKind::new("fails");

async fn patch(face: &Face, path: &str, body: &str) -> Answer {
    face.answer(send("PATCH", path, body.to_owned())).await
}

async fn submit(face: &Face, plan: &str) -> String {
    let answer = face.post("/api/v1/jobs", plan.to_owned()).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.header("location").expect("a location").to_owned()
}

async fn events(face: &Face, job: &str) -> Vec<Value> {
    let all = face.get(&format!("{job}/events?limit=1000")).await.with_status(200);
    all["items"].as_array().expect("a list").clone()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    events
        .iter()
        .find(|event| event["type"] == kind)
        .unwrap_or_else(|| panic!("{kind}: {events:?}"))
}

#[tokio::test]
async fn a_task_that_is_not_to_run_is_shown_with_its_reason() {
    let face = Face::new().await;
    let plan = r#"{"name": "p", "input": {"on": false, "os": "debian"}, "tasks": [
        {"id": "a", "kind": "noop", "when": {"$input": "/on"}},
        {"id": "b", "kind": "noop", "when": {"$input": "/os", "in": ["debian", "ubuntu"]}},
        {"id": "c", "kind": "noop", "when": {"task": "a", "status": ["skipped"]}}]}"#;
    let job = submit(&face, plan).await;
    let ended = face.ended(&job).await;
    assert_eq!(ended["status"], "completed");
    let statuses = ["/tasks/0/status", "/tasks/1/status", "/tasks/2/status"];
    assert_eq!(at(&ended, statuses), json!(["skipped", "completed", "completed"]));
    let of_a = ["/tasks/0/skipped_by", "/tasks/0/when/$input", "/tasks/0/part"];
    assert_eq!(at(&ended, of_a), json!(["when", "/on", null]));
    assert_eq!(at(&ended, ["/progress/skipped_tasks", "/progress/fraction"]), json!([1, 1.0]));
    let events = events(&face, &job).await;
    let skipped = of_kind(&events, "TaskSkipped");
    assert_eq!(
        at(skipped, ["/data/task", "/data/skipped_by", "/actor"]),
        json!(["a", "when", "engine"])
    );
    let manual = r#"{"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let job = submit(&face, manual).await;
    let shown = face.post(&format!("{job}/skip"), r#"{"task": "a"}"#).await.with_status(202);
    assert_eq!(shown["tasks"][0]["skipped_by"], "operator");
}

#[tokio::test]
async fn a_condition_can_be_edited_while_the_job_is_held() {
    let face = Face::new().await;
    let plan = r#"{"name": "p", "start": "manual", "tasks": [
        {"id": "a", "kind": "noop"},
        {"id": "b", "kind": "noop", "when": {"task": "a", "status": ["failed"]}}]}"#;
    let job = submit(&face, plan).await;
    let bad = r#"{"when": {"task": "b", "status": ["failed"]}}"#;
    let problem = patch(&face, &format!("{job}/tasks/b"), bad).await.problem(422, "invalid_task");
    assert_eq!(problem["errors"][0]["pointer"], "/when");
    let edit = r#"{"when": null}"#;
    patch(&face, &format!("{job}/tasks/b"), edit).await.with_status(202);
    face.post(&format!("{job}/execute"), "").await.with_status(202);
    let ended = face.ended(&job).await;
    assert_eq!(at(&ended, ["/tasks/1/status", "/tasks/1/when"]), json!(["completed", null]));
}

const PLAN: &str = r#"{"name": "p", "tasks": [{"id": "a", "kind": "gate"}], "finally": [
    {"id": "y", "kind": "noop", "when": {"status": ["cancelled"]}},
    {"id": "z", "kind": "gate"}]}"#;

#[tokio::test]
async fn what_is_done_at_the_end_is_shown_and_explained() {
    let face = Face::new().await;
    let job = submit(&face, PLAN).await;
    face.running(&job, "a").await;
    face.post(&format!("{job}/cancel"), "").await.with_status(202);
    let ending = face.running(&job, "z").await;
    assert_eq!(at(&ending, ["/status", "/intent"]), json!(["running", "cancel"]));
    let parts = ["/tasks/0/part", "/tasks/1/part", "/tasks/1/status", "/tasks/2/status"];
    assert_eq!(at(&ending, parts), json!([null, "finally", "completed", "running"]));
    let why = face.get(&format!("{job}/explain")).await.with_status(200);
    assert_eq!(why["reasons"][0]["code"], "finishing");
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.starts_with("the job is about to be cancelled by anonymous"), "{summary}");
    let command = &why["reasons"][0]["commands"][0];
    assert_eq!(at(command, ["/verb", "/mode", "/body/mode"]), json!(["cancel", "now", "now"]));

    face.post(&format!("{job}/cancel"), "").await.with_status(200);
    let refused = face.post(&format!("{job}/pause"), "").await;
    let refused = refused.problem(409, "not_in_this_status");
    assert_eq!(refused["allowed"], json!(["cancel", "skip", "signal"]));
    face.post(&format!("{job}/cancel"), r#"{"mode": "later"}"#).await.problem(422, "invalid_body");
    face.post(&format!("{job}/cancel"), r#"{"mode": "now"}"#).await.with_status(202);
    let ended = face.ended(&job).await;
    assert_eq!(at(&ended, ["/status", "/tasks/2/status"]), json!(["cancelled", "interrupted"]));
    let events = events(&face, &job).await;
    assert_eq!(of_kind(&events, "JobEnding")["data"], json!({"end": "cancelled"}));
    let asked = events.iter().filter(|event| event["type"] == "CancelRequested");
    let modes: Vec<&Value> = asked.map(|event| &event["data"]["mode"]).collect();
    assert_eq!(modes, [&Value::Null, &json!("now")]);
}

#[tokio::test]
async fn a_failure_is_told_while_what_follows_it_runs() {
    let fails = async |_: TaskContext, _: Value| Err(TaskError::new("broken", "it broke"));
    let face = Face::with(Settings::default(), |builder| builder.task(FAILS, fails)).await;
    let plan = r#"{"name": "p", "fail_fast": true, "tasks": [
        {"id": "a", "kind": "fails", "needs": []}, {"id": "b", "kind": "gate", "needs": []}],
        "finally": [{"id": "z", "kind": "gate", "input": {"$output": "a", "default": 0}}]}"#;
    let job = submit(&face, plan).await;
    let ending = face.running(&job, "z").await;
    assert_eq!(at(&ending, ["/intent", "/error/task"]), json!(["fail", "a"]));
    assert_eq!(ending["tasks"][1]["status"], "interrupted", "the plan fails fast");
    face.open_gate();
    let ended = face.ended(&job).await;
    assert_eq!(at(&ended, ["/status", "/tasks/2/status"]), json!(["failed", "completed"]));
    face.post(&format!("{job}/execute"), "").await.with_status(202);
    let ended = face.ended(&job).await;
    assert_eq!(
        ended["tasks"][2]["attempts"].as_array().map(Vec::len),
        Some(2),
        "once for each end"
    );
}
