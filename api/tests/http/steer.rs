//! Steering jobs: what each command does, what it is refused for, and under which conditions.

use annals::http::Settings;
use annals_engine::kinds::Supervisor;
use serde_json::{Value, json};

use crate::face::{Face, ask, at, send, with};

async fn types(face: &Face, job: &Value) -> Vec<&'static str> {
    let id = job["id"].as_str().unwrap().parse().unwrap();
    let history = face.engine.job(id).history(0, 1_000).await.unwrap();
    history.into_iter().map(|logged| logged.recorded.event.type_name()).collect()
}

#[tokio::test]
async fn commands_answer_with_the_job_after_them() {
    let face = Face::new().await;
    let tasks = r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "echo", "input": 1},
        {"id": "c", "kind": "noop"}, {"id": "d", "kind": "echo", "input": [{"$output": "b"}]}"#;
    let job = face.submit(tasks).await;
    face.running(&job, "a").await;
    let act =
        async |what: &str, body: &'static str| face.post(&format!("{job}/{what}"), body).await;
    let paused = act("pause", r#"{"mode": "interrupt", "reason": "lunch"}"#).await;
    assert_eq!(paused.with_status(202)["revision"], 2);
    let quiet = face.get(&format!("{job}?wait=5m&after={}", paused.json()["seq"])).await.json();
    assert_eq!(at(&quiet, ["/status", "/tasks/0/status"]), json!(["paused", "interrupted"]));
    assert_eq!(act("pause", "").await.with_status(200)["seq"], quiet["seq"], "it holds already");
    let taken = act("skip", r#"{"task": "b"}"#).await.problem(409, "output_is_taken");
    assert_eq!(taken["dependants"], json!([{"task": "d", "reference": "/0"}]), "{taken}");
    let skipped = act("skip", r#"{"task": "b", "output": 9007199254740993}"#).await;
    assert_eq!(skipped.with_status(202)["tasks"][1]["status"], "skipped");
    let removed = face.answer(ask("DELETE", &format!("{job}/tasks/c?reason=no"))).await;
    assert_eq!(removed.with_status(202)["tasks"][2]["status"], "removed");
    face.open_gate();
    assert_eq!(act("resume", "null").await.with_status(202)["status"], "running");
    face.ended(&job).await;
    let ended = face.get(&job).await;
    assert!(ended.text.contains(r#""output":[9007199254740993]"#), "{}", ended.text);
    assert_eq!(act("execute", "").await.with_status(200)["seq"], ended.json()["seq"]);
    let refused = act("cancel", "").await.problem(409, "not_in_this_status");
    assert_eq!(refused["job_status"], "completed");
    assert_eq!(refused["allowed"], json!(["execute", "purge"]), "{refused}");
    let id = ended.json()["id"].as_str().unwrap().parse().unwrap();
    let history = face.engine.job(id).history(0, 100).await.unwrap();
    let reasons: Vec<_> =
        history.iter().filter_map(|logged| logged.recorded.origin.reason.as_deref()).collect();
    assert_eq!(reasons[0], "lunch");
    assert!(reasons.contains(&"no"), "{reasons:?}");
}

#[tokio::test]
async fn a_command_that_cannot_be_read_or_carried_out_changes_nothing() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    let before = face.running(&job, "a").await;
    let table = [
        ("cancel", r#"{"mod": "now"}"#, 422, "invalid_body", "did you mean `mode`?"),
        ("cancel", r#"{"mode": "never"}"#, 422, "invalid_body", "`mode` is now"),
        ("pause", r#"{"mode": "interupt"}"#, 422, "invalid_body", "did you mean `interrupt`?"),
        ("pause", r#"{"mode": 1}"#, 422, "invalid_body", "is a string"),
        ("execute", r#"{"paused": "yes"}"#, 422, "invalid_body", "true or false"),
        ("execute", r#"{"expected_seq": 1.5}"#, 422, "invalid_body", "a whole number"),
        ("skip", r#"{"task": "a b"}"#, 422, "invalid_body", "is not a task id"),
        ("skip", r#"{"task": "b"}"#, 404, "no_such_task", "b"),
        ("resume", r#"{"reason": 1, "why": 2}"#, 422, "invalid_body", "2 faults"),
        ("resume", "[]", 422, "invalid_body", "is an object"),
        ("resume", "nonsense", 400, "bad_body", "line 1"),
        ("execute", r#"{"paused": true, "paused": true}"#, 400, "bad_body", "twice"),
        ("cancel", r#"{"expected_seq": 1}"#, 412, "stale", "not at 1"),
    ];
    for (command, body, status, code, words) in table {
        let problem = face.post(&format!("{job}/{command}"), body).await.problem(status, code);
        let said = problem["detail"].to_string() + &problem["errors"].to_string();
        assert!(said.contains(words), "{command} {body}: {problem}");
    }
    let table = [
        ("POST", "/cancel?dry=1", 400, "bad_query"),
        ("DELETE", "/tasks/a?cascade=1", 400, "bad_query"),
        ("DELETE", "/tasks/a", 409, "task_is_live"),
        ("DELETE", "/tasks/b", 404, "no_such_task"),
        ("DELETE", "/tasks/a?expected_seq=1", 412, "stale"),
        ("GET", "/cancel", 405, "method_not_allowed"),
        ("POST", "/destroy", 404, "no_such_route"),
    ];
    for (method, path, status, code) in table {
        face.answer(ask(method, &format!("{job}{path}"))).await.problem(status, code);
    }
    let unknown = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
    for command in ["execute", "cancel", "pause", "resume", "skip"] {
        face.post(&format!("{unknown}/{command}"), "").await.problem(404, "no_such_job");
        face.post(&format!("/api/v1/jobs/x/{command}"), "").await.problem(400, "bad_id");
    }
    face.answer(ask("DELETE", &format!("{unknown}/tasks/a"))).await.problem(404, "no_such_job");
    assert_eq!(face.get(&job).await.json(), before);
}

#[tokio::test]
async fn a_dry_run_shows_what_a_command_would_do_and_appends_nothing() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "noop"}"#).await;
    let before = face.running(&job, "a").await;
    let dry = async |method: &str, path: &str| {
        let answer = face.answer(ask(method, &format!("{job}/{path}dry_run=true"))).await;
        assert_eq!(answer.header("etag"), None);
        answer.with_status(200)
    };
    let run = dry("POST", "cancel?").await;
    assert_eq!(at(&run, ["/events/0/type", "/job/intent"]), json!(["CancelRequested", "cancel"]));
    let run = dry("DELETE", "tasks/b?").await;
    let places = ["/events/0/type", "/events/1", "/job/tasks/1/status"];
    assert_eq!(at(&run, places), json!(["TaskRemoved", null, "removed"]));
    assert_eq!(dry("POST", "execute?").await["events"], json!([]));
    let resume = ask("POST", &format!("{job}/skip?dry_run=true"));
    assert_eq!(face.answer(resume).await.status, 200);
    assert_eq!(face.get(&job).await.json(), before);
}

#[tokio::test]
async fn only_a_faster_operator_makes_a_command_stale() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "echo"}, {"id": "b", "kind": "gate"}"#).await;
    let seen = face.get(&job).await.header("etag").unwrap().to_owned();
    face.running(&job, "b").await;
    let pause = |tag: &str| {
        let request = send("POST", &format!("{job}/pause?dry_run=true"), "");
        face.answer(with(request, "if-match", tag))
    };
    for fresh in [seen.as_str(), &format!("W/{seen}"), "*", "\"1.0.0\""] {
        assert_eq!(pause(fresh).await.status, 200, "{fresh}");
    }
    for bad in ["1", "\"1\"", "\"1.2.3.4\"", "\"1.2.3\", \"2.3.4\""] {
        pause(bad).await.problem(400, "bad_header");
    }
    face.post(&format!("{job}/pause"), "").await.with_status(202);
    pause(&seen).await.problem(412, "stale");
    let remove = with(ask("DELETE", &format!("{job}/tasks/b")), "if-match", &seen);
    face.answer(remove).await.problem(412, "stale");
}

/// The process and its children get the signal, later tasks never start, and the log stays.
#[tokio::test]
async fn a_cancel_ends_what_runs_and_what_that_has_started() {
    let mut settings = Settings::default();
    settings.allow_shell = true;
    let supervisor = Supervisor::Program(env!("CARGO_BIN_EXE_annals").into());
    let face = Face::with(settings, |builder| builder.supervisor(supervisor)).await;
    let script = "echo begun; sleep 1000 & echo $! > $ANNALS_WORK/child; echo ready; wait";
    let tasks = format!(
        r#"{{"id": "a", "kind": "shell", "input": {{"script": "{script}"}}}},
           {{"id": "b", "kind": "gate"}}"#
    );
    let job = face.submit(&tasks).await;
    let id = job.rsplit('/').next().unwrap();
    let child = face.folder().join("work").join(id).join("files/child");
    let pid = crate::face::text_of(&child).await;
    let answer = face.post(&format!("{job}/cancel"), r#"{"reason": "enough"}"#).await;
    assert_eq!(answer.with_status(202)["intent"], "cancel");
    let ended = face.ended(&job).await;
    assert_eq!(ended["status"], "cancelled");
    let attempt = &ended["tasks"][0]["attempts"][0];
    assert_eq!(attempt["outcome"], "interrupted");
    assert!(attempt["log"]["bytes"].as_u64().unwrap() >= "begun\n".len() as u64, "{attempt}");
    assert_eq!(at(&ended, ["/tasks/1/status", "/tasks/1/attempts"]), json!(["pending", []]));
    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists(), "{pid} lives");
}

/// The cancel wins; to execute the job then completes it without running anything.
#[tokio::test]
async fn a_cancel_before_the_job_has_closed_wins() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "stubborn", "cancel_grace": "5m"}"#).await;
    face.running(&job, "a").await;
    face.post(&format!("{job}/cancel"), "").await.with_status(202);
    face.open_gate();
    let ended = face.ended(&job).await;
    assert_eq!(at(&ended, ["/status", "/tasks/0/status"]), json!(["cancelled", "completed"]));
    let again = face.post(&format!("{job}/execute"), "").await.with_status(202);
    assert_eq!(at(&again, ["/status", "/output"]), json!(["completed", "opened"]));
    let starts = types(&face, &again).await;
    let starts = starts.into_iter().filter(|word| *word == "AttemptStarted").count();
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn a_cancel_before_the_start_runs_nothing() {
    let face = Face::new().await;
    let body = r#"{"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "gate"}]}"#;
    let submitted = face.post("/api/v1/jobs", body).await;
    let job = submitted.header("location").unwrap();
    let cancelled = face.post(&format!("{job}/cancel"), "").await.with_status(202);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(types(&face, &cancelled).await, { ["JobSubmitted", "JobCancelled"] });
    assert_eq!(face.starts.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_cancel_twice_is_a_cancel_and_one_too_late_is_refused() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
    face.running(&job, "a").await;
    let cancel = async |job: &str| face.post(&format!("{job}/cancel"), "").await;
    cancel(&job).await.with_status(202);
    cancel(&job).await.with_status(200);
    let ended = face.ended(&job).await;
    assert_eq!(cancel(&job).await.with_status(200), ended);
    let done = face.submit(r#"{"id": "a", "kind": "noop"}"#).await;
    let before = face.ended(&done).await;
    cancel(&done).await.problem(409, "not_in_this_status");
    assert_eq!(face.get(&done).await.json(), before);
}

/// Whatever the task would still have given, the recorded outcome stands.
#[tokio::test]
async fn a_task_that_ends_after_its_job_is_over_changes_nothing() {
    let face = Face::new().await;
    let job = face.submit(r#"{"id": "a", "kind": "stubborn", "cancel_grace": "1ms"}"#).await;
    face.running(&job, "a").await;
    face.post(&format!("{job}/cancel"), "").await.with_status(202);
    let ended = face.ended(&job).await;
    let places = ["/status", "/tasks/0/attempts/0/outcome"];
    assert_eq!(at(&ended, places), json!(["cancelled", "interrupted"]));
    face.open_gate();
    // What has come through the same loop meanwhile is behind whatever the task could report.
    let other = face.submit(r#"{"id": "a", "kind": "stubborn"}"#).await;
    face.ended(&other).await;
    assert_eq!(face.get(&job).await.json(), ended);
}
