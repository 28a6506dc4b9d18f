//! The description of the API, made of the code that serves it.

use std::sync::OnceLock;

use axum::response::Response;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response as Described, ResponseBuilder};
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Required, SchemaFormat};
use utoipa::{OpenApi as Describe, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::problem::{Problem, ProblemBody};
use super::query::{Asked, Nothing};
use super::state::AppState;
use crate::dto;

/// The tag of operations that are commands: all take and answer the same beside their own.
const COMMANDS: &str = "commands";

/// What is sent: fields that are not named are refused there.
const CLOSED: [&str; 20] = [
    "Compensation",
    "Plan",
    "PlannedTask",
    "Retry",
    "Backoff",
    "WorkflowCall",
    "BatchBody",
    "BulkBody",
    "BulkFilter",
    "ExecuteBody",
    "CancelBody",
    "PauseBody",
    "ResumeBody",
    "SkipBody",
    "InsertBody",
    "MoveBody",
    "RetryBody",
    "ForkBody",
    "ForkEdit",
    "TaskPatch",
];

#[derive(Describe)]
#[openapi(
    info(
        title = "Annals",
        description = "A durable workflow engine: jobs are submitted, watched and steered. What \
            is answered with 2xx is durable. Every request may come with an `X-Request-Id`, and \
            every answer has one."
    ),
    tags(
        (name = "jobs", description = "Submitting and reading jobs"),
        (name = "tasks", description = "Reading the tasks of a job"),
        (name = "commands", description = "Steering jobs. What holds already is answered with 200 \
            and appends nothing; what the job's status or its data flow forbids with 409, and \
            what is allowed"),
        (name = "events", description = "What has happened, and what happens"),
        (name = "server", description = "What is served, and how the server is"),
    ),
    components(schemas(
        ProblemBody,
        dto::DryRun,
        dto::JobEnd,
        dto::LogDamage,
        dto::LogEntry,
        dto::LogEnd
    ))
)]
struct Head;

/// What stands above the routes.
pub(super) fn head() -> OpenApi {
    Head::openapi()
}

/// The whole description, in `OpenAPI` 3.1.
pub fn document() -> OpenApi {
    let (_, mut document) = super::routes().split_for_parts();
    for item in document.paths.paths.values_mut() {
        item.post.iter_mut().for_each(describe_post);
        [&mut item.post, &mut item.patch, &mut item.delete]
            .into_iter()
            .flatten()
            .for_each(describe_command);
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let responses = &mut operation.responses.responses;
            responses.entry("default".into()).or_insert_with(|| problem().into());
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter {
                    refine(parameter);
                }
            }
        }
    }
    let schemas = document.components.iter_mut().flat_map(|all| &mut all.schemas);
    for (name, schema) in schemas {
        if let (true, RefOr::T(Schema::Object(schema))) = (CLOSED.contains(&name.as_str()), schema)
        {
            schema.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
    document
}

fn problem() -> Described {
    let problem = Ref::from_schema_name(ProblemBody::name());
    let content = ContentBuilder::new().schema(Some(problem)).build();
    ResponseBuilder::new()
        .description("What was wrong, with a stable code")
        .content("application/problem+json", content)
        .build()
}

/// What all POSTs take.
fn describe_post(operation: &mut Operation) {
    let header = |name, about| parameter(name, ParameterIn::Header, about, Type::String);
    operation.parameters.get_or_insert_default().extend([
        header("Idempotency-Key", "Makes a repeat harmless").into(),
        header("X-Annals-Actor", "Who asks").into(),
    ]);
}

/// What all commands take and answer.
fn describe_command(operation: &mut Operation) {
    if operation.tags.iter().flatten().all(|tag| tag != COMMANDS) {
        return;
    }
    let dry_run = "Show what it would do, and do nothing";
    let if_match = "Refuse the command (412) if the revision in this ETag is not the job's";
    let parameters = [
        parameter("id", ParameterIn::Path, "The job's id", Type::String),
        parameter("dry_run", ParameterIn::Query, dry_run, Type::Boolean),
        parameter("If-Match", ParameterIn::Header, if_match, Type::String),
    ];
    let all = operation.parameters.get_or_insert_default();
    all.splice(0..0, parameters.into_iter().map(RefOr::T));
    let job = || RefOr::Ref(Ref::from_schema_name(dto::Job::name()));
    let run = RefOr::Ref(Ref::from_schema_name(dto::DryRun::name()));
    let either = OneOfBuilder::new().item(job()).item(run).build();
    let ok = "It holds already: the job; or what a dry run found";
    let responses = &mut operation.responses.responses;
    let held = || answer(ok, RefOr::T(Schema::OneOf(either))).into();
    responses.entry("200".into()).or_insert_with(held);
    let accepted = || answer("Accepted: the job after it", job()).into();
    responses.entry("202".into()).or_insert_with(accepted);
}

fn parameter(name: &str, place: ParameterIn, about: &str, of: Type) -> Parameter {
    let required = matches!(place, ParameterIn::Path);
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(if required { Required::True } else { Required::False })
        .description(Some(about))
        .schema(Some(Schema::Object(ObjectBuilder::new().schema_type(of).build())))
        .build()
}

/// Says of parameters what their types do not: who generates clients or tests wants to know.
fn refine(parameter: &mut Parameter) {
    let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else { return };
    let pattern = match parameter.name.as_str() {
        "id" if parameter.parameter_in == ParameterIn::Path => {
            schema.format = Some(SchemaFormat::Custom("uuid".into()));
            return;
        }
        "id" => "^[0-9A-Fa-f-]{1,36}$",
        "task" | "name" => "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$",
        "wait" => r"^([0-9]+(\.[0-9]{1,3})? *(w|d|h|m|s|ms) *)+$|^P",
        "stream" => "^(stdout|stderr)$",
        "If-Match" => r#"^(\*|(W/)?"[0-9]+\.[0-9]+\.[0-9]+")$"#,
        "Idempotency-Key" => r#"^([!#-\[\]-~]{1,255}|"[ !#-\[\]-~]{1,255}")$"#,
        "X-Annals-Actor" => r"^[^\x00-\x1f\x7f]{1,128}$",
        _ => return,
    };
    schema.schema_type = Type::String.into();
    schema.pattern = Some(pattern.into());
}

fn answer(about: &str, schema: RefOr<Schema>) -> Described {
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(about).content("application/json", content).build()
}

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(read))
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", operation_id = "describe", tag = "server",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
async fn read(Asked(Nothing): Asked<Nothing>) -> Result<Response, Problem> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| serde_json::to_string(&document()).unwrap_or_default());
    Ok(json(text.clone()))
}
