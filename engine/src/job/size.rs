//! How much memory a job takes, about: for bounds, not for accounts.

use std::mem::size_of;

use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::{Compensation, PolicyFields};

use super::event::{AttemptEnd, Failure};
use super::header::Exclusive;
use super::state::{Attempt, Job, Task};

/// What the sets and indices of a job take for each task, and an allocation beside its contents.
const PER_TASK: usize = 64;

impl Job {
    /// About how many bytes of memory it takes. Kept with every event, since whoever asks has no
    /// time to look at every task; what an event drops again is not taken off.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

/// What a job takes that has just been submitted.
pub(super) fn of_new(job: &Job) -> usize {
    let header = &job.header;
    let labels = header.labels.iter().map(|(name, value)| PER_TASK + name.len() + value.len());
    let payloads = of_payload(Some(&header.input)) + of_payload(header.output.as_ref());
    let tasks: usize = job.tasks.iter().map(of_task).sum();
    let key = job.exclusive.as_ref().map_or(0, |own| size_of::<Exclusive>() + own.key.len());
    size_of::<Job>() + key + header.name.len() + labels.sum::<usize>() + payloads + tasks
}

pub(super) fn of_task(task: &Task) -> usize {
    let spec = &task.spec;
    let names = spec.id.as_str().len() + spec.kind.as_str().len();
    let title = spec.title.as_ref().map_or(0, |title| title.len());
    let needs = spec.needs.iter().flatten().map(|need| PER_TASK + need.as_str().len());
    let edges = (task.needs.len() + task.dependants.len()) * size_of::<u32>();
    size_of::<Task>()
        + size_of::<PolicyFields>()
        + PER_TASK
        + names
        + title
        + needs.sum::<usize>()
        + edges
        + of_payload(Some(&spec.input))
        + spec.compensate.as_deref().map_or(0, of_compensation)
}

fn of_compensation(of: &Compensation) -> usize {
    let words = of.kind.as_str().len() + of.title.as_ref().map_or(0, |title| title.len());
    size_of::<Compensation>() + words + of_payload(Some(&of.input))
}

/// What an attempt takes while it is alive.
pub(super) const ATTEMPT: usize = size_of::<Attempt>();

/// What the end of an attempt that did not succeed takes.
pub(super) fn of_end(end: &AttemptEnd) -> usize {
    let words = end.error.code.len() + end.error.message.len();
    size_of::<AttemptEnd>() + words + of_payload(end.output.as_ref())
}

pub(super) fn of_failure(failure: &Failure) -> usize {
    size_of::<Failure>() + failure.code.len() + failure.message.len()
}

pub(super) fn of_payload(payload: Option<&Payload>) -> usize {
    payload.map_or(0, |payload| payload.as_str().len())
}

#[cfg(test)]
mod tests {
    use annals_tasks_sdk::plan::{Limits, Plan};
    use annals_tasks_sdk::{Done, Exit, JobId, Payload, Timestamp};

    use crate::job::{
        Context, LogSize, LossRule, Origin, Outcome, Report, Submitted, TaskNumber, begin, step,
        submit,
    };

    #[test]
    fn what_a_task_gives_is_counted() {
        let text = r#"{"name": "test", "tasks": [{"id": "a", "kind": "noop"}]}"#;
        let plan = Plan::from_json(text, &Limits::NONE).unwrap();
        let submitted = Submitted { plan, workflow: None, source: None };
        let events = submit(submitted, &Limits::NONE).unwrap();
        let (now, losses) = (Timestamp::from_millis(1_800_000_000_000), LossRule::default());
        let cx = Context {
            origin: Origin::ENGINE,
            key: None,
            now,
            random: 0.5,
            losses,
            instances: 10_000,
        };
        let mut job = begin(JobId::from_u128(1), events, &cx).unwrap().0;
        let new = job.memory_bytes();
        let task = TaskNumber(1);
        step(&mut job, Report::Start { task }, &cx).unwrap();
        let output = Payload::trusted(&format!("\"{}\"", "x".repeat(10_000)));
        let outcome = Outcome::Completed(Done { output, exit: Exit::default() });
        let log = LogSize::default();
        step(&mut job, Report::Ended { task, attempt: 1, outcome, log }, &cx).unwrap();
        let grown = job.memory_bytes() - new;
        assert!((10_000..11_000).contains(&grown), "{grown}");
    }
}
