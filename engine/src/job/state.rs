//! The state of a job: a fold over its events, and nothing else.

use std::sync::Arc;

use annals_tasks_sdk::plan::{JobEnd, OnFailure, TaskSpec};
use annals_tasks_sdk::{JobId, Payload, SignalName, Timestamp};

pub use super::attempts::{Attempt, Checkpoint, StopReason};
use super::child::{Child, Hold, Parent};
use super::deadline::Deadline;
use super::event::{Failure, Part, SkippedBy, TaskNumber};
use super::fan::{Fan, InstanceOf};
use super::header::{Counts, Exclusive, Forked, ForkedFrom, Header};
use super::kinds::OfKind;
use super::linked::Holders;
use super::purge::Tombstone;
use super::signals::Signals;
use super::sorted::Sorted;
use super::status::{Intent, JobStatus, TaskStatus};
use super::steps::Steps;
use super::undo::Undoing;
pub(super) use super::waiting::Waiting;

/// A job as its events have made it.
///
/// Beside what the events say, it keeps which tasks are ready, live and timed, so that a command
/// on a job of ten thousand tasks costs what it touches.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub(super) id: JobId,
    pub(super) seq: u64,
    pub(super) revision: u64,
    pub(super) time: Timestamp,
    pub(super) header: Header,
    pub(super) forked: Option<Box<Forked>>,
    pub(super) parent: Option<Box<Parent>>,
    pub(super) status: JobStatus,
    pub(super) intent: Option<Intent>,
    pub(super) holders: Holders,
    /// How it, and its children with it, are to be quiet.
    pub(super) hold: Option<Hold>,
    pub(super) created: Timestamp,
    pub(super) started: Option<Timestamp>,
    pub(super) finished: Option<Timestamp>,
    /// The event with which its last run ended; 0 before that.
    pub(super) ended_at: u64,
    /// What is left of the deadline of its run, until the end of the run is decided.
    pub(super) deadline: Option<Deadline>,
    pub(super) error: Option<Failure>,
    /// The end that is decided while tasks are undone and those of `finally` run.
    pub(super) ending: Option<JobEnd>,
    /// Whether nothing more of the run is to start, not even of `finally`.
    pub(super) cut_short: bool,
    /// What is known of it being undone, once that has begun.
    pub(super) undoing: Option<Box<Undoing>>,
    /// Tasks that have completed and can be undone, in the order in which they did.
    pub(super) undoable: Vec<u32>,
    /// The part of the plan whose turn it is. What is to run of the other has one unmet need more
    /// than it names, which is its turn.
    pub(super) turn: Part,
    pub(super) exclusive: Option<Box<Exclusive>>,
    /// What is known of it, once it is purged: nothing else is kept.
    pub(super) purged: Option<Arc<Tombstone>>,
    pub(super) tasks: Vec<Task>,
    /// Indices into `tasks` in the order of the plan.
    pub(super) order: Vec<u32>,
    /// Indices into `tasks` in the order of their ids.
    pub(super) names: Vec<u32>,
    /// Tasks that could start now, by rank and index.
    pub(super) ready: Sorted<(u32, u32)>,
    /// Tasks that could become their instances now, by rank and index.
    pub(super) expanding: Sorted<(u32, u32)>,
    /// Tasks whose end may follow from those of their instances.
    pub(super) ripe: Sorted<u32>,
    /// Tasks that could start now, but for their conditions.
    pub(super) declined: Sorted<(u32, u32)>,
    /// The same as `ready`, and `kindless`, by the kinds of the plan.
    pub(super) by_kind: Vec<OfKind>,
    /// Tasks with a live attempt.
    pub(super) live: Sorted<u32>,
    /// How many of those attempts are to end.
    pub(super) stopping: u32,
    /// Tasks that wait for a time.
    pub(super) timed: Sorted<(Timestamp, u32)>,
    /// Tasks that wait for their kind.
    pub(super) kindless: Sorted<u32>,
    /// Tasks that wait for a child.
    pub(super) children: Sorted<u32>,
    /// Signals that are kept, and tasks that wait for some.
    pub(super) signals: Option<Box<Signals>>,
    /// Tasks that failed and are not settled, in the order in which they failed.
    pub(super) failed: Vec<u32>,
    /// How many tasks of the work are not settled.
    pub(super) unsettled: u32,
    pub(super) counts: Counts,
    /// About how much memory it takes.
    pub(super) bytes: usize,
}

