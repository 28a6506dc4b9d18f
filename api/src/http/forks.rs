//! Forks: new jobs that go on from what others have done.

use annals_engine::job::{Command, ForkFrom};
use annals_engine::runtime::{Fork, ForkError, Forked};
use annals_tasks_sdk::plan::{Limits, TaskPatch};
use annals_tasks_sdk::{KindName, Payload};
use axum::extract::{OriginalUri, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{json, snapshot};
use super::body::aside;
use super::commands::Steering;
use super::edits::{InsertBody, MoveBody, invalid};
use super::fields::Fields;
use super::idempotency::replayed;
use super::orders::{Body, RemoveBody, SkipBody};
use super::plans::{SHELL, scripts_are_closed};
use super::problem::{Code, Problem};
use super::state::AppState;
use crate::dto;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(fork))
}

/// Make a new job that goes on from what this one has done. Either `from_task` or `from_seq` is
/// said.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct ForkBody {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    /// This task, all that need it or take its output, and all that is not settled runs anew.
    from_task: Option<String>,
    /// All that was not settled when this event was the job's last runs anew.
    #[schema(minimum = 1)]
    from_seq: Option<u64>,
    /// What is changed before it starts, all or none.
    edits: Option<Vec<ForkEdit>>,
    /// Why, for the history of the new job.
    reason: Option<String>,
    /// Refuse the command if the seq of this job is another.
    expected_seq: Option<u64>,
}

/// What an edit of a fork does.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes what is read")]
enum EditName {
    Insert,
    Move,
    Edit,
    Remove,
    Skip,
}

/// An edit of a fork: what the request says that edits a job so, with the name of the command.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct ForkEdit {
    /// What is to be done.
    #[schema(inline)]
    command: EditName,
    /// Which task; of `insert`, what the plan is to say of it.
    task: Option<serde_json::Value>,
    /// `edit`: the fields of the task that are replaced.
    fields: Option<dto::TaskPatch>,
    /// `insert` and `move`: directly behind this one.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    after: Option<String>,
    /// `insert` and `move`: directly before this one.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    before: Option<String>,
    /// `insert` and `move`: before all others.
    #[schema(default = false)]
    first: Option<bool>,
    /// `insert`: tasks that are to need it, beside what they need already.
    needed_by: Option<Vec<String>>,
    /// `skip`: what it gives instead of its own output.
    output: Option<serde_json::Value>,
    /// `skip` and `remove`: take the tasks along that would lose an input.
    #[schema(default = false)]
    cascade: Option<bool>,
}

/// What a fork is to be, its edits as they were sent.
pub(super) struct Forking {
    from: ForkFrom,
    edits: Vec<Payload>,
}

impl Body for ForkBody {
    type Said = Forking;

    const WHAT: &'static str = "a fork";
    const KNOWN: &'static [&'static str] =
        &["from_task", "from_seq", "edits", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Forking {
        let from = match (fields.task("from_task"), fields.number("from_seq")) {
            (Some(task), None) => ForkFrom::Task(task),
            (None, Some(seq)) => ForkFrom::Seq(seq),
            (from, _) => {
                let detail = "either `from_task` or `from_seq` says from where it is forked";
                fields.fault(if from.is_some() { "from_seq" } else { "" }, detail);
                ForkFrom::Seq(0)
            }
        };
        let said = fields.raw("edits").is_some_and(|text| text != "null");
        let edits = if said { fields.list("edits") } else { Vec::new() };
        Forking { from, edits: edits.into_iter().map(Payload::trusted).collect() }
    }
}

/// Reads a list of edits. What is wrong has its place in the list.
pub(crate) fn read_edits(edits: &[Payload]) -> Result<Vec<Command>, Problem> {
    let edit = |(index, edit)| read_edit(edit).map_err(|problem| at(index, problem));
    edits.iter().enumerate().map(edit).collect()
}

fn at(index: usize, problem: Problem) -> Problem {
    problem.below(&format!("/{index}"))
}

fn read_edit(edit: &Payload) -> Result<Command, Problem> {
    const ALL: &[&str] = &[
        "command",
        "task",
        "fields",
        "after",
        "before",
        "first",
        "needed_by",
        "output",
        "cascade",
    ];
    const NAMES: [(&str, &[&str]); 5] = [
        ("insert", &["command", "task", "after", "before", "first", "needed_by"]),
        ("move", &["command", "task", "after", "before", "first"]),
        ("edit", &["command", "task", "fields"]),
        ("remove", &["command", "task", "cascade"]),
        ("skip", &["command", "task", "output", "cascade"]),
    ];
    let mut fields = Fields::read(edit, "an edit of a fork", ALL)?;
    let words = NAMES.map(|(name, known)| (name, (name, known)));
    let command = fields.word("command", &words);
    if fields.raw("command").is_none() {
        fields.fault("", "`command` is missing: insert, move, edit, remove or skip");
    }
    fields.finish()?;
    let (name, known) = command.unwrap_or(("", ALL));
    let mut fields = Fields::read(edit, name, known)?;
    match name {
        "insert" => {
            let insertion = InsertBody::said(&mut fields);
            fields.finish()?;
            insertion.command()
        }
        "move" => {
            let (task, place) = (fields.task("task"), MoveBody::said(&mut fields));
            named(task, fields).map(|task| Command::Move { task, place })
        }
        "edit" => {
            let task = fields.task("task");
            let patch = fields.raw("fields").map(str::to_owned);
            if patch.is_none() {
                fields.fault("", "`fields` is missing: those of the task that are replaced");
            }
            let task = named(task, fields)?;
            let patch = TaskPatch::from_json(&patch.unwrap_or_default(), &Limits::NONE);
            let patch = patch.map_err(|errors| invalid(errors).below("/fields"))?;
            Ok(Command::Edit { task, patch, reset: false })
        }
        "remove" => {
            let command = RemoveBody::said(&mut fields);
            fields.finish().map(|()| command)
        }
        _ => {
            let command = SkipBody::said(&mut fields);
            fields.finish().map(|()| command)
        }
    }
}

