//! The payload of each event.

use annals_tasks_sdk::{JobId, Payload, Timestamp};
use serde::{Deserialize, Serialize};

use super::Json;
use super::parts::{AttemptEnd, Digest, Exit, Failure, LogSize, PauseMode, Wait, payload, text};
use super::plan::Submitted;
use super::purge::JobPurged;
use crate::job::{CancelMode, Event, SkippedBy, TaskNumber};
use crate::log::codec::{CodecError, read, write};
use crate::log::types;

#[derive(Serialize, Deserialize)]
struct PauseRequested {
    mode: PauseMode,
}

/// `SkipRequested` and `TaskSkipped`.
#[derive(Serialize, Deserialize)]
struct Skip<'a> {
    task: u32,
    #[serde(borrow)]
    output: Option<Json<'a>>,
}

#[derive(Serialize, Deserialize)]
struct JobReopened {
    held: bool,
}

#[derive(Serialize, Deserialize)]
struct JobFailed<'a> {
    #[serde(borrow)]
    error: Failure<'a>,
}

#[derive(Serialize, Deserialize)]
struct JobForked {
    job: u128,
    seq: u64,
    task: Option<u32>,
    copied: u32,
}

/// `AttemptStarted` and `AttemptLost`.
#[derive(Serialize, Deserialize)]
struct Attempt {
    task: u32,
    attempt: u32,
}

/// `AttemptFailed`, `AttemptTimedOut` and `AttemptInterrupted`.
#[derive(Serialize, Deserialize)]
struct AttemptEnded<'a> {
    task: u32,
    attempt: u32,
    #[serde(borrow)]
    end: AttemptEnd<'a>,
}

#[derive(Deserialize)]
struct TaskWaiting {
    task: u32,
    wait: Wait,
}

#[derive(Serialize, Deserialize)]
struct RetryScheduled {
    task: u32,
    due: i64,
}

#[derive(Serialize, Deserialize)]
struct TaskCompleted<'a> {
    task: u32,
    attempt: u32,
    output: Json<'a>,
    #[serde(borrow)]
    exit: Exit<'a>,
    log: LogSize,
}

#[derive(Serialize, Deserialize)]
struct TaskFailed<'a> {
    task: u32,
    #[serde(borrow)]
    error: Failure<'a>,
}

#[derive(Serialize, Deserialize)]
struct TaskRemoved {
    task: u32,
}

#[derive(Serialize, Deserialize)]
struct CheckpointSaved {
    task: u32,
    attempt: u32,
    value: Digest,
}

#[derive(Serialize, Deserialize)]
struct StepRecorded<'a> {
    task: u32,
    attempt: u32,
    name: &'a str,
    value: Digest,
}

/// Appends an event's payload to `out`.
pub(in crate::log) fn put(event: &Event, out: &mut Vec<u8>) -> Result<(), CodecError> {
    match event {
        Event::JobStarted
        | Event::JobPaused
        | Event::JobResumed
        | Event::JobCompleted
        | Event::JobCancelled => Ok(()),
        Event::PauseRequested { mode } => write(out, &PauseRequested { mode: (*mode).into() }),
        Event::SkipRequested { task, output } => {
            write(out, &Skip { task: task.0, output: text(output.as_ref()) })
        }
        Event::JobReopened { held } => write(out, &JobReopened { held: *held }),
        Event::JobForked { job, seq, task, copied } => {
            let (job, task) = (job.as_u128(), task.map(|task| task.0));
            write(out, &JobForked { job, seq: *seq, task, copied: *copied })
        }
        Event::JobFailed { error } => write(out, &JobFailed { error: error.into() }),
        Event::JobPurged(purged) => write(out, &JobPurged::from(purged)),
        Event::AttemptStarted { task, attempt } | Event::AttemptLost { task, attempt } => {
            write(out, &Attempt { task: task.0, attempt: *attempt })
        }
        Event::AttemptFailed { task, attempt, end }
        | Event::AttemptTimedOut { task, attempt, end }
        | Event::AttemptInterrupted { task, attempt, end } => {
            write(out, &AttemptEnded { task: task.0, attempt: *attempt, end: end.into() })
        }
        Event::RetryScheduled { task, due } => {
            write(out, &RetryScheduled { task: task.0, due: due.as_millis() })
        }
        Event::TaskCompleted { task, attempt, output, exit, log } => {
            let (task, attempt, output) = (task.0, *attempt, output.as_str());
            let (exit, log) = (exit.into(), (*log).into());
            write(out, &TaskCompleted { task, attempt, output, exit, log })
        }
        Event::TaskFailed { task, error } => {
            write(out, &TaskFailed { task: task.0, error: error.into() })
        }
        Event::TaskRemoved { task } => write(out, &TaskRemoved { task: task.0 }),
        Event::JobLinked(_)
        | Event::HoldPlaced { .. }
        | Event::HoldLifted
        | Event::ChildStarted { .. }
        | Event::ChildPaused { .. }
        | Event::ChildEnded { .. }
        | Event::JobSubmitted(_)
        | Event::CancelRequested { .. }
        | Event::JobEnding { .. }
        | Event::DeadlinePassed { .. }
        | Event::TaskInserted { .. }
        | Event::TaskMoved { .. }
        | Event::TaskEdited { .. }
        | Event::TaskExpanded { .. }
        | Event::TaskWaiting { .. }
        | Event::SignalReceived { .. }
        | Event::SignalDelivered { .. }
        | Event::JobCompensating { .. }
        | Event::TaskSkipped { .. } => Err(CodecError::Encode("it has a later version".into())),
        Event::CheckpointSaved { task, attempt, value } => {
            let (task, attempt, value) = (task.0, *attempt, (*value).into());
            write(out, &CheckpointSaved { task, attempt, value })
        }
        Event::StepRecorded { task, attempt, name, value } => {
            let (task, attempt, value) = (task.0, *attempt, (*value).into());
            write(out, &StepRecorded { task, attempt, name, value })
        }
    }
}

