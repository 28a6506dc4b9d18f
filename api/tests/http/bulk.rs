//! One command for many jobs.

use std::collections::BTreeSet;

use annals::http::Settings;
use annals::prelude::*;
use futures_util::future::join_all;
use serde_json::{Value as Json, json};

use crate::face::{Answer, Face, at, send, with};

const JOBS: &str = "/api/v1/jobs";
const BULK: &str = "/api/v1/jobs/bulk";

/// Fails whatever it is given.
const FAILS: TaskKind<Option<u8>, u8> = TaskKind::new("fails");

async fn fails(_cx: TaskContext, _input: Option<u8>) -> TaskResult<u8> {
    Err(TaskError::new("broken", "it fails"))
}

/// Submits jobs with a label, which nobody has started. Gives their ids.
async fn submit(face: &Face, group: &str, count: usize) -> Vec<String> {
    let plan = format!(
        r#"{{"name": "n", "start": "manual", "labels": {{"g": "{group}"}},
            "tasks": [{{"id": "a", "kind": "echo"}}, {{"id": "b", "kind": "echo",
            "input": {{"$output": "a"}}}}]}}"#
    );
    let mut ids = Vec::new();
    for _ in (0..count).step_by(100) {
        let each = (0..100.min(count - ids.len())).map(|_| face.post(JOBS, plan.clone()));
        let answers = join_all(each).await;
        let id = |answer: &Answer| answer.with_status(202)["id"].as_str().unwrap().to_owned();
        ids.extend(answers.iter().map(id));
    }
    ids
}

async fn bulk(face: &Face, body: &Json) -> Answer {
    face.post(BULK, body.to_string()).await
}

fn counts(answer: &Json) -> (u64, u64, usize) {
    let number = |name: &str| answer[name].as_u64().unwrap();
    (number("matched"), number("accepted"), answer["refused"].as_array().unwrap().len())
}

