//! Twins of the plan and of what `JobSubmitted` keeps beside it.
//!
//! A policy is written out in full, also where it is the default: what the default is may change
//! between releases, what a job was submitted with may not.

use std::time::Duration;

use annals_tasks_sdk::plan::{self, Policy as PlanPolicy, PolicyFields};
use annals_tasks_sdk::{BadName, KindName, Payload, TaskId};
use serde::{Deserialize, Serialize};

use super::Json;
use super::parts::{payload, text};
use crate::job;
use crate::log::codec::CodecError;

#[derive(Serialize, Deserialize)]
pub(super) struct Submitted<'a> {
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
    output: Option<Json<'a>>,
    tasks: Vec<TaskSpec<'a>>,
}

#[derive(Serialize, Deserialize)]
enum Start {
    Now,
    Manual,
}

#[derive(Serialize, Deserialize)]
struct TaskSpec<'a> {
    id: &'a str,
    #[serde(borrow)]
    title: Option<&'a str>,
    kind: &'a str,
    input: Json<'a>,
    needs: Option<Vec<&'a str>>,
    policy: Policy<'a>,
}

#[derive(Serialize, Deserialize)]
struct Policy<'a> {
    timeout: Option<Span>,
    cancel_grace: Option<Span>,
    #[serde(borrow)]
    retry: Retry<'a>,
    on_failure: OnFailure,
    on_lost: OnLost,
}

#[derive(Serialize, Deserialize)]
struct Retry<'a> {
    max_attempts: u32,
    max_elapsed: Option<Span>,
    initial: Span,
    factor: f64,
    max: Span,
    jitter: f64,
    #[serde(borrow)]
    never: Vec<&'a str>,
}

#[derive(Serialize, Deserialize)]
enum OnFailure {
    Fail,
    Continue,
    Pause,
}

#[derive(Serialize, Deserialize)]
enum OnLost {
    Rerun,
    Fail,
    Pause,
}

/// A duration.
#[derive(Serialize, Deserialize)]
struct Span {
    seconds: u64,
    nanos: u32,
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self { seconds: duration.as_secs(), nanos: duration.subsec_nanos() }
    }
}

impl TryFrom<Span> for Duration {
    type Error = CodecError;

    fn try_from(span: Span) -> Result<Self, CodecError> {
        let valid = span.nanos < 1_000_000_000;
        let invalid = || CodecError::Damaged("a duration has too many nanoseconds".into());
        valid.then(|| Self::new(span.seconds, span.nanos)).ok_or_else(invalid)
    }
}

fn bad(error: &BadName) -> CodecError {
    CodecError::Damaged(error.to_string())
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
        let start = match plan.start {
            plan::Start::Now => Start::Now,
            plan::Start::Manual => Start::Manual,
        };
        Self {
            name: &plan.name,
            labels: plan.labels.iter().map(|(key, value)| (&**key, &**value)).collect(),
            input: plan.input.as_str(),
            start,
            output: text(plan.output.as_ref()),
            tasks: plan.tasks.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<Plan<'_>> for plan::Plan {
    type Error = CodecError;

    fn try_from(plan: Plan<'_>) -> Result<Self, CodecError> {
        let labels = plan.labels.into_iter();
        let tasks = plan.tasks.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self {
            name: plan.name.into(),
            labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
            input: Payload::trusted(plan.input),
            start: match plan.start {
                Start::Now => plan::Start::Now,
                Start::Manual => plan::Start::Manual,
            },
            output: payload(plan.output),
            tasks,
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
        let ids = |needs: Vec<&str>| needs.into_iter().map(TaskId::new).collect();
        Ok(Self {
            id: TaskId::new(task.id).map_err(|error| bad(&error))?,
            title: task.title.map(Into::into),
            kind: KindName::new(task.kind).map_err(|error| bad(&error))?,
            input: Payload::trusted(task.input),
            needs: task.needs.map(ids).transpose().map_err(|error| bad(&error))?,
            policy: PlanPolicy::new(task.policy.try_into()?),
        })
    }
}

impl<'a> From<&'a PolicyFields> for Policy<'a> {
    fn from(policy: &'a PolicyFields) -> Self {
        Self {
            timeout: policy.timeout.map(Into::into),
            cancel_grace: policy.cancel_grace.map(Into::into),
            retry: (&policy.retry).into(),
            on_failure: match policy.on_failure {
                plan::OnFailure::Fail => OnFailure::Fail,
                plan::OnFailure::Continue => OnFailure::Continue,
                plan::OnFailure::Pause => OnFailure::Pause,
            },
            on_lost: match policy.on_lost {
                plan::OnLost::Rerun => OnLost::Rerun,
                plan::OnLost::Fail => OnLost::Fail,
                plan::OnLost::Pause => OnLost::Pause,
            },
        }
    }
}

impl TryFrom<Policy<'_>> for PolicyFields {
    type Error = CodecError;

    fn try_from(policy: Policy<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            timeout: policy.timeout.map(TryInto::try_into).transpose()?,
            cancel_grace: policy.cancel_grace.map(TryInto::try_into).transpose()?,
            retry: policy.retry.try_into()?,
            on_failure: match policy.on_failure {
                OnFailure::Fail => plan::OnFailure::Fail,
                OnFailure::Continue => plan::OnFailure::Continue,
                OnFailure::Pause => plan::OnFailure::Pause,
            },
            on_lost: match policy.on_lost {
                OnLost::Rerun => plan::OnLost::Rerun,
                OnLost::Fail => plan::OnLost::Fail,
                OnLost::Pause => plan::OnLost::Pause,
            },
        })
    }
}

impl<'a> From<&'a plan::Retry> for Retry<'a> {
    fn from(retry: &'a plan::Retry) -> Self {
        Self {
            max_attempts: retry.max_attempts,
            max_elapsed: retry.max_elapsed.map(Into::into),
            initial: retry.backoff.initial.into(),
            factor: retry.backoff.factor,
            max: retry.backoff.max.into(),
            jitter: retry.backoff.jitter,
            never: retry.never.iter().map(|code| &**code).collect(),
        }
    }
}

impl TryFrom<Retry<'_>> for plan::Retry {
    type Error = CodecError;

    fn try_from(retry: Retry<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            max_attempts: retry.max_attempts,
            max_elapsed: retry.max_elapsed.map(TryInto::try_into).transpose()?,
            backoff: plan::Backoff {
                initial: retry.initial.try_into()?,
                factor: retry.factor,
                max: retry.max.try_into()?,
                jitter: retry.jitter,
            },
            never: retry.never.into_iter().map(Into::into).collect(),
        })
    }
}
