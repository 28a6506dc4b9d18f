//! Events of a job's history.

use annals_engine::job::{
    self, AttemptEnd, CancelMode, Failure, PauseMode, Purged, Recorded, TaskNumber, ValueDigest,
    Wait,
};
use annals_engine::log::Position;
use annals_tasks_sdk::{Exit, JobId, Payload};
use serde::Serialize;
use utoipa::ToSchema;

use super::task::{part, skipped_by};
use super::{Due, Error, ForkedFrom, Log, Parent, Signal, Time, WaitingFor, exit};

/// An event with everything that the log keeps of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Event<'a> {
    /// Its job; left out where only one job's events are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Its number in its job.
    pub seq: u64,
    /// Its number in the whole log; left out where it is not appended, as in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When it was decided.
    pub time: Time,
    /// Who caused it.
    pub actor: &'a str,
    /// The request that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
    /// The reason that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What goes with it.
    pub data: Data<'a>,
    /// Its hash; left out where it is not appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// What goes with an event.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = EventData)]
pub struct Data<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    plan: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFrom>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Parent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Uuid)]
    child: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undoes: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    spec: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<serde_json::Value>>)]
    items: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_by: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<WaitingFor<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<&'a Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Log>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::JobStatus>)]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_hash: Option<String>,
}

/// What the log proves about a value that lies beside it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ValueDigest)]
struct Digest {
    bytes: u32,
    hash: String,
}

impl From<&ValueDigest> for Digest {
    fn from(value: &ValueDigest) -> Self {
        Self { bytes: value.len, hash: hex(&value.hash) }
    }
}

impl<'a> Event<'a> {
    /// An event of `job`, whose tasks it names by their numbers.
    pub fn of(job: &'a job::Job, recorded: &'a Recorded) -> Self {
        Self::known(Some(job), recorded)
    }

    /// An event of a job of which nothing else can be read: its task has no name.
    pub fn of_unreadable(recorded: &'a Recorded) -> Self {
        Self::known(None, recorded)
    }

    fn known(job: Option<&'a job::Job>, recorded: &'a Recorded) -> Self {
        let origin = &recorded.origin;
        Self {
            job_id: None,
            seq: recorded.seq,
            position: None,
            time: Time(recorded.time),
            actor: origin.name(),
            request_id: origin.request_id.as_deref(),
            reason: origin.reason.as_deref(),
            kind: recorded.event.type_name(),
            data: data(job, &recorded.event),
            hash: None,
        }
    }

    /// The same event with its place in the log.
    pub fn at(self, position: Position, hash: [u8; 32]) -> Self {
        Self { position: Some(position.0), hash: Some(hex(&hash)), ..self }
    }

    /// The same event with its job.
    pub fn in_job(self, job: JobId) -> Self {
        Self { job_id: Some(job.to_string()), ..self }
    }

    /// The task that it is about.
    pub fn task(&self) -> Option<&'a str> {
        self.data.task
    }

    /// The event as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

fn data<'a>(job: Option<&'a job::Job>, event: &'a job::Event) -> Data<'a> {
    use job::Event as E;
    let of = |task: TaskNumber| of_task(job, task);
    match event {
        E::JobSubmitted(submitted) => Data {
            plan: Some(submitted.plan.to_json()),
            workflow: submitted.workflow.as_deref(),
            source: submitted.source.as_deref(),
            ..Data::default()
        },
        E::JobForked { job: origin, seq, task, copied } => Data {
            forked_from: Some(ForkedFrom { job: origin.to_string(), seq: *seq }),
            copied: Some(*copied),
            ..task.map(of).unwrap_or_default()
        },
        E::JobLinked(parent) => Data { parent: Some((&**parent).into()), ..Data::default() },
        E::PauseRequested { mode } | E::HoldPlaced { mode } => {
            Data { mode: Some(word(*mode)), ..Data::default() }
        }
        E::CancelRequested { mode: CancelMode::Now } => {
            Data { mode: Some("now"), ..Data::default() }
        }
        E::JobCompensating { end, error, tasks } => Data {
            end: Some(end.as_str()),
            error: error.as_ref().map(Error::of),
            undoes: tasks.iter().filter_map(|&task| of(task).task).collect(),
            ..Data::default()
        },
        E::JobEnding { end, error } => Data {
            end: Some(end.as_str()),
            error: error.as_ref().map(Error::of),
            ..Data::default()
        },
        E::JobReopened { held } => Data { held: Some(*held), ..Data::default() },
        E::JobPurged(Purged { status, events, tasks, attempts, head }) => Data {
            status: Some(status.as_str()),
            events: Some(*events),
            tasks: Some(*tasks),
            attempts: Some(*attempts),
            head_hash: Some(hex(head)),
            ..Data::default()
        },
        E::JobFailed { error } | E::DeadlinePassed { error } => {
            Data { error: Some(Error::of(error)), ..Data::default() }
        }
        _ => data_of_task(job, event),
    }
}

