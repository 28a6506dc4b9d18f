//! What the API says when the store fails under it.

use std::collections::BTreeSet;

use annals::http::{AppState, Settings, router};
use annals_engine::log::{Fault, MemoryDisk, Position};
use annals_engine::{Engine, Mode};
use axum::Router;
use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;

use crate::face::{answer, ask, plan, send, with};

const JOBS: &str = "/api/v1/jobs";

/// An engine on a disk in memory, with a router before it.
async fn started(disk: &MemoryDisk, mode: Mode) -> (Engine, Router, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Engine::open(folder.path()).log(Box::new(disk.open())).mode(mode);
    let engine = builder.start().await.expect("it starts");
    let router = router(AppState::ready(engine.clone(), Settings::default()));
    (engine, router, folder)
}

/// Whether a job was accepted when the commit failed is settled by its key after the next start.
#[tokio::test]
async fn an_unknown_outcome_is_said_to_be_and_settled_by_a_repeat() {
    for (fault, is_kept) in [(Fault::Before, false), (Fault::After, true)] {
        let disk = MemoryDisk::new();
        let submit = || {
            let request = send("POST", JOBS, plan(r#"{"id": "a", "kind": "noop"}"#));
            with(request, "idempotency-key", "k")
        };
        let (engine, face, _folder) = started(&disk, Mode::Run).await;
        disk.fail_append(1, fault);
        let unknown = answer(face.clone(), submit()).await;
        unknown.problem(503, "outcome_unknown");
        assert!(unknown.header("retry-after").is_some());
        answer(face.clone(), submit()).await.problem(503, "outcome_unknown");
        let other = send("POST", JOBS, plan(r#"{"id": "b", "kind": "noop"}"#));
        answer(face, other).await.problem(503, "outcome_unknown");
        assert!(engine.shutdown().await.is_err());
        drop(engine);
        let (engine, face, _folder) = started(&disk, Mode::Run).await;
        let again = answer(face, submit()).await;
        again.with_status(202);
        assert_eq!(again.header("idempotency-replayed"), is_kept.then_some("true"), "{fault:?}");
        assert_eq!(engine.jobs(None, 10).await.unwrap().len(), 1);
    }
}

/// None of many equal requests is answered as if its job were there, and all together are one job
/// after the next start.
#[tokio::test]
async fn equal_submissions_at_once_whose_commit_fails_are_one_job_afterwards() {
    for fault in [Fault::Before, Fault::After] {
        let disk = MemoryDisk::new();
        let body = plan(r#"{"id": "a", "kind": "noop"}"#);
        let submit = || with(send("POST", JOBS, body.clone()), "idempotency-key", "k");
        let (engine, face, _folder) = started(&disk, Mode::Run).await;
        disk.fail_append(1, fault);
        let all = (0..100).map(|_| answer(face.clone(), submit()));
        for refused in join_all(all).await {
            refused.problem(503, "outcome_unknown");
        }
        assert!(engine.shutdown().await.is_err());
        drop((engine, face));
        let (engine, face, _folder) = started(&disk, Mode::Run).await;
        let all = join_all((0..100).map(|_| answer(face.clone(), submit()))).await;
        let jobs: BTreeSet<_> = all.iter().map(|answer| answer.header("location")).collect();
        assert_eq!((jobs.len(), all.iter().all(|answer| answer.status == 202)), (1, true));
        assert_eq!(engine.jobs(None, 10).await.unwrap().len(), 1);
        let other = with(send("POST", JOBS, format!("{body} ")), "idempotency-key", "k");
        answer(face, other).await.problem(422, "idempotency_key_reused");
    }
}

#[tokio::test]
async fn a_job_whose_history_is_damaged_is_refused_and_the_others_are_served() {
    let disk = MemoryDisk::new();
    let (engine, face, _folder) = started(&disk, Mode::Run).await;
    let mut paths = Vec::new();
    for _ in 0..2 {
        let submitted =
            answer(face.clone(), send("POST", JOBS, plan(r#"{"id": "a", "kind": "noop"}"#)));
        let path = submitted.await.header("location").expect("a location").to_owned();
        answer(face.clone(), ask("GET", &format!("{path}?wait=5m"))).await.with_status(200);
        paths.push(path);
    }
    engine.shutdown().await.expect("it ends");
    drop((engine, face));
    disk.damage(Position(1), |bytes| *bytes.last_mut().expect("bytes") ^= 1);
    let (_engine, face, _folder) = started(&disk, Mode::Hold).await;
    let damaged = answer(face.clone(), ask("GET", &paths[0])).await;
    damaged.problem(500, "job_unreadable");
    answer(face.clone(), ask("POST", &format!("{}/execute", paths[0])))
        .await
        .problem(500, "job_unreadable");
    let other = answer(face.clone(), ask("GET", &paths[1])).await.with_status(200);
    assert_eq!(other["status"], "completed");
    // The whole log says what it lacks, and goes on.
    let log = answer(face, ask("GET", "/api/v1/events")).await.with_status(200);
    let job_id = paths[0].rsplit('/').next();
    let damaged = &log["damaged"][0];
    assert_eq!((&damaged["from"], &damaged["upto"]), (&json!(1), &json!(1)), "{log}");
    assert_eq!(damaged["job_id"].as_str(), job_id);
    assert!(damaged["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    let items = log["items"].as_array().expect("a list");
    let ends = items.iter().filter(|event| event["type"] == "JobCompleted").count();
    assert_eq!(ends, 2, "{log}");
}