/// A task as the events have made it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What the plan says of it.
    pub spec: TaskSpec,
    pub(super) part: Part,
    pub(super) rank: u32,
    /// What it is an instance of.
    pub(super) of: Option<InstanceOf>,
    /// Its instances, where it has any.
    pub(super) fan: Option<Box<Fan>>,
    /// Its kind's place among those of the plan.
    pub(super) kind: u32,
    /// The tasks that it needs, resolved.
    pub(super) needs: Vec<u32>,
    /// The tasks that need it.
    pub(super) dependants: Vec<u32>,
    /// How many of `needs` are not settled, and one more while it is not its part's turn.
    pub(super) unmet: u32,
    pub(super) settled: bool,
    pub(super) status: TaskStatus,
    pub(super) waiting: Option<Waiting>,
    /// The names of the signals that it waits for.
    pub(super) awaits: Box<[SignalName]>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) output: Option<Payload>,
    pub(super) error: Option<Box<Failure>>,
    /// What passed over it, where it is skipped.
    pub(super) skipped_by: Option<SkippedBy>,
    /// A skip that takes effect when the live attempt is over, with its substitute output.
    pub(super) skip: Option<Box<Option<Payload>>>,
    pub(super) checkpoint: Option<Box<Checkpoint>>,
    /// The last child that it had.
    pub(super) child: Option<Box<Child>>,
    pub(super) steps: Steps,
    /// How often in a row the engine died while the task ran.
    pub(super) losses: u32,
    /// How many attempts of the present retry budget failed.
    pub(super) failures: u32,
    /// How many attempts came before the present retry budget.
    pub(super) budget_from: u32,
}

impl Job {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The number of its last event.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// How many accepted commands have changed it; the submission is the first.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The time of its last event.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// What the plan says beside its tasks.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where it comes from, where it is a fork.
    pub fn forked_from(&self) -> Option<ForkedFrom> {
        self.forked.as_deref().map(|forked| forked.from)
    }

    /// Whether copies of what was settled in the origin are still to come.
    pub(super) fn is_copied(&self) -> bool {
        self.forked.as_deref().is_some_and(|forked| self.seq < forked.copied_to)
    }

    /// Its status.
    pub fn status(&self) -> JobStatus {
        self.status
    }

    /// The end of the run that is decided, while what the job has done is undone, and while the
    /// tasks of `finally` run, before it.
    pub fn ending(&self) -> Option<JobEnd> {
        self.ending
    }

    /// Whether nothing more of the run is to start, not even of `finally`.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    /// What it is on its way to.
    pub fn intent(&self) -> Option<Intent> {
        self.intent
    }

    /// When it was submitted.
    pub fn created(&self) -> Timestamp {
        self.created
    }

    /// When it started.
    pub fn started(&self) -> Option<Timestamp> {
        self.started
    }

    /// When its run ended.
    pub fn finished(&self) -> Option<Timestamp> {
        self.finished
    }

    /// The key that it shares with other jobs, where it has one.
    pub fn exclusive(&self) -> Option<&Exclusive> {
        self.exclusive.as_deref()
    }

    /// Whether it holds its key, or waits for it to work. Of several jobs with one key those that
    /// are held before they began let others pass.
    pub(crate) fn is_in_line(&self) -> bool {
        self.exclusive().is_some_and(|own| own.taken || (own.since.is_some() && self.dispatches()))
    }

