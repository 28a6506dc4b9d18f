//! Twins of the plan and of a task.

use annals_tasks_sdk::plan;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use crate::job::{self, Event};
use crate::log::codec::{CodecError, read};
use crate::log::v2;

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct Submitted<'a> {
    #[serde(borrow)]
    before: v2::Submitted<'a>,
    /// Of tasks that have one, by their index.
    conditions: Vec<(u32, Condition<'a>)>,
    fail_fast: bool,
    finally: Vec<TaskSpec<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct TaskSpec<'a> {
    #[serde(borrow)]
    before: v2::TaskSpec<'a>,
    when: Option<Condition<'a>>,
}

/// Reads the payload of `JobSubmitted`; `None` where it has what this build does not do.
pub(in crate::log) fn get_submitted(bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let submitted = read::<Submitted<'_>>(bytes)?.known()?;
    Ok(submitted.map(|submitted| Event::JobSubmitted(Box::new(submitted))))
}

impl<'a> TryFrom<&'a job::Submitted> for Submitted<'a> {
    type Error = CodecError;

    fn try_from(submitted: &'a job::Submitted) -> Result<Self, CodecError> {
        let plan = &submitted.plan;
        let mut conditions = Vec::new();
        for (task, index) in plan.tasks.iter().zip(0u32..) {
            if let Some(condition) = task.when.as_deref() {
                conditions.push((index, condition.try_into()?));
            }
        }
        let finally = plan.finally.iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self { before: submitted.into(), conditions, fail_fast: plan.fail_fast, finally })
    }
}

impl Submitted<'_> {
    /// What it says; `None` where it has what this build does not do.
    pub(in crate::log) fn known(self) -> Result<Option<job::Submitted>, CodecError> {
        let Self { before, conditions, fail_fast, finally } = self;
        if !before.is_known() {
            return Ok(None);
        }
        let mut submitted: job::Submitted = before.try_into()?;
        let plan = &mut submitted.plan;
        for (index, condition) in conditions {
            let task = plan.tasks.get_mut(index as usize);
            let none = || CodecError::Damaged(format!("there is no task {index}"));
            task.ok_or_else(none)?.when = Some(Box::new(condition.try_into()?));
        }
        plan.fail_fast = fail_fast;
        plan.finally = finally.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Some(submitted))
    }
}

impl<'a> TryFrom<&'a plan::TaskSpec> for TaskSpec<'a> {
    type Error = CodecError;

    fn try_from(task: &'a plan::TaskSpec) -> Result<Self, CodecError> {
        let when = task.when.as_deref().map(TryInto::try_into).transpose()?;
        Ok(Self { before: task.into(), when })
    }
}

impl TryFrom<TaskSpec<'_>> for plan::TaskSpec {
    type Error = CodecError;

    fn try_from(task: TaskSpec<'_>) -> Result<Self, CodecError> {
        let mut spec: Self = task.before.try_into()?;
        spec.when = task.when.map(TryInto::try_into).transpose()?.map(Box::new);
        Ok(spec)
    }
}
