//! A job with its tasks, and a job of a list.

use std::collections::BTreeMap;

use annals_engine::job::{AttemptOutcome, Intent, JobStatus, TaskStatus};
use annals_engine::runtime::Snapshot;
use annals_tasks_sdk::{JobId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::read::{maybe_name, maybe_time, maybe_word, name, time, word};
use crate::cli::error::CliError;
use crate::dto;

/// A job. In a list it has no tasks, no input and no output.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Job {
    pub(in crate::cli) id: JobId,
    pub(in crate::cli) name: String,
    pub(in crate::cli) source: Option<String>,
    #[serde(deserialize_with = "word")]
    pub(in crate::cli) status: JobStatus,
    #[serde(default, deserialize_with = "maybe_word")]
    pub(in crate::cli) intent: Option<Intent>,
    pub(in crate::cli) revision: u64,
    pub(in crate::cli) seq: u64,
    pub(in crate::cli) exclusive: Option<String>,
    #[serde(default)]
    pub(in crate::cli) labels: BTreeMap<String, String>,
    pub(in crate::cli) input: Option<Box<RawValue>>,
    pub(in crate::cli) output: Option<Box<RawValue>>,
    pub(in crate::cli) progress: Counts,
    pub(in crate::cli) error: Option<Error>,
    #[serde(rename = "created_at", deserialize_with = "time")]
    pub(in crate::cli) created: Timestamp,
    #[serde(default, deserialize_with = "maybe_time")]
    pub(in crate::cli) starts_at: Option<Timestamp>,
    #[serde(rename = "started_at", default, deserialize_with = "maybe_time")]
    pub(in crate::cli) started: Option<Timestamp>,
    #[serde(rename = "deadline_at", default, deserialize_with = "maybe_time")]
    pub(in crate::cli) deadline: Option<Timestamp>,
    #[serde(rename = "finished_at", default, deserialize_with = "maybe_time")]
    pub(in crate::cli) finished: Option<Timestamp>,
    pub(in crate::cli) forked_from: Option<ForkedFrom>,
    pub(in crate::cli) parent: Option<Parent>,
    pub(in crate::cli) wants_key: Option<WantedKey>,
    #[serde(default)]
    pub(in crate::cli) tasks: Vec<Task>,
}

/// Where a fork comes from.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(in crate::cli) struct ForkedFrom {
    pub(in crate::cli) job: JobId,
    pub(in crate::cli) seq: u64,
}

/// Whose child a job is.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Parent {
    pub(in crate::cli) job: JobId,
    #[serde(deserialize_with = "name")]
    pub(in crate::cli) task: String,
}

/// A key that a job of a list waits for.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct WantedKey {
    pub(in crate::cli) key: String,
    pub(in crate::cli) holder: JobId,
}

/// How many tasks stand where.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(in crate::cli) struct Counts {
    #[serde(rename = "total_tasks")]
    pub(in crate::cli) total: u32,
    #[serde(rename = "completed_tasks")]
    pub(in crate::cli) completed: u32,
    #[serde(rename = "skipped_tasks")]
    pub(in crate::cli) skipped: u32,
}

/// Why something failed.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Error {
    pub(in crate::cli) code: String,
    pub(in crate::cli) message: String,
    #[serde(default, deserialize_with = "maybe_name")]
    pub(in crate::cli) task: Option<String>,
}

/// A task.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Task {
    #[serde(deserialize_with = "name")]
    pub(in crate::cli) id: String,
    pub(in crate::cli) number: u32,
    pub(in crate::cli) title: Option<String>,
    /// `undo` where it undoes another task; left out in the work itself.
    pub(in crate::cli) part: Option<String>,
    #[serde(deserialize_with = "word")]
    pub(in crate::cli) status: TaskStatus,
    pub(in crate::cli) waiting_for: Option<Waiting>,
    pub(in crate::cli) error: Option<Error>,
    pub(in crate::cli) child: Option<JobId>,
    pub(in crate::cli) progress: Option<Live>,
    #[serde(default)]
    pub(in crate::cli) steps: Vec<Step>,
    pub(in crate::cli) attempts: Vec<Attempt>,
    pub(in crate::cli) items: Option<Items>,
}

/// How many instances of a task stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(in crate::cli) struct Items {
    pub(in crate::cli) total: u32,
    pub(in crate::cli) running: u32,
    pub(in crate::cli) waiting: u32,
    pub(in crate::cli) completed: u32,
    pub(in crate::cli) failed: u32,
    pub(in crate::cli) skipped: u32,
}

/// A step whose result is recorded.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Step {
    #[serde(deserialize_with = "name")]
    pub(in crate::cli) name: String,
}

/// What a live attempt says of itself.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Live {
    pub(in crate::cli) done: Option<u64>,
    pub(in crate::cli) total: Option<u64>,
    pub(in crate::cli) message: Option<String>,
    #[serde(default, deserialize_with = "maybe_time")]
    pub(in crate::cli) stopping_since: Option<Timestamp>,
}

