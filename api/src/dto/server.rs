//! What a server says of itself.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Whether a server is well, or ready.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or `unavailable` where there are reasons.
    pub status: &'static str,
    /// Where the engine stands: `starting`, `ready`, `stopping` or `failed`.
    pub phase: &'static str,
    /// The version of the program.
    pub version: &'static str,
    /// Why it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// Why a server is not well, or not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reason {
    /// A stable word: `starting`, `start_failed`, `stopping`, `engine_failed`, `law_broken`,
    /// `store_gone`, `disk_nearly_full` or `disk_unknown`.
    pub code: &'static str,
    /// What it is, as a sentence.
    pub detail: String,
    /// How much of a start is done, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// How many bytes are free for the store, where it is about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// The kinds that tasks may be of.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Kinds {
    /// Them, in order of their names.
    pub items: Vec<Kind>,
}

/// A kind that tasks may be of.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// The pool whose slots its attempts hold; left out where its tasks only wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The JSON Schema of its input, once references are resolved; left out where the program does
    /// not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<&'static RawValue>,
}

/// The workflows that make plans here.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Workflows {
    /// Them, in order of their names.
    pub items: Vec<WorkflowName>,
}

/// A workflow that makes plans.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Workflow)]
pub struct WorkflowName {
    /// Its name, as a submission gives it in `workflow`.
    pub name: String,
}

impl Health {
    /// The shape as JSON.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl Kinds {
    /// The shape as JSON.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl Workflows {
    /// The shape as JSON.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
