//! Forks: a job that goes on from what another one has done, and stands alone.

use std::sync::Arc;

use annals_tasks_sdk::plan::TaskSpec;
use annals_tasks_sdk::{JobId, KindName, TaskId};

use super::commands::stale;
use super::engine::Shared;
use super::error::{CommandError, ForkError, JobError, SubmitError};
use super::executor::Executor;
use super::handle::{JobHandle, weight, weight_of_origin};
use super::keys::Claimed;
use super::message::{Ask, Shows, Snapshot};
use super::past::Moment;
use super::submit::Accepted;
use crate::job::{
    self, Command, Context, Event, ForkFrom, Job, Recorded, Rejection, begin, kind_is_closed,
    no_such_event,
};

/// How many bytes of outputs and inputs a fork may begin with, where nothing else is said.
pub(super) const FORK_BYTES: usize = 64 << 20;

/// What a fork is to be.
#[derive(Debug, Clone)]
pub struct Fork {
    /// What of its origin it does anew.
    pub from: ForkFrom,
    /// What is changed before it starts, all or none: inserts, moves, edits, removals and skips.
    pub edits: Vec<Command>,
    /// Kinds that the edits may not bring in, and of whose tasks they may not say what these do.
    pub closed_kinds: Vec<KindName>,
}

impl Fork {
    /// A fork without edits.
    pub fn new(from: ForkFrom) -> Self {
        Self { from, edits: Vec::new(), closed_kinds: Vec::new() }
    }
}

/// What became of a fork that was asked for.
#[derive(Clone)]
pub enum Forked {
    /// The new job; it is durable.
    Accepted(Accepted),
    /// What it would begin with. It was a dry run: the job has the nil id, since there is none.
    Rehearsed {
        /// Its events.
        events: Vec<Recorded>,
        /// The job that they make.
        snapshot: Snapshot,
    },
}

impl JobHandle {
    /// Makes a new job that goes on from what this one has done; this one stays as it is. The new
    /// one is durable when this returns, and needs nothing of this one any more.
    ///
    /// Where it comes with a key, and a fork with that key was made before, no other job is made.
    /// While an equal one is on its way this waits for it.
    pub async fn fork(&self, fork: Fork, ask: Ask) -> Result<Forked, ForkError> {
        let (shared, _) = self.shared();
        let limit = shared.settings.limits.payload_bytes;
        let edits = fork.edits.iter().map(|edit| weight(edit, &ask));
        for bytes in edits.chain([weight_of_origin(&ask.origin)]) {
            if bytes > limit {
                return Err(CommandError::TooLarge { bytes, limit }.into());
            }
        }
        let claim = match ask.key.filter(|_| !ask.dry_run) {
            None => None,
            Some(key) => match shared.keys.claim(key).await.map_err(CommandError::from)? {
                Claimed::Mine(claim) => Some(claim),
                Claimed::Done(made) => {
                    let job = self.engine().job(made);
                    let snapshot = job.snapshot().await?;
                    return Ok(Forked::Accepted(Accepted { job, snapshot, replayed: true }));
                }
            },
        };
        let now = self.snapshot().await?.job;
        if let Some(stale) = stale(&now, &ask) {
            return Err(stale.into());
        }
        let origin = match fork.from {
            ForkFrom::Task(_) => now,
            ForkFrom::Seq(seq) if seq == 0 || seq > now.seq() => {
                return Err(CommandError::from(no_such_event(&now, seq)).into());
            }
            ForkFrom::Seq(seq) => self.at(Moment::Seq(seq)).await?,
        };
        let cx = Context {
            origin: ask.origin,
            key: claim.as_deref().map(|claim| Box::new(claim.key())),
            now: shared.clock.now(),
            random: fastrand::f64(),
            losses: shared.settings.losses,
            instances: shared.settings.limits.instances,
        };
        let making = Arc::clone(shared);
        if ask.dry_run {
            let rehearse = move || making.rehearse_fork(&origin, fork, &cx);
            return shared.workers.blocking(rehearse).await?;
        }
        let job = shared.clock.new_id();
        let begun = shared.workers.blocking(move || {
            let events = making.begin_fork(&origin, fork)?;
            Executor::begin(job, events, &cx).map_err(ForkError::from)
        });
        let executor = Box::new(begun.await??);
        let snapshot =
            shared.take_over(executor, claim, Shows::Snapshot).await.map_err(|error| {
                match error {
                    SubmitError::Engine(error) => error.into(),
                    SubmitError::Job(error) => ForkError::from(error),
                    // The loop has nothing else to say of what was begun.
                    other => JobError::Unreadable { job, why: other.to_string() }.into(),
                }
            })?;
        let job = self.engine().job(job);
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => job.snapshot().await?,
        };
        Ok(Forked::Accepted(Accepted { job, snapshot, replayed: false }))
    }
}

