//! What a command would do.

use annals_engine::job::Recorded;
use annals_engine::runtime::Snapshot;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Event, Job};

/// What a command or a submission would do, and has not done.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DryRun<'a> {
    /// The events that it would make; none where what is asked for holds already.
    pub events: Vec<Event<'a>>,
    /// The job after them.
    pub job: Job<'a>,
}

impl<'a> DryRun<'a> {
    /// The events, and the job that they make.
    pub fn of(events: &'a [Recorded], snapshot: &'a Snapshot) -> Self {
        let events = events.iter().map(|event| Event::of(&snapshot.job, event)).collect();
        Self { events, job: Job::at(snapshot) }
    }

    /// The same as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}
