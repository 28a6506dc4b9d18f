//! One command for many jobs.

use std::sync::Arc;

use annals_engine::Ask;
use annals_engine::job::Command;
use annals_tasks_sdk::{JobId, Payload};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::body::JsonBody;
use super::commands::DryRun;
use super::extract::{Caller, Running};
use super::fields::Fields;
use super::idempotency::{Key, replayed};
use super::orders::{
    Body as _, CancelBody, ExecuteBody, PauseBody, PurgeBody, RemoveBody, ResumeBody,
    RetryTaskBody, SkipBody, Why,
};
use super::problem::Problem;
use super::query::Asked;
use super::state::AppState;
use crate::bulk::{ALL_AND_SOME, ALL_OR_SOME, Outcome, carry_out};
use crate::dto;
use crate::json::{Level, level};
use crate::list::{BadFilter, Filter};

const PATH: &str = "/jobs/bulk";

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(bulk))
}

/// One command for many jobs.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read field by field; this describes it")]
struct BulkBody {
    /// The command.
    #[schema(inline)]
    command: Verb,
    /// What the command takes by itself; `expected_seq` is not among it. For `remove`: `task` and
    /// `cascade`; for `retry`: `task`.
    body: Option<serde_json::Value>,
    /// Why, for the histories; here, or in `body`.
    reason: Option<String>,
    /// Which jobs are meant. An empty one is refused: `{"all": true}` means all.
    filter: BulkFilter,
}

/// A command that many jobs can be given.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(rename_all = "snake_case")]
enum Verb {
    Execute,
    Cancel,
    Pause,
    Resume,
    Skip,
    Remove,
    Retry,
    Purge,
}

const VERBS: [(&str, Verb); 8] = [
    ("execute", Verb::Execute),
    ("cancel", Verb::Cancel),
    ("pause", Verb::Pause),
    ("resume", Verb::Resume),
    ("skip", Verb::Skip),
    ("remove", Verb::Remove),
    ("retry", Verb::Retry),
    ("purge", Verb::Purge),
];

/// Which jobs are meant: those for which all of this holds.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read field by field; this describes it")]
struct BulkFilter {
    /// All of them; then nothing else may be said.
    all: Option<bool>,
    /// With an id that begins so.
    id: Option<String>,
    /// With one of these statuses.
    status: Option<OneOrMany>,
    /// Made by this workflow.
    workflow: Option<String>,
    /// With each of these labels, `KEY:VALUE`.
    label: Option<OneOrMany>,
    /// In this queue.
    queue: Option<String>,
    /// Forked from this job.
    #[schema(format = Uuid)]
    forked_from: Option<String>,
    /// Submitted at this time or later.
    #[schema(format = DateTime)]
    created_after: Option<String>,
    /// Submitted before this time.
    #[schema(format = DateTime)]
    created_before: Option<String>,
    /// Ended at this time or later.
    #[schema(format = DateTime)]
    finished_after: Option<String>,
    /// Ended before this time.
    #[schema(format = DateTime)]
    finished_before: Option<String>,
    /// With this text in the name or in the error's message, in upper or lower case.
    text: Option<String>,
}

/// A text, or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what is read")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// What is asked for.
struct Wish {
    command: Command,
    reason: Option<Arc<str>>,
    filter: Filter,
}

/// Give many jobs a command.
///
/// It is not atomic: each job accepts or refuses the command by itself, and is told where it
/// refuses. Jobs that are submitted meanwhile are not among them. With an `Idempotency-Key` each
/// job has a key of its own, made of that and of its id: a repeat gives the command to none twice.
#[utoipa::path(post, path = "/jobs/bulk", operation_id = "bulk", tag = "jobs",
    params(("dry_run" = Option<bool>, Query,
        description = "Say which jobs would accept the command, and do nothing")),
    request_body = BulkBody,
    responses(
        (status = 200, description = "Nothing has changed, or it was a dry run",
            body = dto::Bulk),
        (status = 202, description = "Some jobs have changed", body = dto::Bulk),
    ))]
async fn bulk(
    Asked(DryRun(dry_run)): Asked<DryRun>,
    caller: Caller,
    key: Key,
    Running(engine): Running,
    body: JsonBody,
) -> Result<Response, Problem> {
    let Wish { command, reason, filter } = read(&body.json.unwrap_or_default())?;
    let origin = caller.origin(reason);
    let ask = |job: JobId| Ask {
        origin: origin.clone(),
        dry_run,
        key: key.of_job(PATH, job, &body.raw),
        ..Ask::default()
    };
    let outcome = carry_out(&engine, &filter, &command, ask).await?;
    Ok(shown(&outcome, dry_run))
}

fn shown(outcome: &Outcome, is_dry_run: bool) -> Response {
    let mut response = json(dto::Bulk::of(outcome).to_json());
    if is_dry_run || outcome.changed + outcome.replayed == 0 {
        return response;
    }
    *response.status_mut() = StatusCode::ACCEPTED;
    if outcome.changed == 0 { replayed(response) } else { response }
}

