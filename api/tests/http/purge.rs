//! Purging a job: what is left of it is told to whoever asks for it, and nothing else is.

use std::fs;

use annals_engine::log::verify;
use serde_json::{Value, json};

use crate::face::{Face, ask, at, plan, send, with};
use crate::live::{Live, within};

const JOBS: &str = "/api/v1/jobs";
const CHAIN: &str = r#"{"id": "a", "kind": "echo", "input": 7}, {"id": "b", "kind": "echo"}"#;

/// A job that has ended, by a key.
async fn ended(face: &Face) -> String {
    let answer = face.answer(keyed()).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let job = answer.header("location").unwrap().to_owned();
    face.ended(&job).await;
    job
}

fn keyed() -> axum::http::Request<axum::body::Body> {
    with(send("POST", JOBS, plan(CHAIN)), "idempotency-key", "k1")
}

fn delete(job: &str, query: &str) -> axum::http::Request<axum::body::Body> {
    with(ask("DELETE", &format!("{job}{query}")), "x-annals-actor", "ada")
}

#[tokio::test]
async fn what_is_left_is_told_to_whoever_asks() {
    let face = Face::new().await;
    let job = ended(&face).await;
    let events = face.get(&format!("{job}/events?limit=1000")).await.with_status(200);
    let last = events["items"].as_array().unwrap().last().unwrap().clone();
    let id = face.get(&job).await.with_status(200)["id"].clone();

    let dry = face.answer(delete(&job, "?dry_run=true&reason=why")).await.with_status(200);
    let found = at(&dry, ["/events/0/type", "/events/0/reason", "/tombstone/id"]);
    assert_eq!(found, json!(["JobPurged", "why", id]));
    face.get(&job).await.with_status(200);
    face.answer(delete(&job, "?expected_seq=1")).await.problem(412, "stale");
    face.answer(delete(&job, "?why=no")).await.problem(400, "bad_query");

    let purged = face.answer(delete(&job, "?reason=asked%20for")).await.with_status(202);
    let seq = last["seq"].as_u64().unwrap();
    let wanted = json!({
        "id": id, "status": "completed", "purged_at": purged["purged_at"], "actor": "ada",
        "request_id": purged["request_id"], "reason": "asked for", "seq": seq + 1, "events": seq,
        "tasks": 2, "attempts": 2, "head_hash": last["hash"],
    });
    assert_eq!(purged, wanted);
    assert!(purged["purged_at"].as_str().unwrap().ends_with('Z'));
    let again = face.answer(delete(&job, "")).await.with_status(200);
    assert_eq!(again, purged);
    let dry = face.answer(delete(&job, "?dry_run=true")).await.with_status(200);
    assert_eq!(dry, json!({"events": [], "tombstone": purged}));

    let reads =
        ["", "?wait=1m", "?wait=1m&after=99", "/progress", "/tasks", "/tasks/a", "/explain"];
    let more = ["/tasks/a/log", "/events"];
    for path in reads.iter().chain(&more) {
        let problem = face.get(&format!("{job}{path}")).await.problem(410, "purged");
        assert_eq!(problem["purged"], purged, "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("by ada (asked for)"), "{detail}");
    }
    for path in more {
        let stream = with(ask("GET", &format!("{job}{path}")), "accept", "text/event-stream");
        face.answer(stream).await.problem(410, "purged");
    }
    let commands = ["execute", "cancel", "pause", "resume", "skip", "fork", "tasks/a/retry"];
    for command in commands {
        let body = if command == "fork" { r#"{"from_task": "a"}"# } else { "{}" };
        let refused = face.post(&format!("{job}/{command}"), body).await;
        assert_eq!(refused.problem(410, "purged")["purged"], purged, "{command}");
    }
    face.answer(ask("DELETE", &format!("{job}/tasks/a"))).await.problem(410, "purged");
    // The key stands for the job that it made.
    assert_eq!(face.answer(keyed()).await.problem(410, "purged")["purged"], purged);
    assert_eq!(face.get(JOBS).await.with_status(200), json!({"items": []}));

    let all = face.get("/api/v1/events?limit=1000").await.with_status(200);
    let kinds: Vec<&Value> = all["items"].as_array().unwrap().iter().map(|e| &e["type"]).collect();
    assert_eq!(kinds, ["JobPurged"]);
    assert_eq!(all["items"][0]["data"]["head_hash"], last["hash"]);
    assert_eq!(verify(&*face.engine.reader()).unwrap().purged, 1);
}

#[tokio::test]
async fn only_what_has_ended_is_purged() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    let refused = face.answer(delete(&job, "")).await.problem(409, "not_in_this_status");
    assert_eq!(refused["job_status"], "running");
    assert!(!refused["allowed"].as_array().unwrap().contains(&json!("purge")));
    face.open_gate();
    let now = face.ended(&job).await;
    let refused = face.post(&format!("{job}/pause"), "{}").await.problem(409, "not_in_this_status");
    assert_eq!(refused["allowed"], json!(["execute", "purge"]));
    let stale = with(delete(&job, ""), "if-match", "\"9.9.9\"");
    face.answer(stale).await.problem(412, "stale");
    let tag = format!("\"{}.{}.0\"", now["revision"], now["seq"]);
    face.answer(with(delete(&job, ""), "if-match", &tag)).await.with_status(202);
    let nobody = format!("{JOBS}/01890000-0000-7000-8000-000000000000");
    face.answer(delete(&nobody, "")).await.problem(404, "no_such_job");
}

#[tokio::test]
async fn many_are_purged_at_once_and_their_files_go() {
    let face = Face::new().await;
    let mut folders = Vec::new();
    for _ in 0..5 {
        let job = face.submit(CHAIN).await;
        face.ended(&job).await;
        let id = job.rsplit('/').next().unwrap();
        for parent in ["steps", "work"] {
            let folder = face.folder().join(parent).join(id);
            fs::create_dir_all(folder.join("files")).unwrap();
            folders.push(folder);
        }
    }
    let held = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&held, "a").await;
    let body = json!({"command": "purge", "body": {"reason": "old"}, "filter": {"all": true}});
    let bulk = |path: &str| with(send("POST", path, body.to_string()), "idempotency-key", "b1");
    let dry = face.answer(bulk("/api/v1/jobs/bulk?dry_run=true")).await.with_status(200);
    assert_eq!((&dry["matched"], &dry["accepted"]), (&json!(6), &json!(5)));
    let done = face.answer(bulk("/api/v1/jobs/bulk")).await.with_status(202);
    assert_eq!((&done["matched"], &done["accepted"]), (&json!(6), &json!(5)));
    assert_eq!(done["refused"][0]["code"], "not_in_this_status");
    assert!(folders.iter().all(|folder| !folder.exists()));
    let listed = face.get(JOBS).await.with_status(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let again = face.answer(bulk("/api/v1/jobs/bulk")).await.with_status(200);
    assert_eq!((&again["matched"], &again["accepted"]), (&json!(1), &json!(0)));
    face.open_gate();
    face.ended(&held).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_it_is_told_that_it_is_over() {
    let live = Live::new().await;
    // More than the server has ready to be sent: this follower is slow.
    let job = live.done(r#"{"id": "c", "kind": "count", "input": 3000}"#).await;
    let path = format!("/api/v1/jobs/{}/events", job.id());
    let mut follower = live.follow(&path, None).await;
    assert_eq!(follower.next().await.unwrap().event, "JobSubmitted");
    within(job.purge(annals_engine::Ask::default())).await.unwrap();
    let rest = follower.rest().await;
    let last = rest.last().unwrap();
    assert_eq!((last.event.as_str(), &last.id), ("end", &None));
    assert_eq!(last.json()["purged"]["id"], job.id().to_string());
    assert!(rest.len() < 3_000, "nothing is read of it any more");
}
