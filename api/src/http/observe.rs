//! What is noted of each request: a line in the log, and numbers.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tracing::Level;

use super::edge::X_REQUEST_ID;
use super::extract::{ANONYMOUS, X_ANNALS_ACTOR};
use super::state::AppState;

/// The target of the lines.
const TARGET: &str = "annals::access";
/// A longer name of an actor is no name, and not logged.
const ACTOR_MAX: usize = 512;
/// What is asked by machines every few seconds is not worth a line.
const PROBES: [&str; 4] = ["/livez", "/readyz", "/healthz", "/metrics"];

/// Notes each request that comes to these routes.
pub(super) fn around(routes: Router, state: AppState) -> Router {
    routes.layer(from_fn_with_state(state, note))
}

async fn note(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let in_flight = state.requests().begin();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route: Arc<str> = route.map_or_else(Arc::default, |path| path.as_str().into());
    let actor = request.headers().get(X_ANNALS_ACTOR).cloned();
    let response = next.run(request).await;
    drop(in_flight);
    let (status, took) = (response.status(), begun.elapsed());
    state.requests().count(&route, &method, status, took);
    let line = Line {
        method: &method,
        route: &route,
        status,
        millis: took.as_secs_f64() * 1e3,
        actor: actor.as_ref(),
        headers: response.headers(),
    };
    line.log();
    response
}

/// A line of the log. It holds nothing of a body, of a query, or of a path but its pattern.
struct Line<'a> {
    method: &'a Method,
    route: &'a str,
    status: StatusCode,
    millis: f64,
    actor: Option<&'a HeaderValue>,
    headers: &'a HeaderMap,
}

macro_rules! log_at {
    ($level:expr, $line:expr) => {{
        let line: &Line<'_> = $line;
        tracing::event!(
            target: TARGET, $level,
            method = line.method.as_str(),
            route = line.route,
            status = line.status.as_u16(),
            duration_ms = line.millis,
            request_id = line.request_id(),
            actor = line.actor(),
        );
    }};
}

impl Line<'_> {
    fn log(&self) {
        if PROBES.iter().any(|probe| self.route.ends_with(probe)) {
            log_at!(Level::DEBUG, self);
        } else if self.status.is_server_error() {
            log_at!(Level::WARN, self);
        } else {
            log_at!(Level::INFO, self);
        }
    }

    fn request_id(&self) -> &str {
        self.headers.get(X_REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    /// Who asks, or says so: a name that is refused is not logged.
    fn actor(&self) -> &str {
        let name = self.actor.map_or(ANONYMOUS.as_bytes(), HeaderValue::as_bytes);
        let fits = name.len() <= ACTOR_MAX;
        std::str::from_utf8(name).ok().filter(|_| fits).unwrap_or_default()
    }
}
