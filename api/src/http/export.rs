//! A job as a file.

use std::io::{self, BufWriter, Write};

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{JobPath, Running};
use super::problem::{Code, Problem};
use super::query::{Asked, Nothing};
use super::state::AppState;
use crate::bundle::{Export, ExportError};

/// How much is ready for a client at most, in parts...
const AHEAD: usize = 4;
/// ...of so many bytes.
const PART: usize = 64 << 10;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(export))
}

/// A job as one file that stands alone: its events, values and step logs, with the hashes that
/// prove them.
///
/// Each line is JSON. The last one has the hash of all before it: a file without it was cut off.
/// `annals verify --bundle` checks it, and `annals replay --bundle` replays it.
#[utoipa::path(get, path = "/jobs/{id}/export", operation_id = "exportJob", tag = "events",
    params(("id" = Uuid, Path, description = "The job's id")),
    responses((status = 200, description = "The file",
        body = String, content_type = "application/x-ndjson")))]
async fn export(
    JobPath(job): JobPath,
    Asked(Nothing): Asked<Nothing>,
    Running(engine): Running,
    State(state): State<AppState>,
) -> Result<Response, Problem> {
    let export = Export::of(&engine, &engine.job(job)).await?;
    let (parts, mut ready) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut out = BufWriter::with_capacity(PART, Sender(parts));
        if let Err(error) = export.write(&mut out) {
            // The client sees that there is no last line.
            let is_gone = matches!(error, ExportError::Write(_));
            if !is_gone {
                tracing::error!(%job, %error, "an export ends early");
            }
            let (parts, _) = out.into_parts();
            let _ = parts.0.blocking_send(Err(io::Error::other(error.to_string())));
        }
    });
    // What is cut off has no last line, so a client sees that it is not whole.
    let ending = state.ending().clone().cancelled_owned();
    let parts = stream::poll_fn(move |cx| ready.poll_recv(cx)).take_until(ending);
    let name = format!("attachment; filename=\"{job}.bundle.jsonl\"");
    // Digits, letters and dashes make a header.
    let name = HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static("attachment"));
    let kind = HeaderValue::from_static("application/x-ndjson");
    let headers = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// Where parts of the file go, which wait there for the client.
struct Sender(mpsc::Sender<io::Result<Bytes>>);

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Job(error) => error.into(),
            other => Self::new(Code::JOB_UNREADABLE, other.to_string()),
        }
    }
}
