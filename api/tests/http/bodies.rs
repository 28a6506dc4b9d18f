//! Bodies that are refused: with the code, the place and the words that help.

use annals::http::Settings;

use crate::face::{Face, ask, plan, send, with};

const JOBS: &str = "/api/v1/jobs";

/// A body, and what must be said of it: status, code, the first pointer, words of the detail.
type Case = (&'static str, u16, &'static str, &'static str, &'static str);

const FAULTS: &[Case] = &[
    ("", 400, "bad_body", "", "no body"),
    ("{", 400, "bad_body", "", "line 1 column 1"),
    ("{}{}", 400, "bad_body", "", "trailing characters"),
    ("{\"name\": NaN}", 400, "bad_body", "", "line 1 column 10"),
    ("{\"name\": 01}", 400, "bad_body", "", "line 1 column"),
    (r#"{"name": "a", "name": "b"}"#, 400, "bad_body", "", "\"name\" stands twice"),
    (r#"{"input": {"a": [{"b": 1, "b": 2}]}}"#, 400, "bad_body", "/input/a/0", "twice"),
    (r#"{"input": {"a": "\ud800"}}"#, 400, "bad_body", "/input/a", ""),
    ("7", 422, "invalid_plan", "", "must be an object"),
    (r#"{"tasks": []}"#, 422, "invalid_plan", "", "`name` is missing"),
    (r#"{"name": "a", "taks": []}"#, 422, "invalid_plan", "/taks", "did you mean `tasks`?"),
    (
        r#"{"name": "a", "tasks": [{"id": "b c", "kind": "noop"}]}"#,
        422,
        "invalid_plan",
        "/tasks/0/id",
        "is not a task id",
    ),
    (
        r#"{"name": "a", "tasks": [{"id": "a", "kind": "nop"}]}"#,
        422,
        "invalid_plan",
        "/tasks/0/kind",
        "did you mean `noop`?",
    ),
    (
        r#"{"name": "a", "tasks": [{"id": "a", "kind": "sleep", "input": {"for": 1}}]}"#,
        422,
        "invalid_plan",
        "/tasks/0/input/for",
        "as text",
    ),
    (
        r#"{"name": "a", "tasks": [{"id": "a", "kind": "shell"}]}"#,
        403,
        "shell_not_allowed",
        "/tasks/0/kind",
        "--allow-shell",
    ),
    (r#"{"workflow": "greed"}"#, 422, "unknown_workflow", "", "did you mean `greet`?"),
    (r#"{"workflow": null}"#, 422, "invalid_body", "/workflow", "must not be null"),
    (r#"{"workflow": 7}"#, 422, "invalid_body", "/workflow", "is a string"),
    (r#"{"workflow": "greet", "tasks": []}"#, 422, "invalid_body", "/tasks", "is no field"),
    (
        r#"{"workflow": "greet", "imput": ""}"#,
        422,
        "invalid_body",
        "/imput",
        "did you mean `input`?",
    ),
    (r#"{"workflow": "greet", "input": 7}"#, 422, "invalid_plan", "/input", "does not fit"),
    (
        r#"{"workflow": "greet", "input": "a", "start": "later"}"#,
        422,
        "invalid_plan",
        "/start",
        "now, manual",
    ),
];

#[tokio::test]
async fn each_fault_of_a_body_is_told_with_its_place() {
    let face = Face::new().await;
    for (body, status, code, pointer, words) in FAULTS {
        let problem = face.post(JOBS, *body).await.problem(*status, code);
        let detail = problem["detail"].as_str().unwrap();
        let errors = problem["errors"].to_string();
        assert!(detail.contains(words) || errors.contains(words), "{body}: {problem}");
        if !pointer.is_empty() {
            assert_eq!(problem["errors"][0]["pointer"], *pointer, "{body}");
        }
    }
    assert_eq!(face.engine.jobs(None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused_with_their_place() {
    let face = Face::new().await;
    let problem = face.post(JOBS, &b"{\"name\": \"\xff\"}"[..]).await.problem(400, "bad_body");
    assert!(problem["detail"].as_str().unwrap().contains("byte 10 is not UTF-8"), "{problem}");
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
    let face = Face::new().await;
    let text = plan(r#"{"id": "a", "kind": "noop"}"#);
    let sent = |of| with(send("POST", JOBS, text.clone()), "content-type", of);
    let fine = ["application/json; charset=utf-8", "Application/JSON", "application/plan+json"];
    for name in fine {
        assert_eq!(face.answer(sent(name)).await.status, 202, "{name}");
    }
    for name in ["text/plain", "application/x-www-form-urlencoded", "application/yaml", ""] {
        let problem = face.answer(sent(name)).await.problem(415, "unsupported_media_type");
        assert!(problem["detail"].as_str().unwrap().contains("application/json"), "{problem}");
    }
    let unsaid = ask("POST", JOBS).map(|_| text.clone().into());
    face.answer(unsaid).await.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_unread() {
    let mut settings = Settings::default();
    settings.body_bytes = 200;
    let face = Face::with(settings, |builder| builder).await;
    let text = plan(r#"{"id": "a", "kind": "noop"}"#);
    let padded = |to: usize| format!("{text}{}", " ".repeat(to - text.len()));
    assert_eq!(face.post(JOBS, padded(200)).await.status, 202);
    let problem = face.post(JOBS, padded(201)).await.problem(413, "too_large");
    assert!(problem["detail"].as_str().unwrap().contains("200"), "{problem}");
    let batch = format!("{}{}", "x".repeat(150), "x".repeat(100));
    face.post("/api/v1/jobs/batch", batch).await.problem(413, "too_large");
}

#[tokio::test]
async fn large_plans_are_read_aside_and_limits_are_named() {
    let face = Face::new().await;
    let input = "x".repeat(100 << 10);
    let large = plan(&format!(r#"{{"id": "a", "kind": "echo", "input": "{input}"}}"#));
    assert_eq!(face.post(JOBS, large.clone()).await.status, 202);
    let twice = large.replacen("\"name\"", "\"name\": 1, \"name\"", 1);
    face.post(JOBS, twice).await.problem(400, "bad_body");
    let tasks: Vec<String> =
        (0..10_001).map(|n| format!(r#"{{"id":"t{n}","kind":"noop"}}"#)).collect();
    let problem = face.post(JOBS, plan(&tasks.join(","))).await.problem(422, "invalid_plan");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("10000"), "{problem}");
}

#[tokio::test]
async fn headers_and_queries_are_checked_before_anything_happens() {
    let face = Face::new().await;
    let text = plan(r#"{"id": "a", "kind": "noop"}"#);
    let sent = |name, value: &str| with(send("POST", JOBS, text.clone()), name, value);
    let long = "x".repeat(256);
    let headers = [
        ("x-annals-actor", "engine"),
        ("x-annals-actor", "task:a#1"),
        ("x-annals-actor", ""),
        ("x-annals-actor", &long),
        ("idempotency-key", ""),
        ("idempotency-key", "\"open"),
        ("idempotency-key", &long),
    ];
    for (name, value) in headers {
        face.answer(sent(name, value)).await.problem(400, "bad_header");
    }
    let queries = [
        ("dry_run=yes", "true or false"),
        ("dry_run=true&dry_run=true", "only once"),
        ("dryrun=true", "did you mean `dry_run`?"),
        ("wait=30", "has no unit"),
        ("after=3", "it needs `wait`"),
        ("wait=1s&after=-1", "a whole number"),
    ];
    for (query, words) in queries {
        let problem = face.post(&format!("{JOBS}?{query}"), text.clone()).await;
        let problem = problem.problem(400, "bad_query");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    assert_eq!(face.engine.jobs(None, 1).await.unwrap(), []);
}
