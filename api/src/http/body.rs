//! Bodies: raw bytes within a limit, and JSON whose digits stay.

use std::error::Error;
use std::time::Duration;

use annals_tasks_sdk::Payload;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::problem::{Code, FieldError, Problem};
use super::state::AppState;

/// Larger bodies are looked into where blocking is allowed: tens of milliseconds for the largest.
const INLINE_MAX: usize = 64 << 10;

/// The body of a request: JSON, checked, its digits as they were sent. A body that is empty is
/// `None`.
#[derive(Debug, Clone)]
pub(super) struct JsonBody {
    /// The bytes as they came.
    pub(super) raw: Bytes,
    /// The same as a value.
    pub(super) json: Option<Payload>,
}

impl FromRequest<AppState> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        // What would be refused need not come.
        if !body.is_end_stream() {
            check_type(&parts.headers)?;
        }
        let raw = collect(body, state.settings().body_bytes).await?;
        if raw.is_empty() {
            return Ok(Self { raw, json: None });
        }
        let bytes = raw.clone();
        let json = aside(raw.len(), move || parse(&bytes)).await?;
        Ok(Self { raw, json: Some(json) })
    }
}

/// Does work on so many bytes of JSON: here, or, where it takes long, where blocking is allowed.
pub(super) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if bytes <= INLINE_MAX {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The edge makes an answer of a panic.
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        Err(_) => Err(Problem::new(Code::STOPPED, "the server has stopped")),
    }
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {limit} bytes, the limit (`body_bytes`)");
        Problem::new(Code::TOO_LARGE, detail)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            let code = if is_too_slow(&*error) { Code::TOO_SLOW } else { Code::BAD_BODY };
            Err(Problem::new(code, format!("the body did not arrive: {error}")))
        }
    }
}

/// Whoever serves gives this as the error of a body that comes too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it may take {limit:?}, and 1 s more for each 64 KiB that came")]
pub(crate) struct TooSlow {
    /// What it may take in any case.
    pub(crate) limit: Duration,
}

fn is_too_slow(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(<dyn Error>::is::<TooSlow>)
}

/// JSON by any name: `application/json`, or a type that ends with `+json`.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(header) = headers.get(CONTENT_TYPE) else {
        let detail = "the body has no Content-Type: send Content-Type: application/json with it";
        return Err(Problem::new(Code::NOT_JSON, detail));
    };
    let text = header.to_str().unwrap_or("?");
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        return Ok(());
    }
    let shown: String = text.chars().take(128).collect();
    let detail = format!("the body is {shown:?}: send JSON, with Content-Type: application/json");
    Err(Problem::new(Code::NOT_JSON, detail))
}

fn parse(raw: &[u8]) -> Result<Payload, Problem> {
    let bad = |pointer: String, detail: String| {
        let sentence = format!("the body is not JSON that all readers read alike: {detail}");
        Problem::new(Code::BAD_BODY, sentence).with_errors(vec![FieldError { pointer, detail }])
    };
    let text = std::str::from_utf8(raw).map_err(|error| {
        bad(String::new(), format!("byte {} is not UTF-8", error.valid_up_to()))
    })?;
    Payload::parse(text).map_err(|error| bad(error.pointer, error.detail))
}
