//! Fork: a job that goes on from what another one has done, and stands alone.
//!
//! Its first event is a submission of the plan as it stands; the second says where it comes from,
//! and how many copies follow: of what is settled there and is to stay so. Nothing of attempts,
//! checkpoints, steps, losses or back-offs comes along, so that what runs anew begins as in a new
//! job.

use std::collections::BTreeSet;

use annals_tasks_sdk::plan::{Plan, PlanError, Start, TaskSpec};
use annals_tasks_sdk::{Exit, JobId, KindName, TaskId};

use super::command::Command;
use super::decide::{find, obey_edit, place, rejection};
use super::event::{Event, LogSize, Origin, Part, Recorded, SkippedBy, Submitted, TaskNumber};
use super::evolve::Illegal;
use super::references::Dependant;
use super::rejection::Rejection;
use super::state::{Job, Task, count, index, number};
use super::status::TaskStatus;

/// What of a job a fork does anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkFrom {
    /// This task, all that need it, and all that is not settled.
    Task(TaskId),
    /// All that was not settled when this event was the job's last.
    Seq(u64),
}

/// Why there is no fork.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// The job cannot be forked so.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// An edit of the fork was refused, so that none is made.
    #[error("edit {} of the fork: {rejection}", index + 1)]
    Edit {
        /// Its index among the edits.
        index: usize,
        /// Why it was refused.
        rejection: Box<Rejection>,
    },
    /// The machine contradicts itself.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// The first events of a fork of `origin`, which is as it was at the event that is forked from.
///
/// The edits are applied before it starts, all or none: only those of the plan, and skips. Each is
/// shown to `refuses` first, with the fork as it is then.
pub fn fork(
    origin: &Job,
    from: &ForkFrom,
    edits: Vec<Command>,
    mut refuses: impl FnMut(&Job, &Command) -> Option<Rejection>,
) -> Result<Vec<Event>, ForkError> {
    if let Some(tombstone) = origin.purged() {
        return Err(origin.is_purged(tombstone).into());
    }
    let chosen = chosen(origin, from)?;
    let mut from = origin.done_anew();
    from.extend(chosen);
    let anew = if from.is_empty() { BTreeSet::new() } else { origin.rests_on(from) };
    let kept = kept(origin, &anew);
    let copies = copies(origin, &kept, &anew);
    let mut fork = Growing::new(origin, &kept, chosen, count(copies.len()))?;
    for task in copies {
        fork.push(task)?;
    }
    for (index, edit) in edits.into_iter().enumerate() {
        let so_refused = |of_fork: Rejection| {
            // Whoever asked looks at the origin: there is no other job.
            let Rejection { code, message, dependants, errors, .. } = of_fork;
            let rejection = rejection(origin, code, message);
            let rejection = Box::new(Rejection { dependants, errors, ..rejection });
            ForkError::Edit { index, rejection }
        };
        if let Some(rejection) = refuses(&fork.job, &edit) {
            return Err(so_refused(rejection));
        }
        for event in obey_edit(&fork.job, edit).map_err(so_refused)? {
            fork.push(event)?;
        }
    }
    let [lacking, early] = fork.job.unfounded();
    let unfounded = would_lack(origin, lacking).or_else(|| would_be_early(origin, early));
    if let Some(rejection) = unfounded {
        return Err(rejection.into());
    }
    if fork.job.header.start == Start::Now {
        fork.push(Event::JobStarted)?;
    }
    Ok(fork.events)
}

/// The task to begin with, where one is named.
fn chosen(origin: &Job, from: &ForkFrom) -> Result<Option<u32>, Rejection> {
    let id = match from {
        ForkFrom::Task(id) => id,
        ForkFrom::Seq(seq) if *seq == origin.seq => return Ok(None),
        ForkFrom::Seq(seq) => return Err(no_such_event(origin, *seq)),
    };
    let (number, task) = find(origin, id)?;
    if let Some((_, parent)) = origin.parent_of(task) {
        let message = format!("{id} is an instance of task {}: fork from that", parent.spec.id);
        return Err(rejection(origin, "is_instance", message));
    }
    if task.part != Part::Tasks {
        let what = match task.part {
            Part::Undo => "undoes another one, which a fork does anew",
            _ => "is one of `finally`, which runs at the end of every fork",
        };
        let message = format!("task {id} {what}: fork from a task of the work, or from an event");
        return Err(rejection(origin, "other_part", message));
    }
    if task.status == TaskStatus::Removed {
        let message = format!("task {id} is removed from the plan: fork from another task");
        return Err(rejection(origin, "task_is_settled", message));
    }
    Ok(index(number))
}

