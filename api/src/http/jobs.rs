//! Reading jobs: whole, in parts, and how far they are.

use annals_engine::job::{self, TaskNumber};
use annals_engine::runtime::{Moment, Replayed, Snapshot};
use annals_tasks_sdk::{TaskId, Timestamp};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::value::RawValue;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{json, unless_known};
use super::etag::Known;
use super::events::{Range, page_of};
use super::extract::{JobPath, Running, TaskPath};
use super::problem::{Code, Problem};
use super::query::{Asked, FromQuery, Nothing, Parameters, bad_query};
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
        .routes(routes!(replay))
        .routes(routes!(verify))
}

/// As when a job is to be shown.
enum When {
    /// As it is, once that is worth an answer.
    Now(Wait),
    /// As it was.
    Then(Moment),
}

impl FromQuery for When {
    const KNOWN: &'static [&'static str] = &["wait", "after", "at", "at_time"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let seq = parameters.number("at")?.map(Moment::Seq);
        let rule = "a time such as 2026-03-01T12:00:00Z";
        let time = parameters.parsed("at_time", rule, str::parse::<jiff::Timestamp>)?;
        let time = time.map(|time| Moment::Time(Timestamp::from_millis(time.as_millisecond())));
        let waits = parameters.text("wait")?.is_some() || parameters.text("after")?.is_some();
        match (seq, time) {
            (None, None) => Wait::read(parameters).map(Self::Now),
            (Some(_), Some(_)) => Err(bad_query("give `at` or `at_time`, not both")),
            _ if waits => Err(bad_query("what was is there already: `wait` goes without `at`")),
            (Some(moment), None) | (None, Some(moment)) => Ok(Self::Then(moment)),
        }
    }
}

/// A job with its tasks and their attempts.
///
/// With `wait` it answers when the job has ended, with `after` too when the job's `seq` is greater
/// than that; at the latest after that time, with the job as it is then. With `at` or `at_time` it
/// shows the job as its events up to then have made it, without what live attempts said of their
/// progress, which is no event.
#[utoipa::path(get, path = "/jobs/{id}", operation_id = "readJob", tag = "jobs",
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("wait" = Option<String>, Query, description = "How long to wait at most: `30s`, `2m`"),
        ("after" = Option<u64>, Query, description = "Wait for a greater seq, not for the end"),
        ("at" = Option<u64>, Query, description = "As it was behind the event of this seq"),
        ("at_time" = Option<String>, Query, description = "As it was at this time (RFC 3339)"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag that the client has"),
    ),
    responses(
        (status = 200, description = "The job's snapshot", body = dto::Job,
            headers(("ETag" = String, description = "`\"<revision>.<seq>.<n>\"`"))),
        (status = 304, description = "The client has it"),
    ))]
async fn read(
    JobPath(job): JobPath,
    Asked(when): Asked<When>,
    known: Known,
    engine: Running,
    State(state): State<AppState>,
) -> Result<Response, Problem> {
    let job = engine.job(job);
    let snapshot = match when {
        When::Now(wait) => {
            wait.on(&job, &state).await?;
            job.snapshot().await?
        }
        When::Then(moment) => Snapshot::of(job.at(moment).await?),
    };
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
        let live = dto::live(snapshot);
        dto::Task::with_instances(&snapshot.job, number, task, &live).to_json()
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

/// The history of a job step by step: each event with what it has changed.
#[utoipa::path(get, path = "/jobs/{id}/replay", operation_id = "replayJob", tag = "events",
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("after" = Option<u64>, Query, description = "Only events with a greater seq"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "At most so many in a page; 100 where it is left out"),
    ),
    responses((status = 200, description = "A page", body = dto::Replay)))]
async fn replay(
    JobPath(job): JobPath,
    Asked(range): Asked<Range>,
    engine: Running,
    uri: Uri,
) -> Result<Response, Problem> {
    let job = engine.job(job);
    let step = |step: Replayed<'_>| (step.after.seq(), dto::ReplayedEvent::of(&step).to_json());
    let steps = job.replay(range.after, range.page(), step).await?;
    let now = job.snapshot().await?.job;
    let upto = steps.last().map(|(seq, _)| *seq).filter(|upto| *upto < now.seq());
    let next_cursor = upto.map(|upto| upto.to_string());
    let items = steps.into_iter().filter_map(|(_, text)| RawValue::from_string(text).ok());
    let list = dto::Replay { items: items.collect(), next_cursor };
    Ok(page_of(list.to_json(), list.next_cursor.as_deref(), &uri))
}

/// Whether the history of a job is as it was written.
///
/// Every hash, the chain of its events and the values of its checkpoints and steps are read anew
/// and checked. That the history goes on to where it once ended only a hash shows that somebody has
/// kept elsewhere: `head_hash` covers all events up to `head_seq`.
#[utoipa::path(get, path = "/jobs/{id}/verify", operation_id = "verifyJob", tag = "events",
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, description = "What was found", body = dto::Audit)))]
async fn verify(
    JobPath(job): JobPath,
    Asked(Nothing): Asked<Nothing>,
    engine: Running,
) -> Result<Response, Problem> {
    let audited = engine.job(job).verify().await?;
    Ok(json(dto::Audit::of(job, &audited).to_json()))
}
