//! From JSON to a plan: every fault is collected, none stops the reading of the rest.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::fault::Faults;
use super::fields::{self, Fields, Known};
use super::read_policy::policy;
use super::{Limits, Plan, Policy, Start, TaskSpec, check, compensate, condition, for_each};
use crate::json;
use crate::{BadName, KindName, Payload, TaskId};

const PLAN: Known = Known {
    what: "a plan",
    fields: &[
        "name",
        "labels",
        "input",
        "start",
        "exclusive",
        "deadline",
        "output",
        "tasks",
        "fail_fast",
        "compensate_on",
        "finally",
    ],
    unsupported: &["queue", "priority"],
};

pub(super) const TASK: Known = Known {
    what: "a task",
    fields: &[
        "id",
        "title",
        "kind",
        "input",
        "needs",
        "when",
        "for_each",
        "concurrency",
        "timeout",
        "heartbeat_timeout",
        "cancel_grace",
        "retry",
        "on_failure",
        "on_lost",
        "compensate",
    ],
    unsupported: &["weight", "isolation"],
};

/// What could not be read. Its places hold stand-ins, about which nothing more is said.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Positions, those of `finally` behind the others, of tasks whose ids are missing or bad.
    pub(super) ids: Vec<usize>,
    /// Positions of tasks whose needs are, or some of them.
    pub(super) needs: Vec<usize>,
    /// Whether the plan's input is.
    pub(super) input: bool,
}

/// Reads what can be read, within the limits on size.
pub(super) fn plan(text: &str, limits: &Limits, faults: &mut Faults) -> Option<(Plan, Unread)> {
    if let Some(detail) = check::too_large("the plan", text.len(), "plan_bytes", limits.plan_bytes)
    {
        faults.add("", detail);
        return None;
    }
    // What is no JSON at all has a line and a column, which only the whole text can give.
    if let Err(error) = serde_json::from_str::<&RawValue>(text) {
        faults.add("", format!("the plan is no JSON: {error}"));
        return None;
    }
    let fields = Fields::read(text, "", &PLAN, faults)?;
    let mut plan = Plan::new(&fields.required("name", faults).unwrap_or_else(|| "?".into()));
    let mut unread = Unread::default();
    plan.labels = labels(&fields, faults);
    if fields.raw("input").is_some() {
        let input = payload(&fields, "input", faults);
        unread.input = input.is_none();
        plan.input = input.unwrap_or_default();
    }
    plan.output = payload(&fields, "output", faults);
    plan.start = start(&fields, faults);
    plan.exclusive = fields.string("exclusive", faults).map(Into::into);
    plan.deadline = fields.positive("deadline", "a deadline", faults);
    plan.fail_fast = fields.flag("fail_fast", faults).unwrap_or_default();
    plan.compensate_on = compensate::read_ends(&fields, faults);
    plan.tasks = tasks(&fields, limits, &mut unread, faults)?;
    plan.finally = finally(&fields, plan.tasks.len(), limits, &mut unread, faults)?;
    Some((plan, unread))
}

fn tasks(
    fields: &Fields<'_>,
    limits: &Limits,
    unread: &mut Unread,
    faults: &mut Faults,
) -> Option<Vec<TaskSpec>> {
    if fields.raw("tasks").is_none() {
        faults.add("", "`tasks` is missing; a plan needs at least one task");
        return None;
    }
    let texts = fields.list("tasks", faults)?;
    if let Some(detail) = check::too_many(texts.len(), limits) {
        faults.add("/tasks", detail);
        return None;
    }
    Some(listed(texts, "/tasks", 0, unread, faults))
}

/// The tasks of `finally`, of which the first has so many others before it.
fn finally(
    fields: &Fields<'_>,
    before: usize,
    limits: &Limits,
    unread: &mut Unread,
    faults: &mut Faults,
) -> Option<Vec<TaskSpec>> {
    if fields.present("finally").is_none() {
        return Some(Vec::new());
    }
    let texts = fields.list("finally", faults)?;
    if let Some(detail) = check::too_many(before + texts.len(), limits) {
        faults.add("/finally", detail);
        return None;
    }
    Some(listed(texts, "/finally", before, unread, faults))
}

fn listed(
    texts: Vec<&str>,
    place: &str,
    before: usize,
    unread: &mut Unread,
    faults: &mut Faults,
) -> Vec<TaskSpec> {
    let mut tasks = Vec::with_capacity(texts.len());
    for (index, text) in texts.into_iter().enumerate() {
        if faults.is_full() {
            break;
        }
        let Lone { spec, id_is_unread, needs_are_unread } =
            task(text, &json::join(place, &index.to_string()), faults);
        unread.ids.extend(id_is_unread.then_some(before + index));
        unread.needs.extend(needs_are_unread.then_some(before + index));
        tasks.push(spec);
    }
    tasks
}

