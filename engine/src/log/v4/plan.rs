//! Twins of the plan and of a task.

use annals_tasks_sdk::plan;
use annals_tasks_sdk::{Payload, Timestamp};
use serde::{Deserialize, Serialize};

use super::compensate::Compensation;
use crate::job::{self, Event};
use crate::log::codec::{CodecError, read, write};
use crate::log::v1::Json;
use crate::log::v3::{self, JobEnd};

#[derive(Serialize, Deserialize)]
struct Submitted<'a> {
    #[serde(borrow)]
    before: v3::Submitted<'a>,
    /// Of tasks that have any of it, by their index; those of `finally` stand behind the others.
    more: Vec<(u32, More<'a>)>,
    /// When it starts by itself, where that is a time: what was there before says that it does not.
    start_at: Option<i64>,
    compensate_on: Vec<JobEnd>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct TaskSpec<'a> {
    #[serde(borrow)]
    before: v3::TaskSpec<'a>,
    more: More<'a>,
}

/// What came to tasks with this version.
#[derive(Serialize, Deserialize)]
struct More<'a> {
    #[serde(borrow)]
    for_each: Option<ForEach<'a>>,
    compensate: Option<Compensation<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ForEach<'a> {
    #[serde(borrow)]
    items: Json<'a>,
    concurrency: Option<u32>,
}

/// Appends the payload of `JobSubmitted` to `out`.
pub(in crate::log) fn put_submitted(
    submitted: &job::Submitted,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let tasks = submitted.plan.all_tasks().zip(0u32..);
    let more = tasks.map(|(task, index)| (index, More::of(task)));
    let more = more.filter(|(_, more)| more.is_any()).collect();
    let start_at = match submitted.plan.start {
        plan::Start::At(time) => Some(time.as_millis()),
        _ => None,
    };
    let compensate_on = submitted.plan.compensate_on.iter().map(|&end| end.into()).collect();
    write(out, &Submitted { before: submitted.try_into()?, more, start_at, compensate_on })
}

/// Reads the payload of `JobSubmitted`; `None` where it has what this build does not do.
pub(in crate::log) fn get_submitted(bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let Submitted { before, more, start_at, compensate_on } = read(bytes)?;
    let Some(mut submitted) = before.known()? else { return Ok(None) };
    let plan = &mut submitted.plan;
    if let Some(time) = start_at {
        plan.start = plan::Start::At(Timestamp::from_millis(time));
    }
    plan.compensate_on = compensate_on.into_iter().map(Into::into).collect();
    for (index, more) in more {
        let mut tasks = plan.tasks.iter_mut().chain(&mut plan.finally);
        let none = || CodecError::Damaged(format!("there is no task {index}"));
        more.put_into(tasks.nth(index as usize).ok_or_else(none)?)?;
    }
    Ok(Some(Event::JobSubmitted(Box::new(submitted))))
}

impl<'a> More<'a> {
    fn of(task: &'a plan::TaskSpec) -> Self {
        let for_each = task
            .for_each
            .as_deref()
            .map(|each| ForEach { items: each.items.as_str(), concurrency: each.concurrency });
        Self { for_each, compensate: task.compensate.as_deref().map(Into::into) }
    }

    fn is_any(&self) -> bool {
        self.for_each.is_some() || self.compensate.is_some()
    }

    fn put_into(self, task: &mut plan::TaskSpec) -> Result<(), CodecError> {
        task.for_each = self.for_each.map(|ForEach { items, concurrency }| {
            Box::new(plan::ForEach { items: Payload::trusted(items), concurrency })
        });
        task.compensate = self.compensate.map(TryInto::try_into).transpose()?.map(Box::new);
        Ok(())
    }
}

impl<'a> TryFrom<&'a plan::TaskSpec> for TaskSpec<'a> {
    type Error = CodecError;

    fn try_from(task: &'a plan::TaskSpec) -> Result<Self, CodecError> {
        Ok(Self { before: task.try_into()?, more: More::of(task) })
    }
}

impl TryFrom<TaskSpec<'_>> for plan::TaskSpec {
    type Error = CodecError;

    fn try_from(task: TaskSpec<'_>) -> Result<Self, CodecError> {
        let mut spec: Self = task.before.try_into()?;
        task.more.put_into(&mut spec)?;
        Ok(spec)
    }
}