fn data_of_task<'a>(job: Option<&'a job::Job>, event: &'a job::Event) -> Data<'a> {
    use job::Event as E;
    let of = |task: TaskNumber| of_task(job, task);
    match event {
        E::SkipRequested { task, output } => Data { output: output.as_ref(), ..of(*task) },
        E::TaskSkipped { task, by, output } => {
            Data { skipped_by: Some(skipped_by(*by)), output: output.as_ref(), ..of(*task) }
        }
        E::AttemptStarted { task, attempt } | E::AttemptLost { task, attempt } => {
            Data { attempt: Some(*attempt), ..of(*task) }
        }
        E::AttemptFailed { task, attempt, end }
        | E::AttemptTimedOut { task, attempt, end }
        | E::AttemptInterrupted { task, attempt, end } => ended(of(*task), *attempt, end),
        E::TaskWaiting { task, wait } => {
            Data { waiting_for: Some(waiting(job, *task, wait)), ..of(*task) }
        }
        E::ChildStarted { task, child, .. } => Data { child: Some(child.to_string()), ..of(*task) },
        E::ChildEnded { task, end, error, .. } => {
            Data { end: Some(end.as_str()), ..failed(of(*task), error) }
        }
        E::RetryScheduled { task, due } => Data { due: Some(Time(*due)), ..of(*task) },
        E::TaskCompleted { task, attempt, output, exit, log } => {
            Data { output: Some(output), log: Some((*log).into()), ..with_exit(of(*task), exit) }
                .attempt(*attempt)
        }
        E::TaskFailed { task, error } => failed(of(*task), error),
        E::TaskRemoved { task } | E::ChildPaused { task } => of(*task),
        E::TaskExpanded { task, items } => Data { items: Some(items), ..of(*task) },
        E::TaskInserted { task, spec, part: of_part, after, needed_by } => {
            let names = needed_by.iter().filter_map(|&task| of(task).task);
            let (spec, needed_by) = (Some(spec.to_json()), names.collect());
            let (part, after) = (part(*of_part), after.and_then(|after| of(after).task));
            Data { part, spec, after, needed_by, ..of(*task) }
        }
        E::TaskMoved { task, after } => {
            Data { after: after.and_then(|after| of(after).task), ..of(*task) }
        }
        E::TaskEdited { task, spec, reset } => {
            Data { spec: Some(spec.to_json()), reset: Some(*reset), ..of(*task) }
        }
        E::CheckpointSaved { task, attempt, value } => {
            Data { value: Some(value.into()), ..of(*task) }.attempt(*attempt)
        }
        E::StepRecorded { task, attempt, name, value } => {
            Data { name: Some(name), value: Some(value.into()), ..of(*task) }.attempt(*attempt)
        }
        E::SignalReceived { name, payload } => {
            Data { name: Some(name.as_str()), payload: Some(payload), ..Data::default() }
        }
        E::SignalDelivered { task, name, signal } => {
            Data { name: Some(name.as_str()), signal_seq: Some(*signal), ..of(*task) }
        }
        _ => Data::default(),
    }
}

impl Data<'_> {
    /// With an attempt; 0 is the number of none.
    fn attempt(self, number: u32) -> Self {
        Self { attempt: Some(number).filter(|&number| number > 0), ..self }
    }
}

fn of_task(job: Option<&job::Job>, task: TaskNumber) -> Data<'_> {
    let task = job.and_then(|job| job.task(task));
    Data { task: task.map(|task| task.spec.id.as_str()), ..Data::default() }
}

fn with_exit<'a>(data: Data<'a>, of: &'a Exit) -> Data<'a> {
    let (exit_code, signal) = exit(of);
    Data { exit_code, signal, ..data }
}

fn failed<'a>(data: Data<'a>, error: &'a Failure) -> Data<'a> {
    Data { error: Some(Error::of(error)), ..data }
}

fn ended<'a>(data: Data<'a>, attempt: u32, end: &'a AttemptEnd) -> Data<'a> {
    let error = Error { retryable: Some(end.retryable), ..Error::of(&end.error) };
    let data = with_exit(data, &end.exit).attempt(attempt);
    Data { error: Some(error), output: end.output.as_ref(), log: Some(end.log.into()), ..data }
}

fn waiting<'a>(job: Option<&'a job::Job>, task: TaskNumber, wait: &'a Wait) -> WaitingFor<'a> {
    match wait {
        Wait::Timer { until } => WaitingFor::Timer(Due { until: Time(*until) }),
        Wait::Signal { name, until } => {
            WaitingFor::Signal(Signal { name: name.as_str(), until: until.map(Time) })
        }
        Wait::Kind => {
            let task = job.and_then(|job| job.task(task));
            WaitingFor::Kind(task.map_or("", |task| task.spec.kind.as_str()))
        }
        _ => WaitingFor::Other,
    }
}

fn word(mode: PauseMode) -> &'static str {
    match mode {
        PauseMode::Drain => "drain",
        PauseMode::Interrupt => "interrupt",
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
