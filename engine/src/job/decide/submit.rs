//! Submit: a plan becomes a job.

use annals_tasks_sdk::plan::{Limits, PlanErrors, Start};

use crate::job::event::{Event, Submitted};

/// The first events of a job with this plan.
pub fn submit(submitted: Submitted, limits: &Limits) -> Result<Vec<Event>, PlanErrors> {
    submitted.plan.check(limits)?;
    let start = submitted.plan.start;
    let mut events = vec![Event::JobSubmitted(Box::new(submitted))];
    if start == Start::Now {
        events.push(Event::JobStarted);
    }
    Ok(events)
}