/// Reads an event's payload; `None` when this version does not know the type.
pub(in crate::log) fn get(number: u16, payload: &[u8]) -> Result<Option<Event>, CodecError> {
    let event = match number {
        types::JOB_STARTED => nothing(payload, Event::JobStarted)?,
        types::JOB_PAUSED => nothing(payload, Event::JobPaused)?,
        types::JOB_RESUMED => nothing(payload, Event::JobResumed)?,
        types::CANCEL_REQUESTED => {
            nothing(payload, Event::CancelRequested { mode: CancelMode::Orderly })?
        }
        types::JOB_COMPLETED => nothing(payload, Event::JobCompleted)?,
        types::JOB_CANCELLED => nothing(payload, Event::JobCancelled)?,
        types::JOB_SUBMITTED => {
            Event::JobSubmitted(Box::new(read::<Submitted<'_>>(payload)?.try_into()?))
        }
        types::PAUSE_REQUESTED => {
            Event::PauseRequested { mode: read::<PauseRequested>(payload)?.mode.into() }
        }
        types::JOB_REOPENED => Event::JobReopened { held: read::<JobReopened>(payload)?.held },
        types::JOB_FORKED => {
            let JobForked { job, seq, task, copied } = read(payload)?;
            let (job, task) = (JobId::from_u128(job), task.map(TaskNumber));
            Event::JobForked { job, seq, task, copied }
        }
        types::JOB_PURGED => Event::JobPurged(read::<JobPurged>(payload)?.into()),
        types::JOB_FAILED => {
            Event::JobFailed { error: read::<JobFailed<'_>>(payload)?.error.into() }
        }
        _ => return task_event(number, payload),
    };
    Ok(Some(event))
}

fn nothing(payload: &[u8], event: Event) -> Result<Event, CodecError> {
    read::<()>(payload).map(|()| event)
}

fn task_event(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let event = match number {
        types::SKIP_REQUESTED => {
            let Skip { task, output } = read(bytes)?;
            Event::SkipRequested { task: TaskNumber(task), output: payload(output) }
        }
        types::TASK_SKIPPED => {
            let Skip { task, output } = read(bytes)?;
            let (task, by) = (TaskNumber(task), SkippedBy::Request);
            Event::TaskSkipped { task, by, output: payload(output) }
        }
        types::TASK_WAITING => {
            let TaskWaiting { task, wait } = read(bytes)?;
            Event::TaskWaiting { task: TaskNumber(task), wait: wait.into() }
        }
        types::RETRY_SCHEDULED => {
            let RetryScheduled { task, due } = read(bytes)?;
            let due = Timestamp::from_millis(due);
            Event::RetryScheduled { task: TaskNumber(task), due }
        }
        types::TASK_COMPLETED => {
            let TaskCompleted { task, attempt, output, exit, log } = read(bytes)?;
            let (task, output) = (TaskNumber(task), Payload::trusted(output));
            Event::TaskCompleted { task, attempt, output, exit: exit.into(), log: log.into() }
        }
        types::TASK_FAILED => {
            let TaskFailed { task, error } = read(bytes)?;
            Event::TaskFailed { task: TaskNumber(task), error: error.into() }
        }
        types::TASK_REMOVED => {
            Event::TaskRemoved { task: TaskNumber(read::<TaskRemoved>(bytes)?.task) }
        }
        _ => return attempt_event(number, bytes),
    };
    Ok(Some(event))
}

fn attempt_event(number: u16, bytes: &[u8]) -> Result<Option<Event>, CodecError> {
    let event = match number {
        types::ATTEMPT_STARTED => {
            let Attempt { task, attempt } = read(bytes)?;
            Event::AttemptStarted { task: TaskNumber(task), attempt }
        }
        types::ATTEMPT_LOST => {
            let Attempt { task, attempt } = read(bytes)?;
            Event::AttemptLost { task: TaskNumber(task), attempt }
        }
        types::ATTEMPT_FAILED => {
            let AttemptEnded { task, attempt, end } = read(bytes)?;
            Event::AttemptFailed { task: TaskNumber(task), attempt, end: end.into() }
        }
        types::ATTEMPT_TIMED_OUT => {
            let AttemptEnded { task, attempt, end } = read(bytes)?;
            Event::AttemptTimedOut { task: TaskNumber(task), attempt, end: end.into() }
        }
        types::ATTEMPT_INTERRUPTED => {
            let AttemptEnded { task, attempt, end } = read(bytes)?;
            Event::AttemptInterrupted { task: TaskNumber(task), attempt, end: end.into() }
        }
        types::CHECKPOINT_SAVED => {
            let CheckpointSaved { task, attempt, value } = read(bytes)?;
            Event::CheckpointSaved { task: TaskNumber(task), attempt, value: value.into() }
        }
        types::STEP_RECORDED => {
            let StepRecorded { task, attempt, name, value } = read(bytes)?;
            let (task, name, value) = (TaskNumber(task), name.into(), value.into());
            Event::StepRecorded { task, attempt, name, value }
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}
