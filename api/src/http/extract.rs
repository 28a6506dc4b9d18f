//! Extractors: what handlers take from the head of a request. Each rejects with a [`Problem`].

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use annals_engine::job::Origin;
use annals_engine::{Engine, JobHandle};
use annals_tasks_sdk::{BadName, JobId, SignalName, TaskId};
use axum::extract::{FromRequestParts, Path};
use axum::http::HeaderName;
use axum::http::request::Parts;

use super::edge::RequestId;
use super::problem::{Code, Problem};
use super::state::AppState;

/// Who asks, while there are no tokens.
pub(super) const X_ANNALS_ACTOR: HeaderName = HeaderName::from_static("x-annals-actor");
/// Who asks without a name.
pub(super) const ANONYMOUS: &str = "anonymous";
/// The longest name of an actor, in characters.
const ACTOR_MAX: usize = 128;

/// A job's id, the segment `{id}` of the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobPath(pub(super) JobId);

/// A job's id and the id of a task, the segments `{id}` and `{task}` of the path.
#[derive(Debug, Clone)]
pub(super) struct TaskPath(pub(super) JobId, pub(super) TaskId);

/// A job's id and the name of a signal, the segments `{id}` and `{name}` of the path.
#[derive(Debug, Clone)]
pub(super) struct SignalPath(pub(super) JobId, pub(super) SignalName);

/// The running engine; 503 while there is none.
pub(super) struct Running(pub(super) Engine);

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// The name that events will carry.
    pub(super) actor: Arc<str>,
    /// The id of the request.
    pub(super) request_id: Arc<str>,
}

impl Caller {
    /// The origin of what the caller asks for.
    pub(super) fn origin(&self, reason: Option<Arc<str>>) -> Origin {
        let (actor, request_id) = (Arc::clone(&self.actor), Arc::clone(&self.request_id));
        Origin { actor: Some(actor), request_id: Some(request_id), reason }
    }
}

impl Running {
    /// A handle on a job, which may or may not exist.
    pub(super) fn job(&self, job: JobId) -> JobHandle {
        self.0.job(job)
    }
}

impl FromRequestParts<AppState> for Running {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        state.engine().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        segment(&segments, "id", JobId::from_str).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TaskPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        let job = segment(&segments, "id", JobId::from_str)?;
        Ok(Self(job, segment(&segments, "task", TaskId::known)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignalPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        let job = segment(&segments, "id", JobId::from_str)?;
        Ok(Self(job, segment(&segments, "name", SignalName::new)?))
    }
}

type Segments = HashMap<String, String>;

async fn segments<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Segments, Problem> {
    let segments = Path::<Segments>::from_request_parts(parts, state).await;
    // What is not UTF-8 once its %-escapes are decoded is no name of anything.
    segments.map(|Path(segments)| segments).map_err(|rejection| {
        Problem::new(Code::BAD_ID, format!("the path cannot be read: {}", rejection.body_text()))
    })
}

fn segment<T>(
    segments: &Segments,
    name: &str,
    parse: impl Fn(&str) -> Result<T, BadName>,
) -> Result<T, Problem> {
    let text = segments.get(name).map_or("", String::as_str);
    parse(text).map_err(|bad| {
        let name: String = bad.name.chars().take(ACTOR_MAX).collect();
        Problem::new(Code::BAD_ID, BadName { name, ..bad }.to_string())
    })
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let request_id = parts.extensions.get::<RequestId>().map(|id| Arc::clone(&id.0));
        let actor = match parts.headers.get(X_ANNALS_ACTOR) {
            Some(header) => actor(header.as_bytes())?,
            None => ANONYMOUS.into(),
        };
        Ok(Self { actor, request_id: request_id.unwrap_or_default() })
    }
}

/// A name that a person may go by. The engine's own names are not among them.
fn actor(header: &[u8]) -> Result<Arc<str>, Problem> {
    let bad = |why: &str| Problem::new(Code::BAD_HEADER, format!("X-Annals-Actor {why}"));
    let name = std::str::from_utf8(header).map_err(|_| bad("must be UTF-8"))?;
    let length = name.chars().count();
    if !(1..=ACTOR_MAX).contains(&length) || name.chars().any(char::is_control) {
        return Err(bad("must have 1 to 128 characters, none of them a control character"));
    }
    if name == Origin::ENGINE.name() || name.starts_with("task:") {
        return Err(bad("must not be `engine` or begin with `task:`: the engine goes by these"));
    }
    Ok(name.into())
}
