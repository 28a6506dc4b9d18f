//! Tasks and their attempts.

use annals_engine::job::{self, Part, SkippedBy, TaskNumber, Waiting};
use annals_engine::runtime::Snapshot;
use annals_tasks_sdk::plan::{Compensation, Condition};
use annals_tasks_sdk::{JobId, Payload, SignalName};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Error, Live, Log, Time, exit, live};

/// One task of a snapshot.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Task<'a> {
    /// Unique in the job.
    pub id: &'a str,
    /// Its place in the order of creation, from 1.
    pub number: u32,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// Which implementation runs it.
    pub kind: &'a str,
    /// Its status.
    #[schema(value_type = super::TaskStatus)]
    pub status: &'static str,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor<'a>>,
    /// What passed over it, where it is skipped: `operator` or its own `when`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_by: Option<&'static str>,
    /// The part of the job that it stands in: `undo` where it undoes another task, `finally` where
    /// it is done at the end; left out where that is `tasks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    /// The tasks that it needs, resolved.
    pub needs: Vec<&'a str>,
    /// Whether it runs when its turn has come, or is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub when: Option<Payload>,
    /// The list for each element of which it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub for_each: Option<&'a Payload>,
    /// How many of its instances may have begun and not be over at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many of its instances stand where, once it has become them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
    /// Of an instance, the task that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_of: Option<&'a str>,
    /// Of an instance, the element that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub item: Option<Payload>,
    /// How what it has done is undone, as its plan says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub compensate: Option<Payload>,
    /// What its plan gives it, with references.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub input: Option<&'a Payload>,
    /// What it gave; where it has instances, the list of what they gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<Payload>,
    /// Why it failed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error<'a>>,
    /// The last child job that it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = Uuid)]
    pub child: Option<String>,
    /// How far its live attempt is, or how many of its instances are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<TaskProgress<'a>>,
    /// The steps that its attempts have recorded and will not run again, in the order in which
    /// they were recorded. A settled task, which never runs again, has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step<'a>>,
    /// Its attempts, the oldest first.
    pub attempts: Vec<Attempt<'a>>,
    /// Its instances in the order of their elements; only where it is asked for by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    pub instances: Vec<Task<'a>>,
}

/// How many instances of a task stand where.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Items {
    /// All of them.
    pub total: u32,
    /// Those that have not begun.
    pub pending: u32,
    /// Those with a live attempt.
    pub running: u32,
    /// Those that wait, such as for their next attempt.
    pub waiting: u32,
    /// Those that were stopped.
    pub interrupted: u32,
    /// Completed ones.
    pub completed: u32,
    /// Failed ones.
    pub failed: u32,
    /// Skipped ones.
    pub skipped: u32,
}

/// A step whose result is recorded.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = RecordedStep)]
pub struct Step<'a> {
    /// Its name, unique in its task.
    pub name: &'a str,
    /// The attempt that ran its code.
    pub attempt: u32,
}

/// The tasks of a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Tasks<'a> {
    /// In the order of the plan.
    pub items: Vec<Task<'a>>,
}

impl<'a> Tasks<'a> {
    /// The tasks of a job at one moment.
    pub fn at(snapshot: &'a Snapshot) -> Self {
        let (job, live) = (&*snapshot.job, live(snapshot));
        let tasks = job.tasks();
        Self { items: tasks.map(|(number, task)| Task::of(job, number, task, &live)).collect() }
    }

    /// The tasks as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

/// What a waiting task waits for.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor<'a> {
    /// Its next attempt.
    Retry(Due),
    /// A time.
    Timer(Due),
    /// A signal.
    Signal(Signal<'a>),
    /// A kind that is not registered here now.
    Kind(&'a str),
    /// Its child.
    Job(ChildId),
    /// Something that this version has no word for.
    Other,
}

/// The id of a child job.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(value_type = String, format = Uuid)]
pub struct ChildId(pub JobId);

/// When a wait is over.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Due {
    /// Not before this time.
    pub until: Time,
}

/// The signal that a task waits for.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = AwaitedSignal)]
pub struct Signal<'a> {
    /// Its name.
    pub name: &'a str,
    /// When the task fails if none has come; left out where it waits without end, and while the
    /// time stands still since the job is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// How far a live attempt is.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct TaskProgress<'a> {
    /// Between 0 and 1; left out where it is not known how much there is to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// How much is done, by its own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// How much there is to do, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// When it was told to stop; left out where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopping_since: Option<Time>,
    /// What it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

/// One execution of a task.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Attempt<'a> {
    /// From 1 in its task.
    pub number: u32,
    /// How it ended; left out while it is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::AttemptOutcome>)]
    pub outcome: Option<&'static str>,
    /// When it was started.
    pub started_at: Time,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The exit code of its child process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended its child process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<&'a str>,
    /// Its error in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error<'a>>,
    /// What it gave in spite of its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<&'a Payload>,
    /// The size of its step log.
    pub log: Log,
}

