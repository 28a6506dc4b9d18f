//! Reading jobs.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{JobPath, Running};
use super::problem::Problem;
use super::query::{Asked, Nothing};
use super::state::AppState;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(read))
}

/// A job with its tasks and their attempts.
#[utoipa::path(get, path = "/jobs/{id}", operation_id = "read_job", tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses((status = 200, description = "The job's snapshot")))]
async fn read(
    JobPath(job): JobPath,
    Asked(Nothing): Asked<Nothing>,
    engine: Running,
) -> Result<Response, Problem> {
    let snapshot = engine.job(job).snapshot().await?;
    Ok(json(dto::Job::at(&snapshot).to_json()))
}

/// An answer of JSON text.
pub(super) fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
