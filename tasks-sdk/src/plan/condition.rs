//! Conditions: whether a task runs when its turn has come.

use super::fault::Faults;
use super::fields::{Fields, Known};
use super::reference::Reference;
use super::sites::{self, Special};
use super::write::Object;
use crate::json::{self, Level};
use crate::{Payload, TaskId};

/// Whether a task runs when everything that it needs is settled, or is skipped.
///
/// ```
/// use annals_tasks_sdk::Payload;
/// use annals_tasks_sdk::plan::{Condition, Decision, Limits, TaskSpec};
/// let text = r#"{"id": "report", "kind": "http",
///     "when": {"$output": "probe", "pointer": "/os", "in": ["debian", "ubuntu"]}}"#;
/// let task = TaskSpec::from_json(text, &Limits::default())?;
/// let Some(Condition::Value { test, .. }) = task.when.as_deref() else { panic!() };
/// assert_eq!(test.decide(Some(&Payload::parse(r#""debian""#).unwrap())), Decision::Run);
/// assert_eq!(test.decide(None), Decision::Skip);
/// # Ok::<(), annals_tasks_sdk::plan::PlanErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Condition {
    /// `{"$output": TASK, ...}` or `{"$input": POINTER, ...}`: a value passes a test.
    Value {
        /// What is tested. What is missing, and has no default, is tested as `null`.
        reference: Reference,
        /// How.
        test: Test,
    },
    /// `{"task": TASK, "status": [WORD, ...]}`: a task has come to one of these ends.
    Task {
        /// A task that it needs, directly or through others; in `finally` any.
        task: TaskId,
        /// The ends, at least one.
        ends: Box<[TaskEnd]>,
    },
    /// `{"status": [WORD, ...]}`, in `finally`: the job is about to come to one of these ends.
    Job {
        /// The ends, at least one.
        ends: Box<[JobEnd]>,
    },
}

/// What a value must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `true`. With `false` and `null` the task is skipped, with anything else it fails.
    IsTrue,
    /// This value; `1` and `1.0` are the same.
    Equals(Payload),
    /// One of these values, of which there is at least one.
    In(Box<[Payload]>),
}

/// How a task may have ended before another one's turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    /// It succeeded.
    Completed,
    /// It failed, and the plan goes on without it.
    Failed,
    /// It was passed over.
    Skipped,
    /// It was taken out of the plan.
    Removed,
    /// Its turn has never come; only in `finally`.
    Pending,
    /// It was stopped, or waited, when its job was about to end; only in `finally`.
    Interrupted,
}

/// How a job may be about to end when a task of `finally` has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// Everything is settled.
    Completed,
    /// A failure stopped it.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// What a condition says of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Run,
    /// It is skipped.
    Skip,
    /// Neither: the value is not one that is true or false.
    Bad,
}

impl Test {
    /// What a value, or that there is none, says of the task.
    pub fn decide(&self, value: Option<&Payload>) -> Decision {
        let null = Payload::NULL;
        let value = value.unwrap_or(&null);
        let passes = match self {
            Self::Equals(wanted) => value.equals(wanted),
            Self::In(wanted) => wanted.iter().any(|wanted| value.equals(wanted)),
            Self::IsTrue => match value.as_str().trim() {
                "true" => true,
                "false" | "null" => false,
                _ => return Decision::Bad,
            },
        };
        if passes { Decision::Run } else { Decision::Skip }
    }
}

const TASK_ENDS: [(&str, TaskEnd); 6] = [
    ("completed", TaskEnd::Completed),
    ("failed", TaskEnd::Failed),
    ("skipped", TaskEnd::Skipped),
    ("removed", TaskEnd::Removed),
    ("pending", TaskEnd::Pending),
    ("interrupted", TaskEnd::Interrupted),
];

const JOB_ENDS: [(&str, JobEnd); 3] = [
    ("completed", JobEnd::Completed),
    ("failed", JobEnd::Failed),
    ("cancelled", JobEnd::Cancelled),
];

const OF_STATUS: Known =
    Known { what: "a condition", fields: &["task", "status"], unsupported: &[] };

/// Reads the condition of a task.
pub(super) fn read(task: &Fields<'_>, faults: &mut Faults) -> Option<Box<Condition>> {
    let text = task.present("when")?;
    let place = task.place("when");
    let Ok(Level::Object(members)) = json::level(text) else {
        faults.add(place, SHAPES);
        return None;
    };
    let has = |name: &str| members.iter().any(|(key, _)| key == name);
    if members.iter().any(|(key, _)| key.starts_with('$')) {
        return of_value(members, &place, faults).map(Box::new);
    }
    if has("task") || has("status") {
        let fields = Fields::read(text, &place, &OF_STATUS, faults)?;
        return of_status(&fields, faults).map(Box::new);
    }
    faults.add(place, SHAPES);
    None
}

const SHAPES: &str = "`when` is {\"$output\": TASK} or {\"$input\": POINTER}, each also with \
    `equals` or `in`, or {\"task\": TASK, \"status\": [WORD, ...]}";

