//! Skip and remove: a job goes on without some of its tasks.

use std::collections::BTreeSet;

use annals_tasks_sdk::{Payload, TaskId};

use super::{allowed, refuse};
use crate::job::draft::Draft;
use crate::job::event::{Event, Part, SkippedBy, TaskNumber};
use crate::job::references::Dependant;
use crate::job::rejection::Rejection;
use crate::job::state::{Job, Task, number};
use crate::job::status::{Intent, JobStatus, TaskStatus};

pub(super) fn skip(
    job: &Job,
    task: Option<&TaskId>,
    output: Option<&Payload>,
    cascade: bool,
) -> Result<Vec<Event>, Rejection> {
    let verb = "skip a task of";
    if job.ending.is_none() || job.cut_short {
        may_edit(job, verb)?;
    }
    let (chosen, task) = match task {
        Some(id) => find(job, id)?,
        None => the_one_in_question(job)?,
    };
    may_touch(job, task.part)?;
    // Of a job that is ending, what is done at the end may be passed over.
    if job.ending.is_some() && task.part != job.turn {
        may_edit(job, verb)?;
    }
    match task.status {
        TaskStatus::Skipped if same(output, task.output.as_ref()) => return Ok(Vec::new()),
        TaskStatus::Removed | TaskStatus::Skipped => return Err(settled(job, task)),
        _ if task.settled => return Err(settled(job, task)),
        _ => {}
    }
    if let Some(asked) = &task.skip {
        let again = same(output, (**asked).as_ref());
        return if again { Ok(Vec::new()) } else { Err(being_skipped(job, task)) };
    }
    // A substitute output serves those that take it, so they need not go along; nor does any where
    // an instance gives null.
    let along = if output.is_some() || task.is_instance() {
        BTreeSet::new()
    } else {
        closure(job, chosen, cascade, "skip")?
    };
    let mut events = vec![skip_one(chosen, task, output.cloned())];
    for other in along {
        if let Some(task) = job.task(other) {
            events.push(skip_one(other, task, None));
        }
    }
    Ok(events)
}

fn skip_one(number: TaskNumber, task: &Task, output: Option<Payload>) -> Event {
    if task.is_engaged() {
        Event::SkipRequested { task: number, output }
    } else {
        Event::TaskSkipped { task: number, by: SkippedBy::Request, output }
    }
}

pub(super) fn remove(job: &Job, task: &TaskId, cascade: bool) -> Result<Vec<Event>, Rejection> {
    may_edit(job, "remove a task of")?;
    let (chosen, task) = find_planned(job, task, "remove")?;
    may_touch(job, task.part)?;
    if task.status == TaskStatus::Removed {
        return Ok(Vec::new());
    }
    may_be_removed(job, task)?;
    let mut all = closure(job, chosen, cascade, "remove")?;
    for task in all.iter().filter_map(|&each| job.task(each)) {
        may_be_removed(job, task)?;
    }
    all.insert(chosen);
    fits_together(job, &all)?;
    Ok(all.into_iter().map(|task| Event::TaskRemoved { task }).collect())
}

fn may_be_removed(job: &Job, task: &Task) -> Result<(), Rejection> {
    if task.settled {
        return Err(settled(job, task));
    }
    if task.is_engaged() {
        let id = &task.spec.id;
        let message =
            format!("cannot remove task {id} while it runs: skip it, or remove it when it is over");
        return Err(rejection(job, "task_is_live", message));
    }
    Ok(())
}

/// Whether a skip asks for what a skip has already brought.
fn same(asked: Option<&Payload>, held: Option<&Payload>) -> bool {
    asked.is_none() || asked == held
}

/// Edits are for jobs that have something left to edit.
pub(super) fn may_edit(job: &Job, command: &str) -> Result<(), Rejection> {
    let over = job.intent.is_some_and(Intent::ends);
    if over || job.status == JobStatus::Completed { Err(refuse(job, command, "")) } else { Ok(()) }
}

/// The work of a job is over once that begins to be undone, and all of it when that is done.
pub(super) fn may_touch(job: &Job, part: Part) -> Result<(), Rejection> {
    match job.undoing() {
        Some(undoing) if undoing.is_done() || part == Part::Tasks => Err(compensated(job)),
        _ => Ok(()),
    }
}

/// Nothing of the job runs any more, but for what undoes it.
pub(super) fn compensated(job: &Job) -> Rejection {
    let is_done = job.is_undone();
    let what = if is_done { "is undone" } else { "is being undone" };
    let message = format!("what the job did {what}, and its work does not run again: fork it");
    rejection(job, "compensated", message)
}

pub(in crate::job) fn find<'a>(
    job: &'a Job,
    id: &TaskId,
) -> Result<(TaskNumber, &'a Task), Rejection> {
    let found = job.find(id.as_str()).and_then(|number| Some((number, job.task(number)?)));
    found.ok_or_else(|| {
        rejection(job, "no_such_task", format!("the job has no task {:?}", id.as_str()))
    })
}

