//! Lists: of jobs, and of events.

use annals_engine::log::Damage;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Event, Row};
use crate::list::{Filter, Found, Page};

/// A page of a list of jobs, the newest first.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobList<'a> {
    /// The jobs.
    pub items: Vec<Listed<'a>>,
    /// To be given as `cursor` for the next page, with the same filter; left out on the last page.
    /// A page that has it may have fewer items than were asked for, even none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A job of a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ListedJob)]
pub enum Listed<'a> {
    /// As far as it is known.
    Known(Box<Row<'a>>),
    /// Its history cannot be followed.
    Damaged {
        /// Its id.
        id: String,
        /// Always true.
        damaged: bool,
    },
}

/// A page of events, the oldest first.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EventList<'a> {
    /// The events.
    pub items: Vec<Event<'a>>,
    /// What of the log before these events cannot be read; left out where there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub damaged: Vec<LogDamage<'a>>,
    /// To be given as `after` for the next page; left out where there is nothing more now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A part of the log that cannot be read. What comes behind it is not concerned.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LogDamage<'a> {
    /// Its first position, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The position to go on behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto: Option<u64>,
    /// The job that it is of, as far as can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub job_id: Option<String>,
    /// What is wrong, in words.
    pub detail: &'a str,
}

impl<'a> LogDamage<'a> {
    /// Damage in the log.
    pub fn of(damage: &'a Damage) -> Self {
        Self {
            from: damage.position.map(|position| position.0),
            upto: damage.upto.map(|position| position.0),
            job_id: damage.job.map(|job| job.to_string()),
            detail: &damage.detail,
        }
    }

    /// The damage as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> JobList<'a> {
    /// A page that was found with this filter.
    pub fn of(page: &'a Page, filter: &Filter) -> Self {
        let next_cursor = page.next.map(|cursor| cursor.to_text(filter));
        Self { items: page.jobs.iter().map(Listed::of).collect(), next_cursor }
    }

    /// The page as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> Listed<'a> {
    /// A job. Of one that is damaged nothing else is sure to be true.
    pub fn of(found: &'a Found) -> Self {
        if found.damage.is_some() {
            return Self::Damaged { id: found.row.job.to_string(), damaged: true };
        }
        let wants_key = found.wants_key.as_ref().map(Into::into);
        Self::Known(Box::new(Row { wants_key, ..Row::of(&found.row) }))
    }

    /// The job as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl EventList<'_> {
    /// The page as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