fn of_value(members: Vec<(String, &str)>, place: &str, faults: &mut Faults) -> Option<Condition> {
    let mut values = Vec::new();
    for (key, text) in members.iter().filter(|(key, _)| matches!(key.as_str(), "equals" | "in")) {
        match Payload::parse(text) {
            Ok(value) => values.push((key.as_str(), value)),
            Err(error) => {
                faults.add(json::join(place, key) + &error.pointer, error.detail);
                return None;
            }
        }
    }
    let test = match &values[..] {
        [] => Test::IsTrue,
        [("equals", value)] => Test::Equals(value.clone()),
        [(_, list)] => {
            let Ok(Level::Array(elements)) = json::level(list.as_str()) else {
                faults.add(json::join(place, "in"), "`in` must be a list of values");
                return None;
            };
            Test::In(elements.into_iter().map(Payload::trusted).collect())
        }
        _ => {
            faults.add(place, "a value is tested by `equals` or by `in`, once");
            return None;
        }
    };
    let reference: Vec<(String, &str)> =
        members.into_iter().filter(|(key, _)| !matches!(key.as_str(), "equals" | "in")).collect();
    match sites::special(&reference) {
        Some(Ok(Special::Reference(reference))) => Some(Condition::Value { reference, test }),
        Some(Err(detail)) => {
            faults.add(place, detail);
            None
        }
        Some(Ok(Special::Literal(_))) | None => {
            faults.add(place, SHAPES);
            None
        }
    }
}

fn of_status(fields: &Fields<'_>, faults: &mut Faults) -> Option<Condition> {
    if fields.raw("status").is_none() {
        faults.add(fields.pointer.as_str(), "`status` is missing: a list of words");
        return None;
    }
    if fields.raw("task").is_none() {
        return Some(Condition::Job { ends: fields.words("status", &JOB_ENDS, faults)? });
    }
    let task = fields.required("task", faults).and_then(|name| {
        TaskId::new(&name).map_err(|error| faults.add(fields.place("task"), error.to_string())).ok()
    });
    let ends = fields.words("status", &TASK_ENDS, faults);
    Some(Condition::Task { task: task?, ends: ends? })
}

/// What is wrong with a condition, whatever its task is.
pub(super) fn check(condition: &Condition, place: &str, faults: &mut Faults) {
    match condition {
        Condition::Value { reference: Reference::Item { .. }, .. } => {
            let detail = "a condition is looked at once for the whole task, and not for each \
                `$item`";
            faults.add(place, detail);
        }
        Condition::Value { test: Test::In(values), .. } if values.is_empty() => {
            faults.add(format!("{place}/in"), "`in` must have at least one value");
        }
        Condition::Task { ends, .. } if ends.is_empty() => no_word(place, faults),
        Condition::Job { ends } if ends.is_empty() => no_word(place, faults),
        Condition::Value { .. } | Condition::Task { .. } | Condition::Job { .. } => {}
    }
}

fn no_word(place: &str, faults: &mut Faults) {
    faults.add(format!("{place}/status"), "`status` must have at least one word");
}

/// A condition as JSON.
pub(super) fn write(condition: &Condition) -> String {
    let mut object = Object::new();
    match condition {
        Condition::Value { reference, test } => {
            match reference {
                Reference::Output { task, pointer, .. } => {
                    object.field("$output", task);
                    if !pointer.is_empty() {
                        object.field("pointer", pointer);
                    }
                }
                Reference::Input { pointer, .. } => object.field("$input", pointer),
                Reference::Item { pointer, .. } => object.field("$item", pointer),
            }
            if let Some(default) = reference.default() {
                object.raw("default", default.as_str());
            }
            match test {
                Test::IsTrue => {}
                Test::Equals(value) => object.raw("equals", value.as_str()),
                Test::In(values) => {
                    let values: Vec<&str> = values.iter().map(Payload::as_str).collect();
                    object.raw("in", &format!("[{}]", values.join(",")));
                }
            }
        }
        Condition::Task { task, ends } => {
            object.field("task", task);
            let words: Vec<&str> = ends.iter().map(|end| end.as_str()).collect();
            object.field("status", &words);
        }
        Condition::Job { ends } => {
            let words: Vec<&str> = ends.iter().map(|end| end.as_str()).collect();
            object.field("status", &words);
        }
    }
    object.finish()
}

impl TaskEnd {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        TASK_ENDS.iter().find(|(_, end)| *end == self).map_or("", |(word, _)| word)
    }
}

impl JobEnd {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        JOB_ENDS.iter().find(|(_, end)| *end == self).map_or("", |(word, _)| word)
    }
}

impl Condition {
    /// The condition as JSON, as it stands in [`Plan::to_json`](super::Plan::to_json).
    pub fn to_json(&self) -> Payload {
        Payload::trusted(&write(self))
    }

    /// The task that it looks at, where it looks at one.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Value { reference, .. } => reference.task(),
            Self::Task { task, .. } => Some(task),
            Self::Job { .. } => None,
        }
    }
}
