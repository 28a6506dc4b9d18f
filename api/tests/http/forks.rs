//! Forks: new jobs that go on from what others have done.

use annals::http::Settings;
use annals_engine::kinds::Supervisor;
use serde_json::{Value, json};

use crate::face::{Answer, Face, answer, at, send, with};

/// `a` is done, `b` waits behind a gate, `c` takes what `a` gave.
const CHAIN: &str = r#"{"id": "a", "kind": "echo", "input": {"n": 12.50}},
    {"id": "b", "kind": "gate"},
    {"id": "c", "kind": "echo", "input": {"$output": "a", "pointer": "/n"}}"#;

async fn chain() -> (Face, String) {
    let face = Face::new().await;
    let job = face.submit(CHAIN).await;
    face.running(&job, "b").await;
    (face, job)
}

async fn fork(face: &Face, job: &str, body: &Value) -> Answer {
    face.post(&format!("{job}/fork"), body.to_string()).await
}

fn location(answer: &Answer) -> String {
    answer.header("location").expect("a location").to_owned()
}

/// The types of a job's events, and their tasks.
async fn events(face: &Face, job: &str) -> Vec<Value> {
    let events = face.get(&format!("{job}/events")).await.json();
    events["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_fork_goes_on_from_what_its_origin_has_done_and_needs_it_no_more() {
    let (face, job) = chain().await;
    let before = face.get(&job).await.json();
    let body = json!({"from_task": "b", "reason": "once more"});
    let forked = fork(&face, &job, &body).await;
    let shown = forked.with_status(202);
    let fork = location(&forked);
    assert_eq!(fork, format!("/api/v1/jobs/{}", shown["id"].as_str().unwrap()));
    assert_eq!(shown["forked_from"], json!({"job": before["id"], "seq": before["seq"]}));
    let places = ["/tasks/0/status", "/tasks/0/output", "/tasks/0/attempts", "/tasks/1/status"];
    assert_eq!(at(&shown, places), json!(["completed", {"n": 12.50}, [], "running"]));
    assert_eq!(face.get(&job).await.json(), before, "the origin stays as it is");

    let begun = events(&face, &fork).await;
    let types: Vec<&str> = begun.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = ["JobSubmitted", "JobForked", "TaskCompleted", "JobStarted", "AttemptStarted"];
    assert_eq!(types, expected);
    let said = ["/reason", "/actor", "/data/plan/tasks/2/id"];
    assert_eq!(at(&begun[0], said), json!(["once more", "anonymous", "c"]));
    let said = ["/actor", "/data/forked_from", "/data/task", "/data/copied"];
    assert_eq!(at(&begun[1], said), json!(["anonymous", shown["forked_from"], "b", 1]));
    assert_eq!(at(&begun[2], ["/data/task", "/data/output"]), json!(["a", {"n": 12.50}]));
    assert_eq!(begun[2]["data"].get("attempt"), None);

    // The origin ends otherwise, and the fork as it would have.
    face.post(&format!("{job}/cancel"), "").await.with_status(202);
    assert_eq!(face.ended(&job).await["status"], "cancelled");
    face.open_gate();
    let ended = face.ended(&fork).await;
    assert_eq!(at(&ended, ["/status", "/output"]), json!(["completed", 12.50]));
    let id = before["id"].as_str().unwrap();
    let list = face.get(&format!("/api/v1/jobs?forked_from={id}")).await.json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{list}");
    assert_eq!(at(&items[0], ["/id", "/forked_from"]), json!([ended["id"], shown["forked_from"]]));
    let verified = face.engine.job(ended["id"].as_str().unwrap().parse().unwrap());
    assert_eq!(verified.history(0, 100).await.unwrap().len() as u64, ended["seq"]);
}

#[tokio::test]
async fn a_job_is_forked_as_it_was_at_one_of_its_events() {
    let (face, job) = chain().await;
    face.open_gate();
    let ended = face.ended(&job).await;
    let seq = ended["seq"].as_u64().unwrap();
    let mut completed = 0;
    for (event, seq) in events(&face, &job).await.iter().zip(1..=seq) {
        completed += u64::from(event["type"] == "TaskCompleted");
        let begun = fork(&face, &job, &json!({"from_seq": seq})).await;
        let begun_at = location(&begun);
        let begun = begun.with_status(202);
        assert_eq!(begun["forked_from"]["seq"], seq);
        assert_eq!(begun["progress"]["completed_tasks"], completed, "{begun}");
        let fork = face.ended(&begun_at).await;
        assert_eq!(at(&fork, ["/status", "/output"]), at(&ended, ["/status", "/output"]));
    }
    for seq in [0, seq + 1] {
        let refused = fork(&face, &job, &json!({"from_seq": seq})).await;
        let problem = refused.problem(404, "no_such_event");
        assert!(problem["detail"].to_string().contains("it has events 1 to"), "{problem}");
    }
}

#[tokio::test]
async fn edits_are_applied_before_the_fork_starts_all_or_none() {
    let (face, job) = chain().await;
    let edits = json!([
        {"command": "insert", "task": {"id": "x", "kind": "echo", "input": 7}, "after": "a"},
        {"command": "edit", "task": "c", "fields": {"input": {"$output": "x"}, "title": "C"}},
        {"command": "skip", "task": "b"},
        {"command": "move", "task": "x", "after": "b"},
    ]);
    let body = json!({"from_task": "b", "edits": edits});
    let dry = face.post(&format!("{job}/fork?dry_run=true"), body.to_string()).await;
    let dry = dry.with_status(200);
    assert_eq!(dry["job"]["id"], "00000000-0000-0000-0000-000000000000");
    let types = |events: &Value| {
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["type"].clone()).collect::<Vec<_>>()
    };
    let expected = [
        "JobSubmitted",
        "JobForked",
        "TaskCompleted",
        "TaskInserted",
        "TaskEdited",
        "TaskSkipped",
        "TaskMoved",
        "JobStarted",
    ];
    assert_eq!(types(&dry["events"]), expected);
    let forked = fork(&face, &job, &body).await;
    let path = location(&forked);
    forked.with_status(202);
    let ended = face.ended(&path).await;
    assert_eq!(at(&ended, ["/status", "/output"]), json!(["completed", 7]));
    assert_eq!(types(&events(&face, &path).await.into())[..8], expected);
    let list = face.get("/api/v1/jobs").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "a dry run makes none");
}

