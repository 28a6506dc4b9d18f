//! Edits of a task: which of its fields are replaced, and by what.

use std::collections::BTreeMap;

use super::fault::Faults;
use super::fields::Fields;
use super::read::{self, TASK};
use super::write::{self, Object};
use super::{Limits, PlanError, PlanErrors, TaskSpec, check};
use crate::json::{self, Level};
use crate::{KindName, Payload};

/// Fields of a task that are to be replaced, each as a whole; all others stay as they are.
///
/// `null` takes a field back to what it is when it is left out: for `needs`, the task before it in
/// the plan.
///
/// ```
/// use annals_tasks_sdk::plan::{Limits, TaskPatch, TaskSpec};
/// let task = r#"{"id": "a", "kind": "shell", "input": {"script": "exit 1"}, "timeout": "5m"}"#;
/// let task = TaskSpec::from_json(task, &Limits::default())?;
/// let patch = r#"{"input": {"script": "exit 0"}, "timeout": null}"#;
/// let patch = TaskPatch::from_json(patch, &Limits::default())?;
/// let edited = patch.apply(&task)?;
/// assert_eq!(edited.input.as_str(), r#"{"script": "exit 0"}"#);
/// assert_eq!(edited.policy.timeout, None);
/// # Ok::<(), annals_tasks_sdk::plan::PlanErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPatch {
    /// By name, the JSON of each.
    fields: BTreeMap<Box<str>, Box<str>>,
    kind: Option<KindName>,
    undo: Option<KindName>,
}

impl TaskPatch {
    /// Reads a patch, and checks it as far as that can be done without the task: every fault is
    /// listed with its place. A patch changes something, and never the id.
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, PlanErrors> {
        let mut faults = Faults::default();
        let Some(members) = members(text, &mut faults) else {
            faults.finish()?;
            return Err(nothing());
        };
        if members.is_empty() {
            faults.finish()?;
            return Err(nothing());
        }
        // On a task that has nothing but what it must have.
        let base = if members.contains_key("concurrency") {
            r#"{"id":"_","kind":"_","for_each":[]}"#
        } else {
            r#"{"id":"_","kind":"_"}"#
        };
        let whole = merged(base, &members);
        let mut spec = read::task(&whole, "", &mut faults).spec;
        let kind = members.contains_key("kind").then(|| spec.kind.clone());
        if !members.contains_key("input")
            && let Ok(stand_in) = KindName::new("_")
        {
            // What its kind asks of an input is asked of the one that it has.
            spec.kind = stand_in;
        }
        check::alone(&spec, String::new, limits, &mut faults);
        faults.finish()?;
        let undo = spec.compensate.map(|compensation| compensation.kind);
        Ok(Self { fields: members, kind, undo })
    }

    /// The kind that the task gets, where that is among the fields.
    pub fn kind(&self) -> Option<&KindName> {
        self.kind.as_ref()
    }

    /// Whether it names a kind: of the task, or of what undoes it.
    pub fn says_kind(&self) -> bool {
        self.kind.is_some() || self.undo.is_some()
    }

    /// The kind of what undoes the task from then on, where that is among the fields.
    pub fn undo_kind(&self) -> Option<&KindName> {
        self.undo.as_ref()
    }

    /// Whether a field is replaced.
    pub fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// How many bytes of JSON it has.
    pub fn bytes(&self) -> usize {
        self.fields.iter().map(|(name, text)| name.len() + text.len()).sum()
    }

    /// The fields with their JSON, in the order of their names.
    pub fn to_json(&self) -> Payload {
        let mut object = Object::new();
        for (name, text) in &self.fields {
            object.raw(name, text);
        }
        Payload::trusted(&object.finish())
    }

    /// The task with these fields replaced.
    pub fn apply(&self, task: &TaskSpec) -> Result<TaskSpec, PlanErrors> {
        let mut faults = Faults::default();
        let mut fields = self.fields.clone();
        if fields.get("for_each").is_some_and(|list| &**list == "null") {
            // It goes with the list that it is for.
            fields.entry("concurrency".into()).or_insert_with(|| "null".into());
        }
        // What it has from the engine, such as an id that no plan can name, is not read again.
        let mut plain = TaskSpec { id: read::stand_in_id(), ..task.clone() };
        let needs = if self.has("needs") { None } else { Some(plain.needs.take()) };
        let whole = merged(&write::task(&plain), &fields);
        let spec = read::task(&whole, "", &mut faults).spec;
        faults.finish()?;
        let needs = needs.unwrap_or(spec.needs);
        Ok(TaskSpec { id: task.id.clone(), needs, ..spec })
    }
}

