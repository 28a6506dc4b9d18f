//! Edits of a job's plan: inserting, editing and moving its tasks, and trying one again.

use annals_engine::job::{Command, Place};
use annals_engine::{Ask, Engine};
use annals_tasks_sdk::plan::{Limits, PlanErrors, TaskPatch, TaskSpec};
use annals_tasks_sdk::{JobId, TaskId};
use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::JsonBody;
use super::commands::{Steering, carry_out};
use super::etag::IfMatch;
use super::extract::{Caller, Running, TaskPath};
use super::fields::Fields;
use super::orders::{Body, Why};
use super::plans::{SHELL, UNDO_KIND, shell_in, shell_not_allowed};
use super::problem::{Code, FieldError, Problem};
use super::query::{Asked, FromQuery, Parameters};
use super::state::AppState;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(insert))
        .routes(routes!(edit))
        .routes(routes!(shift))
        .routes(routes!(retry))
}

/// Put a task into the plan. Where no place is said it is the last.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct InsertBody {
    /// What the plan is to say of it.
    task: dto::PlannedTask,
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    /// Directly behind this one.
    after: Option<String>,
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    /// Directly before this one.
    before: Option<String>,
    /// Before all others.
    #[schema(default = false)]
    first: Option<bool>,
    /// Tasks that are to need it, beside what they need already.
    needed_by: Option<Vec<String>>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

/// What is to be inserted, and where.
pub(super) struct Insertion {
    /// The task's JSON; it has one where nothing else is wrong.
    task: Option<String>,
    place: Place,
    needed_by: Vec<TaskId>,
}

impl Insertion {
    /// The command; what is wrong with the task stands below `task`.
    pub(super) fn command(self) -> Result<Command, Problem> {
        let Self { task, place, needed_by } = self;
        // Of its size the engine knows how much is too much.
        let spec = TaskSpec::from_json(&task.unwrap_or_default(), &Limits::NONE);
        let task = Box::new(spec.map_err(|errors| within(invalid(errors)))?);
        Ok(Command::Insert { task, place, needed_by })
    }
}

impl Body for InsertBody {
    type Said = Insertion;

    const WHAT: &'static str = "an insertion";
    const KNOWN: &'static [&'static str] =
        &["task", "after", "before", "first", "needed_by", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Insertion {
        let task = fields.raw("task").map(str::to_owned);
        if task.is_none() {
            fields.fault("", "`task` is missing");
        }
        let place = place(fields).unwrap_or_default();
        Insertion { task, place, needed_by: fields.tasks("needed_by") }
    }
}

/// Put a task elsewhere in the plan.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct MoveBody {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    /// Directly behind this one.
    after: Option<String>,
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    /// Directly before this one.
    before: Option<String>,
    /// Before all others.
    #[schema(default = false)]
    first: Option<bool>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for MoveBody {
    type Said = Place;

    const WHAT: &'static str = "a move";
    const KNOWN: &'static [&'static str] = &["after", "before", "first", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Place {
        place(fields).unwrap_or_else(|| {
            fields.fault("", "`after`, `before` or `first` says where the task is to stand");
            Place::Last
        })
    }
}

/// Try a task again now.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct RetryBody {
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for RetryBody {
    type Said = ();

    const WHAT: &'static str = "a retry";
    const KNOWN: &'static [&'static str] = &["reason", "expected_seq"];

    fn said(_: &mut Fields<'_>) {}
}

fn place(fields: &mut Fields<'_>) -> Option<Place> {
    let after = fields.task("after").map(Place::After);
    let before = fields.task("before").map(Place::Before);
    let first = fields.flag("first").then_some(Place::First);
    let said: Vec<_> = [("after", after), ("before", before), ("first", first)]
        .into_iter()
        .filter_map(|(name, place)| Some((name, place?)))
        .collect();
    if let [(one, _), (other, _), ..] = &said[..] {
        let detail = format!("`{one}` and `{other}` are two places: say one of them");
        fields.fault(one, detail);
    }
    said.into_iter().next().map(|(_, place)| place)
}

/// Put a task into the plan of a job.
///
/// It stands where `after`, `before` or `first` says, else behind all others. Tasks that have
/// settled, or run now, never come to need it.
#[utoipa::path(post, path = "/jobs/{id}/tasks", operation_id = "insertTask", tag = "commands",
    request_body = InsertBody)]
async fn insert(State(state): State<AppState>, steering: Steering) -> Result<Response, Problem> {
    let (insertion, ask) = steering.read::<InsertBody>("tasks")?;
    let command = insertion.command()?;
    if let Command::Insert { task, .. } = &command
        && !state.settings().allow_shell
        && let Some((place, id)) = shell_in(task).into_iter().next()
    {
        return Err(within(shell_not_allowed(&place, &id)));
    }
    carry_out(&steering.engine, steering.job, command, ask).await.map_err(within)
}

struct EditQuery {
    reset: bool,
    dry_run: bool,
    why: Why,
}

impl FromQuery for EditQuery {
    const KNOWN: &'static [&'static str] = &["reset", "dry_run", "reason", "expected_seq"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let why = Why::of_query(parameters)?;
        let (reset, dry_run) = (parameters.flag("reset")?, parameters.flag("dry_run")?);
        Ok(Self { reset, dry_run, why })
    }
}

