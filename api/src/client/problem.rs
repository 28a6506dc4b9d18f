//! Problem details, as a server sends them.

use serde::Deserialize;

/// Why a server refused something. Unknown fields are passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    /// A stable word.
    pub(crate) code: String,
    /// A sentence.
    pub(crate) detail: String,
    /// The status of the answer.
    pub(crate) status: u16,
    /// The id of the request.
    pub(crate) request_id: Option<String>,
    /// The job's status, where a command was refused for it.
    pub(crate) job_status: Option<String>,
    /// The commands that the job accepts.
    pub(crate) allowed: Option<Vec<String>>,
    /// The places of the body that are at fault.
    pub(crate) errors: Vec<Place>,
    /// Who would lose an input.
    pub(crate) dependants: Vec<Taker>,
    /// What is left of the job, where it was purged.
    pub(crate) purged: Option<serde_json::Value>,
}

/// A place that is at fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    pub(crate) pointer: String,
    pub(crate) detail: String,
}

/// A place that would lose its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Taker {
    pub(crate) task: Option<String>,
    pub(crate) reference: String,
}
