//! Why a job does not move: as data, in a sentence, and with requests that would change it.

use annals::http::Settings;
use serde_json::{Value as Json, json};

use crate::face::{Face, at};

/// The explanation of a job. Each request that it names would be accepted, and do something.
async fn explained(face: &Face, job: &str) -> Json {
    let why = face.get(&format!("{job}/explain")).await.with_status(200);
    assert!(why["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{why}");
    for reason in why["reasons"].as_array().unwrap() {
        assert!(reason["message"].as_str().is_some_and(|text| !text.is_empty()), "{reason}");
        for command in reason["commands"].as_array().unwrap() {
            assert_eq!(command["method"], "POST");
            let path = format!("/api/v1{}?dry_run=true", command["path"].as_str().unwrap());
            let body = command.get("body").map_or_else(|| "{}".into(), Json::to_string);
            let would = face.post(&path, body).await.with_status(200);
            assert!(!would["events"].as_array().unwrap().is_empty(), "{command}: {would}");
        }
    }
    why
}

fn verbs(reason: &Json) -> Vec<&str> {
    let commands = reason["commands"].as_array().unwrap();
    commands.iter().map(|command| command["verb"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_job_says_what_it_does_and_who_holds_it() {
    let face = Face::with(Settings::default(), |engine| engine.slots(1)).await;
    let tasks = r#"{"id": "a", "kind": "gate", "timeout": "1h"},
        {"id": "b", "kind": "echo", "input": {"$output": "a"}}"#;
    let job = face.submit(tasks).await;
    let running = face.running(&job, "a").await;
    let why = explained(&face, &job).await;
    assert_eq!(
        at(&why, ["/job_id", "/status", "/seq", "/intent", "/more_tasks"]),
        json!([running["id"], "running", running["seq"], null, 0])
    );
    let first = &why["reasons"][0];
    let started = &running["tasks"][0]["attempts"][0]["started_at"];
    assert_eq!(at(first, ["/code", "/task", "/attempt"]), json!(["runs", "a", 1]));
    assert_eq!(&first["since"], started);
    assert!(first["until"].as_str() > started.as_str(), "{first}");
    // To skip the one would take an input from the other.
    assert_eq!(at(first, ["/commands/0/verb", "/commands/0/cascade"]), json!(["skip", true]));
    assert_eq!(at(&why["reasons"][1], ["/code", "/task", "/needs"]), json!(["needs", "b", ["a"]]));
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.starts_with("attempt 1 of task a runs since "), "{summary}");
    assert!(summary.ends_with(" (and 1 more reason)"), "{summary}");

    let second = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    let why = explained(&face, &second).await;
    assert_eq!(
        at(&why["reasons"][0], ["/code", "/task", "/pool", "/slots", "/place", "/waiting"]),
        json!(["wants_slot", "a", "default", 1, 1, 1])
    );
    face.post(&format!("{second}/pause"), r#"{"reason": "for the night"}"#).await.with_status(202);
    let why = explained(&face, &second).await;
    let paused = &why["reasons"][0];
    assert_eq!(
        at(paused, ["/code", "/by", "/reason"]),
        json!(["paused", "anonymous", "for the night"])
    );
    assert!(paused["since"].is_string() && verbs(paused) == ["resume", "cancel"], "{paused}");

    face.post(&format!("{job}/pause"), "{}").await.with_status(202);
    let why = explained(&face, &job).await;
    assert_eq!(why["intent"], "pause");
    let pausing = &why["reasons"][0];
    assert_eq!(at(pausing, ["/code", "/alive"]), json!(["pausing", 1]));
    assert_eq!(verbs(pausing), ["resume", "pause", "cancel"]);
    assert_eq!(
        at(pausing, ["/commands/1/mode", "/commands/1/body"]),
        json!(["interrupt",
        {"mode": "interrupt"}])
    );
    face.post(&format!("{job}/cancel"), "{}").await.with_status(202);
    face.ended(&job).await;
    let why = explained(&face, &job).await;
    assert_eq!(at(&why, ["/status", "/reasons/0/code"]), json!(["cancelled", "cancelled"]));
}

#[tokio::test]
async fn failures_and_waits_come_with_their_errors_and_times() {
    let face = Face::with(Settings::default(), |engine| engine.allow_unknown_kinds(true)).await;
    let failing = r#"{"id": "a", "kind": "greedy", "needs": []},
        {"id": "s", "kind": "sleep", "input": {"for": "1h"}, "needs": []}"#;
    let job = face.submit(failing).await;
    let why = explained(&face, &job).await;
    let codes: Vec<&Json> =
        why["reasons"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["wants_kind", "sleeps"]);
    assert_eq!(why["reasons"][0]["kind"], "greedy");
    assert!(why["reasons"][1]["until"].is_string());

    let text = r#"{"id": "a", "kind": "echo", "input": {"x": 1}},
        {"id": "b", "kind": "echo", "input": {"$output": "a", "pointer": "/y"},
         "on_failure": "pause"}"#;
    let job = face.submit(text).await;
    let paused = face.get(&format!("{job}?wait=5m&after=3")).await.with_status(200);
    let mut seq = paused["seq"].as_u64().unwrap();
    let mut status = paused["status"].clone();
    while status != "paused" {
        let now = face.get(&format!("{job}?wait=5m&after={seq}")).await.with_status(200);
        (seq, status) = (now["seq"].as_u64().unwrap(), now["status"].clone());
    }
    let why = explained(&face, &job).await;
    assert_eq!(
        at(&why["reasons"][0], ["/code", "/by", "/paused_by_task"]),
        json!(["paused", "engine", "b"])
    );
    assert_eq!(
        at(&why["reasons"][1], ["/code", "/task", "/error/code"]),
        json!(["task_failed", "b", "missing_output"])
    );
    assert_eq!(verbs(&why["reasons"][1]), ["retry", "skip"]);
    // What it suggests can be asked as it says it.
    let retry = &why["reasons"][1]["commands"][0];
    let path = format!("/api/v1{}", retry["path"].as_str().unwrap());
    face.post(&path, "").await.with_status(202);
}

#[tokio::test]
async fn a_job_says_who_holds_the_key_that_it_waits_for() {
    let face = Face::new().await;
    let plan = |key: &str| {
        let task = r#"{"id": "a", "kind": "gate"}"#;
        format!(r#"{{"name": "set up", "exclusive": {key}, "tasks": [{task}]}}"#)
    };
    let submit = async |key| {
        let job = face.post("/api/v1/jobs", plan(key)).await.with_status(202);
        assert_eq!(job["exclusive"].to_string(), key);
        format!("/api/v1/jobs/{}", job["id"].as_str().unwrap())
    };
    let (first, second) = (submit(r#""host/web-42""#).await, submit(r#""host/web-42""#).await);
    let running = face.running(&first, "a").await;
    let why = explained(&face, &second).await;
    assert_eq!(
        at(&why["reasons"][0], ["/code", "/key", "/other_job", "/place"]),
        json!(["wants_key", "host/web-42", running["id"], 1])
    );
    let why = explained(&face, &first).await;
    let waits = second.rsplit('/').next().unwrap();
    assert_eq!(
        at(&why["holds_key"], ["/key", "/waiting", "/jobs"]),
        json!(["host/web-42", 1, [waits]])
    );
    let listed = face.get("/api/v1/jobs").await.with_status(200);
    let held = json!({"key": "host/web-42", "holder": running["id"]});
    assert_eq!(at(&listed, ["/items/0/wants_key", "/items/1/wants_key"]), json!([held, null]));
    face.post(&format!("{first}/cancel"), "{}").await.with_status(202);
    face.running(&second, "a").await;
    for key in [r#""""#, r#""a\nb""#, r#"" a""#, r#""a\u200b""#, "7"] {
        let problem = face.post("/api/v1/jobs", plan(key)).await.with_status(422);
        assert_eq!(problem["errors"][0]["pointer"], "/exclusive", "{problem}");
    }
}
