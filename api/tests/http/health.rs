//! What those are told who restart a server or send it clients.

use std::sync::Arc;

use annals::http::{AppState, DiskWatch, Phase, Settings, Starting, router};
use annals_engine::log::{Fault, MemoryDisk};
use serde_json::{Value, json};

use crate::face::{Face, answer, ask, plan};

/// Asks both; gives their statuses, and what `/readyz` says.
async fn health(state: &AppState) -> (u16, u16, Value) {
    let ask = |path| answer(router(state.clone()), ask("GET", path));
    let (live, ready, alias) = (ask("/livez").await, ask("/readyz").await, ask("/healthz").await);
    // How much is free is not the same a moment later.
    let codes = |json: Value| json.pointer("/reasons/0/code").cloned();
    assert_eq!((alias.status, codes(alias.json())), (ready.status, codes(ready.json())));
    for answer in [&live, &ready] {
        let well = answer.status == 200;
        assert_eq!(answer.json()["status"], if well { "ok" } else { "unavailable" });
        assert_eq!(answer.json().get("reasons").is_none(), well, "{}", answer.text);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    (live.status.as_u16(), ready.status.as_u16(), ready.json())
}

#[tokio::test]
async fn a_start_is_alive_and_not_ready_and_says_how_far_it_is() {
    let state = AppState::starting(Settings::default());
    let (live, ready, said) = health(&state).await;
    assert_eq!((live, ready), (200, 503));
    assert_eq!(said["phase"], "starting");
    assert_eq!(said["reasons"], json!([{"code": "starting", "detail": "opening the store"}]));
    let doing = "repairing records after a crash".into();
    state.enter(Phase::Starting(Starting { doing, percent: Some(40) }));
    let (live, ready, said) = health(&state).await;
    assert_eq!((live, ready), (200, 503));
    let reason = json!({"code": "starting", "detail": "repairing records after a crash",
        "percent": 40});
    assert_eq!(said["reasons"], json!([reason]));
}

#[tokio::test]
async fn what_only_another_start_mends_is_not_alive() {
    let state = AppState::starting(Settings::default());
    state.enter(Phase::Failed(Arc::from("the disk is gone")));
    let (live, ready, said) = health(&state).await;
    assert_eq!((live, ready), (503, 503));
    assert_eq!(said["reasons"][0], json!({"code": "start_failed", "detail": "the disk is gone"}));

    let disk = MemoryDisk::new();
    let log = Box::new(disk.open());
    let face = Face::with(Settings::default(), |builder| builder.log(log)).await;
    assert_eq!(health(&face.state).await.0, 200);
    disk.fail_append(1, Fault::After);
    let refused = face.post("/api/v1/jobs", plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    refused.problem(503, "outcome_unknown");
    let (live, ready, said) = health(&face.state).await;
    assert_eq!((live, ready), (503, 503));
    assert_eq!(said["reasons"][0]["code"], "engine_failed");
    assert_eq!(said["phase"], "ready");
}

#[tokio::test]
async fn a_server_that_runs_is_ready_unless_its_disk_is_nearly_full() {
    let folder = tempfile::tempdir().unwrap();
    let watch = |folder: &std::path::Path, min_free| {
        let disk = Some(DiskWatch { folder: folder.into(), min_free });
        let mut settings = Settings::default();
        settings.disk = disk;
        settings
    };
    let face = Face::with(watch(folder.path(), 1), |builder| builder).await;
    assert_eq!(health(&face.state).await.1, 200);
    let face = Face::with(watch(folder.path(), u64::MAX), |builder| builder).await;
    let (live, ready, said) = health(&face.state).await;
    assert_eq!((live, ready), (200, 503));
    assert_eq!(said["reasons"][0]["code"], "disk_nearly_full");
    assert!(said["reasons"][0]["free_bytes"].as_u64().is_some_and(|free| free > 0), "{said}");
    let face = Face::with(watch(&folder.path().join("gone"), 1), |builder| builder).await;
    assert_eq!(health(&face.state).await.2["reasons"][0]["code"], "disk_unknown");
}

#[tokio::test]
async fn a_server_that_ends_is_not_ready_but_answers() {
    let face = Face::new().await;
    face.state.enter(Phase::Stopping(face.engine.clone()));
    let (live, ready, said) = health(&face.state).await;
    assert_eq!((live, ready), (200, 503));
    assert_eq!(said["reasons"][0]["code"], "stopping");
    face.submit(r#"{"id": "a", "kind": "noop"}"#).await;
    face.engine.shutdown().await.unwrap();
    assert_eq!(health(&face.state).await.0, 200);
    let late = face.post("/api/v1/jobs", plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    late.problem(503, "stopped");
}
