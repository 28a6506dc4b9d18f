//! Edits of a job that is there already: insert, edit, move, retry.

use annals::http::Settings;
use annals_engine::kinds::Supervisor;
use serde_json::{Value, json};

use crate::face::{Answer, Face, ask, at, send};

/// `a` runs behind a gate, `b` and `c` are to come.
const CHAIN: &str = r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "echo", "input": 1},
    {"id": "c", "kind": "echo", "input": {"$output": "b"}}"#;

async fn chain() -> (Face, String) {
    let face = Face::new().await;
    let job = face.submit(CHAIN).await;
    face.running(&job, "a").await;
    (face, job)
}

async fn patch(face: &Face, path: &str, body: &str) -> Answer {
    face.answer(send("PATCH", path, body.to_owned())).await
}

/// Ids in the order of the plan, each with what it needs.
fn needs(job: &Value) -> Vec<(String, Value)> {
    let tasks = job["tasks"].as_array().unwrap();
    tasks.iter().map(|task| (task["id"].as_str().unwrap().into(), task["needs"].clone())).collect()
}

#[tokio::test]
async fn a_running_job_is_edited_and_runs_what_it_has_become() {
    let (face, job) = chain().await;
    let task = r#"{"task": {"id": "x", "kind": "echo", "input": {"n": 12.50}}, "before": "b",
        "reason": "it was forgotten"}"#;
    let inserted = face.post(&format!("{job}/tasks"), task).await.with_status(202);
    let expected =
        [("a", json!([])), ("x", json!(["a"])), ("b", json!(["x"])), ("c", json!(["b"]))];
    assert_eq!(needs(&inserted), expected.map(|(id, needs)| (id.to_owned(), needs)));
    let again = face.post(&format!("{job}/tasks"), task).await.with_status(200);
    assert_eq!(again["seq"], inserted["seq"], "it is there already");

    let edit = r#"{"input": {"$output": "x"}, "title": "B"}"#;
    let edited = patch(&face, &format!("{job}/tasks/b?reason=better"), edit).await.with_status(202);
    assert_eq!(at(&edited, ["/tasks/2/title", "/tasks/2/needs"]), json!(["B", ["x"]]));
    let moved = face.post(&format!("{job}/tasks/b/move"), r#"{"before": "x"}"#).await;
    let problem = moved.problem(422, "invalid_task");
    let expected = json!([{"pointer": "/input", "detail":
        "`b` does not need `x`, directly or through others"}]);
    assert_eq!(problem["errors"], expected, "{problem}");

    face.open_gate();
    let ended = face.ended(&job).await;
    assert_eq!(ended["output"], json!({"n": 12.50}), "{ended}");
    let events = face.get(&format!("{job}/events")).await.json();
    let events = events["items"].as_array().unwrap().clone();
    let of = |kind| events.iter().find(|event| event["type"] == kind).unwrap().clone();
    let inserted = of("TaskInserted");
    assert_eq!(
        at(&inserted, ["/data/task", "/data/after", "/data/spec/id", "/reason"]),
        json!(["x", "a", "x", "it was forgotten"])
    );
    let edited = of("TaskEdited");
    let expected = json!(["b", "B", false, "better"]);
    assert_eq!(at(&edited, ["/data/task", "/data/spec/title", "/data/reset", "/reason"]), expected);
}

