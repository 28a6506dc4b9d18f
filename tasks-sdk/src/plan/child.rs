//! What a task of kind `job` says of the child that it has: a plan, or a workflow and its input.
//!
//! Two plans meet in its input. What the child is to do (`tasks`, `finally`, `output`) is the
//! child's: the references in it are the child's own, and it stands there as it is. Everything
//! else is the parent's to fill in, and may hold references to what the parent has.

use std::borrow::Cow;
use std::fmt::Write;

use super::fault::Faults;
use super::read::{self, Unread};
use super::{Limits, Plan, PlanError, PlanErrors, PolicyFields, TaskSpec, check, references};
use crate::json::{self, Level};
use crate::near::hint;
use crate::{KindName, Payload};

/// The fields that are the child's own.
const OWN: [&str; 3] = ["tasks", "finally", "output"];
/// The fields of a child that a workflow makes.
const CALL: [&str; 2] = ["workflow", "input"];

/// What a child is to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ChildPlan {
    /// This.
    Plan(Box<Plan>),
    /// What a workflow makes of an input.
    Workflow {
        /// The workflow's name.
        name: Box<str>,
        /// The input.
        input: Payload,
    },
}

impl ChildPlan {
    /// Reads the input of a task of kind `job` whose references are filled in.
    pub fn read(input: &Payload, limits: &Limits) -> Result<Self, PlanErrors> {
        if let Some(call) = call(&members(input)?)? {
            return Ok(call);
        }
        Plan::from_json(input.as_str(), limits).map(|plan| Self::Plan(Box::new(plan)))
    }

    /// Reads it as it stands in a plan: what references are to give is not looked at. The places of
    /// faults are those in the input.
    pub fn check(input: &Payload, limits: &Limits) -> Result<Self, PlanErrors> {
        let members = members(input)?;
        if let Some(call) = call(&members)? {
            return Ok(call);
        }
        let mut faults = Faults::default();
        let (text, knows_input) = known(&members, &mut faults);
        let read = read::plan(&text, limits, &mut faults);
        if let Some((plan, unread)) = &read {
            let input = unread.input || !knows_input;
            let unread = Unread { ids: unread.ids.clone(), needs: unread.needs.clone(), input };
            check::plan(plan, &unread, limits, &mut faults);
        }
        faults.finish()?;
        let (plan, _) = read.expect("what could not be read left a fault");
        Ok(Self::Plan(Box::new(plan)))
    }
}

/// What a task of this kind must be besides. No attempt of it is ever made, so that what is said of
/// attempts would be of no use.
pub(super) fn alone(
    task: &TaskSpec,
    place: impl Fn() -> String,
    limits: &Limits,
    faults: &mut Faults,
) {
    if task.kind.as_str() != TaskSpec::JOB {
        return;
    }
    let default = PolicyFields::default();
    let policy = &task.policy;
    for (field, is_said) in [
        ("timeout", policy.timeout.is_some()),
        ("heartbeat_timeout", policy.heartbeat_timeout.is_some()),
        ("cancel_grace", policy.cancel_grace.is_some()),
        ("retry", policy.retry != default.retry),
        ("on_lost", policy.on_lost != default.on_lost),
    ] {
        if is_said {
            let detail = format!(
                "a task of kind `job` makes no attempts, so that `{field}` would be of no use: a \
                 child has a `deadline`, and its tasks say such things of themselves"
            );
            faults.add(place() + "/" + field, detail);
        }
    }
    if let Err(errors) = ChildPlan::check(&task.input, limits) {
        for PlanError { pointer, detail } in errors.0 {
            faults.add(format!("{}/input{pointer}", place()), detail);
        }
    }
}

impl TaskSpec {
    /// The kind of the tasks that have child jobs.
    pub const JOB: &'static str = "job";