#[tokio::test]
async fn what_is_wrong_with_a_fork_is_said_with_its_place() {
    let (face, job) = chain().await;
    let before = face.get(&job).await.json();
    let edit =
        |edit: Value| json!({"from_task": "b", "edits": [{"command": "skip", "task": "b"}, edit]});
    let table = [
        (json!({}), 422, "invalid_body", "", "either `from_task` or `from_seq`"),
        (json!({"from_task": "b", "from_seq": 1}), 422, "invalid_body", "/from_seq", "either"),
        (json!({"from_task": "nobody"}), 404, "no_such_task", "", "nobody"),
        (json!({"from_task": "b", "edits": 1}), 422, "invalid_body", "/edits", "a list"),
        (edit(json!({})), 422, "invalid_body", "/edits/1", "`command` is missing"),
        (edit(json!({"command": "cancel"})), 422, "invalid_body", "/edits/1/command", "insert or"),
        (edit(json!({"command": "remove"})), 422, "invalid_body", "/edits/1", "`task` is missing"),
        (edit(json!({"command": "edit", "task": "c"})), 422, "invalid_body", "/edits/1", "fields"),
        (
            edit(json!({"command": "edit", "task": "c", "fields": {"timeout": 5}})),
            422,
            "invalid_task",
            "/edits/1/fields/timeout",
            "5s",
        ),
        (
            edit(json!({"command": "insert", "task": {"id": "x", "kind": "nop"}})),
            422,
            "invalid_task",
            "/edits/1/task/kind",
            "noop",
        ),
        (
            edit(json!({"command": "insert", "task": {"id": "x", "kind": "shell",
                "input": {"script": "true"}}})),
            403,
            "shell_not_allowed",
            "/edits/1/task/kind",
            "of kind shell",
        ),
        (edit(json!({"command": "skip", "task": "a"})), 409, "task_is_settled", "", "edit 2"),
        (edit(json!({"command": "move", "task": "c"})), 422, "invalid_body", "/edits/1", "where"),
    ];
    for (body, status, code, pointer, words) in table {
        let problem = fork(&face, &job, &body).await.problem(status, code);
        let said = problem["detail"].to_string() + &problem["errors"].to_string();
        assert!(said.contains(words), "{body}: {problem}");
        if !pointer.is_empty() {
            assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
        }
        if status == 409 {
            assert_eq!(problem["job_status"], "running", "that of the origin: {problem}");
        }
    }
    let stale = fork(&face, &job, &json!({"from_task": "b", "expected_seq": 1})).await;
    stale.problem(412, "stale");
    let nobody = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
    fork(&face, nobody, &json!({"from_task": "b"})).await.problem(404, "no_such_job");
    assert_eq!(face.get(&job).await.json()["seq"], before["seq"]);
    assert_eq!(face.engine.jobs(None, 10).await.unwrap().len(), 1, "nothing was made");
}

