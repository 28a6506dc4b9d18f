//! Deadlines over HTTP: how they are asked for, shown, held and passed.

use serde_json::{Value, json};

use crate::face::{Face, at};

/// A job whose tasks are to be done within a time; its path.
async fn submit(face: &Face, deadline: &str, tasks: &str) -> String {
    let plan = format!(r#"{{"name": "p", "deadline": {deadline}, "tasks": [{tasks}]}}"#);
    let answer = face.post("/api/v1/jobs", plan).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.header("location").expect("a location").to_owned()
}

/// A time, in milliseconds.
fn millis(job: &Value, field: &str) -> i64 {
    let text = job[field].as_str().unwrap_or_else(|| panic!("{field} of {job}"));
    text.parse::<jiff::Timestamp>().expect("RFC 3339").as_millisecond()
}

const GATE: &str = r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "noop"}"#;

#[tokio::test]
async fn a_job_shows_when_its_deadline_passes_unless_it_is_paused() {
    let face = Face::new().await;
    let job = submit(&face, r#""2h""#, GATE).await;
    let running = face.running(&job, "a").await;
    assert_eq!(millis(&running, "deadline_at") - millis(&running, "started_at"), 2 * 3_600_000);
    let why = face.get(&format!("{job}/explain")).await.with_status(200);
    assert_eq!(why["deadline_at"], running["deadline_at"]);
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.contains("; the deadline of the run passes in 1h 59m"), "{summary}");

    face.post(&format!("{job}/pause"), r#"{"mode": "interrupt"}"#).await.with_status(202);
    let paused = face.until(&job, "/status", "paused").await;
    assert_eq!(paused.get("deadline_at"), None, "it stands still");
    let why = face.get(&format!("{job}/explain")).await.with_status(200);
    assert_eq!(why.get("deadline_at"), None);
    let resumed = face.post(&format!("{job}/resume"), "").await.with_status(202);
    assert!(millis(&resumed, "deadline_at") >= millis(&running, "deadline_at"));
    face.open_gate();
    assert_eq!(face.ended(&job).await.get("deadline_at"), None, "it has ended in time");

    let manual = r#"{"name": "p", "start": "manual", "deadline": "1d",
        "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let pending = face.post("/api/v1/jobs", manual).await.with_status(202);
    assert_eq!(at(&pending, ["/status", "/deadline_at"]), json!(["pending", null]));
}

#[tokio::test]
async fn who_calls_a_workflow_may_say_how_long_it_may_take() {
    let face = Face::new().await;
    let call = |deadline: &str| {
        format!(r#"{{"workflow": "greet", "input": "Ada", "start": "manual"{deadline}}}"#)
    };
    let job = face.post("/api/v1/jobs", call(r#", "deadline": "1d""#)).await.with_status(202);
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    face.post(&format!("{path}/execute"), r#"{"paused": true}"#).await.with_status(202);
    let resumed = face.post(&format!("{path}/resume"), "").await.with_status(202);
    assert!(millis(&resumed, "deadline_at") - millis(&resumed, "started_at") >= 86_400_000);
    let problem = face.post("/api/v1/jobs", call(r#", "deadline": "0s""#)).await;
    assert_eq!(problem.problem(422, "invalid_plan")["errors"][0]["pointer"], "/deadline");
}

#[tokio::test]
async fn a_run_that_takes_longer_fails_and_an_execute_begins_another() {
    let face = Face::new().await;
    let job = submit(&face, r#""50ms""#, GATE).await;
    let failed = face.ended(&job).await;
    assert_eq!(at(&failed, ["/status", "/error/code"]), json!(["failed", "deadline_exceeded"]));
    let message = "the run took longer than its deadline of 50ms";
    assert_eq!(at(&failed, ["/error/message", "/error/task"]), json!([message, null]));
    assert_eq!(failed["tasks"][1]["status"], "pending");
    let events = face.get(&format!("{job}/events?limit=1000")).await.with_status(200);
    let events = events["items"].as_array().unwrap();
    let passed = events.iter().find(|event| event["type"] == "DeadlinePassed");
    let passed = passed.unwrap_or_else(|| panic!("{events:?}"));
    let error = json!({"code": "deadline_exceeded", "message": message});
    assert_eq!(at(passed, ["/actor", "/data/error"]), json!(["engine", error]));
    assert!(millis(passed, "time") - millis(&failed, "started_at") >= 50);
    let why = face.get(&format!("{job}/explain")).await.with_status(200);
    assert_eq!(at(&why["reasons"][0], ["/code", "/error/code"]), json!(["failed", error["code"]]));
    assert_eq!(why["reasons"][0]["commands"][0]["verb"], "execute");

    face.post(&format!("{job}/execute"), "").await.with_status(202);
    let again = face.ended(&job).await;
    assert_eq!(again["error"]["code"], "deadline_exceeded", "a new run has a new one");
    let events = face.get(&format!("{job}/events?limit=1000")).await.with_status(200);
    let all = events["items"].as_array().unwrap().iter();
    assert_eq!(all.filter(|event| event["type"] == "DeadlinePassed").count(), 2);
}

#[tokio::test]
async fn what_is_no_deadline_is_refused_with_its_place() {
    let face = Face::new().await;
    for (deadline, words) in [
        (r#""0s""#, "a deadline must be longer than zero"),
        (r#""36525d""#, "longer than 100 years"),
        ("3600", "write 3600s for 3600 seconds"),
        (r#""tomorrow""#, "tomorrow"),
    ] {
        let tasks = r#"{"id": "a", "kind": "noop"}"#;
        let plan = format!(r#"{{"name": "p", "deadline": {deadline}, "tasks": [{tasks}]}}"#);
        let problem = face.post("/api/v1/jobs", plan).await.problem(422, "invalid_plan");
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], "/deadline", "{problem}");
        assert!(error["detail"].as_str().unwrap().contains(words), "{problem}");
    }
}
