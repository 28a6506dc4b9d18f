//! How reasons are found in what is seen of a job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annals_tasks_sdk::plan::JobEnd;
use annals_tasks_sdk::{JobId, TaskId, Timestamp};

use super::reason::{Ahead, Cause, HeldKey, Line, Other, Reason, RunDeadline};
use super::remedy::Remedy;
use super::tasks::Tasks;
use crate::job::{Failure, Intent, Job, JobStatus, Part, TaskNumber, TaskStatus};
use crate::runtime::Snapshot;

/// So many tasks are explained at most; the others are [counted](Explanation::more_tasks).
pub const TASKS_EXPLAINED: usize = 20;

/// Whether an engine starts tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dispatch {
    Runs,
    /// It holds jobs and runs nothing.
    Holds,
    /// Not yet, or not any more.
    NotReady,
}

/// What is seen of a job in a turn of its loop.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    pub(crate) now: Timestamp,
    pub(crate) dispatch: Dispatch,
    /// Whether attempts that were alive when the engine started have been declared lost.
    pub(crate) recovered: bool,
    /// Tasks that wait for slots.
    pub(crate) queued: BTreeMap<TaskNumber, Queued>,
    /// By kind, the pool whose slots its tasks hold.
    pub(crate) pools: BTreeMap<Box<str>, Arc<str>>,
    /// Tasks with a live attempt that is outside of this process.
    pub(crate) outside: BTreeSet<TaskNumber>,
    /// Where it stands with its exclusive key, if it is in line for that.
    pub(crate) key: Option<KeyLine>,
}

/// Where a job stands with its exclusive key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyLine {
    /// It holds the key.
    Holds {
        /// So many jobs wait for it.
        waiting: u64,
        /// The first of them.
        first: Vec<JobId>,
    },
    /// It waits for the key.
    Waits {
        /// Who holds it.
        holder: JobId,
        /// How many are in line before the job.
        before: u64,
    },
}

impl Seen {
    /// A job that is not loaded: nothing of it is alive or stands in line.
    pub(crate) fn at_rest(snapshot: Snapshot, now: Timestamp, dispatch: Dispatch) -> Self {
        let (queued, pools, outside) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { snapshot, now, dispatch, recovered: true, queued, pools, outside, key: None }
    }

    /// What the job waits for whose key another one holds.
    pub(super) fn wants_key(&self) -> Option<Reason> {
        let Some(KeyLine::Waits { holder, before }) = &self.key else { return None };
        let key = self.snapshot.job.exclusive()?.key.to_string();
        Some(Reason::WantsKey { key, holder: *holder, place: before + 1 })
    }

    /// What others wait for that the job holds.
    fn holds_key(&self) -> Option<HeldKey> {
        let Some(KeyLine::Holds { waiting: waiting @ 1.., first }) = &self.key else { return None };
        let key = self.snapshot.job.exclusive()?.key.to_string();
        Some(HeldKey { key, waiting: *waiting, first: first.clone() })
    }
}

/// For what a task stands in line.
#[derive(Debug, Clone)]
pub(crate) enum Queued {
    /// A slot of its pool.
    Slot(Line),
    /// That it runs as the only suspect, and who does now.
    Alone(Line, Option<Other>),
}

/// Why a job does not move, or what it is doing, at one moment.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The job.
    pub job_id: JobId,
    /// The job at that moment, with what its live attempts say; none where its history cannot be
    /// followed.
    pub snapshot: Option<Snapshot>,
    /// Why, the most telling first. Never empty.
    pub reasons: Vec<Explained>,
    /// So many more tasks have a reason of their own.
    pub more_tasks: usize,
    /// The deadline of the run, unless that stands still.
    pub deadline: Option<RunDeadline>,
    /// The exclusive key that the job holds, where others wait for it.
    pub held_key: Option<HeldKey>,
}

/// A reason, and what would change it.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The reason.
    pub reason: Reason,
    /// Commands that would change it; the job accepts each of them as it stands.
    pub remedies: Vec<Remedy>,
}

impl Explanation {
    /// Of a job whose history cannot be followed.
    pub(crate) fn unreadable(job_id: JobId, why: String) -> Self {
        let reasons = vec![Explained { reason: Reason::Unreadable { why }, remedies: Vec::new() }];
        let (snapshot, deadline, held_key) = (None, None, None);
        Self { job_id, snapshot, reasons, more_tasks: 0, deadline, held_key }
    }

    /// The most telling reason in a sentence, how many others there are, what is left of the
    /// deadline, and who waits for the job.
    pub fn summary(&self) -> String {
        let first = self.reasons.first().map_or(&Reason::Unknown, |first| &first.reason);
        let mut told = match self.reasons.len().saturating_sub(1) + self.more_tasks {
            0 => first.to_string(),
            1 => format!("{first} (and 1 more reason)"),
            others => format!("{first} (and {others} more reasons)"),
        };
        let deadline = self.deadline.map(|deadline| deadline.to_string());
        let held = self.held_key.as_ref().map(HeldKey::to_string);
        for more in deadline.into_iter().chain(held) {
            told.push_str("; ");
            told.push_str(&more);
        }
        told
    }
}