#[tokio::test]
async fn a_fork_that_is_repeated_with_its_key_is_one_job() {
    let (face, job) = chain().await;
    let path = format!("{job}/fork");
    let keyed = async |body: &str| {
        let request = send("POST", &path, body.to_owned());
        face.answer(with(request, "idempotency-key", "k")).await
    };
    let (body, other) = (r#"{"from_task": "b"}"#, r#"{"from_task": "c"}"#);
    let (one, two) = tokio::join!(keyed(body), keyed(body));
    assert_eq!(location(&one), location(&two));
    let replayed = [&one, &two].map(|answer| answer.header("idempotency-replayed").is_some());
    assert_eq!(replayed.iter().filter(|replayed| **replayed).count(), 1);
    keyed(other).await.problem(422, "idempotency_key_reused");
    // Also when the origin has become what would not be forked so.
    face.post(&format!("{job}/cancel"), "").await.with_status(202);
    face.ended(&job).await;
    face.answer(crate::face::ask("DELETE", &format!("{job}/tasks/b"))).await.with_status(202);
    fork(&face, &job, &json!({"from_task": "b"})).await.problem(409, "task_is_settled");
    let again = keyed(body).await;
    assert_eq!(location(&again), location(&one));
    again.with_status(202);
    assert_eq!(face.engine.jobs(None, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn who_may_not_send_scripts_may_fork_what_has_them_and_not_edit_them() {
    let mut settings = Settings::default();
    settings.allow_shell = true;
    let supervisor = Supervisor::Program(env!("CARGO_BIN_EXE_annals").into());
    let face = Face::with(settings, |builder| builder.supervisor(supervisor)).await;
    let job = face.submit(r#"{"id": "a", "kind": "shell", "input": {"script": "true"}}"#).await;
    face.ended(&job).await;
    // What was a script once is one where it is forked from then.
    let closed = || face.closed(Settings::default());
    let path = format!("{job}/fork");
    let fork = |body: Value| answer(closed(), send("POST", &path, body.to_string()));
    let script = json!({"script": "id"});
    let edit = json!({"command": "edit", "task": "a", "fields": {"input": script}});
    let problem = fork(json!({"from_task": "a", "edits": [edit]})).await;
    let problem = problem.problem(403, "shell_not_allowed");
    assert_eq!(problem["errors"][0]["pointer"], "/edits/0/fields/input", "{problem}");
    let titled = json!({"command": "edit", "task": "a", "fields": {"title": "A"}});
    let forked = fork(json!({"from_seq": 1, "edits": [titled]})).await;
    let path = location(&forked);
    forked.with_status(202);
    assert_eq!(face.ended(&path).await["status"], "completed");
}