fn read(body: &Payload) -> Result<Wish, Problem> {
    let known = ["command", "body", "reason", "filter"];
    let mut fields = Fields::read(body, "a bulk command", &known)?;
    for name in ["command", "filter"] {
        if fields.raw(name).is_none_or(|text| text == "null") {
            fields.fault("", format!("`{name}` is missing"));
        }
    }
    let verb = fields.word("command", &VERBS);
    let filter = filter(&mut fields);
    let own = fields.payload("body").filter(|own| !own.is_null());
    let said = fields.text("reason");
    fields.finish()?;
    let own = own.unwrap_or_else(|| Payload::trusted("{}"));
    let verb = verb.unwrap_or(Verb::Resume);
    let (command, reason) = command(verb, &own, said).map_err(|problem| problem.below("/body"))?;
    Ok(Wish { command, reason, filter })
}

/// Reads the body of the command itself. The reason may have been said beside it.
fn command(
    verb: Verb,
    body: &Payload,
    said: Option<String>,
) -> Result<(Command, Option<Arc<str>>), Problem> {
    let (what, known) = match verb {
        Verb::Execute => (ExecuteBody::WHAT, ExecuteBody::KNOWN),
        Verb::Cancel => (CancelBody::WHAT, CancelBody::KNOWN),
        Verb::Pause => (PauseBody::WHAT, PauseBody::KNOWN),
        Verb::Resume => (ResumeBody::WHAT, ResumeBody::KNOWN),
        Verb::Skip => (SkipBody::WHAT, SkipBody::KNOWN),
        Verb::Remove => (RemoveBody::WHAT, RemoveBody::KNOWN),
        Verb::Retry => (RetryTaskBody::WHAT, RetryTaskBody::KNOWN),
        Verb::Purge => (PurgeBody::WHAT, PurgeBody::KNOWN),
    };
    let mut fields = Fields::read(body, what, known)?;
    let (command, Why { reason, expected_seq }) = match verb {
        Verb::Execute => ExecuteBody::read(&mut fields),
        Verb::Cancel => CancelBody::read(&mut fields),
        Verb::Pause => PauseBody::read(&mut fields),
        Verb::Resume => ResumeBody::read(&mut fields),
        Verb::Skip => SkipBody::read(&mut fields),
        Verb::Remove => RemoveBody::read(&mut fields),
        Verb::Retry => RetryTaskBody::read(&mut fields),
        Verb::Purge => PurgeBody::read(&mut fields),
    };
    if expected_seq.is_some() {
        fields.fault("expected_seq", "`expected_seq` is that of one job, and many are meant");
    }
    if said.is_some() && reason.is_some() {
        fields.fault("reason", "`reason` stands beside `body` already: say it once");
    }
    fields.finish()?;
    Ok((command, reason.or(said.map(Into::into))))
}

/// Reads the filter; what is wrong with it is left in `fields`.
fn filter(fields: &mut Fields<'_>) -> Filter {
    let (mut filter, mut all, mut faults) = (Filter::default(), false, Vec::new());
    let Some(text) = fields.raw("filter").filter(|text| *text != "null") else { return filter };
    let Ok(Level::Object(members)) = level(text) else {
        fields.fault("filter", "`filter` is an object");
        return filter;
    };
    for (name, text) in members {
        let added = match level(text) {
            Ok(Level::Scalar("null")) => Ok(()),
            Ok(Level::Scalar(flag)) if name == "all" && matches!(flag, "true" | "false") => {
                all |= flag == "true";
                Ok(())
            }
            Ok(Level::Text(value)) => filter.add(&name, &value),
            Ok(Level::Array(values)) => {
                values.into_iter().try_for_each(|value| match level(value) {
                    Ok(Level::Text(value)) => filter.add(&name, &value),
                    _ => Err(no_text(&name)),
                })
            }
            _ => Err(no_text(&name)),
        };
        faults.extend(added.err().map(|BadFilter { detail, .. }| detail));
    }
    match (all, filter.is_empty()) {
        _ if !faults.is_empty() => {}
        (false, true) => faults.push(format!("{ALL_OR_SOME} with {{\"all\": true}}")),
        (true, false) => faults.push(ALL_AND_SOME.into()),
        _ => {}
    }
    for detail in faults {
        fields.fault("filter", detail);
    }
    filter
}

fn no_text(name: &str) -> BadFilter {
    let name: String = name.chars().take(64).collect();
    let detail = match &*name {
        "all" => "`all` is true or false".into(),
        "status" | "label" => format!("`{name}` is a string, or a list of strings"),
        _ => format!("{name:?} is no part of a filter with a string"),
    };
    BadFilter { name: "", detail }
}
