//! What an event has changed of its job.

use annals_engine::job::{self, TaskNumber};
use annals_engine::runtime::Replayed;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Event, Job, Live, Task};
use crate::json;

/// One place of a job at which something else stands than before.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Change {
    /// Where in the job, as an RFC 6901 pointer in which tasks go by their ids, attempts by their
    /// numbers and steps by their names: `/tasks/packages/attempts/1/outcome`.
    pub path: String,
    /// What stood there; left out where there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub from: Option<Box<RawValue>>,
    /// What stands there now; left out where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub to: Option<Box<RawValue>>,
}

/// An event, and what it has changed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ReplayedEvent<'a> {
    /// The event.
    #[serde(flatten)]
    pub event: Event<'a>,
    /// What it has changed of the job; its `seq` is left out, which is that of the event. Of the
    /// first event, before which there is no job, everything.
    pub changes: Vec<Change>,
}

/// A page of a replay, the oldest event first.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Replay {
    /// The events.
    #[schema(value_type = Vec<ReplayedEvent>)]
    pub items: Vec<Box<RawValue>>,
    /// To be given as `after` for the next page; left out where there is nothing more now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Replay {
    /// The same as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> ReplayedEvent<'a> {
    /// One step of a replay.
    pub fn of(step: &Replayed<'a>) -> Self {
        let logged = step.logged;
        let event = Event::of(step.after, &logged.recorded).at(logged.position, logged.hash);
        Self { event, changes: between(step.before, step.after) }
    }

    /// The same as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

/// What is different between two states of a job.
fn between(before: Option<&job::Job>, after: &job::Job) -> Vec<Change> {
    // Most events change one task: the others need not be written out to be compared.
    let differs = |(number, task): &(TaskNumber, &job::Task)| {
        before.is_none_or(|before| before.task(*number) != Some(*task))
    };
    let changed: Vec<_> = after.tasks().filter(differs).collect();
    let is = match before {
        None => Job::of(after, &Live::new()).to_json(),
        Some(_) => state(after, changed.iter().copied()),
    };
    let was = before.map_or_else(
        || "{}".into(),
        |before| {
            let earlier = changed
                .iter()
                .filter_map(|&(number, _)| before.task(number).map(|task| (number, task)));
            state(before, earlier)
        },
    );
    // Both are JSON that was just written.
    let all = json::changes(&was, &is).unwrap_or_default().into_iter();
    all.filter(|change| change.path != "/seq").filter_map(Change::of).collect()
}

/// A job with some of its tasks, and without its input, which is the same for ever.
fn state<'a>(
    job: &'a job::Job,
    tasks: impl Iterator<Item = (TaskNumber, &'a job::Task)>,
) -> String {
    let live = Live::new();
    let tasks = tasks.map(|(number, task)| Task::of(job, number, task, &live)).collect();
    Job { tasks, input: None, ..Job::without_tasks(job, &live) }.to_json()
}

impl Change {
    fn of(change: json::Change) -> Option<Self> {
        let json::Change { path, from, to } = change;
        let raw = |text: Option<String>| text.map(RawValue::from_string).transpose().ok();
        Some(Self { path, from: raw(from)?, to: raw(to)? })
    }
}