impl Shared {
    /// The first events of a fork.
    fn begin_fork(&self, origin: &Job, fork: Fork) -> Result<Vec<Event>, ForkError> {
        let Fork { from, edits, closed_kinds } = fork;
        let made = job::fork(origin, &from, edits, |job, edit| {
            opens(job, edit, &closed_kinds).or_else(|| self.refuses(job, edit))
        });
        let events = made.map_err(|error| match error {
            job::ForkError::Rejected(rejection) => CommandError::from(rejection).into(),
            job::ForkError::Edit { index, rejection } => ForkError::Edit { index, rejection },
            job::ForkError::Illegal(illegal) => {
                JobError::Unreadable { job: origin.id(), why: illegal.to_string() }.into()
            }
        })?;
        let (bytes, limit) = (events.iter().map(weight_of_event).sum(), self.settings.fork_bytes);
        if bytes > limit {
            return Err(ForkError::TooLarge { bytes, limit });
        }
        Ok(events)
    }

    /// What a fork would begin with.
    fn rehearse_fork(&self, origin: &Job, fork: Fork, cx: &Context) -> Result<Forked, ForkError> {
        let events = self.begin_fork(origin, fork)?;
        let none = JobId::from_u128(0);
        let begun = begin(none, events, cx);
        let (job, events) = begun.map_err(|illegal| JobError::Unreadable {
            job: origin.id(),
            why: illegal.to_string(),
        })?;
        let snapshot = Snapshot::of(Arc::new(job));
        Ok(Forked::Rehearsed { events, snapshot })
    }
}

/// Why an edit is refused that says what a task of a closed kind does, or what undoes one.
fn opens(job: &Job, edit: &Command, closed: &[KindName]) -> Option<Rejection> {
    if let Some((task, kind, place)) = opened_child(job, edit, closed) {
        return Some(kind_is_closed(job, &task, &kind, &place));
    }
    let (task, said) = match edit {
        Command::Insert { task, .. } => {
            let undo = task.compensate.as_ref().map(|undo| (&undo.kind, UNDO_KIND));
            (&task.id, [Some((&task.kind, "/kind")), undo])
        }
        Command::Edit { task, patch, .. } => {
            let of_task = match patch.kind() {
                Some(kind) => Some((kind, "/kind")),
                None if patch.has("input") => {
                    Some((&job.task(job.find(task.as_str())?)?.spec.kind, "/input"))
                }
                None => None,
            };
            (task, [of_task, patch.undo_kind().map(|kind| (kind, UNDO_KIND))])
        }
        _ => return None,
    };
    let mut said = said.into_iter().flatten();
    let (kind, place) = said.find(|(kind, _)| closed.contains(kind))?;
    Some(kind_is_closed(job, task, kind, place))
}

/// Where the kind of what undoes a task stands in it.
const UNDO_KIND: &str = "/compensate/kind";

/// A task of a closed kind that an edit brings in as one of a child, and its place in the edit.
fn opened_child(
    job: &Job,
    edit: &Command,
    closed: &[KindName],
) -> Option<(TaskId, KindName, String)> {
    let spec = match edit {
        Command::Insert { task, .. } => TaskSpec::clone(task),
        Command::Edit { task, patch, .. } if patch.kind().is_some() || patch.has("input") => {
            patch.apply(&job.task(job.find(task.as_str())?)?.spec).ok()?
        }
        _ => return None,
    };
    // What undoes a task of the child is opened with it.
    let all = spec.of_children().into_iter().flat_map(|(place, task)| {
        let undo = task.undo().map(|undo| (format!("{place}/compensate"), undo));
        std::iter::once((place, task)).chain(undo)
    });
    let (place, task) = all.into_iter().find(|(_, task)| closed.contains(&task.kind))?;
    Some((task.id, task.kind, place + "/kind"))
}

/// How many bytes of values an event of a fork keeps.
fn weight_of_event(event: &Event) -> usize {
    match event {
        Event::JobSubmitted(submitted) => {
            let plan = &submitted.plan;
            let inputs = plan.all_tasks().map(TaskSpec::input_bytes);
            plan.input.as_str().len() + inputs.sum::<usize>()
        }
        Event::TaskCompleted { output, .. } | Event::TaskSkipped { output: Some(output), .. } => {
            output.as_str().len()
        }
        Event::TaskExpanded { items, .. } => items.as_str().len(),
        Event::TaskFailed { error, .. } => error.message.len(),
        Event::TaskInserted { spec, .. } | Event::TaskEdited { spec, .. } => spec.input_bytes(),
        _ => 0,
    }
}
