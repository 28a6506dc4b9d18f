//! The snapshot of a job.

use std::collections::BTreeMap;

use annals_engine::job::{self, TaskNumber, TaskStatus};
use annals_engine::runtime::Snapshot;
use annals_tasks_sdk::Payload;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Error, ForkedFrom, Parent, Task, TaskProgress, Time};

/// How far the live attempts are: what is shown beside the state and is no part of it.
pub type Live<'a> = BTreeMap<TaskNumber, TaskProgress<'a>>;

/// A job with its tasks and their attempts.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Job<'a> {
    /// Its id.
    #[schema(format = Uuid)]
    pub id: String,
    /// Its plan's name.
    pub name: &'a str,
    /// The workflow that made its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<&'a str>,
    /// The file that its plan was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'a str>,
    /// Its status.
    #[schema(value_type = super::JobStatus)]
    pub status: &'static str,
    /// What it is on its way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Intent>)]
    pub intent: Option<&'static str>,
    /// Its number of accepted commands.
    pub revision: u64,
    /// The number of its last event.
    pub seq: u64,
    /// The queue that it is in.
    pub queue: &'static str,
    /// Its priority there.
    pub priority: i32,
    /// Of the jobs with this key one runs at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<&'a str>,
    /// Free pairs to find it by.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: &'a BTreeMap<Box<str>, Box<str>>,
    /// What it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub input: Option<&'a Payload>,
    /// What it gives; once it is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<Payload>,
    /// How far it is.
    pub progress: JobProgress<'a>,
    /// Why it failed or is about to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error<'a>>,
    /// When it was submitted.
    pub created_at: Time,
    /// When it starts by itself; left out where nobody but an execute starts it, once it has
    /// started, and while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When the deadline of its run passes; left out where there is none, and while it stands still
    /// since the job is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Time>,
    /// When its run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Where it comes from, where it is a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Whose child it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent<'a>>,
    /// How many signals of each name are kept for tasks that will wait for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_signals: BTreeMap<&'a str, u64>,
    /// Its tasks in the order of the plan.
    pub tasks: Vec<Task<'a>>,
}

/// How far a job is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobProgress<'a> {
    /// Tasks that are not removed.
    pub total_tasks: u32,
    /// Completed ones of them.
    pub completed_tasks: u32,
    /// Skipped ones of them.
    pub skipped_tasks: u32,
    /// Settled tasks, and the shares of live attempts, in all tasks.
    pub fraction: f64,
    /// The tasks that run.
    pub current: Vec<&'a str>,
    /// What the first of them that says so is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

/// How far a job is, by itself.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Progress<'a> {
    /// The job.
    #[schema(format = Uuid)]
    pub job_id: String,
    /// Its status.
    #[schema(value_type = super::JobStatus)]
    pub status: &'static str,
    /// What it is on its way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Intent>)]
    pub intent: Option<&'static str>,
    /// How far it is.
    #[serde(flatten)]
    pub progress: JobProgress<'a>,
}

impl<'a> Progress<'a> {
    /// How far a job is at one moment.
    pub fn at(snapshot: &'a Snapshot) -> Self {
        let job = &snapshot.job;
        Self {
            job_id: job.id().to_string(),
            status: job.status().as_str(),
            intent: job.intent().map(job::Intent::as_str),
            progress: JobProgress::of(job, &live(snapshot)),
        }
    }

    /// The same as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

/// How far the live attempts of a snapshot are.
pub fn live(snapshot: &Snapshot) -> Live<'_> {
    let each = snapshot.live.iter().map(|(number, live)| {
        let (done, total) = live.progress.map(|progress| (progress.done, progress.total)).unzip();
        let shown = TaskProgress {
            fraction: live.progress.and_then(fraction),
            done,
            total: total.filter(|total| *total > 0),
            stopping_since: live.stopping_since.map(Time),
            message: live.message.as_deref(),
        };
        (*number, shown)
    });
    each.collect()
}

/// What is done of what there is; unknown where the whole is.
fn fraction(progress: annals_tasks_sdk::Progress) -> Option<f64> {
    let annals_tasks_sdk::Progress { done, total } = progress;
    #[expect(clippy::cast_precision_loss, reason = "of so much, about as much is the same share")]
    let share = done as f64 / total as f64;
    (total > 0).then_some(share.min(1.0))
}