/// Have the plan say something else of a task.
///
/// Fields are replaced whole; `null` takes one back to what it is when it is left out. The body has
/// nothing but such fields, so that everything else is in the query. A task is edited before it
/// runs, or when an attempt of it has failed or was stopped; its checkpoint and its steps stay
/// unless `reset` drops them.
#[utoipa::path(patch, path = "/jobs/{id}/tasks/{task}", operation_id = "editTask",
    tag = "commands", request_body = dto::TaskPatch,
    params(
        ("task" = String, Path, description = "The task's id"),
        ("reset" = Option<bool>, Query,
            description = "Drop its checkpoint and its steps, so that it begins anew"),
        ("reason" = Option<String>, Query, description = "Why, for the history"),
        ("expected_seq" = Option<u64>, Query,
            description = "Refuse the command if the job's seq is another"),
        ("X-Annals-Actor" = Option<String>, Header, description = "Who asks"),
    ))]
async fn edit(
    TaskPath(job, task): TaskPath,
    Asked(query): Asked<EditQuery>,
    caller: Caller,
    if_match: IfMatch,
    Running(engine): Running,
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let EditQuery { reset, dry_run, why } = query;
    let text = body.json.as_ref().map_or("{}", |body| body.as_str());
    let patch = TaskPatch::from_json(text, &Limits::NONE).map_err(invalid)?;
    if !state.settings().allow_shell
        && let Some(place) = edits_shell(&engine, job, &task, &patch).await?
    {
        return Err(shell_not_allowed(place, &task));
    }
    let ask = Ask {
        origin: caller.origin(why.reason),
        expected_seq: why.expected_seq,
        expected_revision: if_match.0,
        dry_run,
        key: None,
    };
    carry_out(&engine, job, Command::Edit { task, patch, reset }, ask).await
}

/// Where an edit says what a shell is to run.
async fn edits_shell(
    engine: &Engine,
    job: JobId,
    task: &TaskId,
    patch: &TaskPatch,
) -> Result<Option<&'static str>, Problem> {
    if patch.undo_kind().is_some_and(|kind| kind.as_str() == SHELL) {
        return Ok(Some(UNDO_KIND));
    }
    let place = if patch.kind().is_some() { "/kind" } else { "/input" };
    if patch.kind().is_some_and(|kind| kind.as_str() == SHELL) {
        return Ok(Some(place));
    }
    if patch.kind().is_none() && !patch.has("input") {
        return Ok(None);
    }
    let job = engine.job(job).snapshot().await?.job;
    let task = job.find(task.as_str()).and_then(|number| job.task(number));
    // What cannot be said of the task is for the job to refuse.
    let edited = task.and_then(|task| patch.apply(&task.spec).ok());
    // What undoes it stays as it is.
    let edited = edited.map(|edited| TaskSpec { compensate: None, ..edited });
    Ok(edited.filter(|edited| !shell_in(edited).is_empty()).map(|_| place))
}

/// Put a task elsewhere in the plan.
///
/// What follows from its place alone follows it: a task without `needs` needs the one before it.
#[utoipa::path(post, path = "/jobs/{id}/tasks/{task}/move", operation_id = "moveTask",
    tag = "commands", request_body = MoveBody,
    params(("task" = String, Path, description = "The task's id")))]
async fn shift(TaskPath(job, task): TaskPath, steering: Steering) -> Result<Response, Problem> {
    let (place, ask) = steering.read::<MoveBody>(&format!("tasks/{task}/move"))?;
    carry_out(&steering.engine, job, Command::Move { task, place }, ask).await
}

/// Try a task again now.
///
/// One that waits for its next try starts at once, one that has failed is tried afresh. Where the
/// job itself has failed or was cancelled it is executed again, with all that has not settled.
#[utoipa::path(post, path = "/jobs/{id}/tasks/{task}/retry", operation_id = "retryTask",
    tag = "commands", request_body = Option<RetryBody>,
    params(("task" = String, Path, description = "The task's id")))]
async fn retry(TaskPath(job, task): TaskPath, steering: Steering) -> Result<Response, Problem> {
    let ((), ask) = steering.read::<RetryBody>(&format!("tasks/{task}/retry"))?;
    carry_out(&steering.engine, job, Command::Retry { task }, ask).await
}

pub(super) fn invalid(errors: PlanErrors) -> Problem {
    let detail = match &*errors.0 {
        [one] => format!("the task is not valid: {one}"),
        all => format!("the task is not valid: {} faults, listed in `errors`", all.len()),
    };
    let errors = errors.0.into_iter();
    let errors = errors.map(|each| FieldError { pointer: each.pointer, detail: each.detail });
    Problem::new(Code::INVALID_TASK, detail).with_errors(errors.collect())
}

/// What is wrong with a task stands, in this body, below `task`.
fn within(problem: Problem) -> Problem {
    problem.below("/task")
}

#[cfg(test)]
mod tests {
    use super::super::orders::tests::check;
    use super::*;

    #[test]
    fn bodies_are_described_as_they_are_read() {
        check::<InsertBody>(&["task"]);
        check::<MoveBody>(&[]);
        check::<RetryBody>(&[]);
    }
}
