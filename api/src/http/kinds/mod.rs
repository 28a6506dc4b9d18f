//! What is registered here: kinds and workflows.

use annals_engine::runtime::KindInfo;
use axum::response::Response;
use serde_json::value::RawValue;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::extract::Running;
use super::problem::Problem;
use super::query::{Asked, Nothing};
use super::state::AppState;
use crate::dto::{Kind, Kinds, WorkflowName, Workflows};

#[cfg(test)]
mod tests;

/// The schemas of the kinds that come with the engine.
const SCHEMAS: [(&str, &str); 6] = [
    ("http", include_str!("http.json")),
    ("job", include_str!("job.json")),
    ("noop", include_str!("noop.json")),
    ("shell", include_str!("shell.json")),
    ("sleep", include_str!("sleep.json")),
    ("wait", include_str!("wait.json")),
];

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(kinds)).routes(routes!(workflows))
}

/// The kinds that tasks may be of.
#[utoipa::path(get, path = "/kinds", operation_id = "listKinds", tag = "server",
    responses((status = 200, description = "The kinds", body = Kinds)))]
async fn kinds(Asked(Nothing): Asked<Nothing>, engine: Running) -> Result<Response, Problem> {
    let items = engine.0.kinds().into_iter().map(shown).collect();
    Ok(json(Kinds { items }.to_json()))
}

fn shown(kind: KindInfo) -> Kind {
    let schema = SCHEMAS.iter().find(|(name, _)| *name == kind.name);
    let input_schema = schema.and_then(|(_, text)| serde_json::from_str::<&RawValue>(text).ok());
    Kind { name: kind.name, pool: kind.pool.map(|pool| pool.to_string()), input_schema }
}

/// The workflows that make plans here.
///
/// A submission of `{"workflow": NAME, "input": ...}` has one make the plan of the job.
#[utoipa::path(get, path = "/workflows", operation_id = "listWorkflows", tag = "server",
    responses((status = 200, description = "The workflows", body = Workflows)))]
async fn workflows(Asked(Nothing): Asked<Nothing>, engine: Running) -> Result<Response, Problem> {
    let names = engine.0.workflows().into_iter();
    let items = names.map(|name| WorkflowName { name: name.to_owned() }).collect();
    Ok(json(Workflows { items }.to_json()))
}