/// How many jobs with a label have a status.
async fn with_status(face: &Face, group: &str, status: &str) -> usize {
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let path = format!("{JOBS}?limit=1000&label=g:{group}&status={status}{cursor}");
        let page = face.get(&path).await.with_status(200);
        count += page["items"].as_array().unwrap().len();
        let Some(next) = page["next_cursor"].as_str() else { return count };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn a_thousand_jobs_are_asked_and_each_answers_by_itself() {
    let face = Face::new().await;
    let ids = submit(&face, "x", 1_100).await;
    let others = submit(&face, "y", 3).await;
    // Some have ended by now, and cannot be paused.
    let ended: BTreeSet<&String> = ids.iter().step_by(110).collect();
    for id in &ended {
        face.post(&format!("{JOBS}/{id}/execute"), "{}").await.with_status(202);
        face.ended(&format!("{JOBS}/{id}")).await;
    }
    let pause = json!({"command": "pause", "body": {"reason": "for the night"},
        "filter": {"label": "g:x"}});
    let dry = face.post(&format!("{BULK}?dry_run=true"), pause.to_string()).await;
    let would = dry.with_status(200);
    assert_eq!(counts(&would), (1_100, 1_090, 10));
    assert_eq!(with_status(&face, "x", "paused").await, 0, "a dry run does nothing");

    let done = bulk(&face, &pause).await.with_status(202);
    assert_eq!(done, would, "a dry run says what would be");
    for refused in done["refused"].as_array().unwrap() {
        assert!(ended.contains(&refused["job_id"].as_str().unwrap().to_owned()), "{refused}");
        assert_eq!(refused["code"], "not_in_this_status");
        let detail = refused["detail"].as_str().unwrap();
        assert_eq!(detail, "cannot pause a job that is completed");
    }
    assert_eq!(with_status(&face, "x", "paused").await, 1_090);
    assert_eq!(with_status(&face, "y", "pending").await, 3, "others are left alone");
    let events = face.get(&format!("{JOBS}/{}/events", ids[1])).await.with_status(200);
    let paused = events["items"].as_array().unwrap().last().unwrap();
    assert_eq!(at(paused, ["/type", "/reason"]), json!(["JobPaused", "for the night"]));
    // What holds already is accepted, and nothing changes.
    assert_eq!(counts(&bulk(&face, &pause).await.with_status(200)), (1_100, 1_090, 10));

    let cancel = json!({"command": "cancel", "filter": {"label": ["g:x"], "status": "paused"}});
    let done = bulk(&face, &cancel).await.with_status(202);
    assert_eq!(counts(&done), (1_090, 1_090, 0));
    assert_eq!(with_status(&face, "x", "cancelled").await, 1_090);
    let all = json!({"command": "cancel", "filter": {"all": true}});
    assert_eq!(counts(&bulk(&face, &all).await.with_status(202)), (1_103, 1_093, 10));
    assert_eq!(with_status(&face, "y", "cancelled").await, others.len());
}

#[tokio::test]
async fn a_repeat_with_its_key_asks_no_job_twice() {
    let face = Face::new().await;
    submit(&face, "x", 30).await;
    let body = r#"{"command": "pause", "filter": {"label": "g:x"}}"#;
    let keyed = async |key: &str, body: &str| {
        face.answer(with(send("POST", BULK, body.to_owned()), "idempotency-key", key)).await
    };
    let (one, two) = tokio::join!(keyed("k", body), keyed("k", body));
    for answer in [one, two] {
        assert_eq!(counts(&answer.with_status(202)), (30, 30, 0));
    }
    let resume = json!({"command": "resume", "filter": {"label": "g:x"}});
    bulk(&face, &resume).await.with_status(202);
    let again = keyed("k", body).await;
    assert_eq!(counts(&again.with_status(202)), (30, 30, 0));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(with_status(&face, "x", "pending").await, 30, "none was paused again");
    let other = r#"{"command": "cancel", "filter": {"label": "g:x"}}"#;
    let reused = keyed("k", other).await.with_status(200);
    assert_eq!(counts(&reused), (30, 0, 30));
    assert_eq!(reused["refused"][0]["code"], "idempotency_key_reused");
    assert_eq!(with_status(&face, "x", "pending").await, 30);
}

#[tokio::test]
async fn each_command_can_be_given_to_many() {
    let face = Face::new().await;
    let ids = submit(&face, "x", 3).await;
    let filter = json!({"label": "g:x"});
    let done = async |command: &str, body: Json| {
        let body = json!({"command": command, "body": body, "filter": filter});
        counts(&bulk(&face, &body).await.json())
    };
    // Another takes its output.
    assert_eq!(done("skip", json!({"task": "a"})).await, (3, 0, 3));
    assert_eq!(done("skip", json!({"task": "a", "output": 7})).await, (3, 3, 0));
    assert_eq!(done("execute", json!({"paused": true})).await, (3, 3, 0));
    assert_eq!(done("pause", json!({"mode": "interrupt"})).await, (3, 3, 0));
    assert_eq!(done("remove", json!({"task": "b", "cascade": true})).await, (3, 3, 0));
    assert_eq!(done("resume", Json::Null).await, (3, 3, 0));
    for id in ids {
        let job = face.ended(&format!("{JOBS}/{id}")).await;
        assert_eq!(
            at(&job, ["/status", "/tasks/0/status", "/tasks/1/status"]),
            json!(["completed", "skipped", "removed"])
        );
    }
    assert_eq!(done("cancel", json!({})).await, (3, 0, 3));
}

#[tokio::test]
async fn a_task_of_many_jobs_is_tried_again_for_a_reason_that_stands_beside_the_body() {
    let face = Face::with(Settings::default(), |engine| engine.task(FAILS, fails)).await;
    let plan = r#"{"name": "n", "labels": {"g": "x"}, "tasks": [{"id": "a", "kind": "fails",
        "retry": {"max_attempts": 2, "backoff": {"initial": "100d", "max": "100d"}}}]}"#;
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let job = face.post(JOBS, plan).await.with_status(202);
        jobs.push(format!("{JOBS}/{}", job["id"].as_str().unwrap()));
    }
    for job in &jobs {
        let mut now = face.get(job).await.with_status(200);
        while now["tasks"][0]["status"] != "waiting" {
            now = face.get(&format!("{job}?wait=5m&after={}", now["seq"])).await.with_status(200);
        }
    }
    let other = submit(&face, "x", 1).await;
    let retry = json!({"command": "retry", "body": {"task": "a"}, "reason": "the disk is back",
        "filter": {"label": "g:x"}});
    let done = bulk(&face, &retry).await.with_status(202);
    assert_eq!(counts(&done), (3, 2, 1), "{done}");
    assert_eq!(done["refused"][0]["job_id"], other[0], "it was never started");
    for job in &jobs {
        let ended = face.ended(job).await;
        assert_eq!(ended["tasks"][0]["attempts"].as_array().unwrap().len(), 2, "{ended}");
        let events = face.get(&format!("{job}/events")).await.with_status(200);
        let events = events["items"].as_array().unwrap();
        let retried = events.iter().find(|event| event["reason"] == "the disk is back").unwrap();
        assert_eq!(retried["type"], "RetryScheduled");
    }
}

