//! Twins of what undoes a task, and of the event with which that begins.

use annals_tasks_sdk::plan;
use annals_tasks_sdk::{KindName, Payload};
use serde::{Deserialize, Serialize};

use crate::job::{Event, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::v1::{Failure, Json, bad};
use crate::log::{v2, v3};

#[derive(Serialize, Deserialize)]
pub(super) struct Compensation<'a> {
    #[serde(borrow)]
    title: Option<&'a str>,
    kind: &'a str,
    input: Json<'a>,
    policy: v2::Policy<'a>,
}

#[derive(Serialize, Deserialize)]
struct JobCompensating<'a> {
    end: v3::JobEnd,
    #[serde(borrow)]
    error: Option<Failure<'a>>,
    tasks: Vec<u32>,
}

/// Appends the payload of `JobCompensating`.
pub(in crate::log) fn put_compensating(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let Event::JobCompensating { end, error, tasks } = event else {
        return Err(CodecError::Encode("it is not what begins to undo a job".into()));
    };
    let tasks = tasks.iter().map(|task| task.0).collect();
    write(
        out,
        &JobCompensating { end: (*end).into(), error: error.as_ref().map(Into::into), tasks },
    )
}

/// Reads the payload of `JobCompensating`.
pub(in crate::log) fn get_compensating(bytes: &[u8]) -> Result<Event, CodecError> {
    let JobCompensating { end, error, tasks } = read(bytes)?;
    let tasks = tasks.into_iter().map(TaskNumber).collect();
    Ok(Event::JobCompensating { end: end.into(), error: error.map(Into::into), tasks })
}

impl<'a> From<&'a plan::Compensation> for Compensation<'a> {
    fn from(of: &'a plan::Compensation) -> Self {
        Self {
            title: of.title.as_deref(),
            kind: of.kind.as_str(),
            input: of.input.as_str(),
            policy: (&*of.policy).into(),
        }
    }
}

impl TryFrom<Compensation<'_>> for plan::Compensation {
    type Error = CodecError;

    fn try_from(of: Compensation<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            title: of.title.map(Into::into),
            kind: KindName::new(of.kind).map_err(|error| bad(&error))?,
            input: Payload::trusted(of.input),
            policy: plan::Policy::new(of.policy.try_into()?),
        })
    }
}
