//! The description of the API, made of the code that serves it.

use axum::Json;
use axum::response::IntoResponse;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref};
use utoipa::{OpenApi as Describe, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::ProblemBody;
use super::state::AppState;

#[derive(Describe)]
#[openapi(
    info(
        title = "Annals",
        description = "A durable workflow engine: jobs are submitted, watched and steered. \
            Everything that is answered with 2xx is durable."
    ),
    components(schemas(ProblemBody))
)]
struct Head;

/// What stands above the routes.
pub(super) fn head() -> OpenApi {
    Head::openapi()
}

/// The whole description, in `OpenAPI` 3.1.
pub fn document() -> OpenApi {
    let (_, mut document) = super::routes().split_for_parts();
    let problem = Ref::from_schema_name(ProblemBody::name());
    let content = ContentBuilder::new().schema(Some(problem)).build();
    let problem = ResponseBuilder::new()
        .description("What was wrong, with a stable code")
        .content("application/problem+json", content)
        .build();
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let responses = &mut operation.responses.responses;
            responses.entry("default".into()).or_insert_with(|| problem.clone().into());
        }
    }
    document
}

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(read))
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", operation_id = "describe", tag = "server",
    responses((status = 200, description = "OpenAPI 3.1")))]
async fn read() -> impl IntoResponse {
    Json(document())
}
