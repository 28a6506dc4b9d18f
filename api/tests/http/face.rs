//! A face to ask: an engine in a folder of its own, with the router before it.

use annals::http::{AppState, Settings, router};
use annals_engine::{Builder, Engine};
use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

/// An engine with its router.
pub(crate) struct Face {
    pub(crate) engine: Engine,
    pub(crate) state: AppState,
    router: Router,
    _folder: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// A request without a body.
pub(crate) fn ask(method: &str, path: &str) -> Request<Body> {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    Request::builder().method(method).uri(path).body(Body::empty()).expect("a request")
}

/// A request with a body of JSON.
#[allow(dead_code, reason = "the routes that take bodies come next")]
pub(crate) fn send(method: &str, path: &str, json: &str) -> Request<Body> {
    let mut request = ask(method, path).map(|_| Body::from(json.to_owned()));
    let json = "application/json".parse().expect("a header");
    request.headers_mut().insert(CONTENT_TYPE, json);
    request
}

/// The same request with a header.
pub(crate) fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().expect("a header"));
    request
}

/// Gives a request to a router.
pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.expect("routers are infallible");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    Answer { status: parts.status, headers: parts.headers, text }
}

impl Face {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default(), |builder| builder).await
    }

    pub(crate) async fn with(settings: Settings, build: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = build(Engine::open(folder.path())).start().await.expect("it starts");
        let state = AppState::ready(engine.clone(), settings);
        let router = router(state.clone());
        Self { engine, state, router, _folder: folder }
    }

    pub(crate) async fn answer(&self, request: Request<Body>) -> Answer {
        answer(self.router.clone(), request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.answer(ask("GET", path)).await
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    /// Makes sure that it is a problem with this code, whole as RFC 9457 has it, and gives it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
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
