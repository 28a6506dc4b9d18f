//! How much memory a job takes, about: for bounds, not for accounts.

use std::mem::size_of;

use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::PolicyFields;

use super::event::AttemptEnd;
use super::state::{Attempt, Job, Task};

/// What the sets and indices of a job take for each task, and an allocation beside its contents.
const PER_TASK: usize = 64;

impl Job {
    /// About how many bytes of memory it takes. Looks at every task.
    pub fn memory_bytes(&self) -> usize {
        let header = &self.header;
        let labels = header.labels.iter().map(|(name, value)| PER_TASK + name.len() + value.len());
        let payloads = text(Some(&header.input)) + text(header.output.as_ref());
        let tasks: usize = self.tasks.iter().map(of_task).sum();
        size_of::<Self>() + header.name.len() + labels.sum::<usize>() + payloads + tasks
    }
}

fn of_task(task: &Task) -> usize {
    let spec = &task.spec;
    let names = spec.id.as_str().len() + spec.kind.as_str().len();
    let title = spec.title.as_ref().map_or(0, |title| title.len());
    let needs = spec.needs.iter().flatten().map(|need| PER_TASK + need.as_str().len());
    let edges = (task.needs.len() + task.dependants.len()) * size_of::<u32>();
    let substitute = task.skip.as_deref().and_then(Option::as_ref);
    let payloads = [Some(&spec.input), task.output.as_ref(), substitute];
    let failure = task.error.as_ref().map_or(0, |error| error.code.len() + error.message.len());
    size_of::<Task>()
        + size_of::<PolicyFields>()
        + PER_TASK
        + names
        + title
        + needs.sum::<usize>()
        + edges
        + payloads.into_iter().map(text).sum::<usize>()
        + failure
        + task.attempts.iter().map(of_attempt).sum::<usize>()
}

fn of_attempt(attempt: &Attempt) -> usize {
    let end = attempt.end.as_deref().map_or(0, |end| {
        let words = end.error.code.len() + end.error.message.len();
        size_of::<AttemptEnd>() + words + text(end.output.as_ref())
    });
    size_of::<Attempt>() + end
}

fn text(payload: Option<&Payload>) -> usize {
    payload.map_or(0, |payload| payload.as_str().len())
}
