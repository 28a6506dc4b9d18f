//! Purging a job: nothing is left of it but a tombstone.

use annals_engine::Ask;
use annals_engine::job::Tombstone;
use annals_engine::runtime::{Answer, JobError};
use annals_tasks_sdk::JobId;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::etag::IfMatch;
use super::extract::{Caller, JobPath, Running};
use super::orders::Why;
use super::problem::Problem;
use super::query::{Asked, FromQuery, Parameters};
use super::state::AppState;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(purge))
}

struct PurgeQuery {
    dry_run: bool,
    why: Why,
}

impl FromQuery for PurgeQuery {
    const KNOWN: &'static [&'static str] = &["dry_run", "reason", "expected_seq"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let why = Why::of_query(parameters)?;
        Ok(Self { dry_run: parameters.flag("dry_run")?, why })
    }
}

/// Purge a job that has ended.
///
/// It is in no list then, and whatever asks for it is answered by 410 and what is left of it: a
/// tombstone. Its step logs, its work folder and the values of its checkpoints are removed; the
/// records of its events leave the disk with the files that they are in. Jobs that were forked
/// from it stay.
#[utoipa::path(delete, path = "/jobs/{id}", operation_id = "purgeJob", tag = "commands",
    params(
        ("reason" = Option<String>, Query, description = "Why, for the history"),
        ("expected_seq" = Option<u64>, Query,
            description = "Refuse the command if the job's seq is another"),
        ("X-Annals-Actor" = Option<String>, Header, description = "Who asks"),
    ),
    responses(
        (status = 200, description = "It was purged before: what is left of it; or what a dry run \
            found", body = inline(Purged<'static>)),
        (status = 202, description = "Purged: what is left of it", body = dto::Tombstone),
    ))]
async fn purge(
    JobPath(job): JobPath,
    Asked(query): Asked<PurgeQuery>,
    caller: Caller,
    if_match: IfMatch,
    Running(engine): Running,
) -> Result<Response, Problem> {
    let PurgeQuery { dry_run, why } = query;
    let ask = Ask {
        origin: caller.origin(why.reason),
        expected_seq: why.expected_seq,
        expected_revision: if_match.0,
        dry_run,
        key: None,
    };
    let answer = engine.job(job).purge(ask).await?;
    let tombstone = left_of(job, &answer)?;
    if dry_run {
        return Ok(json(dto::PurgeDryRun::of(job, &answer.events, tombstone).to_json()));
    }
    let mut response = json(dto::Tombstone::of(job, tombstone).to_json());
    if !answer.events.is_empty() {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    Ok(response)
}

/// What an answer to a purge says of the job.
pub(crate) fn left_of(job: JobId, answer: &Answer) -> Result<&Tombstone, JobError> {
    // A purge that is accepted leaves one.
    let why = "it was purged, and has no tombstone";
    let left = answer.snapshot.job.purged().map(|tombstone| &**tombstone);
    left.ok_or_else(|| JobError::Unreadable { job, why: why.into() })
}

/// What a purge is answered with where nothing has changed.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes the answer")]
enum Purged<'a> {
    Before(dto::Tombstone<'a>),
    DryRun(dto::PurgeDryRun<'a>),
}
