//! Problems: errors as RFC 9457 has them.
//!
//! A [`Problem`] is a value that any part of a handler can give. Its JSON is written at the edge,
//! where the id of the request is known.

mod code;
mod from;

use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{JobStatus, Tombstone};
use annals_tasks_sdk::JobId;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::dto;

pub use code::Code;

/// The media type of problems.
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Where each code is described.
const TYPES: &str = "https://github.com/annals-engine/annals/blob/main/docs/problems.md#";

/// Why a request got nothing of what it asked for.
#[derive(Debug, Clone)]
pub struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    code: Code,
    detail: String,
    job_status: Option<JobStatus>,
    allowed: Vec<&'static str>,
    errors: Vec<FieldError>,
    dependants: Vec<Dependant>,
    purged: Option<(JobId, Arc<Tombstone>)>,
    headers: HeaderMap,
}

/// A fault at one place of the request's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// JSON Pointer into the body; empty for the whole.
    pub pointer: String,
    /// What is wrong, as a sentence.
    pub detail: String,
}

/// A place that would lose its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Dependant {
    /// The task that takes the output; left out where it is the plan's `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// JSON Pointer of the reference, in that task's input or in the plan's output.
    reference: String,
}

/// A problem in JSON, as RFC 9457 has it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// Where the code is described.
    #[serde(rename = "type")]
    kind: String,
    /// What the code means, in a few words.
    title: &'a str,
    /// The status of the answer.
    status: u16,
    /// What happened, why, and what to do.
    detail: &'a str,
    /// A short stable word for programs.
    code: &'a str,
    /// The id of the request, which stands in the log of the server too.
    request_id: &'a str,
    /// The job's status, where a command was refused for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_status: Option<&'a str>,
    /// The commands that the job accepts now, where one was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<&'a [&'static str]>,
    /// The places of the body that are at fault.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    /// Who would lose an input, where a command was refused for that.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    dependants: &'a [Dependant],
    /// What is left of the job, where it was purged.
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<dto::Tombstone<'a>>,
}

impl Problem {
    /// A problem with a sentence that says what happened, why, and what to do.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            detail: detail.into(),
            job_status: None,
            allowed: Vec::new(),
            errors: Vec::new(),
            dependants: Vec::new(),
            purged: None,
            headers: HeaderMap::new(),
        }))
    }

    /// That a job was purged, with what is left of it.
    fn purged(job: JobId, tombstone: Arc<Tombstone>) -> Self {
        let detail = dto::Tombstone::of(job, &tombstone).sentence();
        let mut problem = Self::new(Code::PURGED, detail);
        problem.0.purged = Some((job, tombstone));
        problem
    }

    /// With the places that are at fault.
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    /// With the places that are at fault below another.
    pub(in crate::http) fn below(mut self, pointer: &str) -> Self {
        for error in &mut self.0.errors {
            error.pointer.insert_str(0, pointer);
        }
        self
    }

    /// Of one edit among others.
    pub(in crate::http) fn of_edit(mut self, index: usize) -> Self {
        self.0.detail = format!("edit {}: {}", index + 1, self.0.detail);
        self
    }

    /// The places that are at fault.
    pub(crate) fn into_errors(self) -> Vec<FieldError> {
        self.0.errors
    }

    /// With a header of the answer.
    pub fn with_header(mut self, name: axum::http::HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// With when to ask again.
    pub fn retry_after(self, after: Duration) -> Self {
        self.with_header(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)))
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What happened.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// As JSON.
    pub(super) fn body<'a>(&'a self, request_id: &'a str) -> ProblemBody<'a> {
        let parts = &*self.0;
        ProblemBody {
            kind: format!("{TYPES}{}", parts.code.word),
            title: parts.code.title,
            status: parts.code.status.as_u16(),
            detail: &parts.detail,
            code: parts.code.word,
            request_id,
            job_status: parts.job_status.map(JobStatus::as_str),
            allowed: parts.job_status.map(|_| &*parts.allowed),
            errors: &parts.errors,
            dependants: &parts.dependants,
            purged: parts.purged.as_ref().map(|(job, left)| dto::Tombstone::of(*job, left)),
        }
    }

    /// Writes its JSON into the answer that it made.
    pub(super) fn write(&self, response: &mut Response, request_id: &str) {
        let text = serde_json::to_string(&self.body(request_id)).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        *response.body_mut() = Body::from(text);
    }
}

/// Gives an answer without a body: the edge writes it.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.0.code.status.into_response();
        *response.headers_mut() = self.0.headers.clone();
        response.extensions_mut().insert(self);
        response
    }
}
