//! Twins of the plan and of what `JobSubmitted` keeps beside it. Version 2 took the place of those
//! that name what a plan has, so these are only read; the small ones below are in both.
//!
//! A policy is written out in full, also where it is the default: what the default is may change
//! between releases, what a job was submitted with may not.

use std::time::Duration;

use annals_tasks_sdk::plan::{self, Policy as PlanPolicy, PolicyFields};
use annals_tasks_sdk::{BadName, KindName, Payload, TaskId};
use serde::{Deserialize, Serialize};

use super::Json;
use super::parts::payload;
use crate::job;
use crate::log::codec::CodecError;

#[derive(Deserialize)]
pub(super) struct Submitted<'a> {
    #[serde(borrow)]
    plan: Plan<'a>,
    workflow: Option<&'a str>,
    source: Option<&'a str>,
}

#[derive(Deserialize)]
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
pub(in crate::log) enum Start {
    Now,
    Manual,
}

#[derive(Deserialize)]
struct TaskSpec<'a> {
    id: &'a str,
    #[serde(borrow)]
    title: Option<&'a str>,
    kind: &'a str,
    input: Json<'a>,
    needs: Option<Vec<&'a str>>,
    policy: Policy<'a>,
}

#[derive(Deserialize)]
struct Policy<'a> {
    timeout: Option<Span>,
    cancel_grace: Option<Span>,
    #[serde(borrow)]
    retry: Retry<'a>,
    on_failure: OnFailure,
    on_lost: OnLost,
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct Retry<'a> {
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
pub(in crate::log) enum OnFailure {
    Fail,
    Continue,
    Pause,
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) enum OnLost {
    Rerun,
    Fail,
    Pause,
}

/// A duration.
#[derive(Serialize, Deserialize)]
pub(in crate::log) struct Span {
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

pub(in crate::log) fn bad(error: &BadName) -> CodecError {
    CodecError::Damaged(error.to_string())
}

impl TryFrom<Submitted<'_>> for job::Submitted {
    type Error = CodecError;

    fn try_from(submitted: Submitted<'_>) -> Result<Self, CodecError> {
        let plan = submitted.plan.try_into()?;
        let workflow = submitted.workflow.map(Into::into);
        Ok(Self { plan, workflow, source: submitted.source.map(Into::into) })
    }
}

impl From<plan::Start> for Start {
    fn from(start: plan::Start) -> Self {
        match start {
            plan::Start::Now => Self::Now,
            // A later version says beside this when it starts.
            plan::Start::Manual | plan::Start::At(_) => Self::Manual,
        }
    }
}

impl From<Start> for plan::Start {
    fn from(start: Start) -> Self {
        match start {
            Start::Now => Self::Now,
            Start::Manual => Self::Manual,
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
            output: payload(plan.output),
            tasks,
            ..Self::new(plan.name)
        })
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

impl TryFrom<Policy<'_>> for PolicyFields {
    type Error = CodecError;

    fn try_from(policy: Policy<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            timeout: policy.timeout.map(TryInto::try_into).transpose()?,
            heartbeat_timeout: None,
            cancel_grace: policy.cancel_grace.map(TryInto::try_into).transpose()?,
            retry: policy.retry.try_into()?,
            on_failure: policy.on_failure.into(),
            on_lost: policy.on_lost.into(),
        })
    }
}

impl From<plan::OnFailure> for OnFailure {
    fn from(action: plan::OnFailure) -> Self {
        match action {
            plan::OnFailure::Fail => Self::Fail,
            plan::OnFailure::Continue => Self::Continue,
            plan::OnFailure::Pause => Self::Pause,
        }
    }
}

impl From<OnFailure> for plan::OnFailure {
    fn from(action: OnFailure) -> Self {
        match action {
            OnFailure::Fail => Self::Fail,
            OnFailure::Continue => Self::Continue,
            OnFailure::Pause => Self::Pause,
        }
    }
}

impl From<plan::OnLost> for OnLost {
    fn from(action: plan::OnLost) -> Self {
        match action {
            plan::OnLost::Rerun => Self::Rerun,
            plan::OnLost::Fail => Self::Fail,
            plan::OnLost::Pause => Self::Pause,
        }
    }
}

impl From<OnLost> for plan::OnLost {
    fn from(action: OnLost) -> Self {
        match action {
            OnLost::Rerun => Self::Rerun,
            OnLost::Fail => Self::Fail,
            OnLost::Pause => Self::Pause,
        }
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
