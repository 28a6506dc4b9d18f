//! That every reference of a plan will find what it names.

use super::check::{All, Ids};
use super::compensate;
use super::fault::Faults;
use super::for_each::{Template, misplaced};
use super::order::Order;
use super::read::Unread;
use super::{Condition, Found, Plan, Reference, TaskEnd, TaskSpec, references};
use crate::Payload;
use crate::json::Tree;

/// A value whose parts references name.
pub(super) type Values<'a> = Tree<'a>;

/// A reference to the output of a task that the reading task does not need directly.
struct Distant {
    pointer: String,
    task: usize,
    needed: usize,
}

pub(super) fn data(
    plan: &Plan,
    all: &All<'_>,
    unread: &Unread,
    ids: &Ids<'_>,
    order: &Order,
    faults: &mut Faults,
) {
    let input = (!unread.input).then(|| Tree::new(plan.input.as_str()));
    let mut distant = Vec::new();
    for (task, spec) in all.tasks.iter().enumerate() {
        if faults.is_full() {
            return;
        }
        for (template, text) in spec.templates() {
            let place = || all.place(task) + template.place();
            for Found { pointer, reference } in found(&text, place, faults) {
                stands(spec, template, &reference, &pointer, faults);
                let known = check(&reference, &pointer, input.as_ref(), ids, faults);
                let Some(needed) = known else { continue };
                if all.is_of_finally(task) {
                    wants_default(&reference, &pointer, faults);
                } else if !order.needs_directly(task, needed) {
                    distant.push(Distant { pointer, task, needed });
                }
            }
        }
        compensate::data(all, task, ids, input.as_ref(), faults);
        let Some(condition) = &spec.when else { continue };
        let pointer = all.place(task) + "/when";
        let at_end = all.is_of_finally(task);
        let looked_at = look(condition, &pointer, at_end, ids, faults);
        // The work is over by then, but what else is done at the end may not be.
        let looked_at = looked_at.filter(|&needed| !at_end || all.is_of_finally(needed));
        let distant_one = looked_at.filter(|&needed| !order.needs_directly(task, needed));
        distant.extend(distant_one.map(|needed| Distant { pointer, task, needed }));
    }
    report_strangers(all, order, &distant, faults);
    if let Some(output) = &plan.output {
        for Found { pointer, reference } in found(output, || "/output".into(), faults) {
            let known = check(&reference, &pointer, input.as_ref(), ids, faults);
            if known.is_some_and(|task| all.is_of_finally(task)) {
                let detail = "the job's output is decided before the tasks of `finally` run";
                faults.add(pointer, detail);
            } else if let Reference::Item { .. } = reference {
                faults.add(pointer, "`$item` is for the input of a task with `for_each`");
            }
        }
    }
}

/// Whether a reference can stand where it does, whatever it names.
fn stands(
    spec: &TaskSpec,
    template: Template,
    reference: &Reference,
    pointer: &str,
    faults: &mut Faults,
) {
    if let Some(detail) = misplaced(spec, template, reference) {
        faults.add(pointer, detail);
    }
}

/// A task of `finally` runs whatever has become of the others.
fn wants_default(reference: &Reference, pointer: &str, faults: &mut Faults) {
    if reference.task().is_some() && reference.default().is_none() {
        let detail = "a task of `finally` runs whatever has become of the others: give a default";
        faults.add(pointer, detail);
    }
}

/// The position of the task that a condition looks at.
fn look(
    condition: &Condition,
    pointer: &str,
    at_end: bool,
    ids: &Ids<'_>,
    faults: &mut Faults,
) -> Option<usize> {
    look_alone(condition, pointer, at_end, faults);
    let task = condition.task()?;
    let position = ids.position(task.as_str());
    if position.is_none() && !faults.is_full() {
        faults.add(pointer, ids.unknown(task.as_str()));
    }
    position
}

