//! Signals over HTTP: what somebody tells a job that a task of it waits for.

use serde_json::json;

use crate::face::{Face, ask, at, send, with};

const WAIT: &str = r#"{"id": "a", "kind": "wait",
        "input": {"signal": "approved", "timeout": "48h"}},
    {"id": "b", "kind": "echo", "input": [{"$output": "a"}]}"#;

#[tokio::test]
async fn a_signal_is_what_the_task_gives_that_waits_for_it_digit_by_digit() {
    let face = Face::new().await;
    let job = face.submit(WAIT).await;
    let waiting = face.until(&job, "/tasks/0/status", "waiting").await;
    let signal = &waiting["tasks"][0]["waiting_for"]["signal"];
    assert_eq!(signal["name"], "approved");
    assert!(signal["until"].as_str().is_some_and(|at| at.ends_with('Z')), "{waiting}");
    let explained = face.get(&format!("{job}/explain")).await.json();
    let reason = &explained["reasons"][0];
    assert_eq!(
        (&reason["code"], &reason["signals"]),
        (&json!("awaits_signal"), &json!(["approved"]))
    );
    let command = &reason["commands"][0];
    assert_eq!(at(command, ["/verb", "/signal"]), json!(["signal", "approved"]));
    let path = format!("/api/v1{}", command["path"].as_str().unwrap());
    let told = face.post(&path, r#"{"by": "ada", "sum": 12.50}"#).await;
    assert_eq!(told.with_status(202)["tasks"][0]["status"], "completed");
    let ended = face.ended(&job).await;
    assert_eq!(ended["status"], "completed");
    let text = face.get(&job).await.text;
    assert!(text.contains(r#""sum":12.50}]"#), "{text}");
    let events = face.get(&format!("{job}/events")).await.json();
    let of = |kind: &str| {
        let mut events = events["items"].as_array().unwrap().iter();
        events.find(|event| event["type"] == kind).unwrap().clone()
    };
    let (received, delivered) = (of("SignalReceived"), of("SignalDelivered"));
    assert_eq!(at(&received, ["/data/name", "/data/payload/by"]), json!(["approved", "ada"]));
    assert_eq!(at(&delivered, ["/data/task", "/data/name"]), json!(["a", "approved"]));
    assert_eq!(delivered["data"]["signal_seq"], received["seq"]);
}

#[tokio::test]
async fn a_signal_that_nobody_waits_for_is_kept_and_shown() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    let path = format!("{job}/signals/go");
    face.post(&path, "").await.with_status(202);
    let answer = face.answer(ask("POST", &format!("{path}?reason=again"))).await.with_status(202);
    assert_eq!(answer["kept_signals"], json!({"go": 2}));
    let dry = face.post(&format!("{path}?dry_run=true"), "1").await.with_status(200);
    assert_eq!(dry["events"][0]["type"], "SignalReceived");
    assert_eq!(face.get(&job).await.json()["kept_signals"], json!({"go": 2}));
    let keyed = |body: &'static str| with(send("POST", &path, body), "idempotency-key", "one");
    face.answer(keyed("1")).await.with_status(202);
    let again = face.answer(keyed("1")).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.with_status(202)["kept_signals"], json!({"go": 3}));
    face.answer(keyed("2")).await.problem(422, "idempotency_key_reused");
}

#[tokio::test]
async fn signals_that_cannot_be_are_refused() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    for (path, body, status, code) in [
        ("signals/a%20b", "1", 400, "bad_id"),
        ("signals/-a", "1", 400, "bad_id"),
        ("signals/go?key=1", "1", 400, "bad_query"),
        ("signals/go", "{", 400, "bad_body"),
        ("signals/go?expected_seq=1", "1", 412, "stale"),
        ("signals", "1", 404, "no_such_route"),
    ] {
        face.post(&format!("{job}/{path}"), body).await.problem(status, code);
    }
    for _ in 0..1_000 {
        face.post(&format!("{job}/signals/go"), "1").await.with_status(202);
    }
    let refused =
        face.post(&format!("{job}/signals/go"), "1").await.problem(429, "too_many_signals");
    assert!(refused["detail"].as_str().unwrap().contains("1000"), "{refused}");
    face.open_gate();
    face.ended(&job).await;
    let refused = face.post(&format!("{job}/signals/go"), "1").await;
    let refused = refused.problem(409, "not_in_this_status");
    assert_eq!(refused["allowed"], json!(["execute", "purge"]));
    let unknown = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968/signals/go";
    face.post(unknown, "1").await.problem(404, "no_such_job");
}

#[tokio::test]
async fn a_wait_that_cannot_be_is_refused_with_the_plan() {
    let face = Face::new().await;
    for (task, pointer) in [
        (r#"{"id": "a", "kind": "wait"}"#, "/tasks/0/input"),
        (r#"{"id": "a", "kind": "wait", "input": {"signal": "a b"}}"#, "/tasks/0/input/signal"),
        (
            r#"{"id": "a", "kind": "wait", "input": {"signal": "a", "timeout": "soon"}}"#,
            "/tasks/0/input/timeout",
        ),
        (
            r#"{"id": "a", "kind": "wait", "input": {"signal": "a"}, "timeout": "1h"}"#,
            "/tasks/0/timeout",
        ),
        (
            r#"{"id": "a", "kind": "wait", "input": {"signal": "a"},
                "retry": {"max_attempts": 2}}"#,
            "/tasks/0/retry",
        ),
    ] {
        let answer = face.post("/api/v1/jobs", crate::face::plan(task)).await;
        let problem = answer.problem(422, "invalid_plan");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
}
