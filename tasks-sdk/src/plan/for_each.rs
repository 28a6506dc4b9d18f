//! Fan-out: a task that is done for each element of a list.

use std::borrow::Cow;

use super::fault::Faults;
use super::fields::Fields;
use super::sites::{Site, Special, sites};
use super::write::Object;
use super::{Limits, Reference, TaskSpec};
use crate::Payload;

/// For what a task is done more than once: an instance of it for each element of a list.
///
/// ```
/// use annals_tasks_sdk::plan::{Limits, Plan};
/// let text = r#"{"name": "probe", "input": {"hosts": ["a", "b"]}, "tasks": [
///     {"id": "ping", "kind": "http", "for_each": {"$input": "/hosts"}, "concurrency": 8,
///      "input": {"url": {"$item": ""}}}
/// ]}"#;
/// let plan = Plan::from_json(text, &Limits::default())?;
/// let each = plan.tasks[0].for_each.as_ref().unwrap();
/// assert_eq!(each.concurrency, Some(8));
/// let text = text.replace("$item", "$itme");
/// let errors = Plan::from_json(&text, &Limits::default()).unwrap_err();
/// assert_eq!(errors.0[0].pointer, "/tasks/0/input/url");
/// # Ok::<(), annals_tasks_sdk::plan::PlanErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    /// A reference that gives a list, or a list in which there may be references.
    pub items: Payload,
    /// How many instances may have begun and not be over at a time, those included that wait for
    /// their next attempt; all of them when left out.
    pub concurrency: Option<u32>,
}

/// Reads the list and the concurrency of a task.
pub(super) fn read(task: &Fields<'_>, faults: &mut Faults) -> Option<Box<ForEach>> {
    let concurrency = task.number("concurrency", "a number of instances from 1 on", faults);
    let Some(text) = task.present("for_each") else {
        if task.present("concurrency").is_some() {
            let detail = "`concurrency` is for a task with `for_each`";
            faults.add(task.place("concurrency"), detail);
        }
        return None;
    };
    match Payload::parse(text) {
        Ok(items) => Some(Box::new(ForEach { items, concurrency })),
        Err(error) => {
            faults.add(task.place("for_each") + &error.pointer, error.detail);
            None
        }
    }
}

/// What is wrong with them, whatever is around the task.
pub(super) fn check(each: &ForEach, place: &str, limits: &Limits, faults: &mut Faults) {
    if each.concurrency == Some(0) {
        faults.add(format!("{place}/concurrency"), "`concurrency` must be at least 1");
    }
    let length = match &sites(&each.items)[..] {
        // Whatever it gives is looked at when the task has its turn.
        [Site { pointer, special: Ok(Special::Reference(_)), .. }] if pointer.is_empty() => return,
        // What looks like a reference and is none is a fault already.
        [Site { pointer, special: Err(_), .. }] if pointer.is_empty() => return,
        [Site { pointer, special: Ok(Special::Literal(value)), .. }] if pointer.is_empty() => {
            Payload::trusted(value).elements().map(|elements| elements.len())
        }
        _ => each.items.elements().map(|elements| elements.len()),
    };
    let detail = match length {
        Some(length) => match too_many(length, limits.instances) {
            Some(detail) => detail,
            None => return,
        },
        None => "`for_each` must be a list, or a reference to one such as {\"$input\": \"/hosts\"}"
            .into(),
    };
    faults.add(format!("{place}/for_each"), detail);
}

/// The sentence for a list that is too long, where it is.
pub fn too_many(length: usize, limit: usize) -> Option<String> {
    (length > limit)
        .then(|| format!("the list has {length} elements; the limit `instances` is {limit}"))
}

/// Why a reference cannot stand in a template of a task, where it cannot.
pub(super) fn misplaced(
    task: &TaskSpec,
    template: Template,
    reference: &Reference,
) -> Option<&'static str> {
    match (reference, template) {
        (Reference::Item { .. }, Template::List) => Some("the list itself has no `$item`"),
        (Reference::Item { .. }, Template::Input) if task.for_each.is_none() => {
            Some("`$item` is for the input of a task with `for_each`")
        }
        _ => None,
    }
}

pub(super) fn write(each: &ForEach, object: &mut Object) {
    object.raw("for_each", each.items.as_str());
    if let Some(concurrency) = each.concurrency {
        object.field("concurrency", &concurrency);
    }
}

impl TaskSpec {
    /// Its templates with their places in it: its input, and the list for each element of which it
    /// is done.
    pub(super) fn templates(&self) -> impl Iterator<Item = (Template, Cow<'_, Payload>)> {
        let list = self.for_each.as_deref().map(|each| &each.items);
        let list = list.map(|items| (Template::List, Cow::Borrowed(items)));
        [(Template::Input, self.template())].into_iter().chain(list)
    }
}

/// A template of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Template {
    Input,
    List,
}

impl Template {
    /// JSON Pointer of the template in its task.
    pub(super) fn place(self) -> &'static str {
        match self {
            Self::Input => "/input",
            Self::List => "/for_each",
        }
    }
}
