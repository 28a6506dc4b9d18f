//! Why a job does not move.

use annals_engine::job;
use annals_engine::views::{self, Cause, Explained, InLine, Line, Reason, Remedy, RunDeadline};
use annals_tasks_sdk::{JobId, SignalName, TaskId};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Error, Time};

/// What a job waits for, or is doing.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Explanation<'a> {
    /// The job.
    #[schema(format = Uuid)]
    pub job_id: String,
    /// Its status; left out, as `seq` is, where its history cannot be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::JobStatus>)]
    pub status: Option<&'static str>,
    /// What it is on its way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Intent>)]
    pub intent: Option<&'static str>,
    /// The number of its last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The most telling reason in a sentence.
    pub summary: String,
    /// Never empty; the most telling first.
    pub reasons: Vec<Because<'a>>,
    /// So many more tasks have a reason of their own.
    pub more_tasks: usize,
    /// When the deadline of the run passes, which ends whatever the job waits for; left out where
    /// there is none, and while it stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Time>,
    /// Whether that has passed: the job then fails as soon as an engine runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_passed: Option<bool>,
    /// The exclusive key that the job holds; left out where no other job waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_key: Option<HeldKey<'a>>,
}

/// An exclusive key that a job holds and others wait for.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HeldKey<'a> {
    /// The key.
    pub key: &'a str,
    /// So many jobs wait for it.
    pub waiting: u64,
    /// The ids of the first of them, in their order.
    pub jobs: Vec<String>,
    /// The same as a sentence.
    pub message: String,
}

impl<'a> HeldKey<'a> {
    fn of(held: &'a views::HeldKey) -> Self {
        let jobs = held.first.iter().map(JobId::to_string).collect();
        Self { key: &held.key, waiting: held.waiting, jobs, message: held.to_string() }
    }
}

/// One thing that a job waits for, or does.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = ExplainedReason)]
pub struct Because<'a> {
    /// A short stable word.
    pub code: &'static str,
    /// The sentence.
    pub message: String,
    /// The task that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<&'a str>,
    /// The attempt that it is about; of a task in back-off the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Since when: when an attempt started or was told to stop, when somebody held or ended the
    /// job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Until when: when an attempt times out, when the grace of one that stops is over or was,
    /// when a task may go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Who held or ended the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'a str>,
    /// Why, as they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// The task that paused the job: by its failure or its loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_by_task: Option<&'a str>,
    /// So many attempts are alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alive: Option<usize>,
    /// Why something failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error<'a>>,
    /// So many attempts have failed...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// ...of so many that may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_max: Option<u32>,
    /// The names of the signals that the task waits for: one of them will do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<&'a str>,
    /// The kind that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    /// For the slots of which pool a task stands in line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<&'a str>,
    /// How many slots that has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
    /// The task's place in that line, or the job's in that for its key, from 1; left out where it
    /// is far behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// How long that line is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// How often in a row the engine died while the task ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<u32>,
    /// The exclusive key that another job holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    /// The job of the suspect that runs now, or the one that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Uuid)]
    pub other_job: Option<String>,
    /// The tasks that are not settled and that this one needs, the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<&'a str>,
    /// How much a live attempt says is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Of how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Commands that would change it, each of which the job would accept now.
    pub commands: Vec<Suggestion<'a>>,
}

/// A command that would change something.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Suggestion<'a> {
    /// What it is called.
    pub verb: &'static str,
    /// The task that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<&'a str>,
    /// The name of the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<&'a str>,
    /// How it treats what runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// Whether the tasks that would lose an input have to go with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cascade: Option<bool>,
    /// The method of the request that asks for it...
    pub method: &'static str,
    /// ...its path, below `/api/v1`...
    pub path: String,
    /// ...and its body, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub body: Option<Body<'a>>,
}

/// The body of a command.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cascade: Option<bool>,
}

impl<'a> Explanation<'a> {
    /// An explanation as it is shown.
    pub fn of(explanation: &'a views::Explanation) -> Self {
        let job = explanation.snapshot.as_ref().map(|snapshot| &*snapshot.job);
        let id = explanation.job_id;
        let intent = job.and_then(job::Job::intent);
        let passed = matches!(explanation.deadline, Some(RunDeadline::Passed(_)));
        Self {
            job_id: id.to_string(),
            status: job.map(|job| job.status().as_str()),
            intent: intent.map(job::Intent::as_str),
            seq: job.map(job::Job::seq),
            summary: explanation.summary(),
            reasons: explanation.reasons.iter().map(|one| Because::of(id, one)).collect(),
            more_tasks: explanation.more_tasks,
            deadline_at: explanation.deadline.map(|deadline| Time(deadline.at())),
            deadline_passed: passed.then_some(true),
            holds_key: explanation.held_key.as_ref().map(HeldKey::of),
        }
    }

    /// The explanation as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> Because<'a> {
    fn of(job: JobId, explained: &'a Explained) -> Self {
        let Explained { reason, remedies } = explained;
        Self {
            code: reason.code(),
            message: reason.to_string(),
            task: reason.task().map(TaskId::as_str),
            attempt: reason.attempt(),
            commands: remedies.iter().map(|remedy| Suggestion::of(job, remedy)).collect(),
            ..Self::details(reason)
        }
    }

