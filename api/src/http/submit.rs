//! Submitting a job.

use std::sync::Arc;

use annals_engine::job::{self, Context, LossRule, Recorded, Submitted, begin};
use annals_engine::runtime::{Clock, Snapshot, SystemClock};
use annals_engine::{Engine, JobHandle, Submission};
use annals_tasks_sdk::JobId;
use axum::extract::{OriginalUri, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{json, snapshot};
use super::body::JsonBody;
use super::extract::{Caller, Running};
use super::idempotency::{Key, replayed};
use super::plans::Order;
use super::problem::{Code, Problem};
use super::query::{Asked, FromQuery, Parameters};
use super::state::AppState;
use super::wait::Wait;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(submit))
}

struct Query {
    dry_run: bool,
    wait: Wait,
}

impl FromQuery for Query {
    const KNOWN: &'static [&'static str] = &["dry_run", "wait", "after"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        Ok(Self { dry_run: parameters.flag("dry_run")?, wait: Wait::read(parameters)? })
    }
}

/// Submit a job.
///
/// The job is durable when the answer comes. It starts at once unless its plan says
/// `"start": "manual"`.
#[utoipa::path(post, path = "/jobs", operation_id = "submitJob", tag = "jobs",
    params(
        ("dry_run" = Option<bool>, Query, description = "Check the plan, and submit nothing"),
        ("wait" = Option<String>, Query, description = "Wait for the job's end, so long at most"),
        ("after" = Option<u64>, Query, description = "Wait for a greater seq, not for the end"),
    ),
    request_body = dto::SubmitBody,
    responses(
        (status = 200, description = "What a dry run found", body = dto::DryRun),
        (status = 202, description = "Accepted", body = dto::Job, headers(
            ("Location" = String, description = "The path of the job"),
            ("ETag" = String, description = "`\"<revision>.<seq>.<n>\"`"),
            ("Idempotency-Replayed" = bool, description = "`true` where the key was known"),
        )),
    ))]
async fn submit(
    Asked(Query { dry_run, wait }): Asked<Query>,
    caller: Caller,
    key: Key,
    engine: Running,
    OriginalUri(uri): OriginalUri,
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let plan = body.json.ok_or_else(nothing_sent)?;
    let order = Order::read(&engine.0, state.settings(), plan).await?;
    if dry_run {
        return would_become(&engine.0, order.by(caller.origin(None)));
    }
    let key = key.of("/jobs", &body.raw);
    let submission = Submission { key, ..order.by(caller.origin(None)) };
    let accepted = engine.0.accept(submission).await?;
    let shown = waited(wait, &accepted.job, accepted.snapshot, &state).await?;
    let mut response = snapshot(StatusCode::ACCEPTED, &shown);
    if let Some(location) = location(&uri, accepted.job.id()) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(if accepted.replayed { replayed(response) } else { response })
}

fn nothing_sent() -> Problem {
    Problem::new(Code::BAD_BODY, "there is no body: send a plan as JSON")
}

/// Below the path of the request, whatever stands before that.
fn location(uri: &Uri, job: JobId) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{}/{job}", uri.path().trim_end_matches('/'))).ok()
}

async fn waited(
    wait: Wait,
    job: &JobHandle,
    accepted: Snapshot,
    state: &AppState,
) -> Result<Snapshot, Problem> {
    if wait.longest.is_none() {
        return Ok(accepted);
    }
    wait.on(job, state).await?;
    Ok(job.snapshot().await?)
}

/// What a submission would become. The job has the nil id: there is none.
fn would_become(engine: &Engine, submission: Submission) -> Result<Response, Problem> {
    let (events, snapshot) = preview(engine, submission)?;
    Ok(json(dto::DryRun::of(&events, &snapshot).to_json()))
}

/// The events that a submission would make, and the job that they make.
pub(crate) fn preview(
    engine: &Engine,
    submission: Submission,
) -> Result<(Vec<Recorded>, Snapshot), Problem> {
    let Submission { plan, workflow, source, origin, .. } = submission;
    engine.check(&plan)?;
    let events = job::submit(Submitted { plan, workflow, source }, engine.limits())?;
    let (now, losses) = (SystemClock.now(), LossRule::default());
    let instances = engine.limits().instances;
    let context = Context { origin, now, random: 0.0, losses, key: None, instances };
    // What was checked begins a job.
    let begun = begin(JobId::from_u128(0), events, &context);
    let (job, events) = begun.map_err(|bad| Problem::new(Code::INTERNAL, bad.to_string()))?;
    Ok((events, Snapshot::of(Arc::new(job))))
}