/// A task that stands in the plan. An instance does not: what the plan says of it, it says of the
/// task that it is of.
pub(super) fn find_planned<'a>(
    job: &'a Job,
    id: &TaskId,
    verb: &str,
) -> Result<(TaskNumber, &'a Task), Rejection> {
    let (number, task) = find(job, id)?;
    match job.parent_of(task) {
        None => Ok((number, task)),
        Some((_, parent)) => {
            let message = format!(
                "cannot {verb} {id} alone: it is an instance of task {}, of which the plan speaks; \
                 an instance can be skipped, and tried again",
                parent.spec.id
            );
            Err(rejection(job, "is_instance", message))
        }
    }
}

/// The only task that runs, waits, is interrupted or has failed.
fn the_one_in_question(job: &Job) -> Result<(TaskNumber, &Task), Rejection> {
    let current = job.tasks().filter(|(_, task)| {
        let status = matches!(
            task.status,
            TaskStatus::Running
                | TaskStatus::Waiting
                | TaskStatus::Interrupted
                | TaskStatus::Failed
        );
        status && !task.settled && task.part == job.part_in_question()
    });
    let candidates: Vec<_> = current.collect();
    match candidates[..] {
        [only] => Ok(only),
        [] => Err(rejection(
            job,
            "which_task",
            "no task runs, waits, is interrupted or has failed: name the task".into(),
        )),
        _ => {
            let ids = candidates.iter().take(20).map(|(_, task)| task.spec.id.as_str());
            let list = ids.collect::<Vec<_>>().join(", ");
            Err(rejection(job, "which_task", format!("name one of these tasks: {list}")))
        }
    }
}

/// The tasks that would lose an input if `chosen` gave no output, directly or through others.
/// Without `cascade` there may be none.
fn closure(
    job: &Job,
    chosen: TaskNumber,
    cascade: bool,
    verb: &str,
) -> Result<BTreeSet<TaskNumber>, Rejection> {
    let takers = job.takers();
    let mut along = BTreeSet::new();
    let mut work = vec![chosen];
    while let Some(next) = work.pop() {
        let Some(taken) = takers.get(&next) else { continue };
        if !cascade {
            let dependants = taken.iter().map(|(_, dependant)| dependant.clone()).collect();
            return Err(would_lose(job, chosen, dependants, verb));
        }
        for taker in taken.iter().filter_map(|&(taker, _)| taker) {
            if taker != chosen && along.insert(taker) {
                work.push(taker);
            }
        }
    }
    Ok(along)
}

fn would_lose(job: &Job, chosen: TaskNumber, dependants: Vec<Dependant>, verb: &str) -> Rejection {
    let id = job.task(chosen).map_or("", |task| task.spec.id.as_str());
    let taker = |dependant: &Dependant| match &dependant.task {
        Some(task) => format!("task {task}{}", place(dependant)),
        None => format!("the plan's output{}", place(dependant)),
    };
    let list = dependants.iter().take(20).map(taker).collect::<Vec<_>>().join(", ");
    let help = if verb == "skip" {
        "give a substitute output, or cascade to take them along"
    } else {
        "cascade to take them along"
    };
    let message = format!("the output of task {id} is taken by {list}: {help}");
    Rejection { dependants, ..rejection(job, "output_is_taken", message) }
}

/// Where the reference stands, for the end of a sentence; nothing where it is the whole.
pub(in crate::job) fn place(dependant: &Dependant) -> String {
    let reference = &dependant.reference;
    if reference.is_empty() { String::new() } else { format!(" (at {reference})") }
}

/// Removing tasks makes those after them need the task before them, which may need them in turn,
/// and which may not need what the removed ones did.
fn fits_together(job: &Job, removed: &BTreeSet<TaskNumber>) -> Result<(), Rejection> {
    let draft = Draft::without(job, removed);
    // No plan names a need anew by losing tasks.
    let Ok(without) = draft.needs() else { return Ok(()) };
    if without.relinked.is_empty() {
        return Ok(());
    }
    let id = |at| job.task(number(at)).map_or("", |task| task.spec.id.as_str());
    if let Some((task, before)) = without.circle() {
        let (task, before) = (id(task), id(before));
        let message = format!(
            "without it task {task} would need {before}, the one before it in the plan, \
             which needs {task}: skip it instead"
        );
        return Err(rejection(job, "would_be_a_circle", message));
    }
    if !without.loses_order(job) {
        return Ok(());
    }
    let dependants = job.out_of_order(&draft, &without);
    let Some(first) = dependants.first() else { return Ok(()) };
    let message = format!(
        "without it task {} would no longer need each task whose output it takes{}: skip it \
         instead",
        first.task.as_deref().unwrap_or_default(),
        place(first)
    );
    Err(Rejection { dependants, ..rejection(job, "would_lose_order", message) })
}

fn being_skipped(job: &Job, task: &Task) -> Rejection {
    let message = format!("task {} is being skipped with another output", task.spec.id);
    rejection(job, "task_is_settled", message)
}

pub(super) fn settled(job: &Job, task: &Task) -> Rejection {
    let message = format!("task {} is {} and stays so", task.spec.id, task.status);
    rejection(job, "task_is_settled", message)
}

pub(in crate::job) fn rejection(job: &Job, code: &'static str, message: String) -> Rejection {
    let (status, allowed) = (job.status, allowed(job));
    Rejection { code, message, status, allowed, dependants: Vec::new(), errors: Vec::new() }
}