#[tokio::test]
async fn a_failed_task_is_mended_and_tried_again() {
    let face = Face::with(Settings::default(), |builder| builder.allow_unknown_kinds(true)).await;
    let job = face.submit(r#"{"id": "a", "kind": "echo"}, {"id": "b", "kind": "nope"}"#).await;
    face.until(&job, "/tasks/1/status", "waiting").await;
    // A kind that is not there can be replaced by one that is.
    let wrong = r#"{"kind": "http", "input": {"url": 1}}"#;
    patch(&face, &format!("{job}/tasks/b"), wrong).await.problem(422, "invalid_task");
    let lacking = r#"{"kind": "echo", "input": {"$output": "a", "pointer": "/x"},
        "on_failure": "pause"}"#;
    patch(&face, &format!("{job}/tasks/b"), lacking).await.with_status(202);
    let failed = face.until(&job, "/status", "paused").await;
    assert_eq!(at(&failed, ["/tasks/1/status", "/tasks/1/kind"]), json!(["failed", "echo"]));
    let mended = r#"{"kind": "noop", "input": null}"#;
    patch(&face, &format!("{job}/tasks/b"), mended).await.with_status(202);
    let again = face.post(&format!("{job}/tasks/b/retry"), r#"{"reason": "mended"}"#).await;
    let again = again.with_status(202);
    assert_eq!(at(&again, ["/status", "/tasks/1/status"]), json!(["paused", "waiting"]));
    face.post(&format!("{job}/resume"), "").await.with_status(202);
    let ended = face.ended(&job).await;
    assert_eq!(at(&ended, ["/status", "/tasks/1/kind"]), json!(["completed", "noop"]));
    let refused = face.post(&format!("{job}/tasks/b/retry"), "").await;
    refused.problem(409, "not_in_this_status");
}

/// Path, body, status, code, place, and words of the problem.
const REFUSED: [(&str, &str, u16, &str, &str, &str); 17] = [
    ("", r#"{"after": "a"}"#, 422, "invalid_body", "", "`task` is missing"),
    ("", r#"{"task": {"id": "x"}}"#, 422, "invalid_task", "/task", "`kind` is missing"),
    ("", r#"{"task": {"id": "x", "kind": "nop"}}"#, 422, "invalid_task", "/task/kind", "noop"),
    ("", r#"{"task": {"id": "b", "kind": "noop"}}"#, 409, "task_exists", "", "b"),
    (
        "",
        r#"{"task": {"id": "x", "kind": "noop"}, "before": "a"}"#,
        409,
        "task_is_settled",
        "",
        "task a, which is running",
    ),
    (
        "",
        r#"{"task": {"id": "x", "kind": "noop", "needs": ["y"]}}"#,
        422,
        "invalid_task",
        "/task/needs/0",
        "no task has the id `y`",
    ),
    (
        "",
        r#"{"task": {"id": "x", "kind": "noop", "needs": ["c"]}, "needed_by": ["b"]}"#,
        409,
        "would_be_a_circle",
        "",
        "needs",
    ),
    (
        "",
        r#"{"task": {"id": "x", "kind": "noop"}, "after": "a", "before": "b"}"#,
        422,
        "invalid_body",
        "/after",
        "two places",
    ),
    (
        "/b/move",
        r#"{"before": "a", "first": true}"#,
        422,
        "invalid_body",
        "/before",
        "`before` and `first` are two places",
    ),
    ("", r#"{"task": {"id": "x", "kind": "noop"}, "after": "y"}"#, 404, "no_such_task", "", "y"),
    (
        "",
        r#"{"task": {"id": "x", "kind": "echo", "input": {"$output": "c"}}, "before": "b"}"#,
        422,
        "invalid_task",
        "/task/input",
        "does not need `c`",
    ),
    (
        "",
        r#"{"task": {"id": "x", "kind": "echo", "input": {"$input": "/n"}}}"#,
        422,
        "invalid_task",
        "/task/input",
        "has nothing at",
    ),
    ("/b/move", "{}", 422, "invalid_body", "", "`after`, `before` or `first`"),
    ("/a/move", r#"{"after": "c"}"#, 409, "task_is_live", "", "while it runs"),
    ("/b/move", r#"{"after": "c"}"#, 409, "would_lose_order", "", "task c"),
    ("/b/retry", "", 409, "nothing_to_retry", "", "pending"),
    ("/y/retry", "", 404, "no_such_task", "", "y"),
];

#[tokio::test]
async fn a_task_can_be_the_first_without_a_name_for_who_was() {
    let face = Face::new().await;
    let plan = r#"{"name": "n", "start": "manual", "tasks": [{"id": "a", "kind": "echo"},
        {"id": "b", "kind": "echo"}]}"#;
    let job = face.post("/api/v1/jobs", plan).await.with_status(202);
    let tasks = format!("/api/v1/jobs/{}/tasks", job["id"].as_str().unwrap());
    let moved = face.post(&format!("{tasks}/b/move"), r#"{"first": true}"#).await.with_status(202);
    let told = |needs: [(&str, Value); 2]| needs.map(|(id, needs)| (id.to_owned(), needs));
    assert_eq!(needs(&moved), told([("b", json!([])), ("a", json!(["b"]))]));
    let task = r#"{"task": {"id": "c", "kind": "echo"}, "first": true}"#;
    let inserted = face.post(&tasks, task).await.with_status(202);
    let ids: Vec<_> = needs(&inserted).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["c", "b", "a"]);
    // As good as nothing said: then it is the last, and nowhere is no place to move to.
    let problem = face.post(&format!("{tasks}/b/move"), r#"{"first": false}"#).await;
    problem.problem(422, "invalid_body");
}

#[tokio::test]
async fn what_is_wrong_with_an_insert_a_move_or_a_retry_is_said_with_its_place() {
    let (face, job) = chain().await;
    let before = face.get(&job).await.json();
    let tasks = format!("{job}/tasks");
    for (path, body, status, code, pointer, words) in REFUSED {
        let problem = face.post(&format!("{tasks}{path}"), body).await;
        let problem = problem.problem(status, code);
        let said = problem["detail"].to_string() + &problem["errors"].to_string();
        assert!(said.contains(words), "{path} {body}: {problem}");
        if !pointer.is_empty() {
            assert_eq!(problem["errors"][0]["pointer"], pointer, "{path} {body}: {problem}");
        }
    }
    assert_eq!(face.get(&job).await.json()["seq"], before["seq"], "nothing has changed");
}

#[tokio::test]
async fn what_is_wrong_with_an_edit_is_said_with_its_place() {
    let (face, job) = chain().await;
    let before = face.get(&job).await.json();
    let tasks = format!("{job}/tasks");
    let table = [
        ("b", "{}", 422, "invalid_task", "nothing"),
        ("b", r#"{"id": "x"}"#, 422, "invalid_task", "keeps its id"),
        ("b", r#"{"timeout": 5}"#, 422, "invalid_task", "5s for 5 seconds"),
        ("b", r#"{"needs": ["c"]}"#, 409, "would_be_a_circle", "needs"),
        ("b", r#"{"kind": "shell", "input": {"script": "true"}}"#, 403, "shell_not_allowed", "b"),
        ("a", r#"{"title": "A"}"#, 409, "task_is_live", "while it runs"),
        ("y", r#"{"title": "Y"}"#, 404, "no_such_task", "y"),
        ("c", r#"{"input": {"$output": "y"}}"#, 422, "invalid_task", "no task has the id `y`"),
    ];
    for (task, body, status, code, words) in table {
        let problem = patch(&face, &format!("{tasks}/{task}"), body).await.problem(status, code);
        let said = problem["detail"].to_string() + &problem["errors"].to_string();
        assert!(said.contains(words), "{task} {body}: {problem}");
    }
    assert_eq!(face.get(&job).await.json()["seq"], before["seq"], "nothing has changed");
    let dry = patch(&face, &format!("{tasks}/b?dry_run=true"), r#"{"title": "B"}"#).await;
    let dry = dry.with_status(200);
    assert_eq!(at(&dry, ["/events/0/type", "/job/tasks/1/title"]), json!(["TaskEdited", "B"]));
    assert_eq!(face.get(&job).await.json()["seq"], before["seq"], "nothing has changed");
}

#[tokio::test]
async fn who_may_not_send_scripts_may_not_edit_them_in() {
    let mut settings = Settings::default();
    settings.allow_shell = true;
    let supervisor = Supervisor::Program(env!("CARGO_BIN_EXE_annals").into());
    let face = Face::with(settings, |builder| builder.supervisor(supervisor)).await;
    let job = face.submit(
        r#"{"id": "a", "kind": "gate"}, {"id": "b", "kind": "shell",
        "input": {"script": "true"}}"#,
    );
    let job = job.await;
    let allowed = patch(&face, &format!("{job}/tasks/b"), r#"{"input": {"script": "id"}}"#).await;
    allowed.with_status(202);
    let closed = face.closed(Settings::default());
    let script = send("PATCH", &format!("{job}/tasks/b"), r#"{"input": {"script": "true"}}"#);
    let problem = crate::face::answer(closed.clone(), script).await;
    let problem = problem.problem(403, "shell_not_allowed");
    assert_eq!(problem["errors"][0]["pointer"], "/input");
    let insert = r#"{"task": {"id": "x", "kind": "shell", "input": {"script": "id"}}}"#;
    let insert = send("POST", &format!("{job}/tasks"), insert);
    let problem = crate::face::answer(closed.clone(), insert).await;
    let problem = problem.problem(403, "shell_not_allowed");
    assert_eq!(problem["errors"][0]["pointer"], "/task/kind");
    // What is no script may be edited.
    let title = send("PATCH", &format!("{job}/tasks/b"), r#"{"title": "B"}"#);
    crate::face::answer(closed, title).await.with_status(202);
    face.answer(ask("POST", &format!("{job}/cancel"))).await;
}
