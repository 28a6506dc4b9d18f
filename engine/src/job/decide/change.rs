//! Insert, move and edit: the plan says something else than it did.

use annals_tasks_sdk::TaskId;
use annals_tasks_sdk::plan::{Limits, OnFailure, PlanError, PlanErrors, TaskPatch, TaskSpec};

use super::edit::{find, find_planned, may_edit, may_touch, place, rejection, settled};
use super::report::pause;
use crate::job::command::Place;
use crate::job::draft::{Draft, Misfit};
use crate::job::event::{Event, Part, TaskNumber};
use crate::job::rejection::Rejection;
use crate::job::state::{Job, Task, count, index, number};
use crate::job::status::TaskStatus;

/// Fields of other tasks: what undoes one always runs, in its turn.
const NOT_OF_UNDO: [&str; 4] = ["needs", "when", "on_failure", "compensate"];

pub(super) fn insert(
    job: &Job,
    spec: Box<TaskSpec>,
    place: &Place,
    needed_by: &[TaskId],
) -> Result<Vec<Event>, Rejection> {
    may_edit(job, "insert a task into")?;
    if let Ok((_, known)) = find(job, &spec.id) {
        // Who asks again is told the same.
        let again = known.spec == *spec && !known.is_passed_over();
        return if again { Ok(Vec::new()) } else { Err(exists(job, known)) };
    }
    let part = job.part_at(place);
    may_touch(job, part)?;
    if part == Part::Undo {
        return Err(stays_apart(job, &format!("task {} cannot be inserted there", spec.id)));
    }
    let after = behind(job, place, None)?;
    let needed_by = needed_by.iter().map(|id| {
        let (number, task) = find_planned(job, id, "have others need")?;
        let is_there = task.status != TaskStatus::Removed;
        is_there.then_some(number).ok_or_else(|| settled(job, task))
    });
    let needed_by = needed_by.collect::<Result<Box<[TaskNumber]>, Rejection>>()?;
    let new = count(job.tasks.len());
    let draft = Draft::inserted(job, &spec, part, after, &needed_by);
    fits(job, (new, &spec), part, draft, "insert")?;
    let task = number(new);
    Ok(vec![Event::TaskInserted { task, spec, part, after, needed_by }])
}

/// Puts a task elsewhere.
pub(super) fn shift(job: &Job, task: &TaskId, place: &Place) -> Result<Vec<Event>, Rejection> {
    may_edit(job, "move a task of")?;
    let (chosen, task) = find_planned(job, task, "move")?;
    may_touch(job, task.part)?;
    may_change(job, task, "move")?;
    let beside = !matches!(place, Place::First | Place::Last);
    if task.part == Part::Undo || (beside && job.part_at(place) != task.part) {
        return Err(stays_apart(job, &format!("task {} cannot be moved there", task.spec.id)));
    }
    let after = behind(job, place, Some(chosen))?;
    if after == Some(chosen) {
        return Ok(Vec::new());
    }
    let draft = Draft::moved(job, chosen, after);
    if draft.as_ref().is_ok_and(|draft| *draft.order == job.order) {
        return Ok(Vec::new());
    }
    let (at, part) = (index(chosen).unwrap_or_default(), task.part);
    fits(job, (at, &task.spec), part, draft, "move")?;
    Ok(vec![Event::TaskMoved { task: chosen, after }])
}

pub(super) fn edit(
    job: &Job,
    task: &TaskId,
    patch: &TaskPatch,
    reset: bool,
) -> Result<Vec<Event>, Rejection> {
    may_edit(job, "edit a task of")?;
    let (chosen, task) = find_planned(job, task, "edit")?;
    may_touch(job, task.part)?;
    may_change(job, task, "edit")?;
    if task.part == Part::Undo
        && let Some(field) = NOT_OF_UNDO.into_iter().find(|field| patch.has(field))
    {
        let detail = format!("what undoes a task has no `{field}`");
        let error = PlanError { pointer: format!("/{field}"), detail };
        return Err(invalid(job, PlanErrors(vec![error])));
    }
    let spec = patch.apply(&task.spec).map_err(|errors| invalid(job, errors))?;
    if task.fan().is_some() && !task.keeps_list(&spec) {
        return Err(is_expanded(job, task));
    }
    let begun = |task: &Task| task.checkpoint.is_some() || !task.steps().is_empty();
    let reset = reset && (begun(task) || job.instances(task).any(|(_, one)| begun(one)));
    if spec == task.spec && !reset {
        return Ok(Vec::new());
    }
    let draft = Draft::edited(job, chosen, &spec);
    fits(job, (index(chosen).unwrap_or_default(), &spec), task.part, draft, "edit")?;
    // A failure that is to pause the job does so from now on.
    let pauses = task.status == TaskStatus::Failed && spec.policy.on_failure == OnFailure::Pause;
    let mut events = vec![Event::TaskEdited { task: chosen, spec: Box::new(spec), reset }];
    events.extend(pause(job).filter(|_| pauses));
    Ok(events)
}

fn stays_apart(job: &Job, what: &str) -> Rejection {
    let message = format!(
        "{what}: the work stays apart from what is done at the end, in `finally`, and tasks are \
         undone in the reverse of the order in which they completed"
    );
    rejection(job, "other_part", message)
}