/// What a waiting task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Waiting {
    /// Its next attempt.
    Retry(Timestamp),
    /// A time.
    Timer(Timestamp),
    /// A signal, and until when.
    Signal(String, Option<Timestamp>),
    /// A kind that is not there.
    Kind(String),
    /// A child.
    Job(JobId),
    /// Something that this version has no word for.
    Other,
}

/// One execution of a task.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::cli) struct Attempt {
    pub(in crate::cli) number: u32,
    #[serde(default, deserialize_with = "maybe_word")]
    pub(in crate::cli) outcome: Option<AttemptOutcome>,
    #[serde(rename = "started_at", deserialize_with = "time")]
    pub(in crate::cli) started: Timestamp,
    #[serde(rename = "finished_at", default, deserialize_with = "maybe_time")]
    pub(in crate::cli) finished: Option<Timestamp>,
    pub(in crate::cli) message: Option<String>,
    pub(in crate::cli) log: Log,
}

/// The size of a step log.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(in crate::cli) struct Log {
    pub(in crate::cli) bytes: u64,
}

/// A job of a list.
#[derive(Debug, Clone)]
pub(in crate::cli) enum Row {
    /// As far as it is known.
    Known(Box<Job>),
    /// One whose history cannot be followed.
    Damaged(JobId),
}

impl Job {
    /// Whether it has ended, and all that it did is undone.
    pub(in crate::cli) fn is_undone(&self) -> bool {
        let over = [TaskStatus::Completed, TaskStatus::Skipped, TaskStatus::Removed];
        let mut undos = self.tasks.iter().filter(|task| task.part.as_deref() == Some("undo"));
        let is_over = |task: &Task| over.contains(&task.status);
        self.status.is_ended() && undos.next().is_some_and(is_over) && undos.all(is_over)
    }

    /// What people are shown of a snapshot.
    pub(in crate::cli) fn of(snapshot: &Snapshot) -> Result<Self, CliError> {
        super::read::parse(&dto::Job::at(snapshot).to_json())
    }

    /// The task with this id.
    pub(in crate::cli) fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// The task that made it fail.
    pub(in crate::cli) fn failed_task(&self) -> Option<&Task> {
        self.task(self.error.as_ref()?.task.as_deref()?)
    }
}

impl Items {
    /// How many are over.
    pub(in crate::cli) fn over(&self) -> u32 {
        self.completed + self.failed + self.skipped
    }

    /// `4 of 10 instances, 1 failed, 2 run`.
    pub(in crate::cli) fn told(&self) -> String {
        let counts = [
            (self.failed, "failed"),
            (self.skipped, "skipped"),
            (self.running, "run"),
            (self.waiting, "wait"),
        ];
        let some = counts.into_iter().filter(|&(count, _)| count > 0);
        let some: Vec<String> = some.map(|(count, word)| format!(", {count} {word}")).collect();
        format!("{} of {} instances{}", self.over(), self.total, some.concat())
    }
}

impl Error {
    /// Whether it is the same failure, whichever task it is told of.
    pub(in crate::cli) fn is_same(&self, other: &Self) -> bool {
        (&self.code, &self.message) == (&other.code, &other.message)
    }
}

impl Task {
    /// The attempt that is alive.
    pub(in crate::cli) fn live_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|last| last.outcome.is_none())
    }

    /// Whether its last attempt has written anything.
    pub(in crate::cli) fn has_log(&self) -> bool {
        self.attempts.last().is_some_and(|last| last.log.bytes > 0)
    }
}

impl<'de> Deserialize<'de> for Waiting {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Exactly one of them is there, unless it is none of them.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Named {
            retry: Option<Until>,
            timer: Option<Until>,
            signal: Option<Signal>,
            #[serde(deserialize_with = "maybe_name")]
            kind: Option<String>,
            job: Option<JobId>,
        }
        #[derive(Deserialize)]
        struct Until {
            #[serde(deserialize_with = "time")]
            until: Timestamp,
        }
        #[derive(Deserialize)]
        struct Signal {
            #[serde(deserialize_with = "name")]
            name: String,
            #[serde(default, deserialize_with = "maybe_time")]
            until: Option<Timestamp>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any {
            Named(Named),
            Word(serde::de::IgnoredAny),
        }
        Ok(match Any::deserialize(deserializer)? {
            Any::Named(Named { retry: Some(Until { until }), .. }) => Self::Retry(until),
            Any::Named(Named { timer: Some(Until { until }), .. }) => Self::Timer(until),
            Any::Named(Named { signal: Some(Signal { name, until }), .. }) => {
                Self::Signal(name, until)
            }
            Any::Named(Named { kind: Some(kind), .. }) => Self::Kind(kind),
            Any::Named(Named { job: Some(child), .. }) => Self::Job(child),
            Any::Named(_) | Any::Word(_) => Self::Other,
        })
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        #[derive(Deserialize)]
        struct Sound {
            id: JobId,
            #[serde(default)]
            damaged: bool,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Sound { id, damaged } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        if damaged {
            return Ok(Self::Damaged(id));
        }
        serde_json::from_str(json.get()).map(Self::Known).map_err(D::Error::custom)
    }
}