    /// Its input as what is to be filled in: of a child's plan that is all but what the child is
    /// to do.
    pub fn template(&self) -> Cow<'_, Payload> {
        let of_child = self.kind.as_str() == Self::JOB;
        let Some(Ok(members)) = of_child.then(|| members(&self.input)) else {
            return Cow::Borrowed(&self.input);
        };
        if !members.iter().any(|(key, text)| is_closed(key, text)) {
            return Cow::Borrowed(&self.input);
        }
        let mut text = String::with_capacity(self.input.as_str().len() + 48);
        for (key, part) in &members {
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&quoted(key));
            // Writing to a string does not fail.
            let _ = if is_closed(key, part) {
                write!(text, ":{{\"$literal\":{part}}}")
            } else {
                write!(text, ":{part}")
            };
        }
        text.push('}');
        Cow::Owned(Payload::trusted(&text))
    }

    /// The tasks of the children that it says what they are to do, and of theirs, with their places
    /// in the task.
    pub fn of_children(&self) -> Vec<(String, Self)> {
        let mut found = Vec::new();
        if self.kind.as_str() == Self::JOB {
            for part in ["tasks", "finally"] {
                self.collect(part, &mut found);
            }
        }
        found
    }

    fn collect(&self, part: &str, found: &mut Vec<(String, Self)>) {
        let list = json::pointer(self.input.as_str(), &format!("/{part}"));
        let list = list.map(|list| json::pointer(list, "/$literal").unwrap_or(list));
        let Some(Ok(Level::Array(texts))) = list.map(json::level) else { return };
        for (index, text) in texts.into_iter().enumerate() {
            // Its kind, and that alone, has to be readable.
            let mut faults = Faults::default();
            let Some(kind) = json::pointer(text, "/kind").map(json::level) else { continue };
            let Ok(Level::Text(kind)) = kind else { continue };
            if KindName::new(&kind).is_err() {
                continue;
            }
            let spec = read::task(text, "", &mut faults).spec;
            let place = format!("/input/{part}/{index}");
            let below = spec.of_children().into_iter();
            let below: Vec<_> = below.map(|(at, spec)| (format!("{place}{at}"), spec)).collect();
            found.push((place, spec));
            found.extend(below);
        }
    }
}

/// Whether a field is the child's own, and not said to be already.
fn is_closed(key: &str, text: &str) -> bool {
    let said = || json::pointer(text, "/$literal").is_some();
    OWN.contains(&key) && !said()
}

fn members(input: &Payload) -> Result<Vec<(String, &str)>, PlanErrors> {
    let detail = "the input of a `job` is written out: the fields of a plan, or `workflow` and \
                  `input`";
    match json::level(input.as_str()) {
        Ok(Level::Object(members)) if !members.iter().any(|(key, _)| key.starts_with('$')) => {
            Ok(members)
        }
        _ => Err(fault("", detail)),
    }
}

/// A call of a workflow, where it is one.
fn call(members: &[(String, &str)]) -> Result<Option<ChildPlan>, PlanErrors> {
    let find = |name: &str| members.iter().find(|(key, _)| key == name).map(|(_, text)| *text);
    let Some(name) = find("workflow") else { return Ok(None) };
    if let Some((key, _)) = members.iter().find(|(key, _)| !CALL.contains(&key.as_str())) {
        let near = hint(key, CALL);
        let detail = format!("`{key}` does not belong beside `workflow`{near}");
        return Err(fault(&json::join("", key), &detail));
    }
    let Ok(Level::Text(name)) = json::level(name) else {
        return Err(fault("/workflow", "`workflow` must be the name of a workflow"));
    };
    let input = find("input").map_or(Payload::NULL, |text| Payload::trusted(text.trim()));
    Ok(Some(ChildPlan::Workflow { name: name.into(), input }))
}