/// The task, which must be named.
fn named<T>(task: Option<T>, mut fields: Fields<'_>) -> Result<T, Problem> {
    if fields.raw("task").is_none_or(|text| text == "null") {
        fields.fault("", "`task` is missing");
    }
    fields.finish()?;
    task.ok_or_else(|| Problem::new(Code::INVALID_BODY, "`task` is the id of a task"))
}

/// Make a new job that goes on from what this one has done.
///
/// What is settled and does not run anew is copied with its output, so that the new job needs
/// nothing of this one any more; this one stays as it is, whatever its status. Nothing of attempts
/// is copied, and no checkpoint or step. The new job starts when its plan says so. With `dry_run`
/// the answer shows what it would begin with; its id is nil then.
#[utoipa::path(post, path = "/jobs/{id}/fork", operation_id = "forkJob", tag = "commands",
    request_body = ForkBody,
    responses((status = 202, description = "Accepted: the new job", body = dto::Job, headers(
        ("Location" = String, description = "The path of the new job"),
        ("ETag" = String, description = "`\"<revision>.<seq>.<n>\"`"),
        ("Idempotency-Replayed" = bool, description = "`true` where the key was known"),
    ))))]
async fn fork(
    OriginalUri(uri): OriginalUri,
    State(state): State<AppState>,
    steering: Steering,
) -> Result<Response, Problem> {
    let (Forking { from, edits }, ask) = steering.read::<ForkBody>("fork")?;
    let read = move || read_edits(&edits).map_err(|problem| problem.below("/edits"));
    let edits = aside(steering.body.raw.len(), read).await?;
    let bodies: Vec<&str> = edits.iter().map(body_of).collect();
    let shell = KindName::new(SHELL).ok().filter(|_| !state.settings().allow_shell);
    let fork = Fork { from, edits, closed_kinds: shell.into_iter().collect() };
    let forked = steering.engine.job(steering.job).fork(fork, ask).await;
    match forked.map_err(|error| refused(error, &bodies))? {
        Forked::Rehearsed { events, snapshot } => {
            Ok(json(dto::DryRun::of(&events, &snapshot).to_json()))
        }
        Forked::Accepted(accepted) => {
            let mut response = snapshot(StatusCode::ACCEPTED, &accepted.snapshot);
            if let Some(location) = location(&uri, &accepted.job.id().to_string()) {
                response.headers_mut().insert(LOCATION, location);
            }
            Ok(if accepted.replayed { replayed(response) } else { response })
        }
    }
}

/// Where in an edit its task is described.
pub(crate) fn body_of(edit: &Command) -> &'static str {
    match edit {
        Command::Insert { .. } => "/task",
        Command::Edit { .. } => "/fields",
        _ => "",
    }
}

fn refused(error: ForkError, bodies: &[&str]) -> Problem {
    match error {
        ForkError::Edit { index, rejection } => {
            let body = bodies.get(index).copied().unwrap_or_default();
            let closed = rejection.code == "kind_is_closed";
            let problem = Problem::from(*rejection);
            let problem = if closed { scripts_are_closed(problem) } else { problem };
            at(index, problem.below(body)).below("/edits").of_edit(index)
        }
        ForkError::Command(error) => error.into(),
        ForkError::TooLarge { .. } => Problem::new(Code::TOO_LARGE, error.to_string()),
        _ => Problem::new(Code::INTERNAL, error.to_string()),
    }
}

/// Beside the job that was forked, whatever stands before that.
fn location(uri: &Uri, job: &str) -> Option<HeaderValue> {
    let jobs = uri.path().trim_end_matches('/').rsplitn(3, '/').nth(2)?;
    HeaderValue::from_str(&format!("{jobs}/{job}")).ok()
}

#[cfg(test)]
mod tests {
    use super::super::orders::tests::check;
    use super::*;

    #[test]
    fn bodies_are_described_as_they_are_read() {
        check::<ForkBody>(&[]);
    }

    #[test]
    fn a_fork_lies_beside_its_origin() {
        for (path, expected) in [
            ("/api/v1/jobs/0197/fork", "/api/v1/jobs/new"),
            ("/below/api/v1/jobs/0197/fork/", "/below/api/v1/jobs/new"),
        ] {
            let found = location(&Uri::from_static(path), "new");
            assert_eq!(found.unwrap().to_str().unwrap(), expected);
        }
    }
}