    /// Its tasks in the order of the plan, removed ones included, instances not.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = (TaskNumber, &Task)> {
        self.order.iter().map(|&index| (number(index), &self.tasks[index as usize]))
    }

    /// A task by its number.
    pub fn task(&self, task: TaskNumber) -> Option<&Task> {
        self.tasks.get(index(task)? as usize)
    }

    /// A task's number by its id.
    pub fn find(&self, id: &str) -> Option<TaskNumber> {
        let id_of = |&at: &u32| self.tasks[at as usize].spec.id.as_str();
        match self.names.binary_search_by(|at| id_of(at).cmp(id)) {
            Ok(place) => Some(number(self.names[place])),
            Err(_) => self.find_instance(id),
        }
    }

    /// The ids of the tasks that a task needs, resolved, removed ones passed over.
    pub fn needs_of(&self, task: &Task) -> Vec<&str> {
        let needed = task.needs.iter().map(|&need| &self.tasks[need as usize]);
        needed.map(|need| need.spec.id.as_str()).collect()
    }

    /// How many tasks stand where.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many tasks have not been removed; instances count as the one task that they are of.
    pub fn total_tasks(&self) -> u32 {
        count(self.order.len()) - self.counts.removed
    }

    /// How many tasks of the work are not settled; those of `finally`, and what undoes others,
    /// do not count.
    pub fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Why the job failed or is about to: the failure of the first task that is failed still, or
    /// the job's own.
    pub fn error(&self) -> Option<(&Failure, Option<TaskNumber>)> {
        if let Some(error) = &self.error {
            let from = self.failed.first().filter(|&&at| {
                self.tasks[at as usize].error.as_deref().is_some_and(|own| own == error)
            });
            return Some((error, from.map(|&at| number(at))));
        }
        let &first = self.failed.first()?;
        self.tasks[first as usize].error.as_deref().map(|error| (error, Some(number(first))))
    }

    /// Whether an attempt of it is alive.
    pub fn is_live(&self) -> bool {
        !self.live.is_empty()
    }

    /// The tasks with a live attempt.
    pub fn live(&self) -> impl Iterator<Item = (TaskNumber, &Task)> {
        self.live.iter().map(|&at| (number(at), &self.tasks[at as usize]))
    }

    /// Whether tasks may start: those whose turn it is.
    pub(super) fn dispatches(&self) -> bool {
        let goes_on = match self.ending {
            Some(_) => !self.cut_short,
            // Once it is undone none of its work runs.
            None => self.intent.is_none() && self.undoing.is_none(),
        };
        self.status == JobStatus::Running && goes_on
    }

    /// Whether tasks of this part may start.
    pub(crate) fn starts_tasks_of(&self, part: Part) -> bool {
        self.dispatches() && self.turn == part
    }

    /// Whether the run is on its way to an end, and no task runs before it any more.
    pub(super) fn is_over(&self) -> bool {
        self.cut_short || (self.ending.is_none() && self.intent.is_some_and(Intent::ends))
    }

    /// Whether anything is left that could start, now or when its time comes.
    pub(super) fn can_go_on(&self) -> bool {
        let startable = !(self.ready.is_empty() && self.kindless.is_empty());
        let undecided = !(self.declined.is_empty() && self.expanding.is_empty());
        startable || !self.timed.is_empty() || undecided || self.awaits_signals()
    }

    /// Whether the plan lets the job be paused by the failure of a task.
    pub(super) fn waits_for_operator(&self) -> bool {
        let pauses = |&at: &u32| self.tasks[at as usize].spec.policy.on_failure == OnFailure::Pause;
        self.failed.iter().any(pauses)
    }
}

impl Task {
    /// Its status.
    pub fn status(&self) -> TaskStatus {
        self.status
    }

    /// The part of the plan that it stands in.
    pub fn part(&self) -> Part {
        self.part
    }

    /// What passed over it, where it is skipped.
    pub fn skipped_by(&self) -> Option<SkippedBy> {
        self.skipped_by
    }

    /// Its attempts, the oldest first.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Its output: its own, or the substitute that a skip brought.
    pub fn output(&self) -> Option<&Payload> {
        self.output.as_ref()
    }

    /// Why it failed for good.
    pub fn error(&self) -> Option<&Failure> {
        self.error.as_deref()
    }

    /// Whether those that need it may go on.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Whether everything that it needs is settled and it could start.
    pub fn is_ready(&self) -> bool {
        let startable = matches!(self.status, TaskStatus::Pending | TaskStatus::Interrupted);
        startable && self.unmet == 0 && !self.settled && self.fan().is_none()
    }

    /// Whether a skip waits for its live attempt to end.
    pub fn is_being_skipped(&self) -> bool {
        self.skip.is_some()
    }

    /// Its last checkpoint.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_deref()
    }

    /// How often in a row the engine died while it ran.
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// How many attempts have failed since it was last tried afresh.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The attempt that is alive.
    pub fn live_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.outcome.is_none())
    }
}

/// The number of the task at an index.
pub(super) fn number(index: u32) -> TaskNumber {
    TaskNumber(index + 1)
}

/// The index of a task by its number.
pub(super) fn index(number: TaskNumber) -> Option<u32> {
    number.0.checked_sub(1)
}

/// A count of tasks. Plans are limited to far fewer than fit.
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
