//! Submitting many jobs at once.

use annals_engine::job::Origin;
use annals_engine::runtime::Accepted;
use annals_engine::{Engine, IdempotencyKey, Submission};
use annals_tasks_sdk::Payload;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::future::join_all;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::body::JsonBody;
use super::extract::{Caller, Running};
use super::fields::Fields;
use super::idempotency::Key;
use super::plans::Order;
use super::problem::{Code, Problem, ProblemBody};
use super::query::{Asked, Nothing};
use super::state::{AppState, Settings};
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(submit))
}

/// Many submissions.
#[derive(ToSchema)]
#[schema(as = BatchBody)]
#[expect(dead_code, reason = "it is read field by field; this describes it")]
struct Body {
    /// Each a plan, or `{workflow, input}`.
    jobs: Vec<dto::SubmitBody>,
}

/// What became of each submission.
#[derive(Serialize, ToSchema)]
struct Batch<'a> {
    /// How many were accepted.
    accepted: usize,
    /// How many were refused.
    refused: usize,
    /// In the order of `jobs`.
    items: Vec<BatchItem<'a>>,
}

/// What became of one submission.
#[derive(Serialize, ToSchema)]
struct BatchItem<'a> {
    /// The status that it would have had by itself.
    status: u16,
    /// Whether its key was known, and the job is that of the first request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
    /// The job, where it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<dto::Job<'a>>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProblemBody>)]
    problem: Option<ProblemBody<'a>>,
}

/// Submit many jobs.
///
/// Each is accepted or refused by itself. The answer comes when all accepted ones are durable; it
/// is 202 if there are any. With an `Idempotency-Key` each has a key of its own, made of that and
/// of its index.
#[utoipa::path(post, path = "/jobs/batch", operation_id = "submitBatch", tag = "jobs",
    request_body = Body,
    responses(
        (status = 200, description = "None was accepted", body = Batch),
        (status = 202, description = "Some were accepted", body = Batch),
    ))]
async fn submit(
    Asked(Nothing): Asked<Nothing>,
    caller: Caller,
    key: Key,
    engine: Running,
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let settings = state.settings();
    let body = body.json.unwrap_or_default();
    let items = items(&body, settings.batch_jobs)?;
    let each = items.into_iter().enumerate().map(|(index, item)| {
        let key = key.of_item("/jobs/batch", index, item.as_str().as_bytes());
        accept(&engine.0, settings, item, caller.origin(None), key)
    });
    let outcomes = join_all(each).await;
    Ok(shown(&outcomes, &caller.request_id))
}

fn items(body: &Payload, most: usize) -> Result<Vec<Payload>, Problem> {
    let mut fields = Fields::read(body, "a batch", &["jobs"])?;
    let items = fields.list("jobs");
    fields.finish()?;
    if items.len() > most {
        let detail = format!("a batch has at most {most} jobs, not {} (`batch_jobs`)", items.len());
        return Err(Problem::new(Code::TOO_LARGE, detail));
    }
    Ok(items.into_iter().map(Payload::trusted).collect())
}

async fn accept(
    engine: &Engine,
    settings: &Settings,
    item: Payload,
    origin: Origin,
    key: Option<IdempotencyKey>,
) -> Result<Accepted, Problem> {
    let order = Order::read(engine, settings, item).await?;
    Ok(engine.accept(Submission { key, ..order.by(origin) }).await?)
}

fn shown(outcomes: &[Result<Accepted, Problem>], request_id: &str) -> Response {
    let items: Vec<BatchItem<'_>> = outcomes.iter().map(|each| item(each, request_id)).collect();
    let accepted = items.iter().filter(|item| item.job.is_some()).count();
    let batch = Batch { accepted, refused: items.len() - accepted, items };
    let mut response = json(dto::text(&batch));
    if accepted > 0 {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    response
}

fn item<'a>(outcome: &'a Result<Accepted, Problem>, request_id: &'a str) -> BatchItem<'a> {
    match outcome {
        Ok(accepted) => BatchItem {
            status: StatusCode::ACCEPTED.as_u16(),
            replayed: accepted.replayed,
            job: Some(dto::Job::at(&accepted.snapshot)),
            problem: None,
        },
        Err(problem) => BatchItem {
            status: problem.code().status.as_u16(),
            replayed: false,
            job: None,
            problem: Some(problem.body(request_id)),
        },
    }
}
