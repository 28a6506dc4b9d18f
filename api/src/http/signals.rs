//! Signals: what somebody tells a job that a task of it waits for.

use annals_engine::Ask;
use annals_engine::job::Command;
use annals_tasks_sdk::Payload;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::JsonBody;
use super::commands::carry_out;
use super::etag::IfMatch;
use super::extract::{Caller, Running, SignalPath};
use super::idempotency::Key;
use super::orders::Why;
use super::problem::Problem;
use super::query::{Asked, FromQuery, Parameters};
use super::state::AppState;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(signal))
}

struct SignalQuery {
    dry_run: bool,
    why: Why,
}

impl FromQuery for SignalQuery {
    const KNOWN: &'static [&'static str] = &["dry_run", "reason", "expected_seq"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let why = Why::of_query(parameters)?;
        Ok(Self { dry_run: parameters.flag("dry_run")?, why })
    }
}

/// Tell a job something that a task of it waits for, or will.
///
/// The whole body is what is told; without one that is `null`. It goes to the first task in the
/// plan that waits for a signal of this name, and is kept until one does: 1,000 at most are kept
/// of a job, and one more is refused with 429. With an `Idempotency-Key` it comes once, however
/// often it is sent, as long as the job is there.
#[utoipa::path(post, path = "/jobs/{id}/signals/{name}", operation_id = "signalJob",
    tag = "commands", request_body = Option<serde_json::Value>,
    params(
        ("name" = String, Path, description = "The signal's name"),
        ("reason" = Option<String>, Query, description = "Why, for the history"),
        ("expected_seq" = Option<u64>, Query,
            description = "Refuse the command if the job's seq is another"),
    ))]
async fn signal(
    SignalPath(job, name): SignalPath,
    Asked(query): Asked<SignalQuery>,
    caller: Caller,
    key: Key,
    if_match: IfMatch,
    Running(engine): Running,
    body: JsonBody,
) -> Result<Response, Problem> {
    let SignalQuery { dry_run, why } = query;
    let ask = Ask {
        origin: caller.origin(why.reason),
        expected_seq: why.expected_seq,
        expected_revision: if_match.0,
        dry_run,
        key: key.of(&format!("/jobs/{job}/signals/{name}"), &body.raw),
    };
    let payload = body.json.unwrap_or(Payload::NULL);
    carry_out(&engine, job, Command::Signal { name, payload }, ask).await
}
