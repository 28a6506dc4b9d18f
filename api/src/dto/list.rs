//! Lists: of jobs, and of events.

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
    /// To be given as `after` for the next page; left out where there is nothing more now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
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
        Self::Known(Box::new(Row::of(&found.row)))
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
