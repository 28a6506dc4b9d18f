//! The item of a list of jobs.

use std::collections::BTreeMap;

use annals_engine::log::JobRow;
use annals_engine::runtime;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Error, ForkedFrom, Parent, Time};

/// A job in a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = JobRow)]
pub struct Row<'a> {
    /// Its id.
    #[schema(format = Uuid)]
    pub id: String,
    /// Its plan's name.
    pub name: &'a str,
    /// The workflow that made its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<&'a str>,
    /// The file that its plan was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'a str>,
    /// Its status.
    #[schema(value_type = super::JobStatus)]
    pub status: &'static str,
    /// What it is on its way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Intent>)]
    pub intent: Option<&'static str>,
    /// Its number of accepted commands.
    pub revision: u64,
    /// The number of its last event.
    pub seq: u64,
    /// The queue that it is in.
    pub queue: &'static str,
    /// Its priority there.
    pub priority: i32,
    /// Free pairs to find it by.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: &'a BTreeMap<Box<str>, Box<str>>,
    /// How many of its tasks stand where.
    pub progress: RowProgress,
    /// Why it failed or is about to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error<'a>>,
    /// When it was submitted.
    pub created_at: Time,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When its run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Where it comes from, where it is a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Whose child it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent<'a>>,
    /// The exclusive key that it waits for now, since another job holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wants_key: Option<WantedKey<'a>>,
}

/// An exclusive key that a job waits for.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct WantedKey<'a> {
    /// The key.
    pub key: &'a str,
    /// The job that holds it.
    #[schema(format = Uuid)]
    pub holder: String,
}

impl<'a> From<&'a runtime::WantedKey> for WantedKey<'a> {
    fn from(wanted: &'a runtime::WantedKey) -> Self {
        Self { key: &wanted.key, holder: wanted.holder.to_string() }
    }
}

/// How many tasks of a listed job stand where.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "these are the names in JSON")]
pub struct RowProgress {
    /// Tasks that are not removed.
    pub total_tasks: u32,
    /// Completed ones of them.
    pub completed_tasks: u32,
    /// Skipped ones of them.
    pub skipped_tasks: u32,
}

impl<'a> Row<'a> {
    /// What the views keep of a job: all but what it waits for now.
    pub fn of(row: &'a JobRow) -> Self {
        Self {
            id: row.job.to_string(),
            name: &row.name,
            workflow: row.workflow.as_deref(),
            source: row.source.as_deref(),
            status: row.status.as_str(),
            intent: row.intent.map(annals_engine::job::Intent::as_str),
            revision: row.revision,
            seq: row.head.seq,
            queue: "default",
            priority: 0,
            labels: &row.labels,
            progress: RowProgress {
                total_tasks: row.total_tasks,
                completed_tasks: row.completed_tasks,
                skipped_tasks: row.skipped_tasks,
            },
            error: row.error.as_ref().map(Error::of),
            created_at: Time(row.created),
            started_at: row.started.map(Time),
            finished_at: row.finished.map(Time),
            forked_from: row.forked_from.map(Into::into),
            parent: row.parent.as_ref().map(Into::into),
            wants_key: None,
        }
    }

    /// The row as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
