//! Answers: JSON text with the headers that go with it.

use annals_engine::runtime::Snapshot;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::etag::{ETag, Known};
use crate::dto;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Whoever keeps an answer asks with its tag before using it again.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// JSON text.
pub(super) fn json(text: String) -> Response {
    ([(CONTENT_TYPE, JSON), (CACHE_CONTROL, NO_CACHE)], text).into_response()
}

/// JSON text that a snapshot was read from.
pub(super) fn tagged(tag: ETag, text: String) -> Response {
    let mut response = json(text);
    response.headers_mut().insert(ETAG, tag.header());
    response
}

/// What is shown of a snapshot, unless the client has that.
pub(super) fn unless_known(
    known: &Known,
    snapshot: &Snapshot,
    show: impl FnOnce(&Snapshot) -> String,
) -> Response {
    let tag = ETag::of(snapshot);
    if known.has(tag) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag.header()), (CACHE_CONTROL, NO_CACHE)])
            .into_response();
    }
    tagged(tag, show(snapshot))
}

/// A job's snapshot with a status.
pub(super) fn snapshot(status: StatusCode, snapshot: &Snapshot) -> Response {
    let mut response = tagged(ETag::of(snapshot), dto::Job::at(snapshot).to_json());
    *response.status_mut() = status;
    response
}
