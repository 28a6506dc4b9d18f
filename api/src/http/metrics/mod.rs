//! `/metrics`: numbers for whoever watches the server, in the text format of Prometheus.
//!
//! The engine counts for itself, and so do requests here; a scrape reads all of it. Labels have
//! few values: no ids, no names that clients choose.

mod engine;
mod process;
mod requests;
mod text;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::health::free_bytes;
use super::state::{AppState, Phase};
use text::{Kind, Page};

pub(super) use requests::Requests;

/// The format's media type.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(read))
}

/// Numbers, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", operation_id = "readMetrics", tag = "server", responses(
    (status = 200, description = "The numbers", body = String, content_type = "text/plain")))]
async fn read(State(state): State<AppState>) -> Response {
    let mut page = Page::default();
    page.family("annals_build_info", Kind::Gauge, "The version of the program")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let phase = state.phase();
    let mut phases = page.family("annals_engine_phase", Kind::Gauge, "1 where the engine stands");
    for name in Phase::NAMES {
        phases.sample(&[("phase", name)], u64::from(name == phase.name()));
    }
    if let Phase::Ready(running) | Phase::Stopping(running) = &phase {
        engine::write(&mut page, &running.stats());
    }
    state.requests().write(&mut page);
    if let Some(disk) = &state.settings().disk
        && let Some(free) = free_bytes(disk.folder.clone()).await
    {
        page.family("annals_disk_free_bytes", Kind::Gauge, "Bytes left for the data folder")
            .sample(&[], free);
    }
    process::write(&mut page);
    let headers = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
    (headers, page.finish()).into_response()
}
