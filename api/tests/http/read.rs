//! Reading jobs: whole, in parts, waited for, and not twice.

use annals_engine::runtime::EngineError;

use serde_json::json;

use crate::face::{Face, ask, at, with};

#[tokio::test]
async fn a_client_that_has_a_job_gets_it_only_when_it_has_changed() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    let answer = face.get(&job).await;
    let tag = answer.header("etag").unwrap().to_owned();
    let held = |tag: &str| face.answer(with(ask("GET", &job), "if-none-match", tag));
    for has in [tag.clone(), format!("W/{tag}"), format!("\"0.0.0\", {tag}"), "*".into()] {
        let answer = held(&has).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (304, ""), "{has}");
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
    }
    for other in ["\"0.0.0\"", "\"nonsense\"", "nonsense"] {
        assert_eq!(held(other).await.with_status(200), answer.json(), "{other}");
    }
    let bare = face.answer(ask("HEAD", &job)).await;
    assert_eq!((bare.status.as_u16(), bare.text.as_str()), (200, ""));
    assert_eq!(bare.header("etag"), Some(tag.as_str()));
    face.open_gate();
    let ended = face.ended(&job).await;
    let after = held(&tag).await;
    assert_eq!(after.with_status(200), ended);
    assert_ne!(after.header("etag"), Some(tag.as_str()));
}

#[tokio::test]
async fn a_wait_ends_with_the_job_with_the_next_event_or_with_its_time() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "gate"}"#).await;
    let seq = face.running(&job, "a").await["seq"].as_u64().unwrap();
    let over = face.get(&format!("{job}?wait=1ms")).await.with_status(200);
    assert_eq!(over["status"], "running");
    let next = format!("{job}?wait=5m&after={seq}");
    let end = format!("{job}?wait=5m");
    let (next, end, ()) = tokio::join!(face.get(&next), face.get(&end), async {
        face.open_gate();
    });
    assert!(next.with_status(200)["seq"].as_u64().unwrap() > seq);
    assert_eq!(end.with_status(200)["status"], "completed");
    let nothing = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
    face.get(&format!("{nothing}?wait=5m")).await.problem(404, "no_such_job");
    face.get(&format!("{nothing}?wait=5m&after=0")).await.problem(404, "no_such_job");
}

#[tokio::test]
async fn waits_end_when_the_server_does() -> Result<(), EngineError> {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    let path = format!("{job}?wait=5m");
    let (waited, ()) = tokio::join!(face.get(&path), async {
        face.state.ending().cancel();
    });
    assert_eq!(waited.with_status(200)["status"], "running");
    face.engine.shutdown_now().await
}

#[tokio::test]
async fn parts_of_a_job_are_those_of_the_whole() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "echo"}, {"id": "b", "kind": "gate"}"#).await;
    let whole = face.running(&job, "b").await;
    let tasks = face.get(&format!("{job}/tasks")).await.with_status(200);
    assert_eq!(tasks["items"], whole["tasks"]);
    let task = face.get(&format!("{job}/tasks/b")).await;
    assert_eq!(task.with_status(200), whole["tasks"][1]);
    assert_eq!(task.header("etag"), face.get(&job).await.header("etag"));
    let progress = face.get(&format!("{job}/progress")).await.with_status(200);
    assert_eq!(
        progress,
        json!({
            "job_id": whole["id"], "status": "running", "total_tasks": 2, "completed_tasks": 1,
            "skipped_tasks": 0, "fraction": 0.5, "current": ["b"],
        })
    );
    let why = face.get(&format!("{job}/explain")).await.with_status(200);
    let reason = &why["reasons"][0];
    assert_eq!(at(reason, ["/code", "/task"]), json!(["runs", "b"]));
    let near = face.get(&format!("{job}/tasks/bb")).await.problem(404, "no_such_task");
    assert!(near["detail"].as_str().unwrap().contains("did you mean `b`?"), "{near}");
    face.get(&format!("{job}/tasks/-b")).await.problem(400, "bad_id");
    let nothing = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
    for part in ["/tasks", "/tasks/a", "/progress", "/explain"] {
        face.get(&format!("{nothing}{part}")).await.problem(404, "no_such_job");
        face.get(&format!("/api/v1/jobs/x{part}")).await.problem(400, "bad_id");
        face.get(&format!("{job}{part}?at=1")).await.problem(400, "bad_query");
    }
}
