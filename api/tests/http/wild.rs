//! Requests put together at random of parts that are right, wrong and strange: none is answered
//! with a failure of the server, and every refusal is a problem.

use std::time::Duration;

use annals::http::Settings;
use axum::body::Body;
use axum::http::Request;

use crate::face::{Face, plan};

const ROUNDS: usize = 3_000;

const METHODS: &[&str] = &["GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS", "BREW"];
const PATHS: &[&str] = &[
    "",
    "/",
    "/jobs",
    "/jobs/",
    "/jobs/batch",
    "/jobs/bulk",
    "/openapi.json",
    "/jobs/{job}",
    "/jobs/{job}/cancel",
    "/jobs/{job}/pause",
    "/jobs/{job}/resume",
    "/jobs/{job}/execute",
    "/jobs/{job}/skip",
    "/jobs/{job}/tasks",
    "/jobs/{job}/tasks/a",
    "/jobs/{job}/tasks/%00",
    "/jobs/{job}/tasks/..",
    "/jobs/{job}/progress",
    "/jobs/{job}/explain",
    "/jobs/{job}/%2e%2e",
    "/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968/cancel",
    "/jobs/%ff/tasks/%fe",
    "/jobs//tasks//",
    "/jobs/{job}/tasks/a%2Fb",
    "/%6aobs",
    "/jobs/urn:uuid:{job}",
    "/jobs/{{job}}",
    "/jobs/{job}/events",
    "/jobs/{job}/tasks/a/log",
    "/events",
    "/kinds",
    "/workflows",
];
const QUERIES: &[&str] = &[
    "",
    "?",
    "?dry_run=true",
    "?dry_run",
    "?dry_run=%ff",
    "?wait=0s",
    "?wait=1ms&after=0",
    "?after=18446744073709551616",
    "?cascade=true",
    "?reason=%00",
    "?reason=a&reason=b",
    "?&&=&",
    "?expected_seq=1",
    "?wait=P1W",
    "?at=1",
    "?limit=0",
    "?cursor=AAAA",
    "?%",
    "?a=%zz",
    "?limit=5&status=running&status=none",
    "?label=a:b&label=c",
    "?created_after=2026-01-01T00:00:00Z",
    "?tail=-1",
    "?attempt=0",
    "?attempt=4294967296&stream=stdin",
    "?text=%F0%9F%92%A9",
];
const BODIES: &[&[u8]] = &[
    b"",
    b"{}",
    b"[]",
    b"null",
    b"7",
    b"\"text\"",
    b"{\"jobs\": []}",
    b"{\"jobs\": [7, null]}",
    b"{\"reason\": \"a\"}",
    b"{\"mode\": \"interrupt\"}",
    b"{\"mode\": \"now\"}",
    b"\xff\xfe",
    b"{\"task\": \"a\", \"output\": null}",
    b"{\"task\": \"a\", \"output\": 1e999}",
    b"{\"a\": }",
    b"{\"expected_seq\": 1}",
    b"{\"expected_seq\": -1}",
    b"{\"paused\": true}",
    b"\xef\xbb\xbf{}",
    b"{\"workflow\": \"greet\", \"input\": \"\"}",
    b"{\"workflow\": {}}",
    b"{\"\": \"\\u0000\"}",
    b"{\"name\": \"p\", \"tasks\": [{\"id\": \"a\", \"kind\": \"noop\"}]}",
    b"{\"tasks\": {}}",
    b"{\"name\": \"\\ud83d\", \"tasks\": [[]]}",
    b"{\"labels\": {\"a\": 1}, \"tasks\": [null]}",
];
const HEADERS: &[(&str, &[u8])] = &[
    ("content-type", b"application/json"),
    ("content-type", b"text/plain"),
    ("content-type", b"\xff"),
    ("if-match", b"*"),
    ("if-match", b"\"1.2.3\""),
    ("if-match", b","),
    ("if-none-match", b"*"),
    ("if-none-match", b"\xff"),
    ("idempotency-key", b"k"),
    ("idempotency-key", b"\"k\""),
    ("idempotency-key", b"\xff"),
    ("x-annals-actor", b"ada"),
    ("x-annals-actor", b"\xff"),
    ("x-annals-actor", b"engine"),
    ("x-request-id", b"\xff"),
    ("accept-encoding", b"gzip"),
    ("accept-encoding", b"\xff"),
    ("content-length", b"7"),
    ("last-event-id", b"-1"),
    ("prefer", b"wait=1"),
];

fn pick<'a, T: ?Sized>(random: &mut fastrand::Rng, all: &[&'a T]) -> &'a T {
    all[random.usize(..all.len())]
}

fn request(random: &mut fastrand::Rng, job: &str) -> Request<Body> {
    let path = pick(random, PATHS).replace("{{job}}", "%7B{job}%7D").replace("{job}", job);
    let base = if random.u8(..20) == 0 { "" } else { "/api/v1" };
    let uri = format!("{base}{path}{}", pick(random, QUERIES));
    let uri = if uri.starts_with('/') { uri } else { format!("/{uri}") };
    let mut request = Request::builder().method(pick(random, METHODS)).uri(uri);
    let is_json = random.bool();
    if is_json {
        request = request.header("content-type", "application/json");
    }
    for _ in 0..random.usize(..4) {
        let (name, value) = HEADERS[random.usize(..HEADERS.len())];
        request = request.header(name, value);
    }
    request.body(Body::from(pick(random, BODIES).to_vec())).expect("a request")
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_is_answered_in_good_order() {
    let mut settings = Settings::default();
    settings.wait_max = Duration::from_millis(1);
    let face = Face::with(settings, |builder| builder).await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut job = String::new();
    for round in 0..ROUNDS {
        if round % 50 == 0 {
            let path = face.submit(r#"{"id": "a", "kind": "gate"}"#).await;
            path.rsplit('/').next().expect("an id").clone_into(&mut job);
        }
        let request = request(&mut random, &job);
        let shown = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let is_head = request.method() == "HEAD";
        let answer = face.answer(request).await;
        let status = answer.status.as_u16();
        assert!(status < 500, "seed {seed}: {shown}: {status} {}", answer.text);
        if status >= 400 && !is_head {
            let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
            assert!(!code.is_empty(), "seed {seed}: {shown}: {}", answer.text);
            answer.problem(status, &code);
        }
    }
    // It is well after all that.
    let last = face.post("/api/v1/jobs", plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    assert_eq!(last.status, 202, "{}", last.text);
}
