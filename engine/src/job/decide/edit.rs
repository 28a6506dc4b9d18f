//! Skip and remove: a job goes on without some of its tasks.

use std::collections::BTreeSet;

use annals_tasks_sdk::{Payload, TaskId};

use super::{allowed, refuse};
use crate::job::event::{Event, TaskNumber};
use crate::job::references::Dependant;
use crate::job::rejection::Rejection;
use crate::job::state::{Job, Task, index, number};
use crate::job::status::{Intent, JobStatus, TaskStatus};

pub(super) fn skip(
    job: &Job,
    task: Option<&TaskId>,
    output: Option<&Payload>,
    cascade: bool,
) -> Result<Vec<Event>, Rejection> {
    may_edit(job, "skip a task of")?;
    let (chosen, task) = match task {
        Some(id) => find(job, id)?,
        None => the_one_in_question(job)?,
    };
    match task.status {
        TaskStatus::Skipped => return Ok(Vec::new()),
        _ if task.skip.is_some() => return Ok(Vec::new()),
        TaskStatus::Removed => return Err(settled(job, task)),
        _ if task.settled => return Err(settled(job, task)),
        _ => {}
    }
    // A substitute output serves those that take it, so they need not go along.
    let along =
        if output.is_some() { BTreeSet::new() } else { closure(job, chosen, cascade, "skip")? };
    let mut events = vec![skip_one(chosen, task, output.cloned())];
    for other in along {
        if let Some(task) = job.task(other) {
            events.push(skip_one(other, task, None));
        }
    }
    Ok(events)
}

fn skip_one(number: TaskNumber, task: &Task, output: Option<Payload>) -> Event {
    if task.live_attempt().is_some() {
        Event::SkipRequested { task: number, output }
    } else {
        Event::TaskSkipped { task: number, output }
    }
}

pub(super) fn remove(job: &Job, task: &TaskId, cascade: bool) -> Result<Vec<Event>, Rejection> {
    may_edit(job, "remove a task of")?;
    let (chosen, task) = find(job, task)?;
    if task.status == TaskStatus::Removed {
        return Ok(Vec::new());
    }
    let mut all = closure(job, chosen, cascade, "remove")?;
    all.insert(chosen);
    for &each in &all {
        let Some(task) = job.task(each) else { continue };
        if task.settled {
            return Err(settled(job, task));
        }
        if task.live_attempt().is_some() {
            let id = &task.spec.id;
            let message = format!(
                "cannot remove task {id} while it runs: skip it, or remove it when it is over"
            );
            return Err(rejection(job, "task_is_live", message));
        }
        no_circle(job, each)?;
    }
    Ok(all.into_iter().map(|task| Event::TaskRemoved { task }).collect())
}

/// Edits are for jobs that have something left to edit.
fn may_edit(job: &Job, command: &str) -> Result<(), Rejection> {
    let over = matches!(job.intent, Some(Intent::Cancel | Intent::Fail));
    if over || job.status == JobStatus::Completed { Err(refuse(job, command, "")) } else { Ok(()) }
}

fn find<'a>(job: &'a Job, id: &TaskId) -> Result<(TaskNumber, &'a Task), Rejection> {
    let found = job.find(id.as_str()).and_then(|number| Some((number, job.task(number)?)));
    found.ok_or_else(|| {
        rejection(job, "no_such_task", format!("the job has no task {:?}", id.as_str()))
    })
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
        status && !task.settled
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
    let mut along = BTreeSet::new();
    let mut work = vec![chosen];
    while let Some(next) = work.pop() {
        let takers = job.takers(next);
        if !cascade && !takers.is_empty() {
            let dependants: Vec<Dependant> =
                takers.into_iter().map(|(_, dependant)| dependant).collect();
            return Err(would_lose(job, chosen, dependants, verb));
        }
        for taker in takers.into_iter().filter_map(|(taker, _)| taker.map(number)) {
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
        Some(task) => format!("task {task} (at {})", dependant.reference),
        None => format!("the plan's output (at {})", dependant.reference),
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

/// Removing a task makes those after it need the one before it, which may need them.
fn no_circle(job: &Job, removed: TaskNumber) -> Result<(), Rejection> {
    let Some(at) = index(removed) else { return Ok(()) };
    let (before, moved) = job.relinked(at);
    let Some(before) = before else { return Ok(()) };
    // Where the removed task itself needs the one before it, nothing new is needed.
    if job.needs_through(at, before) {
        return Ok(());
    }
    for dependant in moved {
        if job.needs_through(before, dependant) {
            let id = |at| job.task(number(at)).map_or("", |task| task.spec.id.as_str());
            let (dependant, before) = (id(dependant), id(before));
            let message = format!(
                "without it task {dependant} would need {before}, the one before it in the plan, \
                 which needs {dependant}: skip it instead"
            );
            return Err(rejection(job, "would_be_a_circle", message));
        }
    }
    Ok(())
}

fn settled(job: &Job, task: &Task) -> Rejection {
    let message = format!("task {} is {} and stays so", task.spec.id, task.status);
    rejection(job, "task_is_settled", message)
}

fn rejection(job: &Job, code: &'static str, message: String) -> Rejection {
    let (status, allowed) = (job.status, allowed(job));
    Rejection { code, message, status, allowed, dependants: Vec::new() }
}
