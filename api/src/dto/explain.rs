//! Why a job does not move.

use annals_engine::job;
use annals_engine::views::Reason;
use serde::Serialize;
use utoipa::ToSchema;

/// What a job waits for, or is doing.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Explanation {
    /// The job.
    #[schema(format = Uuid)]
    pub job_id: String,
    /// Its status.
    #[schema(value_type = super::JobStatus)]
    pub status: &'static str,
    /// What it is on its way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Intent>)]
    pub intent: Option<&'static str>,
    /// Never empty.
    pub reasons: Vec<Because>,
}

/// One thing that a job waits for, or does.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Reason)]
pub struct Because {
    /// A short stable word.
    pub code: &'static str,
    /// The sentence.
    pub detail: String,
    /// The task that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The attempt that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

impl Explanation {
    /// What the reasons of a job are.
    pub fn of(job: &job::Job, reasons: &[Reason]) -> Self {
        Self {
            job_id: job.id().to_string(),
            status: job.status().as_str(),
            intent: job.intent().map(job::Intent::as_str),
            reasons: reasons.iter().map(Because::of).collect(),
        }
    }

    /// The explanation as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl Because {
    fn of(reason: &Reason) -> Self {
        let (code, task, attempt) = match reason {
            Reason::NotStarted => ("not_started", None, None),
            Reason::Held => ("paused", None, None),
            Reason::Ended(_) => ("ended", None, None),
            Reason::Runs { task, attempt, .. } => ("runs", Some(task), Some(*attempt)),
            Reason::Stops { task, attempt, .. } => ("stops", Some(task), Some(*attempt)),
            Reason::Blocks { task, attempt, .. } => ("blocks", Some(task), Some(*attempt)),
            Reason::WantsSlot { task } => ("wants_slot", Some(task), None),
            Reason::Retries { task, .. } => ("retries", Some(task), None),
            Reason::Sleeps { task, .. } => ("sleeps", Some(task), None),
            Reason::WantsKind { task, .. } => ("wants_kind", Some(task), None),
            Reason::Failed { task, .. } => ("failed", Some(task), None),
            Reason::Lacks(_) => ("lacks", None, None),
            _ => ("other", None, None),
        };
        Self { code, detail: reason.to_string(), task: task.cloned(), attempt }
    }
}