impl<'a> Job<'a> {
    /// A job, with how far its live attempts are.
    pub fn of(job: &'a job::Job, live: &Live<'a>) -> Self {
        let tasks = job.tasks().map(|(number, task)| Task::of(job, number, task, live)).collect();
        Self { tasks, ..Self::without_tasks(job, live) }
    }

    /// The same, but for its tasks.
    pub(super) fn without_tasks(job: &'a job::Job, live: &Live<'a>) -> Self {
        let header = job.header();
        let completed = job.status() == job::JobStatus::Completed;
        Self {
            id: job.id().to_string(),
            name: &header.name,
            workflow: header.workflow.as_deref(),
            source: header.source.as_deref(),
            status: job.status().as_str(),
            intent: job.intent().map(job::Intent::as_str),
            revision: job.revision(),
            seq: job.seq(),
            queue: "default",
            priority: 0,
            exclusive: job.exclusive().map(|own| &*own.key),
            labels: &header.labels,
            input: Some(&header.input).filter(|input| !input.is_null()),
            output: if completed { job.output().ok().flatten() } else { None },
            progress: JobProgress::of(job, live),
            error: error(job),
            created_at: Time(job.created()),
            starts_at: job.starts_at().map(Time),
            started_at: job.started().map(Time),
            deadline_at: job.deadline_at().map(Time),
            finished_at: job.finished().map(Time),
            forked_from: job.forked_from().map(Into::into),
            parent: job.parent().map(Into::into),
            kept_signals: kept_signals(job),
            tasks: Vec::new(),
        }
    }

    /// A job at one moment, as the engine gives it.
    pub fn at(snapshot: &'a Snapshot) -> Self {
        Self::of(&snapshot.job, &live(snapshot))
    }

    /// The snapshot as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> JobProgress<'a> {
    fn of(job: &'a job::Job, live: &Live<'a>) -> Self {
        let counts = job.counts();
        let present = |task: &job::Task| task.status() != TaskStatus::Removed;
        let settled = job.tasks().filter(|(_, task)| present(task) && task.is_settled()).count();
        let shares: f64 = live.iter().filter_map(|(&number, live)| share(job, number, live)).sum();
        let shares =
            shares + job.tasks().filter_map(|(_, task)| share_of_instances(task)).sum::<f64>();
        let total = job.total_tasks();
        #[expect(clippy::cast_precision_loss, reason = "a count of tasks is far below 2^52")]
        let done = settled as f64 + shares;
        let fraction = if total == 0 { 1.0 } else { (done / f64::from(total)).clamp(0.0, 1.0) };
        Self {
            total_tasks: total,
            completed_tasks: counts.completed,
            skipped_tasks: counts.skipped,
            fraction: (fraction * 10_000.0).round() / 10_000.0,
            current: current(job),
            message: live.values().find_map(|progress| progress.message),
        }
    }
}

fn kept_signals(job: &job::Job) -> BTreeMap<&str, u64> {
    let mut kept = BTreeMap::new();
    for (_, name, _) in job.kept_signals() {
        *kept.entry(name.as_str()).or_default() += 1;
    }
    kept
}

/// The tasks that run; instances count as the task that they are of.
fn current(job: &job::Job) -> Vec<&str> {
    let mut current: Vec<&str> = Vec::new();
    for (_, task) in job.live() {
        let task = job.parent_of(task).map_or(task, |(_, parent)| parent);
        let id = task.spec.id.as_str();
        // The instances of a task come one after the other.
        if !task.items().is_some_and(|_| current.contains(&id)) {
            current.push(id);
        }
    }
    current
}

/// The share of a live attempt in the work of one task.
fn share(job: &job::Job, number: TaskNumber, live: &TaskProgress<'_>) -> Option<f64> {
    let parent = job.parent_of(job.task(number)?).and_then(|(_, parent)| parent.items());
    let of = parent.map_or(1, |items| items.total.max(1));
    Some(live.fraction? / f64::from(of))
}

/// The share of a task that is not settled of whose instances some are over.
fn share_of_instances(task: &job::Task) -> Option<f64> {
    let items = task.items().filter(|items| items.total > 0 && !task.is_settled())?;
    Some(f64::from(items.over()) / f64::from(items.total))
}

fn error(job: &job::Job) -> Option<Error<'_>> {
    let (failure, number) = job.error()?;
    let task = number.and_then(|number| job.task(number));
    let attempt = task.and_then(|task| task.attempts().last());
    Some(Error {
        task: task.map(|task| task.spec.id.as_str()),
        attempt: attempt.map(|attempt| attempt.number),
        ..Error::of(failure)
    })
}