/// Whether the plan would hold together. The task is the one that is new, edited or moved.
fn fits(
    job: &Job,
    (at, spec): (u32, &TaskSpec),
    part: Part,
    draft: Result<Draft<'_>, Misfit>,
    verb: &str,
) -> Result<(), Rejection> {
    // Sizes are for the runtime to check, which knows the limits.
    part.check(spec, &job.header.input, &Limits::NONE).map_err(|errors| invalid(job, errors))?;
    let draft = draft.map_err(|misfit| refused(job, spec, &misfit, verb))?;
    let needs = draft.fitting().map_err(|misfit| refused(job, spec, &misfit, verb))?;
    let errors = job.misplaced(at, spec, part, &needs);
    if !errors.is_empty() {
        return Err(invalid(job, PlanErrors(errors)));
    }
    if !needs.loses_order(job) {
        return Ok(());
    }
    let dependants = job.out_of_order(&draft, &needs);
    let Some(first) = dependants.first() else { return Ok(()) };
    let taker = first.task.as_deref().unwrap_or_default();
    let message = format!(
        "task {taker} would no longer need each task whose output it takes{}: name what it needs",
        place(first)
    );
    Err(Rejection { dependants, ..rejection(job, "would_lose_order", message) })
}

fn refused(job: &Job, spec: &TaskSpec, misfit: &Misfit, verb: &str) -> Rejection {
    let task = |at: u32| job.task(number(at));
    let id = |at: u32| task(at).map_or(&spec.id, |task| &task.spec.id);
    match misfit {
        Misfit::NoTask => rejection(job, "no_such_task", "the job has no such task".into()),
        Misfit::UnknownNeed(need) => {
            let place = spec.needs.iter().flatten().position(|other| other == need);
            let pointer = format!("/needs/{}", place.unwrap_or_default());
            let detail = format!("no task has the id `{need}`");
            invalid(job, PlanErrors(vec![PlanError { pointer, detail }]))
        }
        Misfit::Disturbs(at) => {
            let status = task(*at).map_or("settled", |task| task.status.as_str());
            let message = format!(
                "cannot {verb} task {} there: task {}, which is {status}, would come to need \
                 another task than it did",
                spec.id,
                id(*at)
            );
            rejection(job, "task_is_settled", message)
        }
        Misfit::Apart(at, need) => {
            let message = format!(
                "task {} would need {}: what is done at the end, in `finally`, and the work need \
                 nothing of each other",
                id(*at),
                id(*need)
            );
            rejection(job, "other_part", message)
        }
        Misfit::Circle(at, before) => {
            let (task, before) = (id(*at), id(*before));
            let message = format!(
                "cannot {verb} task {} so: task {task} would need {before}, which needs {task}",
                spec.id
            );
            rejection(job, "would_be_a_circle", message)
        }
    }
}

/// A task that is not as a task of this job must be.
pub(crate) fn invalid(job: &Job, errors: PlanErrors) -> Rejection {
    let message = format!("the task is not valid: {errors}");
    Rejection { errors: errors.0, ..rejection(job, "invalid_task", message) }
}

fn may_change(job: &Job, task: &Task, verb: &str) -> Result<(), Rejection> {
    if task.settled || task.is_passed_over() {
        return Err(settled(job, task));
    }
    if let Some(child) = task.open_child() {
        let message = format!(
            "cannot {verb} task {} while it waits for its child job {}: skip it, or cancel the \
             child first",
            task.spec.id, child.job
        );
        return Err(rejection(job, "task_is_live", message));
    }
    if task.is_engaged() {
        let id = &task.spec.id;
        let message = format!(
            "cannot {verb} task {id} while it runs: pause the job with `interrupt` first, or wait \
             until the attempt is over"
        );
        return Err(rejection(job, "task_is_live", message));
    }
    Ok(())
}

fn is_expanded(job: &Job, task: &Task) -> Rejection {
    let message = format!(
        "task {} has become {} instances, and keeps the list that they are for: skip it, and \
         insert another task with another list",
        task.spec.id,
        task.items().unwrap_or_default().total
    );
    rejection(job, "task_is_expanded", message)
}

fn exists(job: &Job, known: &Task) -> Rejection {
    let message = format!(
        "the job has a task {} already, which is {}; ids are never used again",
        known.spec.id, known.status
    );
    rejection(job, "task_exists", message)
}

impl Job {
    /// The part of the plan that a place is in: that of the task beside it.
    pub(crate) fn part_at(&self, place: &Place) -> Part {
        let beside = match place {
            Place::First | Place::Last => None,
            Place::After(id) | Place::Before(id) => self.find(id.as_str()),
        };
        beside.and_then(|task| self.task(task)).map_or(Part::Tasks, |task| task.part)
    }
}

/// The task behind which a place is; `but` is the one that is to be moved there.
fn behind(
    job: &Job,
    place: &Place,
    but: Option<TaskNumber>,
) -> Result<Option<TaskNumber>, Rejection> {
    let all = job.order.iter().map(|&at| number(at)).filter(|&task| Some(task) != but);
    let part = but.and_then(|task| job.task(task)).map_or(Part::Tasks, |task| task.part);
    let is_before = |&task: &TaskNumber| job.task(task).is_some_and(|task| task.part < part);
    let is_of = |&task: &TaskNumber| job.task(task).is_some_and(|task| task.part <= part);
    match place {
        Place::First => Ok(all.take_while(is_before).last()),
        Place::Last => Ok(all.take_while(is_of).last()),
        Place::After(id) => Ok(Some(find_planned(job, id, "stand beside")?.0)),
        Place::Before(id) => {
            let (before, _) = find_planned(job, id, "stand beside")?;
            if Some(before) == but {
                return Ok(but);
            }
            Ok(all.take_while(|&task| task != before).last())
        }
    }
}
