//! Requests that are repeated with their key.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::face::{Answer, Face, plan, send, with};

const JOBS: &str = "/api/v1/jobs";

async fn keyed(face: &Face, path: &str, key: &str, body: &str) -> Answer {
    face.answer(with(send("POST", path, body.to_owned()), "idempotency-key", key)).await
}

#[tokio::test]
async fn a_repeat_answers_with_the_job_as_it_is_now() {
    let face = Face::new().await;
    let body = plan(r#"{"id": "a", "kind": "noop"}"#);
    let first = keyed(&face, JOBS, "\"k 1\"", &body).await;
    assert_eq!(first.header("idempotency-replayed"), None);
    let job = first.header("location").unwrap();
    let ended = face.ended(job).await;
    let again = keyed(&face, JOBS, "\"k 1\"", &body).await;
    assert_eq!(again.with_status(202), ended);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.header("location"), Some(job));
    keyed(&face, JOBS, "\"k 1\"", &format!("{body} ")).await.problem(422, "idempotency_key_reused");
    let bare = keyed(&face, JOBS, "k1", &body).await;
    assert_ne!(bare.header("location"), Some(job), "another key");
    let quoted = keyed(&face, JOBS, "\"k1\"", &body).await;
    assert_eq!(quoted.header("location"), bare.header("location"), "the same key in quotes");
    let invalid = keyed(&face, JOBS, "k2", "{}").await;
    invalid.problem(422, "invalid_plan");
    assert_eq!(keyed(&face, JOBS, "k2", &body).await.status, 202, "a refusal leaves its key free");
}

#[tokio::test]
async fn a_hundred_equal_submissions_at_once_are_one_job() {
    let face = Arc::new(Face::new().await);
    let body = plan(r#"{"id": "a", "kind": "noop"}"#);
    let all = (0..100).map(|_| {
        let (face, body) = (Arc::clone(&face), body.clone());
        tokio::spawn(async move { keyed(&face, JOBS, "one", &body).await })
    });
    let answers: Vec<_> = join_all(all).await.into_iter().map(Result::unwrap).collect();
    let jobs: BTreeSet<_> = answers.iter().map(|answer| answer.header("location")).collect();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let first = answers.iter().filter(|answer| answer.header("idempotency-replayed").is_none());
    assert_eq!(first.count(), 1);
    assert!(answers.iter().all(|answer| answer.status == 202));
    assert_eq!(face.engine.jobs(None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_command_is_carried_out_once_whatever_has_happened_since() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    let (pause, resume) = (format!("{job}/pause"), format!("{job}/resume"));
    let body = r#"{"mode": "interrupt"}"#;
    let paused = keyed(&face, &pause, "k", body).await.with_status(202);
    keyed(&face, &resume, "k", "").await.with_status(202);
    let again = keyed(&face, &pause, "k", body).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let now = again.with_status(202);
    assert_eq!(now["revision"].as_u64(), paused["revision"].as_u64().map(|seen| seen + 1));
    assert!(now.get("intent").is_none(), "it was not paused again: {now}");
    keyed(&face, &pause, "k", "{}").await.problem(422, "idempotency_key_reused");
    let dry = format!("{pause}?dry_run=true");
    let dry = keyed(&face, &dry, "k", "{}").await;
    assert_eq!(dry.with_status(200)["events"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn each_of_a_batch_has_a_key_of_its_own() {
    let face = Face::new().await;
    let path = format!("{JOBS}/batch");
    let one = plan(r#"{"id": "a", "kind": "noop"}"#);
    let two = plan(r#"{"id": "b", "kind": "noop"}"#);
    let half = keyed(&face, &path, "k", &format!(r#"{{"jobs": [{one}, {{}}]}}"#)).await;
    let half = half.with_status(202);
    let whole = keyed(&face, &path, "k", &format!(r#"{{"jobs":[{one},{two}]}}"#)).await;
    let whole = whole.with_status(202);
    let (first, second) = (&whole["items"][0], &whole["items"][1]);
    assert_eq!(first["job"]["id"], half["items"][0]["job"]["id"]);
    assert_eq!(first["replayed"], true);
    assert!(second.get("replayed").is_none(), "{second}");
    let swapped = keyed(&face, &path, "k", &format!(r#"{{"jobs":[{two},{one}]}}"#)).await;
    let swapped = swapped.with_status(200);
    for item in swapped["items"].as_array().unwrap() {
        assert_eq!(item["problem"]["code"], "idempotency_key_reused");
    }
    assert_eq!(face.engine.jobs(None, 10).await.unwrap().len(), 2);
}
