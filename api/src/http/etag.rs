//! Entity tags: `"<revision>.<seq>.<n>"`, where n counts what live attempts have said.

use std::fmt;

use annals_engine::runtime::Snapshot;
use axum::extract::FromRequestParts;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::problem::{Code, Problem};

/// Where a job stands, to the last word of its live attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ETag {
    revision: u64,
    seq: u64,
    volatile: u64,
}

impl ETag {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let volatile = snapshot.live.values().map(|live| live.updates).sum();
        Self { revision: snapshot.job.revision(), seq: snapshot.job.seq(), volatile }
    }

    /// As a header.
    pub(super) fn header(self) -> HeaderValue {
        // Digits and dots between quotes make a header.
        HeaderValue::from_str(&self.to_string()).unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// Reads a tag. That it is weak does not matter: proxies that compress make them so.
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("W/").unwrap_or(text);
        let mut numbers = text.strip_prefix('"')?.strip_suffix('"')?.split('.');
        let mut number = || numbers.next()?.parse().ok();
        let tag = Self { revision: number()?, seq: number()?, volatile: number()? };
        numbers.next().is_none().then_some(tag)
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}.{}.{}\"", self.revision, self.seq, self.volatile)
    }
}

/// `If-None-Match`: what the client has already.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Option<Vec<Option<ETag>>>);

impl Known {
    /// Whether the client has this.
    pub(super) fn has(&self, tag: ETag) -> bool {
        self.0.as_ref().is_some_and(|tags| tags.is_empty() || tags.contains(&Some(tag)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Known {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Tags that are not ours match nothing.
        tags(&parts.headers, &IF_NONE_MATCH).map(Self)
    }
}

/// `If-Match`: the revision that the client has seen; any where it is `*` or left out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IfMatch(pub(super) Option<u64>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let tags = tags(&parts.headers, &IF_MATCH)?.unwrap_or_default();
        match &*tags {
            [] => Ok(Self(None)),
            [Some(tag)] => Ok(Self(Some(tag.revision))),
            _ => Err(bad_header("If-Match", "must be one ETag of the job, or *")),
        }
    }
}

/// The tags of a header: none for `*`, and `None` for those that no job has had.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<Option<ETag>>>, Problem> {
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str().map_err(|_| bad_header(name.as_str(), "must be ASCII"))?;
        if text.trim() == "*" {
            return Ok(Some(Vec::new()));
        }
        tags.extend(text.split(',').map(|tag| ETag::parse(tag.trim())));
    }
    Ok((!tags.is_empty()).then_some(tags))
}

fn bad_header(name: &str, rule: &str) -> Problem {
    Problem::new(Code::BAD_HEADER, format!("{name} {rule}"))
}
