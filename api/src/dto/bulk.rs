//! What became of a command for many jobs.

use serde::Serialize;
use utoipa::ToSchema;

use crate::bulk::{Outcome, Refused};

/// What became of a command for many jobs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Bulk<'a> {
    /// How many jobs the filter wanted.
    pub matched: u64,
    /// How many of them accepted the command, or would.
    pub accepted: u64,
    /// Those that refused it, or would; the first 10,000 of them.
    pub refused: Vec<BulkRefusal<'a>>,
    /// How many more did.
    #[serde(skip_serializing_if = "is_none")]
    pub more_refused: u64,
}

/// A job that refused a command.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct BulkRefusal<'a> {
    /// The job.
    #[schema(format = Uuid)]
    pub job_id: String,
    /// A short stable word for programs: that of the problem that the job would have answered with.
    pub code: &'a str,
    /// The sentence.
    pub detail: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl<'a> Bulk<'a> {
    /// An outcome as it is shown.
    pub(crate) fn of(outcome: &'a Outcome) -> Self {
        let Outcome { matched, accepted, more_refused, .. } = *outcome;
        let refused = outcome.refused.iter().map(BulkRefusal::of).collect();
        Self { matched, accepted, refused, more_refused }
    }

    /// The outcome as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> BulkRefusal<'a> {
    fn of(refused: &'a Refused) -> Self {
        let problem = &refused.problem;
        let (code, detail) = (problem.code().word, problem.detail());
        Self { job_id: refused.job.to_string(), code, detail }
    }
}
