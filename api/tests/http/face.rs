//! A face to ask: an engine in a folder of its own, with the router before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::http::{AppState, Settings, router};
use annals::prelude::*;
use annals_engine::Builder;
use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt;

/// Gives back what it is given.
const ECHO: TaskKind<Box<RawValue>, Box<RawValue>> = TaskKind::new("echo");
/// Waits until the test opens the gate, or until it is told to stop.
const GATE: TaskKind<Box<RawValue>, &'static str> = TaskKind::new("gate");
/// Waits until the test opens the gate, whatever it is told.
const STUBBORN: TaskKind<Box<RawValue>, &'static str> = TaskKind::new("stubborn");
const GREET: Workflow<String, String> = Workflow::new("greet");

fn greet(flow: &Flow, name: Wire<String>) -> Wire<String> {
    const SAY: TaskKind<String, String> = TaskKind::new("echo");
    flow.task(SAY, name).wire()
}

/// An engine with its router.
pub(crate) struct Face {
    pub(crate) engine: Engine,
    pub(crate) state: AppState,
    pub(crate) starts: Arc<AtomicUsize>,
    gate: Arc<watch::Sender<bool>>,
    router: Router,
    folder: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// What `text` was made of; not empty either where it is no text.
    pub(crate) bytes: Bytes,
}

/// A request without a body.
pub(crate) fn ask(method: &str, path: &str) -> Request<Body> {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    Request::builder().method(method).uri(path).body(Body::empty()).expect("a request")
}

/// A request with a body of JSON.
pub(crate) fn send(method: &str, path: &str, json: impl Into<Body>) -> Request<Body> {
    with(ask(method, path).map(|_| json.into()), CONTENT_TYPE.as_str(), "application/json")
}

/// The same request with a header.
pub(crate) fn with(mut request: Request<Body>, name: &str, value: &str) -> Request<Body> {
    let name: axum::http::HeaderName = name.parse().expect("a name");
    request.headers_mut().insert(name, value.parse().expect("a header"));
    request
}

/// Gives a request to a router.
pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.expect("routers are infallible");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_default();
    Answer { status: parts.status, headers: parts.headers, text, bytes }
}

async fn open(gate: &watch::Sender<bool>) -> &'static str {
    gate.subscribe().wait_for(|open| *open).await.expect("the sender is here");
    "opened"
}

impl Face {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default(), |builder| builder).await
    }

    pub(crate) async fn with(settings: Settings, build: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (gate, starts) = (Arc::new(watch::Sender::new(false)), Arc::new(AtomicUsize::new(0)));
        let (gate_of, stubborn_of) = (Arc::clone(&gate), Arc::clone(&gate));
        let begun = Arc::clone(&starts);
        let builder = Engine::open(folder.path())
            .task(ECHO, async |_cx: TaskContext, input: Box<RawValue>| Ok(input))
            .task(GATE, move |cx: TaskContext, _: Box<RawValue>| {
                let gate = Arc::clone(&gate_of);
                begun.fetch_add(1, Ordering::SeqCst);
                async move { cx.or_cancelled(open(&gate)).await }
            })
            .task(STUBBORN, move |_: TaskContext, _: Box<RawValue>| {
                let gate = Arc::clone(&stubborn_of);
                async move { Ok(open(&gate).await) }
            })
            .workflow(GREET, greet);
        let engine = build(builder).start().await.expect("it starts");
        let state = AppState::ready(engine.clone(), settings);
        let router = router(state.clone());
        Self { engine, state, starts, gate, router, folder }
    }

    /// Where the store is.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Opens the gate for good.
    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub(crate) async fn answer(&self, request: Request<Body>) -> Answer {
        answer(self.router.clone(), request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.answer(ask("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, json: impl Into<Body>) -> Answer {
        self.answer(send("POST", path, json)).await
    }

    /// Submits a plan with these tasks, and gives the path of its job.
    pub(crate) async fn submit(&self, tasks: &str) -> String {
        let answer = self.post("/api/v1/jobs", plan(tasks)).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.header("location").expect("a location").to_owned()
    }

    /// The job once it has ended.
    pub(crate) async fn ended(&self, job: &str) -> Json {
        self.waited(job, "wait=5m", "finished_at").await
    }

    /// The job once it says this at a place.
    pub(crate) async fn until(&self, job: &str, place: &str, word: &str) -> Json {
        let mut seq = 0;
        loop {
            let shown = self.get(&format!("{job}?wait=5m&after={seq}")).await.json();
            if shown.pointer(place).is_some_and(|found| found == word) {
                return shown;
            }
            seq = shown["seq"].as_u64().expect("it has a seq");
        }
    }

    /// The same engine with other settings.
    pub(crate) fn closed(&self, settings: Settings) -> Router {
        router(AppState::ready(self.engine.clone(), settings))
    }

    /// The job once a task of it runs.
    pub(crate) async fn running(&self, job: &str, task: &str) -> Json {
        let mut seq = 0;
        loop {
            let now = self.get(&format!("{job}?wait=5m&after={seq}")).await.json();
            let current = now["progress"]["current"].as_array().expect("a list");
            if current.iter().any(|running| running == task) {
                return now;
            }
            seq = now["seq"].as_u64().expect("a number");
        }
    }

    async fn waited(&self, job: &str, how: &str, field: &str) -> Json {
        let answer = self.get(&format!("{job}?{how}")).await;
        let job = answer.json();
        assert!(job.get(field).is_some(), "{}", answer.text);
        job
    }
}

/// The text of a file, once a whole line is in it.
pub(crate) async fn text_of(file: &std::path::Path) -> String {
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    }
}

/// What stands at some places of an answer; null where nothing does.
pub(crate) fn at<const N: usize>(json: &Json, places: [&str; N]) -> Json {
    places.map(|place| json.pointer(place).cloned().unwrap_or_default()).to_vec().into()
}

/// A plan with these tasks.
pub(crate) fn plan(tasks: &str) -> String {
    format!(r#"{{"name": "p", "tasks": [{tasks}]}}"#)
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    /// Makes sure that it has this status, and gives its JSON.
    #[track_caller]
    pub(crate) fn with_status(&self, status: u16) -> Json {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    /// Makes sure that it is a problem with this code, whole as RFC 9457 has it, and gives it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Json {
        let found = (self.status.as_u16(), self.header("content-type"));
        assert_eq!(found, (status, Some("application/problem+json")), "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(problem["type"].as_str().is_some_and(|kind| kind.ends_with(code)), "{problem}");
        for field in ["title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{problem}");
        problem
    }
}
