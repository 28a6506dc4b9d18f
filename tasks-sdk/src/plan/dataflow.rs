//! That every reference of a plan will find what it names.

use super::check::Ids;
use super::fault::Faults;
use super::order::Order;
use super::read::Unread;
use super::{Found, Plan, Reference, TaskSpec, references};
use crate::Payload;
use crate::json::Tree;

/// A reference to the output of a task that the reading task does not need directly.
struct Distant {
    pointer: String,
    task: usize,
    needed: usize,
}

pub(super) fn data(
    plan: &Plan,
    unread: &Unread,
    ids: &Ids<'_>,
    order: &Order,
    faults: &mut Faults,
) {
    let input = (!unread.input).then(|| Tree::new(plan.input.as_str()));
    let mut distant = Vec::new();
    for (task, spec) in plan.tasks.iter().enumerate() {
        if faults.is_full() {
            return;
        }
        let place = || format!("/tasks/{task}/input");
        for Found { pointer, reference } in found(&spec.input, place, faults) {
            let known = check(&reference, &pointer, input.as_ref(), ids, faults);
            let Some(needed) = known else { continue };
            if !order.needs_directly(task, needed) {
                distant.push(Distant { pointer, task, needed });
            }
        }
    }
    report_strangers(plan, order, &distant, faults);
    if let Some(output) = &plan.output {
        for Found { pointer, reference } in found(output, || "/output".into(), faults) {
            check(&reference, &pointer, input.as_ref(), ids, faults);
        }
    }
}

fn found(template: &Payload, place: impl FnOnce() -> String, faults: &mut Faults) -> Vec<Found> {
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
fn check(
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
    }
}

fn check_input(
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
pub(super) fn alone(spec: &TaskSpec, input: &Payload, faults: &mut Faults) {
    let mut tree = None;
    for Found { pointer, reference } in found(&spec.input, || "/input".into(), faults) {
        let input = tree.get_or_insert_with(|| Tree::new(input.as_str()));
        check_input(&reference, &pointer, Some(input), faults);
    }
}

fn report_strangers(plan: &Plan, order: &Order, distant: &[Distant], faults: &mut Faults) {
    let pairs: Vec<(usize, usize)> =
        distant.iter().map(|distant| (distant.task, distant.needed)).collect();
    for stranger in order.strangers(&pairs) {
        let Distant { pointer, task, needed } = &distant[stranger];
        let (task, needed) = (&plan.tasks[*task].id, &plan.tasks[*needed].id);
        let detail = if task == needed {
            format!("`{task}` cannot take its own output")
        } else {
            format!("`{task}` does not need `{needed}`, directly or through others")
        };
        faults.add(pointer.as_str(), detail);
    }
}