impl<'a> Task<'a> {
    /// A task of a job.
    pub fn of(job: &'a job::Job, number: TaskNumber, task: &'a job::Task, live: &Live<'a>) -> Self {
        let spec = &task.spec;
        Self {
            id: spec.id.as_str(),
            number: number.0,
            title: spec.title.as_deref(),
            kind: spec.kind.as_str(),
            status: task.status().as_str(),
            waiting_for: task.waiting().map(|waiting| WaitingFor::of(waiting, task)),
            skipped_by: task.skipped_by().map(skipped_by),
            part: part(task.part()),
            needs: job.needs_of(task),
            when: spec.when.as_deref().map(Condition::to_json),
            for_each: spec.for_each.as_deref().map(|each| &each.items),
            concurrency: spec.for_each.as_deref().and_then(|each| each.concurrency),
            items: task.items().map(Items::of),
            instance_of: job.parent_of(task).map(|(_, parent)| parent.spec.id.as_str()),
            item: job.item_of(task),
            compensate: spec.compensate.as_deref().map(Compensation::to_json),
            input: Some(&spec.input).filter(|input| !input.is_null()),
            output: job.output_of(task),
            error: task.error().map(Error::of),
            child: task.child().map(|child| child.job.to_string()),
            progress: live.get(&number).copied().or(task.items().map(TaskProgress::over)),
            steps: task.steps().as_slice().iter().map(Step::of).collect(),
            attempts: task.attempts().iter().map(Attempt::of).collect(),
            instances: Vec::new(),
        }
    }

    /// The same with its instances.
    pub fn with_instances(
        job: &'a job::Job,
        number: TaskNumber,
        task: &'a job::Task,
        live: &Live<'a>,
    ) -> Self {
        let instances = job.instances(task);
        let instances = instances.map(|(number, one)| Self::of(job, number, one, live));
        Self { instances: instances.collect(), ..Self::of(job, number, task, live) }
    }
}

impl Items {
    fn of(items: job::Items) -> Self {
        Self {
            total: items.total,
            pending: items.pending(),
            running: items.running,
            waiting: items.waiting,
            interrupted: items.interrupted,
            completed: items.completed,
            failed: items.failed,
            skipped: items.skipped,
        }
    }
}

impl TaskProgress<'_> {
    /// How many of the instances of a task are over.
    fn over(items: job::Items) -> Self {
        let (done, total) = (items.over(), items.total);
        let fraction = (total > 0).then(|| f64::from(done) / f64::from(total));
        let (done, total) = (Some(done.into()), Some(total.into()));
        Self { fraction, done, total, ..Self::default() }
    }
}

impl<'a> Step<'a> {
    fn of(step: &'a job::RecordedStep) -> Self {
        Self { name: &step.name, attempt: step.attempt }
    }
}

/// The word for what passed over a task.
pub(super) fn skipped_by(by: SkippedBy) -> &'static str {
    match by {
        SkippedBy::Request => "operator",
        SkippedBy::Condition => "when",
    }
}

/// The name of a part of a plan, where it is not that of most tasks.
pub(super) fn part(part: Part) -> Option<&'static str> {
    match part {
        Part::Tasks => None,
        Part::Undo => Some("undo"),
        Part::Finally => Some("finally"),
    }
}

impl Task<'_> {
    /// The task as JSON text.
    pub fn to_json(&self) -> String {
        super::text(self)
    }
}

impl<'a> WaitingFor<'a> {
    fn of(waiting: Waiting, task: &'a job::Task) -> Self {
        match waiting {
            Waiting::Retry { until } => Self::Retry(Due { until: Time(until) }),
            Waiting::Timer { until } => Self::Timer(Due { until: Time(until) }),
            Waiting::Signal { .. } => {
                let name = task.awaits().first().map_or("", SignalName::as_str);
                Self::Signal(Signal { name, until: waiting.until().map(Time) })
            }
            Waiting::Kind => Self::Kind(task.spec.kind.as_str()),
            Waiting::Job => task.child().map_or(Self::Other, |child| Self::Job(ChildId(child.job))),
            _ => Self::Other,
        }
    }
}

impl<'a> Attempt<'a> {
    fn of(attempt: &'a job::Attempt) -> Self {
        let end = attempt.end.as_deref();
        let (exit_code, signal) = exit(end.map_or(&attempt.exit, |end| &end.exit));
        Self {
            number: attempt.number,
            outcome: attempt.outcome.map(job::AttemptOutcome::as_str),
            started_at: Time(attempt.started),
            finished_at: attempt.finished.map(Time),
            exit_code,
            signal,
            message: end.map(|end| &*end.error.message),
            error: end.map(|end| Error { retryable: Some(end.retryable), ..Error::of(&end.error) }),
            output: end.and_then(|end| end.output.as_ref()),
            log: end.map_or(attempt.log, |end| end.log).into(),
        }
    }
}