/// The plan without what is to be filled in, and whether its input is among what is there.
fn known(members: &[(String, &str)], faults: &mut Faults) -> (String, bool) {
    let (mut text, mut knows_input) = (String::from("{"), true);
    for (key, part) in members {
        let own = OWN.contains(&key.as_str());
        let literal = json::pointer(part, "/$literal").filter(|_| own);
        let part = literal.unwrap_or(part);
        let open = !own && references(&Payload::trusted(part)).is_ok_and(|found| !found.is_empty());
        let is_list = || part.trim() == "null" || matches!(json::level(part), Ok(Level::Array(_)));
        if own && key != "output" && !is_list() {
            faults.add(json::join("", key), format!("`{key}` of a child must be a list"));
            continue;
        }
        let part = match (open, key.as_str()) {
            (true, "name") => "\"?\"",
            (true, "input") => {
                knows_input = false;
                continue;
            }
            (true, _) => continue,
            (false, _) => part,
        };
        if text.len() > 1 {
            text.push(',');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{}:{part}", quoted(key));
    }
    text.push('}');
    (text, knows_input)
}

fn quoted(key: &str) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

fn fault(pointer: &str, detail: &str) -> PlanErrors {
    PlanError { pointer: pointer.into(), detail: detail.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskId;

    fn task(input: &str) -> TaskSpec {
        let (id, kind) = (TaskId::new("a").unwrap(), KindName::new(TaskSpec::JOB).unwrap());
        let mut spec = TaskSpec::new(id, kind);
        spec.input = Payload::parse(input).unwrap();
        spec
    }

    #[test]
    fn what_the_child_is_to_do_is_its_own() {
        let spec = task(
            r#"{"name": "c", "input": {"v": {"$output": "b"}},
                "tasks": [{"id": "x", "kind": "noop", "input": {"$input": "/v"}}],
                "output": {"$output": "x"}}"#,
        );
        let found = references(&spec.template()).unwrap();
        let places: Vec<&str> = found.iter().map(|found| found.pointer.as_str()).collect();
        assert_eq!(places, ["/input/v"]);
        let value = |_: &_| Some(Payload::trusted("7"));
        let filled = super::super::resolve(&spec.template(), value).unwrap();
        let ChildPlan::Plan(plan) = ChildPlan::read(&filled, &Limits::default()).unwrap() else {
            panic!("it is no plan");
        };
        assert_eq!(plan.input.as_str(), r#"{"v":7}"#.replace(':', ": "));
        assert_eq!(plan.tasks[0].input.as_str(), r#"{"$input": "/v"}"#);
        assert!(ChildPlan::check(&spec.input, &Limits::default()).is_ok());
        // Of other kinds the whole is filled in.
        let other = TaskSpec { kind: KindName::new("noop").unwrap(), ..spec };
        assert_eq!(other.template().as_str(), other.input.as_str());
    }

    #[test]
    fn what_is_no_child_is_refused_with_its_place() {
        for (input, place, words) in [
            ("null", "", "written out"),
            (r#"{"$output": "b"}"#, "", "written out"),
            (r#"{"workflow": 5}"#, "/workflow", "the name of a workflow"),
            (r#"{"workflow": {"$input": "/w"}}"#, "/workflow", "the name of a workflow"),
            (r#"{"workflow": "w", "inptu": 1}"#, "/inptu", "did you mean `input`"),
            (r#"{"name": "c"}"#, "", "`tasks` is missing"),
            (r#"{"name": "c", "tasks": {"$output": "b"}}"#, "/tasks", "must be a list"),
            (r#"{"name": "c", "tasks": []}"#, "/tasks", "at least one task"),
            (
                r#"{"name": "c", "tasks": [{"id": "x", "kind": "noop", "needs": ["y"]}]}"#,
                "/tasks/0/needs/0",
                "no task has the id `y`",
            ),
            (
                r#"{"name": "c", "input": {}, "tasks":
                    [{"id": "x", "kind": "noop", "input": {"$input": "/v"}}]}"#,
                "/tasks/0/input",
                "nothing at",
            ),
        ] {
            let input = Payload::parse(input).unwrap();
            let errors = ChildPlan::check(&input, &Limits::default()).unwrap_err();
            let found = errors.0.iter().find(|error| error.detail.contains(words));
            let found = found.unwrap_or_else(|| panic!("{input:?}: {errors}"));
            assert_eq!(found.pointer, place, "{errors}");
        }
    }

    #[test]
    fn tasks_of_children_of_children_are_found() {
        let spec = task(
            r#"{"name": "c", "tasks": [{"id": "x", "kind": "job", "input":
                {"name": "d", "tasks": [], "finally": [{"id": "y", "kind": "shell"}]}}]}"#,
        );
        let found = spec.of_children();
        let found: Vec<_> = found.iter().map(|(at, task)| (&**at, task.kind.as_str())).collect();
        let below = "/input/tasks/0/input/finally/0";
        assert_eq!(found, [("/input/tasks/0", "job"), (below, "shell")]);
    }
}