/// There is no event of this number to fork from.
pub(crate) fn no_such_event(origin: &Job, seq: u64) -> Rejection {
    let message = format!("the job has no event {seq}: it has events 1 to {}", origin.seq);
    rejection(origin, "no_such_event", message)
}

/// An edit says what a task does of a kind of which it may not.
pub(crate) fn kind_is_closed(job: &Job, task: &TaskId, kind: &KindName, place: &str) -> Rejection {
    let detail = format!("task {task} is of kind {kind}");
    let message = format!("{detail}, which is closed to edits");
    let errors = vec![PlanError { pointer: place.into(), detail }];
    Rejection { errors, ..rejection(job, "kind_is_closed", message) }
}

/// By index, whether a task stays in the fork as it is.
fn kept(origin: &Job, anew: &BTreeSet<u32>) -> Vec<bool> {
    let stays = |(task, at): (&Task, u32)| match task.status {
        // They come with the task that they are of.
        _ if task.is_instance() => false,
        // What undoes others comes not along.
        _ if task.part == Part::Undo => false,
        TaskStatus::Removed => true,
        // What is done at the end is done for each end.
        _ if task.part == Part::Finally => false,
        TaskStatus::Skipped => !anew.contains(&at),
        _ => task.settled && !anew.contains(&at),
    };
    origin.tasks.iter().zip(0..).map(stays).collect()
}

/// The events that make kept tasks what they are, each behind those of the tasks that it needs.
fn copies(origin: &Job, kept: &[bool], anew: &BTreeSet<u32>) -> Vec<Event> {
    let place = places(origin);
    let is_kept = |&at: &u32| kept[at as usize];
    let task = |at: u32| &origin.tasks[at as usize];
    let removed = |at: &u32| is_kept(at) && task(*at).status == TaskStatus::Removed;
    let copy = |at: u32| copy(task(at), TaskNumber(place[at as usize] + 1));
    // Those that are removed come first: the others need what they need then.
    let gone = origin.order.iter().copied().filter(removed).filter_map(copy);
    let mut copies: Vec<Event> = gone.collect();
    let mut next = count(origin.order.len() - origin.undos().count());
    for at in in_order_of_needs(origin).into_iter().filter(|at| !removed(at)) {
        if has_begun_to_stay(task(at)) && (is_kept(&at) || !anew.contains(&at)) {
            copies.extend(instances(origin, task(at), TaskNumber(place[at as usize] + 1), next));
            next += task(at).items().unwrap_or_default().total;
        }
        copies.extend(Some(at).filter(is_kept).and_then(copy));
    }
    copies
}

/// Whether what the instances of a task have come to may be of use in a fork.
fn has_begun_to_stay(task: &Task) -> bool {
    task.fan().is_some() && task.part == Part::Tasks && !task.is_passed_over()
}

/// The events that make a task its instances, and those what they are that are to stay so; the
/// first instance has the number behind `next`.
fn instances(origin: &Job, of: &Task, task: TaskNumber, next: u32) -> Vec<Event> {
    let Some(fan) = of.fan() else { return Vec::new() };
    let mut events = vec![Event::TaskExpanded { task, items: fan.list().clone() }];
    for (&at, place) in fan.instances().iter().zip(1..) {
        let one = &origin.tasks[at as usize];
        // A failure that its task is not over with is tried anew.
        if one.status != TaskStatus::Failed || of.settled {
            events.extend(copy(one, TaskNumber(next + place)));
        }
    }
    events
}

