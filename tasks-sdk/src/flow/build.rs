//! From what a workflow function said to a plan.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::input::{Node, Source, Template};
use super::{Payload, PayloadError};
use crate::plan::fault::Faults;
use crate::plan::{Plan, Policy, PolicyFields, TaskSpec, references};
use crate::{KindName, TaskId};

/// What was said so far.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) tasks: Vec<Said>,
    pub(super) deadline: Option<Duration>,
    values: Vec<Result<Payload, PayloadError>>,
}

/// What was said about one task.
pub(super) struct Said {
    kind: &'static str,
    pub(super) id: Box<str>,
    pub(super) title: Option<Box<str>>,
    input: Template,
    pub(super) after: Vec<Source>,
    pub(super) at_once: bool,
    pub(super) policy: PolicyFields,
}

impl Draft {
    pub(super) fn add(&mut self, kind: &'static str, input: Template) -> usize {
        self.tasks.push(Said {
            kind,
            id: kind.into(),
            title: None,
            input,
            after: Vec::new(),
            at_once: false,
            policy: PolicyFields::default(),
        });
        self.tasks.len() - 1
    }

    pub(super) fn add_value(&mut self, value: Result<Payload, PayloadError>) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// The plan, as long as nothing was found to be wrong.
    pub(super) fn plan(
        &self,
        name: &str,
        input: Payload,
        end: Source,
        faults: &mut Faults,
    ) -> Plan {
        let mut plan = Plan::new(name);
        plan.input = input;
        plan.deadline = self.deadline;
        self.ids_differ(faults);
        for (index, said) in self.tasks.iter().enumerate() {
            let pointer = format!("/tasks/{index}");
            let mut fail = |field, detail| faults.add(format!("{pointer}/{field}"), detail);
            let id = TaskId::new(&said.id).map_err(|error| fail("id", error.to_string()));
            let kind = KindName::new(said.kind).map_err(|error| fail("kind", error.to_string()));
            let input = self.write(&said.input).map_err(|error| fail("input", error));
            let (Ok(id), Ok(kind), Ok(input)) = (id, kind, input) else { continue };
            let needs = self.needs(said);
            let (title, policy) = (said.title.clone(), Policy::new(said.policy.clone()));
            plan.tasks.push(TaskSpec { id, title, kind, input, needs, policy });
        }
        match self.write(&Template(Node::Wire(end))) {
            Ok(output) => plan.output = Some(output),
            Err(detail) => faults.add("/output", detail),
        }
        plan
    }

    /// The second use of an id names both tasks and the way out.
    fn ids_differ(&self, faults: &mut Faults) {
        let mut first_use = HashMap::new();
        for (index, said) in self.tasks.iter().enumerate() {
            let first = *first_use.entry(&*said.id).or_insert(index);
            if first == index {
                continue;
            }
            let (kind, first_kind) = (said.kind, self.tasks[first].kind);
            let detail = format!(
                "task {} (kind `{first_kind}`) and task {} (kind `{kind}`) both have the id `{}`; \
                 give one of them another with .id(\"…\")",
                first + 1,
                index + 1,
                said.id
            );
            faults.add(format!("/tasks/{index}/id"), detail);
        }
    }

    /// `None`, for the task before it, where it neither takes a wire of a task nor names one.
    fn needs(&self, said: &Said) -> Option<Box<[TaskId]>> {
        let mut sources = BTreeSet::new();
        collect_tasks(&said.input, &mut sources);
        for source in &said.after {
            if let Source::Task(task) = source {
                sources.insert(*task);
            }
        }
        if sources.is_empty() && said.after.is_empty() && !said.at_once {
            return None;
        }
        // An id that is none is a fault of its own.
        let ids =
            sources.into_iter().filter_map(|task| TaskId::new(&self.tasks.get(task)?.id).ok());
        Some(ids.collect())
    }

    fn write(&self, template: &Template) -> Result<Payload, String> {
        let mut text = String::new();
        self.write_into(template, &mut text)?;
        Ok(Payload::trusted(&text))
    }

    fn write_into(&self, template: &Template, text: &mut String) -> Result<(), String> {
        match &template.0 {
            Node::Wire(Source::Job) => text.push_str(r#"{"$input":""}"#),
            Node::Wire(Source::Task(task)) => {
                let task = self.tasks.get(*task).ok_or("this wire is of another flow")?;
                text.extend([r#"{"$output":""#, &task.id, r#""}"#]);
            }
            Node::Wire(Source::Value(value)) => {
                let value = self.values.get(*value).ok_or("this wire is of another flow")?;
                write_value(value, text)?;
            }
            Node::Value(value) => write_value(value, text)?,
            Node::Tuple(parts) => {
                text.push('[');
                for (index, part) in parts.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    self.write_into(part, text)?;
                }
                text.push(']');
            }
        }
        Ok(())
    }
}

/// A value in which an object looks like a reference is wrapped, so that it stays what it is.
fn write_value(value: &Result<Payload, PayloadError>, text: &mut String) -> Result<(), String> {
    let value = value.as_ref().map_err(|error| format!("a value has no JSON form: {error}"))?;
    // What Rust serialises may still be no payload: the same key twice, or too deep.
    let value = Payload::parse(value.as_str()).map_err(|error| error.to_string())?;
    if references(&value).is_ok_and(|found| found.is_empty()) {
        text.push_str(value.as_str());
    } else {
        text.extend([r#"{"$literal":"#, value.as_str(), "}"]);
    }
    Ok(())
}

fn collect_tasks(template: &Template, tasks: &mut BTreeSet<usize>) {
    match &template.0 {
        Node::Wire(Source::Task(task)) => {
            tasks.insert(*task);
        }
        Node::Wire(Source::Job | Source::Value(_)) | Node::Value(_) => {}
        Node::Tuple(parts) => parts.iter().for_each(|part| collect_tasks(part, tasks)),
    }
}
