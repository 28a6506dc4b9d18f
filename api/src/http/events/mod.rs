//! What has happened: the history of a job, and the whole log; in pages, or as it happens.

mod job;
mod log;

use annals_engine::log::PageLimit;
use axum::http::Uri;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::list::{limit, link_next};
use super::problem::Problem;
use super::query::{FromQuery, Parameters, bad_query};
use super::sse::{LastEventId, VARIES};
use super::state::AppState;

/// What a page of JSON may take in the log, beside the event that makes it that much.
const PAGE_BYTES: usize = 1 << 20;

/// What a follower is given at a time.
const STREAMED: PageLimit = PageLimit { events: 128, bytes: 256 << 10 };

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(job::events)).routes(routes!(log::events))
}

/// Which events are asked for.
pub(super) struct Range {
    pub(super) after: u64,
    limit: Option<usize>,
}

impl FromQuery for Range {
    const KNOWN: &'static [&'static str] = &["after", "limit"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let after = parameters.number("after")?.unwrap_or(0);
        let limit = parameters.text("limit")?.map(|_| limit(parameters)).transpose()?;
        Ok(Self { after, limit })
    }
}

impl Range {
    /// How much a page may have.
    pub(super) fn page(&self) -> PageLimit {
        PageLimit { events: self.limit.unwrap_or(100), bytes: PAGE_BYTES }
    }

    /// Behind what a stream begins.
    fn stream(&self, last: Option<u64>) -> Result<u64, Problem> {
        if self.limit.is_some() {
            return Err(bad_query("`limit` is for pages: a stream goes on to the end"));
        }
        Ok(last.unwrap_or(self.after))
    }
}

/// A page of events.
pub(super) fn page_of(text: String, next: Option<&str>, uri: &Uri) -> Response {
    let mut response = json(text);
    let (name, value) = VARIES;
    response.headers_mut().insert(name, value);
    if let Some(after) = next {
        link_next(&mut response, uri, "after", after);
    }
    response
}

/// The number of the last event that a client has.
fn last_number(last: &LastEventId) -> Result<Option<u64>, Problem> {
    last.read("the number of an event", |id| id.parse().ok())
}
