//! The engine over HTTP: jobs are submitted, watched and steered under `/api/v1`.
//!
//! [`router`] gives it as an axum router, to be served by itself or under a path of another
//! application. Handlers are thin: they read a request into types, ask the engine, and answer with
//! the shapes of [`dto`](crate::dto). What a request cannot have is a [`Problem`], whoever finds
//! it: the router, an extractor, a handler or the engine.
//!
//! | file | what it has |
//! | --- | --- |
//! | `state` | what handlers share: the phase of the engine, the settings, the end |
//! | `problem` | errors as RFC 9457 has them, each with a stable code |
//! | `edge` | what happens to every request and answer: ids, panics, problems, headers |
//! | `extract`, `query`, `body`, `fields` | from requests to types |
//! | `submit`, `batch`, `plans` | submissions: a plan, or a workflow that makes one |
//! | `commands`, `orders`, `signals`, `bulk` | steering jobs, one or many |
//! | `edits`, `forks` | edits of plans, and new jobs that go on from others |
//! | `jobs`, `wait`, `etag` | reading a job: at once, when it has changed, or not twice |
//! | `idempotency` | requests that are repeated with their key |
//! | `list`, `events`, `logs` | which jobs there are, what happens to them and what they write |
//! | `sse`, `shared` | streams of server-sent events, and what they share |
//! | `observe`, `metrics` | what is noted of each request, and the numbers of it all |
//! | `health` | whether the server lives, and whether it is ready |
//! | `kinds` | what is registered, with schemas |
//! | `openapi` | the description of it all, made of the code |
//!
//! Nothing here listens or opens a store: that is the matter of whoever serves the router.

mod answer;
mod batch;
mod body;
mod bulk;
mod commands;
mod edge;
mod edits;
mod etag;
mod events;
mod export;
mod extract;
mod fields;
mod forks;
mod health;
mod idempotency;
mod jobs;
mod kinds;
mod list;
mod logs;
mod metrics;
mod observe;
mod openapi;
mod orders;
mod plans;
mod problem;
mod purge;
mod query;
mod shared;
mod signals;
mod sse;
mod state;
mod submit;
mod wait;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

pub(crate) use body::TooSlow;
pub(crate) use forks::{body_of as body_of_edit, read_edits};
pub(crate) use idempotency::key_of;
pub use openapi::document;
pub use problem::{Code, FieldError, Problem, ProblemBody};
pub(crate) use purge::left_of;
pub use state::{AppState, DiskWatch, Phase, Settings, Starting};
pub(crate) use submit::preview;

/// Where the API lies.
pub const BASE: &str = "/api/v1";

/// Everything that is served, with what happens to each request.
pub fn router(state: AppState) -> Router {
    let (routes, _) = routes().split_for_parts();
    observe::around(edge::around(routes.with_state(state.clone())), state)
}

/// All routes, with their description.
fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api()).merge(outside())
}

/// The routes below [`BASE`].
fn api() -> OpenApiRouter<AppState> {
    jobs::routes()
        .merge(submit::routes())
        .merge(batch::routes())
        .merge(bulk::routes())
        .merge(commands::routes())
        .merge(purge::routes())
        .merge(signals::routes())
        .merge(edits::routes())
        .merge(forks::routes())
        .merge(list::routes())
        .merge(events::routes())
        .merge(export::routes())
        .merge(logs::routes())
        .merge(kinds::routes())
        .merge(openapi::routes())
}

/// The routes beside it, for who runs the server.
fn outside() -> OpenApiRouter<AppState> {
    health::routes().merge(metrics::routes())
}