fn copy(from: &Task, task: TaskNumber) -> Option<Event> {
    let output = from.output.clone();
    match from.status {
        TaskStatus::Completed => Some(Event::TaskCompleted {
            task,
            attempt: 0,
            output: output.unwrap_or_default(),
            exit: Exit::default(),
            log: LogSize::default(),
        }),
        TaskStatus::Skipped => {
            let by = from.skipped_by.unwrap_or(SkippedBy::Request);
            Some(Event::TaskSkipped { task, by, output })
        }
        TaskStatus::Removed => Some(Event::TaskRemoved { task }),
        TaskStatus::Failed => {
            let error = from.error.as_deref()?.clone();
            Some(Event::TaskFailed { task, error })
        }
        _ => None,
    }
}

/// By index, the place of each task in the order of the plan, which is its index in a fork. What
/// undoes others has none there.
fn places(origin: &Job) -> Vec<u32> {
    let mut places = vec![0; origin.tasks.len()];
    let is_planned = |at: &&u32| origin.tasks[**at as usize].part != Part::Undo;
    for (&at, place) in origin.order.iter().filter(is_planned).zip(0..) {
        places[at as usize] = place;
    }
    places
}

/// All tasks, each behind those that it needs.
fn in_order_of_needs(origin: &Job) -> Vec<u32> {
    let mut unmet: Vec<usize> = origin.tasks.iter().map(|task| task.needs.len()).collect();
    let mut order: Vec<u32> =
        origin.order.iter().copied().filter(|&at| unmet[at as usize] == 0).collect();
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        next += 1;
        for &dependant in &origin.tasks[at as usize].dependants {
            unmet[dependant as usize] -= 1;
            if unmet[dependant as usize] == 0 {
                order.push(dependant);
            }
        }
    }
    order
}

/// The plan of the fork: that of the origin as it stands, in its order.
fn plan(origin: &Job, kept: &[bool]) -> Plan {
    let header = &origin.header;
    let added = added_needs(origin, kept);
    let spec = |&at: &u32| {
        let task = &origin.tasks[at as usize];
        let mut spec = TaskSpec::clone(&task.spec);
        let added = &added[at as usize];
        // One that is removed hands on what it needed then, wherever that stands now.
        if task.status == TaskStatus::Removed || !added.is_empty() {
            let id = |need: &u32| origin.tasks[*need as usize].spec.id.clone();
            spec.needs = Some(task.needs.iter().chain(added).map(id).collect());
        }
        spec
    };
    let part = |at: &u32| origin.tasks[*at as usize].part;
    Plan {
        name: header.name.clone(),
        labels: header.labels.clone(),
        input: header.input.clone(),
        start: header.start,
        deadline: header.deadline,
        exclusive: origin.exclusive().map(|own| own.key.clone()),
        output: header.output.clone(),
        tasks: origin.order.iter().filter(|at| part(at) == Part::Tasks).map(spec).collect(),
        fail_fast: header.fail_fast,
        compensate_on: header.compensate_on.clone(),
        finally: origin.order.iter().filter(|at| part(at) == Part::Finally).map(spec).collect(),
    }
}

/// By index, what a task must need in the fork beside what it needs in the origin: tasks that are
/// made anew, whose outputs were there already when it came into the plan. Where that would tie a
/// knot it is left out; unless the edits untie it, the fork is refused in the end.
fn added_needs(origin: &Job, kept: &[bool]) -> Vec<Vec<u32>> {
    let mut added: Vec<Vec<u32>> = vec![Vec::new(); origin.tasks.len()];
    let anew = |at: &&u32| !kept[**at as usize] && origin.tasks[**at as usize].part != Part::Undo;
    for &at in origin.order.iter().filter(anew) {
        let task = &origin.tasks[at as usize];
        let taken = origin.looked_at_by(&task.spec, task.part).into_iter();
        for from in taken.filter_map(|(from, ..)| index(from)) {
            let is_there = kept[from as usize] || from == at || task.needs.contains(&from);
            if is_there || origin.reaches(at, from, &added) || origin.reaches(from, at, &added) {
                continue;
            }
            added[at as usize].push(from);
        }
    }
    added
}

/// A fork that grows.
struct Growing {
    job: Job,
    events: Vec<Event>,
}