/// Why a job does not move, or what it is doing.
pub(crate) fn explain(seen: Seen, cause: Option<Cause>) -> Explanation {
    let (reasons, more_tasks) = reasons(&seen, cause);
    let (job, now) = (&seen.snapshot.job, seen.now);
    let explained = |reason: Reason| {
        let remedies = Remedy::all_of(&reason, job, now);
        Explained { reason, remedies }
    };
    Explanation {
        job_id: job.id(),
        deadline: job.deadline_at().map(|at| RunDeadline::seen(at, now)),
        held_key: seen.holds_key(),
        reasons: reasons.into_iter().map(explained).collect(),
        snapshot: Some(seen.snapshot),
        more_tasks,
    }
}

/// The reasons, and how many more tasks have one.
fn reasons(seen: &Seen, cause: Option<Cause>) -> (Vec<Reason>, usize) {
    let job = &*seen.snapshot.job;
    let mut reasons: Vec<Reason> = of_job(job, cause, seen.now).into_iter().collect();
    if let Some(parent) = job.parent().filter(|_| job.is_held_by_parent()) {
        let held = Reason::HeldByParent { parent: parent.job, task: parent.task_id.clone() };
        // Where nobody else holds it, that is all there is to say of its pause.
        let alone = job.status() == JobStatus::Paused && !job.is_held_by_own();
        reasons.truncate(usize::from(!alone));
        reasons.push(held);
    }
    if !job.status().is_ended() {
        reasons.extend(of_engine(seen));
        reasons.extend(seen.wants_key());
        reasons.extend(seen.snapshot.lack.map(Reason::Lacks));
    }
    // The failure of a failed job is told with it.
    let told = match reasons.first() {
        Some(Reason::Failed { task, .. }) => task.clone(),
        _ => None,
    };
    let more = Tasks::of(seen, told.as_ref()).add_to(&mut reasons);
    if reasons.is_empty() {
        reasons.push(Reason::Unknown);
    }
    (reasons, more)
}

fn of_job(job: &Job, by: Option<Cause>, now: Timestamp) -> Option<Reason> {
    let alive = job.live().count();
    Some(match (job.status(), job.intent()) {
        (JobStatus::Completed, _) => Reason::Completed,
        (JobStatus::Failed, _) => failed(job),
        (JobStatus::Cancelled, _) => Reason::Cancelled { by },
        (JobStatus::Pending, _) => match job.starts_at() {
            Some(at) => Reason::StartsAt { until: Ahead::until(at, now) },
            None => Reason::NotExecuted,
        },
        _ if job.is_being_undone() => undoing(job, by)?,
        (_, Some(Intent::Complete)) => finishing(job, JobEnd::Completed, by),
        _ if job.ending().is_some() => finishing(job, job.ending()?, by),
        (_, Some(Intent::Cancel)) => Reason::Cancelling { by, alive },
        (_, Some(Intent::Fail)) => {
            Reason::Failing { error: job.error().map(|(error, _)| error.clone()), alive }
        }
        (_, Some(Intent::Pause)) => Reason::Pausing { by, alive },
        (JobStatus::Paused, None) => Reason::Paused { by },
        (JobStatus::Running, None) => return None,
    })
}

fn finishing(job: &Job, end: JobEnd, by: Option<Cause>) -> Reason {
    let error = job.error().filter(|_| end == JobEnd::Failed);
    Reason::Finishing { end, error: error.map(|(error, _)| error.clone()), by }
}

fn undoing(job: &Job, by: Option<Cause>) -> Option<Reason> {
    let (end, error) = (job.ending()?, job.error().map(|(error, _)| error.clone()));
    let error = error.filter(|_| end == JobEnd::Failed);
    let undos = job.tasks().filter(|(_, task)| task.part() == Part::Undo);
    let (done, total) = undos.fold((0, 0), |(done, total), (_, task)| {
        let is_done = task.status() == TaskStatus::Completed;
        let passed_over = matches!(task.status(), TaskStatus::Skipped | TaskStatus::Removed);
        (done + usize::from(is_done), total + usize::from(!passed_over))
    });
    Some(Reason::Undoing { end, error, by, done, total })
}

fn failed(job: &Job) -> Reason {
    let unknown = || Failure::new("failed", "why is not known");
    let (error, task) = match job.error() {
        Some((error, task)) => (error.clone(), task.and_then(|task| id_of(job, task))),
        None => (unknown(), None),
    };
    Reason::Failed { error, task }
}

fn id_of(job: &Job, task: TaskNumber) -> Option<TaskId> {
    job.task(task).map(|task| task.spec.id.clone())
}

fn of_engine(seen: &Seen) -> Option<Reason> {
    match seen.dispatch {
        Dispatch::Runs => None,
        Dispatch::Holds => Some(Reason::NothingRuns),
        Dispatch::NotReady => Some(Reason::EngineNotReady),
    }
}