#[tokio::test]
async fn what_is_not_meant_is_refused_and_nothing_is_done() {
    let face = Face::new().await;
    submit(&face, "x", 2).await;
    let table = [
        (json!({"command": "cancel"}), "", "`filter` is missing"),
        (json!({"filter": {"all": true}}), "", "`command` is missing"),
        (json!({"command": "cancel", "filter": {}}), "/filter", "{\"all\": true}"),
        (json!({"command": "cancel", "filter": {"all": false}}), "/filter", "names no jobs"),
        (json!({"command": "cancel", "filter": {"status": []}}), "/filter", "names no jobs"),
        (
            json!({"command": "cancel", "filter": {"all": true, "label": "g:x"}}),
            "/filter",
            "say one of them",
        ),
        (json!({"command": "cancel", "filter": {"labels": "g:x"}}), "/filter", "`label`"),
        (json!({"command": "cancel", "filter": {"label": 7}}), "/filter", "a list of strings"),
        (json!({"command": "cancel", "filter": {"label": "g"}}), "/filter", "KEY:VALUE"),
        (json!({"command": "cancel", "filter": ["all"]}), "/filter", "is an object"),
        (json!({"command": "fork", "filter": {"all": true}}), "/command", "remove"),
        (json!({"command": "remove", "filter": {"all": true}}), "/body", "`task` is missing"),
        (
            json!({"command": "pause", "body": {"mode": "now"}, "filter": {"all": true}}),
            "/body/mode",
            "drain or interrupt",
        ),
        (
            json!({"command": "pause", "body": {"expected_seq": 1}, "filter": {"all": true}}),
            "/body/expected_seq",
            "many are meant",
        ),
        (
            json!({"command": "resume", "reason": "x", "body": {"reason": "x"},
                "filter": {"all": true}}),
            "/body/reason",
            "say it once",
        ),
        (json!({"command": "retry", "filter": {"all": true}}), "/body", "`task` is missing"),
        (json!({"command": "resume", "reason": 7, "filter": {"all": true}}), "/reason", "string"),
    ];
    for (body, pointer, detail) in table {
        let problem = bulk(&face, &body).await.problem(422, "invalid_body");
        let faults = problem["errors"].as_array().unwrap();
        let is_told = faults.iter().any(|fault| {
            fault["pointer"] == pointer && fault["detail"].as_str().unwrap().contains(detail)
        });
        assert!(is_told, "{body}: {problem}");
    }
    assert_eq!(with_status(&face, "x", "pending").await, 2);
}