impl Growing {
    fn new(origin: &Job, kept: &[bool], chosen: Option<u32>, copied: u32) -> Result<Self, Illegal> {
        let workflow = origin.header.workflow.clone();
        // It was read from no file: who runs the file again means the origin.
        let submitted = Submitted { plan: plan(origin, kept), workflow, source: None };
        let first = Event::JobSubmitted(Box::new(submitted));
        let recorded = recorded(1, origin, first);
        // What it is called is decided when it begins.
        let job = Job::begin(JobId::from_u128(0), &recorded)?;
        let mut fork = Self { job, events: vec![recorded.event] };
        fork.push(Event::JobForked {
            job: origin.id,
            seq: origin.seq,
            task: chosen.map(|at| number(places(origin)[at as usize])),
            copied,
        })?;
        Ok(fork)
    }

    fn push(&mut self, event: Event) -> Result<(), Illegal> {
        let recorded = recorded(self.job.seq + 1, &self.job, event);
        self.job.evolve(&recorded)?;
        self.events.push(recorded.event);
        Ok(())
    }
}

/// An event on trial.
fn recorded(seq: u64, job: &Job, event: Event) -> Recorded {
    let (time, origin) = (job.time, Origin::ENGINE);
    Recorded { seq, time, origin, leads: false, key: None, event }
}

impl Job {
    /// Some tasks and all that need them, or take their outputs, directly or through others.
    fn rests_on(&self, mut work: Vec<u32>) -> BTreeSet<u32> {
        let mut takers: Vec<Vec<u32>> = vec![Vec::new(); self.tasks.len()];
        for (task, at) in self.tasks.iter().zip(0..) {
            for (from, ..) in self.looked_at_by(&task.spec, task.part) {
                if let Some(from) = index(from) {
                    takers[from as usize].push(at);
                }
            }
        }
        let mut all = BTreeSet::new();
        while let Some(at) = work.pop() {
            if all.insert(at) {
                work.extend(&self.tasks[at as usize].dependants);
                work.extend(&takers[at as usize]);
            }
        }
        all
    }

    /// Whether one task needs another, directly or through others, with needs that are added.
    fn reaches(&self, from: u32, to: u32, added: &[Vec<u32>]) -> bool {
        let mut seen = vec![false; self.tasks.len()];
        let mut work = vec![from];
        while let Some(at) = work.pop() {
            if at == to {
                return true;
            }
            if !std::mem::replace(&mut seen[at as usize], true) {
                work.extend(&self.tasks[at as usize].needs);
                work.extend(added.get(at as usize).into_iter().flatten());
            }
        }
        false
    }

    /// Where tasks that are to run take the output of one that is passed over and gives none, and
    /// where they take that of one that need not have run before.
    fn unfounded(&self) -> [Vec<Dependant>; 2] {
        let gone = |task: &Task| task.is_passed_over() && task.output.is_none();
        let (mut lacking, mut early) = (Vec::new(), Vec::new());
        for (number, task) in self.tasks().filter(|(_, task)| task.is_to_run()) {
            for (from, reference, is_strict) in self.looked_at_by(&task.spec, task.part) {
                let (Some(taker), Some(giver)) = (index(number), index(from)) else { continue };
                let Some(from) = self.task(from) else { continue };
                let dependant = || Dependant { task: Some(task.spec.id.to_string()), reference };
                if is_strict && gone(from) {
                    lacking.push(dependant());
                } else if from.is_to_run()
                    && !task.needs.contains(&giver)
                    && (taker == giver || !self.reaches(taker, giver, &[]))
                {
                    early.push(dependant());
                }
            }
        }
        [lacking, early]
    }
}

fn would_lack(origin: &Job, dependants: Vec<Dependant>) -> Option<Rejection> {
    let first = dependants.first()?;
    let task = first.task.as_deref().unwrap_or_default();
    let message = format!(
        "task {task} would run anew, and takes the output of a task that is passed over and gives \
         none{}: fork from that one, or skip {task} in the edits, or have it take something else",
        place(first)
    );
    Some(Rejection { dependants, ..rejection(origin, "output_is_missing", message) })
}

fn would_be_early(origin: &Job, dependants: Vec<Dependant>) -> Option<Rejection> {
    let first = dependants.first()?;
    let task = first.task.as_deref().unwrap_or_default();
    let message = format!(
        "task {task} would run anew, and takes the output of a task that comes after it by \
         now{}: move one of them, or skip {task}, in the edits",
        place(first)
    );
    Some(Rejection { dependants, ..rejection(origin, "would_lose_order", message) })
}
