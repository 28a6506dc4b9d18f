//! Twins of the plan and of what `JobSubmitted` keeps beside it.

use annals_tasks_sdk::plan::{self, Policy as PlanPolicy, PolicyFields};
use annals_tasks_sdk::{KindName, Payload, TaskId};
use serde::{Deserialize, Serialize};

use crate::job::{self, Event};
use crate::log::codec::{CodecError, read};
use crate::log::v1::{Json, OnFailure, OnLost, Retry, Span, Start, bad, payload, text};

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct Submitted<'a> {
    #[serde(borrow)]
    plan: Plan<'a>,
    workflow: Option<&'a str>,
    source: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct Plan<'a> {
    name: &'a str,
    /// In the order of the keys.
    #[serde(borrow)]
    labels: Vec<(&'a str, &'a str)>,
    input: Json<'a>,
    start: Start,
    deadline: Option<Span>,
    output: Option<Json<'a>>,
    tasks: Vec<TaskSpec<'a>>,
    later: Later<'a>,
}

/// What came later than the version, which had room for it. A build leaves out what it does not do
/// yet, and does not know an event that has any of it.
#[derive(Serialize, Deserialize, PartialEq, Default)]
struct Later<'a> {
    queue: Option<&'a str>,
    priority: i32,
    #[serde(borrow)]
    exclusive: Option<&'a str>,
}

impl Later<'_> {
    /// Whether this build does all of it.
    fn is_known(&self) -> bool {
        self.queue.is_none() && self.priority == 0
    }
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct TaskSpec<'a> {
    id: &'a str,
    #[serde(borrow)]
    title: Option<&'a str>,
    kind: &'a str,
    input: Json<'a>,
    needs: Option<Vec<&'a str>>,
    policy: Policy<'a>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct Policy<'a> {
    timeout: Option<Span>,
    heartbeat_timeout: Option<Span>,
    cancel_grace: Option<Span>,
    #[serde(borrow)]
    retry: Retry<'a>,
    on_failure: OnFailure,
    on_lost: OnLost,
}

/// Reads the payload of `JobSubmitted`; `None` where it has what this build does not do.
pub(in crate::log) fn get_submitted(bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let submitted: Submitted<'_> = read(bytes)?;
    if !submitted.is_known() {
        return Ok(None);
    }
    Ok(Some(Event::JobSubmitted(Box::new(submitted.try_into()?))))
}

impl Submitted<'_> {
    /// Whether this build does all of it.
    pub(in crate::log) fn is_known(&self) -> bool {
        self.plan.later.is_known()
    }
}

impl<'a> From<&'a job::Submitted> for Submitted<'a> {
    fn from(submitted: &'a job::Submitted) -> Self {
        Self {
            plan: (&submitted.plan).into(),
            workflow: submitted.workflow.as_deref(),
            source: submitted.source.as_deref(),
        }
    }
}

impl TryFrom<Submitted<'_>> for job::Submitted {
    type Error = CodecError;

    fn try_from(submitted: Submitted<'_>) -> Result<Self, CodecError> {
        let plan = submitted.plan.try_into()?;
        let workflow = submitted.workflow.map(Into::into);
        Ok(Self { plan, workflow, source: submitted.source.map(Into::into) })
    }
}

impl<'a> From<&'a plan::Plan> for Plan<'a> {
    fn from(plan: &'a plan::Plan) -> Self {
        Self {
            name: &plan.name,
            labels: plan.labels.iter().map(|(key, value)| (&**key, &**value)).collect(),
            input: plan.input.as_str(),
            start: plan.start.into(),
            deadline: plan.deadline.map(Into::into),
            output: text(plan.output.as_ref()),
            tasks: plan.tasks.iter().map(Into::into).collect(),
            later: Later { exclusive: plan.exclusive.as_deref(), ..Later::default() },
        }
    }
}

impl TryFrom<Plan<'_>> for plan::Plan {
    type Error = CodecError;

    fn try_from(plan: Plan<'_>) -> Result<Self, CodecError> {
        let labels = plan.labels.into_iter();
        let tasks = plan.tasks.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self {
            labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
            input: Payload::trusted(plan.input),
            start: plan.start.into(),
            deadline: plan.deadline.map(TryInto::try_into).transpose()?,
            exclusive: plan.later.exclusive.map(Into::into),
            output: payload(plan.output),
            tasks,
            ..Self::new(plan.name)
        })
    }
}

impl<'a> From<&'a plan::TaskSpec> for TaskSpec<'a> {
    fn from(task: &'a plan::TaskSpec) -> Self {
        let needs = task.needs.as_ref();
        Self {
            id: task.id.as_str(),
            title: task.title.as_deref(),
            kind: task.kind.as_str(),
            input: task.input.as_str(),
            needs: needs.map(|needs| needs.iter().map(TaskId::as_str).collect()),
            policy: (&*task.policy).into(),
        }
    }
}

impl TryFrom<TaskSpec<'_>> for plan::TaskSpec {
    type Error = CodecError;

    fn try_from(task: TaskSpec<'_>) -> Result<Self, CodecError> {
        let ids = |needs: Vec<&str>| needs.into_iter().map(TaskId::known).collect();
        let id = TaskId::known(task.id).map_err(|error| bad(&error))?;
        let kind = KindName::new(task.kind).map_err(|error| bad(&error))?;
        Ok(Self {
            title: task.title.map(Into::into),
            input: Payload::trusted(task.input),
            needs: task.needs.map(ids).transpose().map_err(|error| bad(&error))?,
            policy: PlanPolicy::new(task.policy.try_into()?),
            ..Self::new(id, kind)
        })
    }
}

impl<'a> From<&'a PolicyFields> for Policy<'a> {
    fn from(policy: &'a PolicyFields) -> Self {
        Self {
            timeout: policy.timeout.map(Into::into),
            heartbeat_timeout: policy.heartbeat_timeout.map(Into::into),
            cancel_grace: policy.cancel_grace.map(Into::into),
            retry: (&policy.retry).into(),
            on_failure: policy.on_failure.into(),
            on_lost: policy.on_lost.into(),
        }
    }
}

impl TryFrom<Policy<'_>> for PolicyFields {
    type Error = CodecError;

    fn try_from(policy: Policy<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            timeout: policy.timeout.map(TryInto::try_into).transpose()?,
            heartbeat_timeout: policy.heartbeat_timeout.map(TryInto::try_into).transpose()?,
            cancel_grace: policy.cancel_grace.map(TryInto::try_into).transpose()?,
            retry: policy.retry.try_into()?,
            on_failure: policy.on_failure.into(),
            on_lost: policy.on_lost.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::codec::write;

    /// The payload of a small plan, as a build writes it that does what is to come.
    fn payload_with(later: Later<'_>) -> Vec<u8> {
        let plan = plan::Plan::new("one");
        let submitted = job::Submitted { plan, workflow: None, source: None };
        let mut twin = Submitted::from(&submitted);
        twin.plan.later = later;
        let mut bytes = Vec::new();
        write(&mut bytes, &twin).unwrap();
        bytes
    }

    #[test]
    fn what_plans_will_have_is_not_known_instead_of_passed_over() {
        assert!(get_submitted(&payload_with(Later::default())).unwrap().is_some());
        for later in [
            Later { queue: Some("night"), ..Later::default() },
            Later { priority: -1, ..Later::default() },
        ] {
            assert_eq!(get_submitted(&payload_with(later)).unwrap(), None);
        }
    }
}
