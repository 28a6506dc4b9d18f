//! Whether the server lives, and whether it is ready: for whoever restarts it or sends it clients.

use std::path::PathBuf;
use std::time::Duration;

use annals_engine::Engine;
use annals_engine::runtime::EngineError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::state::{AppState, DiskWatch, Phase, Starting};
use crate::dto::{Health, Reason};

/// A disk that does not say within this time how full it is has something else.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// What the engine was about to write cannot be.
const LAW_BROKEN: &str = "law_broken";

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(live)).routes(routes!(ready)).routes(routes!(healthy))
}

/// Whether the process is worth keeping.
///
/// 503 where only another start helps: the engine could not be started, or a write has failed. An
/// engine that has contradicted itself about one job is kept: others go on in it.
#[utoipa::path(get, path = "/livez", operation_id = "isLive", tag = "server", responses(
    (status = 200, description = "It is", body = Health),
    (status = 503, description = "It is not, and why", body = Health),
))]
async fn live(State(state): State<AppState>) -> Response {
    let phase = state.phase();
    let reasons = match &phase {
        Phase::Failed(why) => vec![start_failed(why)],
        Phase::Ready(engine) => {
            let failed = engine_failed(engine).filter(|reason| reason.code != LAW_BROKEN);
            failed.into_iter().collect()
        }
        Phase::Starting(_) | Phase::Stopping(_) => Vec::new(),
    };
    answer(&phase, reasons)
}

/// Whether clients should be sent here.
///
/// 503 while the store is opened, repaired and recovered, with how far that is; when a write has
/// failed; when the engine has contradicted itself about a job (`law_broken`, until the next
/// start); when the store is not where it was; when the disk is nearly full; and when the server
/// is about to end.
#[utoipa::path(get, path = "/readyz", operation_id = "isReady", tag = "server", responses(
    (status = 200, description = "They should", body = Health),
    (status = 503, description = "They should not, and why", body = Health),
))]
async fn ready(State(state): State<AppState>) -> Response {
    readiness(&state).await
}

/// The same as `/readyz`, by the name that many look for.
#[utoipa::path(get, path = "/healthz", operation_id = "isHealthy", tag = "server", responses(
    (status = 200, description = "It is ready", body = Health),
    (status = 503, description = "It is not, and why", body = Health),
))]
async fn healthy(State(state): State<AppState>) -> Response {
    readiness(&state).await
}

async fn readiness(state: &AppState) -> Response {
    let phase = state.phase();
    let reasons = match &phase {
        Phase::Starting(starting) => vec![is_starting(starting)],
        Phase::Failed(why) => vec![start_failed(why)],
        Phase::Stopping(_) => {
            vec![reason("stopping", "the server is about to end; jobs go on at the next start")]
        }
        Phase::Ready(engine) => {
            let gone = store_is_gone(engine).await;
            let disk = match &state.settings().disk {
                // Of a folder that is gone nobody knows which disk it is on.
                Some(disk) if gone.is_none() => disk_is_short(disk).await,
                _ => None,
            };
            engine_failed(engine).into_iter().chain(gone).chain(disk).collect()
        }
    };
    answer(&phase, reasons)
}

fn answer(phase: &Phase, reasons: Vec<Reason>) -> Response {
    let well = reasons.is_empty();
    let (status, code) = if well {
        ("ok", StatusCode::OK)
    } else {
        ("unavailable", StatusCode::SERVICE_UNAVAILABLE)
    };
    let health =
        Health { status, phase: phase.name(), version: env!("CARGO_PKG_VERSION"), reasons };
    (code, [(CACHE_CONTROL, "no-store")], json(health.to_json())).into_response()
}

fn reason(code: &'static str, detail: impl Into<String>) -> Reason {
    Reason { code, detail: detail.into(), percent: None, free_bytes: None }
}

fn is_starting(Starting { doing, percent }: &Starting) -> Reason {
    Reason { percent: *percent, ..reason("starting", &**doing) }
}

fn start_failed(why: &str) -> Reason {
    reason("start_failed", why)
}

fn engine_failed(engine: &Engine) -> Option<Reason> {
    let error = engine.health().err()?;
    let code = match error {
        EngineError::LawBroken(_) => LAW_BROKEN,
        _ => "engine_failed",
    };
    Some(reason(code, error.to_string()))
}

/// The next commit would find that out; a server with nothing to do finds it out here.
async fn store_is_gone(engine: &Engine) -> Option<Reason> {
    let reader = engine.reader();
    let gone = in_time(move || reader.in_place()).await?.err()?;
    Some(reason("store_gone", gone.to_string()))
}

async fn disk_is_short(disk: &DiskWatch) -> Option<Reason> {
    let folder = disk.folder.display();
    match free_bytes(disk.folder.clone()).await {
        Some(free) if free >= disk.min_free => None,
        Some(free) => {
            let detail = format!(
                "{free} bytes are left for {folder}, less than {} (`min_free_disk`)",
                disk.min_free
            );
            Some(Reason { free_bytes: Some(free), ..reason("disk_nearly_full", detail) })
        }
        None => Some(reason("disk_unknown", format!("the disk of {folder} does not answer"))),
    }
}

/// How many bytes this process may still write in a folder.
pub(super) async fn free_bytes(folder: PathBuf) -> Option<u64> {
    let found = in_time(move || rustix::fs::statvfs(&folder)).await?.ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Asks a disk. One that hangs, as one on the network may, takes the time of a thread, not that of
/// requests.
async fn in_time<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let asked = tokio::task::spawn_blocking(ask);
    tokio::time::timeout(DISK_PATIENCE, asked).await.ok()?.ok()
}
