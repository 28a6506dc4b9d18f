//! From a body to a plan: one that it holds, or one that a registered workflow makes.

use annals_engine::job::Origin;
use annals_engine::{Engine, Submission};
use annals_tasks_sdk::plan::{Plan, TaskSpec};
use annals_tasks_sdk::{Payload, TaskId};

use super::body::aside;
use super::fields::Fields;
use super::problem::{Code, FieldError, Problem};
use super::state::Settings;
use crate::json;

/// The kind that runs whatever a client sends.
pub(super) const SHELL: &str = "shell";
/// What a submission by the name of a workflow may have.
const CALL: &[&str] = &["workflow", "input", "name", "labels", "start", "exclusive", "deadline"];
/// Fields of it that take the place of those of the plan.
const IN_PLACE: [&str; 5] = ["name", "labels", "start", "exclusive", "deadline"];

/// A plan that is to be submitted.
#[derive(Debug)]
pub(super) struct Order {
    plan: Plan,
    workflow: Option<Box<str>>,
}

impl Order {
    /// Reads a body: a plan, or `{workflow, input}`. A plan may have `shell` tasks only where the
    /// settings allow them; what a registered workflow makes is the program's own.
    pub(super) async fn read(
        engine: &Engine,
        settings: &Settings,
        body: Payload,
    ) -> Result<Self, Problem> {
        let (engine, allow_shell) = (engine.clone(), settings.allow_shell);
        aside(body.as_str().len(), move || {
            if body.pointer("/workflow").is_some() {
                return Self::of_workflow(&engine, &body);
            }
            let plan = Plan::from_json(body.as_str(), engine.limits())?;
            if !allow_shell {
                refuse_shell(&plan)?;
            }
            Ok(Self { plan, workflow: None })
        })
        .await
    }

    fn of_workflow(engine: &Engine, body: &Payload) -> Result<Self, Problem> {
        let mut fields = Fields::read(body, "a submission of a workflow", CALL)?;
        let name = fields.text("workflow");
        let input = fields.payload("input").unwrap_or_default();
        if name.is_none() {
            fields.fault("workflow", "`workflow` must not be null");
        }
        let in_place = IN_PLACE.map(|field| (field, fields.raw(field)));
        fields.finish()?;
        let name = name.unwrap_or_default();
        let plan = put(engine.plan_of(&name, &input)?, in_place, engine)?;
        Ok(Self { plan, workflow: Some(name.into()) })
    }

    /// The submission of it, without a key.
    pub(super) fn by(self, origin: Origin) -> Submission {
        let Self { plan, workflow } = self;
        Submission { workflow, ..Submission::new(plan, origin) }
    }
}

/// The plan with what a client says in place of some of its fields. Faults of these have the same
/// places in the plan as in the body.
fn put(plan: Plan, in_place: [(&str, Option<&str>); 5], engine: &Engine) -> Result<Plan, Problem> {
    let given = in_place.into_iter().filter_map(|(field, text)| Some((field, text?)));
    let given: Vec<_> = given.filter(|(_, text)| *text != "null").collect();
    if given.is_empty() {
        return Ok(plan);
    }
    let mut text = plan.to_json().as_str().to_owned();
    for (field, value) in given {
        // A plan is an object, in which any field can be set.
        text = json::set(&text, &format!("/{field}"), value).unwrap_or(text);
    }
    Ok(Plan::from_json(&text, engine.limits())?)
}

fn refuse_shell(plan: &Plan) -> Result<(), Problem> {
    let tasks = plan.all_tasks().zip(0..);
    let places = tasks.flat_map(|(task, index)| {
        let place = plan.place_of(index);
        shell_in(task).into_iter().map(move |(at, id)| (format!("{place}{at}"), id))
    });
    let errors = places
        .take(100)
        .map(|(pointer, id)| FieldError { pointer, detail: format!("task {id} is of kind shell") });
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(refused(errors))
}

/// Where a task, what undoes it, or one of the children that it says what they are to do, is of the
/// kind that runs whatever a client sends.
pub(super) fn shell_in(task: &TaskSpec) -> Vec<(String, TaskId)> {
    let of_children = task.of_children().into_iter();
    let all = std::iter::once((String::new(), task.clone())).chain(of_children);
    let all = all.flat_map(|(place, task)| {
        let undo = task.undo().map(|undo| (format!("{place}/compensate"), undo));
        std::iter::once((place, task)).chain(undo)
    });
    let shell = all.filter(|(_, task)| task.kind.as_str() == SHELL);
    shell.map(|(place, task)| (place + "/kind", task.id)).collect()
}

/// A task of a kind that runs whatever a client sends, at this place.
pub(super) fn shell_not_allowed(pointer: &str, task: &TaskId) -> Problem {
    let detail = format!("task {task} is of kind shell");
    refused(vec![FieldError { pointer: pointer.into(), detail }])
}

/// Where the kind of what undoes a task stands in it.
pub(super) const UNDO_KIND: &str = "/compensate/kind";

/// As [`shell_not_allowed`], with the places that a problem has.
pub(super) fn scripts_are_closed(problem: Problem) -> Problem {
    refused(problem.into_errors())
}

fn refused(errors: Vec<FieldError>) -> Problem {
    let detail = "this server does not run shell scripts that come over HTTP; who runs it can \
        allow them with --allow-shell, or offer a workflow that has them";
    Problem::new(Code::SHELL_NOT_ALLOWED, detail).with_errors(errors)
}