fn nothing() -> PlanErrors {
    PlanError { pointer: String::new(), detail: "it says nothing that is to be changed".into() }
        .into()
}

/// The fields that are to be replaced. A task that is named anew would be another one.
fn members(text: &str, faults: &mut Faults) -> Option<BTreeMap<Box<str>, Box<str>>> {
    let fields = Fields::read(text, "", &TASK, faults)?;
    if fields.raw("id").is_some() {
        faults.add("/id", "a task keeps its id: insert another task, and remove this one");
    }
    if fields.raw("kind").is_some_and(|kind| kind.trim() == "null") {
        faults.add("/kind", "a task has a kind");
    }
    let may_stand = |(name, text): &(&str, &str)| {
        // What is refused here is not read again.
        TASK.fields.contains(name) && *name != "id" && !(*name == "kind" && text.trim() == "null")
    };
    let members = fields.all().filter(may_stand);
    Some(members.map(|(name, text)| (name.into(), text.trim().into())).collect())
}

/// An object with some of its members replaced, or left out where that is `null`.
fn merged(object: &str, by: &BTreeMap<Box<str>, Box<str>>) -> String {
    let mut whole = Object::new();
    if let Ok(Level::Object(members)) = json::level(object) {
        let kept = members.iter().filter(|(name, _)| !by.contains_key(name.as_str()));
        kept.for_each(|(name, text)| whole.raw(name, text));
    }
    let given = by.iter().filter(|(_, text)| &***text != "null");
    given.for_each(|(name, text)| whole.raw(name, text));
    whole.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(patch: &str) -> Vec<String> {
        let errors = TaskPatch::from_json(patch, &Limits::default()).unwrap_err().0;
        errors.into_iter().map(|error| format!("{}: {}", error.pointer, error.detail)).collect()
    }

    #[test]
    fn a_patch_is_refused_with_every_place() {
        let of = |patch| faults(patch).join("; ");
        assert_eq!(of("{}"), ": it says nothing that is to be changed");
        assert_eq!(of("[]"), ": a task must be an object, not a list");
        assert!(of(r#"{"id": "x"}"#).starts_with("/id: a task keeps its id"));
        assert_eq!(of(r#"{"kind": null}"#), "/kind: a task has a kind");
        let both = faults(r#"{"timeout": 5, "tilte": "x"}"#);
        assert!(both[0].starts_with("/tilte: `tilte` is no field of a task"), "{both:?}");
        assert!(both[1].starts_with("/timeout: a duration is a string"), "{both:?}");
        assert_eq!(of(r#"{"title": 1, "title": 2}"#).matches("twice").count(), 1);
    }

    #[test]
    fn what_is_not_named_stays() {
        let text = r#"{"id":"a","title":"A","kind":"shell","input":{"n":1.50},"needs":["x"],
            "timeout":"5m","retry":{"max_attempts":3},"on_failure":"pause"}"#;
        let task = TaskSpec::from_json(text, &Limits::default()).unwrap();
        let patch = |text| TaskPatch::from_json(text, &Limits::default()).unwrap();
        let edited = patch(r#"{"title": "B"}"#).apply(&task).unwrap();
        assert_eq!(edited, TaskSpec { title: Some("B".into()), ..task.clone() });
        let edited = patch(r#"{"needs": null, "title": null}"#).apply(&task).unwrap();
        assert_eq!(edited, TaskSpec { title: None, needs: None, ..task.clone() });
        let edited = patch(r#"{"retry": {"max_attempts": 9}}"#).apply(&task).unwrap();
        assert_eq!((edited.policy.retry.max_attempts, edited.title), (9, task.title.clone()));
        let each = r#"{"id":"a","kind":"noop","for_each":[1],"concurrency":2}"#;
        let each = TaskSpec::from_json(each, &Limits::default()).unwrap();
        let fewer = patch(r#"{"concurrency": 1}"#).apply(&each).unwrap();
        assert_eq!(fewer.for_each.unwrap().concurrency, Some(1));
        assert_eq!(patch(r#"{"for_each": null}"#).apply(&each).unwrap().for_each, None);
        assert!(patch(r#"{"concurrency": 1}"#).apply(&task).is_err(), "there is no list");
    }
}