/// What can be said of a condition without the tasks around it.
fn look_alone(condition: &Condition, pointer: &str, at_end: bool, faults: &mut Faults) {
    if at_end {
        return;
    }
    match condition {
        Condition::Job { .. } => {
            let detail = "only a task of `finally` can look at how the job ends; name a `task`";
            faults.add(pointer, detail);
        }
        Condition::Task { ends, .. } => {
            let open = |end: &&TaskEnd| matches!(end, TaskEnd::Pending | TaskEnd::Interrupted);
            if let Some(end) = ends.iter().find(open) {
                let detail = format!(
                    "no task is {} when the turn of one comes that needs it: only a task of \
                     `finally` can look for that",
                    end.as_str()
                );
                faults.add(format!("{pointer}/status"), detail);
            }
        }
        Condition::Value { .. } => {}
    }
}

pub(super) fn found(
    template: &Payload,
    place: impl FnOnce() -> String,
    faults: &mut Faults,
) -> Vec<Found> {
    match references(template) {
        // Most templates have none, and need no place.
        Ok(found) if found.is_empty() => found,
        Ok(mut found) => {
            let place = place();
            for found in &mut found {
                found.pointer.insert_str(0, &place);
            }
            found
        }
        Err(errors) => {
            let place = place();
            for error in errors {
                faults.add(format!("{place}{}", error.pointer), error.detail);
            }
            Vec::new()
        }
    }
}

/// The position of the task whose output is taken, where there is one.
pub(super) fn check(
    reference: &Reference,
    pointer: &str,
    input: Option<&Tree<'_>>,
    ids: &Ids<'_>,
    faults: &mut Faults,
) -> Option<usize> {
    match reference {
        Reference::Output { task, .. } => {
            let position = ids.position(task.as_str());
            if position.is_none() && !faults.is_full() {
                faults.add(pointer, ids.unknown(task.as_str()));
            }
            position
        }
        Reference::Input { .. } => {
            check_input(reference, pointer, input, faults);
            None
        }
        Reference::Item { .. } => None,
    }
}

pub(super) fn check_input(
    reference: &Reference,
    pointer: &str,
    input: Option<&Tree<'_>>,
    faults: &mut Faults,
) {
    let Reference::Input { pointer: part, default } = reference else { return };
    if default.is_none() && input.is_some_and(|input| input.find(part).is_none()) {
        let detail = format!("the plan's input has nothing at {part:?}, and there is no default");
        faults.add(pointer, detail);
    }
}

/// What can be said of a task's references without the tasks around it.
pub(super) fn alone(spec: &TaskSpec, input: &Payload, at_end: bool, faults: &mut Faults) {
    let mut tree = None;
    for (template, text) in spec.templates() {
        for Found { pointer, reference } in found(&text, || template.place().into(), faults) {
            stands(spec, template, &reference, &pointer, faults);
            let input = tree.get_or_insert_with(|| Tree::new(input.as_str()));
            check_input(&reference, &pointer, Some(input), faults);
            if at_end {
                wants_default(&reference, &pointer, faults);
            }
        }
    }
    if spec.compensate.is_some() {
        let input = tree.get_or_insert_with(|| Tree::new(input.as_str()));
        compensate::data_alone(spec, input, faults);
    }
    if let Some(condition) = &spec.when {
        look_alone(condition, "/when", at_end, faults);
    }
}

fn report_strangers(all: &All<'_>, order: &Order, distant: &[Distant], faults: &mut Faults) {
    let pairs: Vec<(usize, usize)> =
        distant.iter().map(|distant| (distant.task, distant.needed)).collect();
    for stranger in order.strangers(&pairs) {
        let Distant { pointer, task: task_at, needed: needed_at } = &distant[stranger];
        let (task, needed) = (&all.tasks[*task_at].id, &all.tasks[*needed_at].id);
        let detail = if task == needed {
            format!("`{task}` cannot take its own output")
        } else if all.is_of_finally(*needed_at) && !all.is_of_finally(*task_at) {
            format!("`{needed}` is a task of `finally`, which runs at the end")
        } else {
            format!("`{task}` does not need `{needed}`, directly or through others")
        };
        faults.add(pointer.as_str(), detail);
    }
}