fn start(fields: &Fields<'_>, faults: &mut Faults) -> Start {
    let given = fields.present("start").map(|text| text.trim().trim_matches('"'));
    // No word begins with a digit.
    if let Some(text) = given.filter(|text| text.starts_with(|c: char| c.is_ascii_digit())) {
        return match crate::time::parse(text) {
            Ok(time) => Start::At(time),
            Err(detail) => {
                faults.add("/start", detail);
                Start::Now
            }
        };
    }
    let words = [("now", Start::Now), ("manual", Start::Manual)];
    fields.word("start", &words, faults).unwrap_or_default()
}

fn labels(fields: &Fields<'_>, faults: &mut Faults) -> BTreeMap<Box<str>, Box<str>> {
    let mut labels = BTreeMap::new();
    let Some(text) = fields.present("labels") else { return labels };
    let Ok(json::Level::Object(members)) = json::level(text) else {
        faults.add("/labels", "`labels` must be an object of strings");
        return labels;
    };
    for (key, text) in members {
        let pointer = json::join("/labels", &key);
        let Some(value) = fields::string(text, &pointer, faults) else { continue };
        if labels.insert(key.as_str().into(), value.into()).is_some() {
            faults.add(pointer, format!("the key {key:?} stands twice in one object"));
        }
    }
    labels
}

pub(super) fn payload(fields: &Fields<'_>, name: &str, faults: &mut Faults) -> Option<Payload> {
    match Payload::parse(fields.raw(name)?) {
        Ok(payload) => Some(payload),
        Err(error) => {
            faults.add(fields.place(name) + &error.pointer, error.detail);
            None
        }
    }
}

/// A task as far as it could be read.
pub(super) struct Lone {
    pub(super) spec: TaskSpec,
    id_is_unread: bool,
    needs_are_unread: bool,
}

/// Reads a task that stands at `pointer`.
pub(super) fn task(text: &str, pointer: &str, faults: &mut Faults) -> Lone {
    let Some(fields) = Fields::read(text, pointer, &TASK, faults) else {
        let spec = TaskSpec::new(stand_in_id(), stand_in_kind());
        return Lone { spec, id_is_unread: true, needs_are_unread: true };
    };
    let id = name(&fields, "id", TaskId::new, faults);
    let id_is_unread = id.is_none();
    let kind = name(&fields, "kind", KindName::new, faults);
    let given = fields.raw("needs");
    let needs = given.and_then(|text| needs(&fields, text, faults));
    let needs_are_unread = given.is_some() && needs.is_none();
    let when = condition::read(&fields, faults);
    let named = TaskSpec::new(id.unwrap_or_else(stand_in_id), kind.unwrap_or_else(stand_in_kind));
    let spec = TaskSpec {
        title: fields.string("title", faults).map(Into::into),
        input: payload(&fields, "input", faults).unwrap_or_default(),
        needs,
        when,
        for_each: for_each::read(&fields, faults),
        compensate: compensate::read(&fields, faults),
        policy: Policy::new(policy(&fields, faults)),
        ..named
    };
    Lone { spec, id_is_unread, needs_are_unread }
}

pub(super) fn name<T>(
    fields: &Fields<'_>,
    field: &str,
    parse: impl Fn(&str) -> Result<T, BadName>,
    faults: &mut Faults,
) -> Option<T> {
    let name = fields.required(field, faults)?;
    parse(&name).map_err(|error| faults.add(fields.place(field), error.to_string())).ok()
}

/// `None` where anything of it is at fault.
fn needs(fields: &Fields<'_>, text: &str, faults: &mut Faults) -> Option<Box<[TaskId]>> {
    if text.trim() == "null" {
        let detail = "`needs` must not be null: leave it out to need the task before, or write [] \
            to need none";
        faults.add(fields.place("needs"), detail);
        return None;
    }
    let texts = fields.list("needs", faults)?;
    let place = fields.place("needs");
    let mut needs = Some(Vec::with_capacity(texts.len()));
    for (index, text) in texts.into_iter().enumerate() {
        let pointer = json::join(&place, &index.to_string());
        let name = fields::string(text, &pointer, faults);
        let id = name.and_then(|name| {
            TaskId::new(&name).map_err(|error| faults.add(pointer, error.to_string())).ok()
        });
        needs = needs.zip(id).map(|(mut needs, id)| {
            needs.push(id);
            needs
        });
    }
    needs.map(Into::into)
}

pub(super) fn stand_in_id() -> TaskId {
    TaskId::new("_").expect("an underscore is an id")
}

fn stand_in_kind() -> KindName {
    KindName::new("_").expect("an underscore is a kind")
}
