//! Reading jobs: whole, in parts, and how far they are.

use annals_engine::job::{self, TaskNumber};
use annals_engine::runtime::Snapshot;
use annals_tasks_sdk::TaskId;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{json, unless_known};
use super::etag::Known;
use super::extract::{JobPath, Running, TaskPath};
use super::problem::{Code, Problem};
use super::query::{Asked, FromQuery, Nothing, Parameters};
use super::state::AppState;
use super::wait::Wait;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(read))
        .routes(routes!(progress))
        .routes(routes!(tasks))
        .routes(routes!(task))
        .routes(routes!(why))
}

impl FromQuery for Wait {
    const KNOWN: &'static [&'static str] = &["wait", "after"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        Self::read(parameters)
    }
}

/// A job with its tasks and their attempts.
///
/// With `wait` it answers when the job has ended, with `after` too when the job's `seq` is greater
/// than that; at the latest after that time, with the job as it is then.
#[utoipa::path(get, path = "/jobs/{id}", operation_id = "readJob", tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("wait" = Option<String>, Query, description = "How long to wait at most: `30s`, `2m`"),
        ("after" = Option<u64>, Query, description = "Wait for a greater seq, not for the end"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag that the client has"),
    ),
    responses(
        (status = 200, description = "The job's snapshot", body = dto::Job,
            headers(("ETag" = String, description = "`\"<revision>.<seq>.<n>\"`"))),
        (status = 304, description = "The client has it"),
    ))]
async fn read(
    JobPath(job): JobPath,
    Asked(wait): Asked<Wait>,
    known: Known,
    engine: Running,
    State(state): State<AppState>,
) -> Result<Response, Problem> {
    let job = engine.job(job);
    wait.on(&job, &state).await?;
    let snapshot = job.snapshot().await?;
    Ok(unless_known(&known, &snapshot, |snapshot| dto::Job::at(snapshot).to_json()))
}

/// How far a job is; cheap.
#[utoipa::path(get, path = "/jobs/{id}/progress", operation_id = "readProgress", tag = "jobs",
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, description = "How far it is", body = dto::Progress)))]
async fn progress(
    JobPath(job): JobPath,
    Asked(Nothing): Asked<Nothing>,
    known: Known,
    engine: Running,
) -> Result<Response, Problem> {
    let snapshot = engine.job(job).snapshot().await?;
    Ok(unless_known(&known, &snapshot, |snapshot| dto::Progress::at(snapshot).to_json()))
}

/// The tasks of a job, each with its attempts, in the order of the plan.
#[utoipa::path(get, path = "/jobs/{id}/tasks", operation_id = "listTasks", tag = "tasks",
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, description = "The tasks", body = dto::Tasks)))]
async fn tasks(
    JobPath(job): JobPath,
    Asked(Nothing): Asked<Nothing>,
    known: Known,
    engine: Running,
) -> Result<Response, Problem> {
    let snapshot = engine.job(job).snapshot().await?;
    Ok(unless_known(&known, &snapshot, |snapshot| dto::Tasks::at(snapshot).to_json()))
}

/// A task with its attempts.
#[utoipa::path(get, path = "/jobs/{id}/tasks/{task}", operation_id = "readTask", tag = "tasks",
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("task" = String, Path, description = "The task's id"),
    ),
    responses((status = 200, description = "The task", body = dto::Task)))]
async fn task(
    TaskPath(job, id): TaskPath,
    Asked(Nothing): Asked<Nothing>,
    known: Known,
    engine: Running,
) -> Result<Response, Problem> {
    let snapshot = engine.job(job).snapshot().await?;
    let (number, task) = find(&snapshot, &id)?;
    let text = |snapshot: &Snapshot| {
        dto::Task::of(&snapshot.job, number, task, &dto::live(snapshot)).to_json()
    };
    Ok(unless_known(&known, &snapshot, text))
}

/// A task of a job by its id.
pub(super) fn find<'a>(
    snapshot: &'a Snapshot,
    id: &TaskId,
) -> Result<(TaskNumber, &'a job::Task), Problem> {
    let job = &snapshot.job;
    let number = job.find(id.as_str());
    number.and_then(|number| Some((number, job.task(number)?))).ok_or_else(|| {
        let ids = job.tasks().map(|(_, task)| task.spec.id.as_str());
        let near = annals_tasks_sdk::near::hint(id.as_str(), ids);
        Problem::new(Code::NO_SUCH_TASK, format!("job {} has no task {id}{near}", job.id()))
    })
}

/// Why a job does not move, or what it is doing, with the commands that would change it.
#[utoipa::path(get, path = "/jobs/{id}/explain", operation_id = "explainJob", tag = "jobs",
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, description = "What it waits for", body = dto::Explanation)))]
async fn why(
    JobPath(job): JobPath,
    Asked(Nothing): Asked<Nothing>,
    engine: Running,
) -> Result<Response, Problem> {
    let explanation = engine.job(job).explain().await?;
    Ok(json(dto::Explanation::of(&explanation).to_json()))
}