    fn ending(error: Option<&'a annals_engine::job::Failure>, by: Option<&'a Cause>) -> Self {
        Self { error: error.map(Error::of), ..Self::caused(by) }
    }

    fn details(reason: &'a Reason) -> Self {
        let none = Self::default();
        match reason {
            Reason::Failed { error, .. } | Reason::TaskFailed { error, .. } => {
                Self { error: Some(Error::of(error)), ..none }
            }
            Reason::Cancelled { by } | Reason::Paused { by } => Self::caused(by.as_ref()),
            Reason::Pausing { by, alive } | Reason::Cancelling { by, alive } => {
                Self { alive: Some(*alive), ..Self::caused(by.as_ref()) }
            }
            Reason::Undoing { error, by, done, total, .. } => {
                let [done, total] = [*done, *total].map(|count| u64::try_from(count).ok());
                Self { done, total, ..Self::ending(error.as_ref(), by.as_ref()) }
            }
            Reason::Finishing { error, by, .. } => Self::ending(error.as_ref(), by.as_ref()),
            Reason::Failing { error, alive } => {
                Self { alive: Some(*alive), error: error.as_ref().map(Error::of), ..none }
            }
            Reason::Runs { since, timeout, progress, .. } => Self {
                since: Some(Time(since.at)),
                until: timeout.map(|timeout| Time(timeout.at)),
                done: progress.map(|progress| progress.done),
                total: progress.map(|progress| progress.total).filter(|total| *total > 0),
                ..none
            },
            Reason::Stops { told, grace, .. } => {
                Self { since: Some(Time(told.at)), until: Some(Time(grace.at)), ..none }
            }
            Reason::Blocks { told, grace, .. } | Reason::Outlives { told, grace, .. } => {
                Self { since: Some(Time(told.at)), until: Some(Time(grace.at)), ..none }
            }
            Reason::Retries { failures, failures_max, until, error, .. } => Self {
                failures: Some(*failures),
                failures_max: Some(*failures_max).filter(|most| *most < u32::MAX),
                until: Some(Time(until.at)),
                error: error.as_ref().map(Error::of),
                ..none
            },
            Reason::Sleeps { until, .. } | Reason::StartsAt { until } => {
                Self { until: Some(Time(until.at)), ..none }
            }
            Reason::Child { child: other, .. } | Reason::HeldByParent { parent: other, .. } => {
                Self { other_job: Some(other.to_string()), ..none }
            }
            Reason::Awaits { signals, until, .. } => Self {
                signals: signals.iter().map(SignalName::as_str).collect(),
                until: until.map(|until| Time(until.at)),
                ..none
            },
            Reason::WantsKind { kind, .. } => Self { kind: Some(kind), ..none },
            Reason::WantsSlot { line: Some(line), .. } => Self::in_line(line),
            Reason::Suspect { losses, line, other, .. } => Self {
                losses: Some(*losses),
                other_job: other.map(|other| other.job.to_string()),
                ..Self::in_line(line)
            },
            Reason::WantsKey { key, holder, place } => Self {
                key: Some(key),
                other_job: Some(holder.to_string()),
                place: Some(*place),
                ..none
            },
            Reason::Needs { needs, .. } => {
                Self { needs: needs.iter().map(TaskId::as_str).collect(), ..none }
            }
            _ => none,
        }
    }

    fn caused(cause: Option<&'a Cause>) -> Self {
        let none = Self::default();
        match cause {
            Some(Cause::Asked { by, reason, since }) => Self {
                by: Some(by),
                reason: reason.as_deref(),
                since: Some(Time(since.at)),
                ..none
            },
            Some(Cause::Failure { task, since } | Cause::Loss { task, since }) => Self {
                by: Some("engine"),
                paused_by_task: Some(task.as_str()),
                since: Some(Time(since.at)),
                ..none
            },
            _ => none,
        }
    }

    fn in_line(line: &'a Line) -> Self {
        let place = match line.place {
            InLine::At(place) => Some(place),
            _ => None,
        };
        let (pool, slots, waiting) = (Some(&*line.pool), Some(line.slots), Some(line.waiting));
        Self { pool, slots, place, waiting, ..Self::default() }
    }
}

impl<'a> Suggestion<'a> {
    fn of(job: JobId, remedy: &'a Remedy) -> Self {
        let verb = remedy.verb();
        let (task, mode, cascade) = match remedy {
            Remedy::Skip { task, cascade } => (Some(task.as_str()), None, cascade.then_some(true)),
            Remedy::Retry { task } => (Some(task.as_str()), None, None),
            Remedy::Interrupt => (None, Some("interrupt"), None),
            Remedy::CancelNow => (None, Some("now"), None),
            _ => (None, None, None),
        };
        let signal = match remedy {
            Remedy::Signal { name } => Some(name.as_str()),
            _ => None,
        };
        let body = Body { task, mode, cascade };
        let (path, has_body) = match remedy {
            // Its path names the task.
            Remedy::Retry { task } => (format!("/jobs/{job}/tasks/{task}/retry"), false),
            Remedy::Signal { name } => (format!("/jobs/{job}/signals/{name}"), false),
            _ => (format!("/jobs/{job}/{verb}"), task.is_some() || mode.is_some()),
        };
        let body = has_body.then_some(body);
        Self { verb, task, signal, mode, cascade, method: "POST", path, body }
    }
}
