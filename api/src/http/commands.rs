//! Steering jobs: a route for each command.

use annals_engine::job::Command;
use annals_engine::runtime::Answer;
use annals_engine::{Ask, Engine};
use annals_tasks_sdk::{JobId, Payload};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{json, snapshot};
use super::body::JsonBody;
use super::etag::IfMatch;
use super::extract::{Caller, JobPath, Running, TaskPath};
use super::fields::Fields;
use super::idempotency::{Key, replayed};
use super::orders::{Body, CancelBody, ExecuteBody, PauseBody, ResumeBody, SkipBody, Why};
use super::problem::Problem;
use super::query::{Asked, FromQuery, Parameters};
use super::state::AppState;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(cancel))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(skip))
        .routes(routes!(remove))
}

pub(super) struct DryRun(pub(super) bool);

impl FromQuery for DryRun {
    const KNOWN: &'static [&'static str] = &["dry_run"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        parameters.flag("dry_run").map(Self)
    }
}

/// Everything that a command to a job comes with.
pub(super) struct Steering {
    pub(super) job: JobId,
    dry_run: bool,
    caller: Caller,
    key: Key,
    if_match: IfMatch,
    pub(super) engine: Engine,
    pub(super) body: JsonBody,
}

impl FromRequest<AppState> for Steering {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let head = &mut parts;
        let JobPath(job) = JobPath::from_request_parts(head, state).await?;
        let Asked(DryRun(dry_run)) = Asked::from_request_parts(head, state).await?;
        let caller = Caller::from_request_parts(head, state).await?;
        let key = Key::from_request_parts(head, state).await?;
        let if_match = IfMatch::from_request_parts(head, state).await?;
        let Running(engine) = Running::from_request_parts(head, state).await?;
        let body = JsonBody::from_request(Request::from_parts(parts, body), state).await?;
        Ok(Self { job, dry_run, caller, key, if_match, engine, body })
    }
}

impl Steering {
    /// Reads the command, has it carried out, and says what it did.
    async fn carry_out<B: Body<Said = Command>>(self) -> Result<Response, Problem> {
        let (command, ask) = self.read::<B>(B::WHAT)?;
        carry_out(&self.engine, self.job, command, ask).await
    }

    /// Reads the body of a request to `path` below the job.
    pub(super) fn read<B: Body>(&self, path: &str) -> Result<(B::Said, Ask), Problem> {
        let said = self.body.json.clone().filter(|body| !body.is_null());
        let body = said.unwrap_or_else(|| Payload::trusted("{}"));
        let mut fields = Fields::read(&body, B::WHAT, B::KNOWN)?;
        let (said, Why { reason, expected_seq }) = B::read(&mut fields);
        fields.finish()?;
        let path = format!("/jobs/{}/{path}", self.job);
        let ask = Ask {
            origin: self.caller.origin(reason),
            expected_seq,
            expected_revision: self.if_match.0,
            dry_run: self.dry_run,
            key: self.key.of(&path, &self.body.raw),
        };
        Ok((said, ask))
    }
}

pub(super) async fn carry_out(
    engine: &Engine,
    job: JobId,
    command: Command,
    ask: Ask,
) -> Result<Response, Problem> {
    let dry_run = ask.dry_run;
    let Answer { events, snapshot: after, replayed: again } =
        engine.job(job).command(command, ask).await?;
    if dry_run {
        return Ok(json(dto::DryRun::of(&events, &after).to_json()));
    }
    if again {
        // What is known by its key did something then.
        return Ok(replayed(snapshot(StatusCode::ACCEPTED, &after)));
    }
    let status = if events.is_empty() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(snapshot(status, &after))
}

/// Start a pending job, or go on with a failed or cancelled one.
///
/// On a job that runs it starts nothing, so a repeat is harmless.
#[utoipa::path(post, path = "/jobs/{id}/execute", operation_id = "executeJob", tag = "commands",
    request_body = Option<ExecuteBody>)]
async fn execute(steering: Steering) -> Result<Response, Problem> {
    steering.carry_out::<ExecuteBody>().await
}

/// Stop everything and end.
#[utoipa::path(post, path = "/jobs/{id}/cancel", operation_id = "cancelJob", tag = "commands",
    request_body = Option<CancelBody>)]
async fn cancel(steering: Steering) -> Result<Response, Problem> {
    steering.carry_out::<CancelBody>().await
}

/// Start nothing more.
#[utoipa::path(post, path = "/jobs/{id}/pause", operation_id = "pauseJob", tag = "commands",
    request_body = Option<PauseBody>)]
async fn pause(steering: Steering) -> Result<Response, Problem> {
    steering.carry_out::<PauseBody>().await
}

/// Take a pause back.
#[utoipa::path(post, path = "/jobs/{id}/resume", operation_id = "resumeJob", tag = "commands",
    request_body = Option<ResumeBody>)]
async fn resume(steering: Steering) -> Result<Response, Problem> {
    steering.carry_out::<ResumeBody>().await
}

/// Go on without a task.
#[utoipa::path(post, path = "/jobs/{id}/skip", operation_id = "skipTask", tag = "commands",
    request_body = Option<SkipBody>)]
async fn skip(steering: Steering) -> Result<Response, Problem> {
    steering.carry_out::<SkipBody>().await
}

struct RemoveQuery {
    cascade: bool,
    dry_run: bool,
    why: Why,
}

impl FromQuery for RemoveQuery {
    const KNOWN: &'static [&'static str] = &["cascade", "dry_run", "reason", "expected_seq"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let why = Why::of_query(parameters)?;
        let (cascade, dry_run) = (parameters.flag("cascade")?, parameters.flag("dry_run")?);
        Ok(Self { cascade, dry_run, why })
    }
}

/// Take a task out of the plan.
#[utoipa::path(delete, path = "/jobs/{id}/tasks/{task}", operation_id = "removeTask",
    tag = "commands",
    params(
        ("task" = String, Path, description = "The task's id"),
        ("cascade" = Option<bool>, Query,
            description = "Remove the tasks too that would lose an input"),
        ("reason" = Option<String>, Query, description = "Why, for the history"),
        ("expected_seq" = Option<u64>, Query,
            description = "Refuse the command if the job's seq is another"),
        ("X-Annals-Actor" = Option<String>, Header, description = "Who asks"),
    ))]
async fn remove(
    TaskPath(job, task): TaskPath,
    Asked(query): Asked<RemoveQuery>,
    caller: Caller,
    if_match: IfMatch,
    Running(engine): Running,
) -> Result<Response, Problem> {
    let RemoveQuery { cascade, dry_run, why } = query;
    let ask = Ask {
        origin: caller.origin(why.reason),
        expected_seq: why.expected_seq,
        expected_revision: if_match.0,
        dry_run,
        key: None,
    };
    carry_out(&engine, job, Command::Remove { task, cascade }, ask).await
}
