//! From what a workflow function said to a plan.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::input::{Node, Source, Template};
use super::when::When;
use super::{Payload, PayloadError};
use crate::plan::fault::Faults;
use crate::plan::{
    Compensation, ForEach, JobEnd, Plan, Policy, PolicyFields, TaskSpec, references,
};
use crate::{KindName, TaskId};

/// What was said so far.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) tasks: Vec<Said>,
    pub(super) deadline: Option<Duration>,
    pub(super) fail_fast: bool,
    pub(super) compensate_on: Option<Box<[JobEnd]>>,
    values: Vec<Result<Payload, PayloadError>>,
}

/// What was said about one task.
pub(super) struct Said {
    kind: &'static str,
    pub(super) id: Box<str>,
    pub(super) title: Option<Box<str>>,
    input: Template,
    pub(super) each: Option<Template>,
    pub(super) concurrency: Option<u32>,
    pub(super) after: Vec<Source>,
    pub(super) at_once: bool,
    pub(super) when: Option<When>,
    pub(super) part: Part,
    pub(super) undo: Option<UndoSaid>,
    pub(super) policy: PolicyFields,
}

/// What was said about how a task is undone.
pub(super) struct UndoSaid {
    pub(super) kind: &'static str,
    pub(super) title: Option<Box<str>>,
    pub(super) input: Template,
    pub(super) policy: PolicyFields,
}

/// Where in a plan a task stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Tasks,
    Finally,
}

impl Draft {
    pub(super) fn add(&mut self, kind: &'static str, input: Template, part: Part) -> usize {
        self.tasks.push(Said {
            kind,
            id: kind.into(),
            title: None,
            input,
            each: None,
            concurrency: None,
            after: Vec::new(),
            at_once: false,
            when: None,
            part,
            undo: None,
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
        plan.fail_fast = self.fail_fast;
        if let Some(ends) = &self.compensate_on {
            plan.compensate_on.clone_from(ends);
        }
        self.ids_differ(faults);
        for (index, said) in self.tasks.iter().enumerate() {
            let pointer = self.place(index);
            let mut fail = |field, detail| faults.add(format!("{pointer}/{field}"), detail);
            let id = TaskId::new(&said.id).map_err(|error| fail("id", error.to_string()));
            let kind = KindName::new(said.kind).map_err(|error| fail("kind", error.to_string()));
            let input = self.write(&said.input).map_err(|error| fail("input", error));
            let when = said.when.as_ref().map(|when| when.condition(|task| self.id(task)));
            let when = when.transpose().map_err(|error| fail("when", error));
            let for_each = self.for_each(said).map_err(|(field, error)| fail(field, error));
            let undo = said.undo.as_ref().map(|undo| self.compensation(undo)).transpose();
            let undo = undo.map_err(|detail| fail("compensate", detail));
            let (Ok(id), Ok(kind), Ok(input), Ok(when)) = (id, kind, input, when) else { continue };
            let (Ok(for_each), Ok(undo)) = (for_each, undo) else { continue };
            let (needs, when) = (self.needs(said), when.map(Box::new));
            let (title, policy) = (said.title.clone(), Policy::new(said.policy.clone()));
            let spec = TaskSpec::new(id, kind);
            let spec = TaskSpec { title, input, needs, when, for_each, policy, ..spec };
            let spec = TaskSpec { compensate: undo.map(Box::new), ..spec };
            match said.part {
                Part::Tasks => plan.tasks.push(spec),
                Part::Finally => plan.finally.push(spec),
            }
        }
        match self.write(&Template(Node::Wire(end))) {
            Ok(output) => plan.output = Some(output),
            Err(detail) => faults.add("/output", detail),
        }
        plan
    }

    fn compensation(&self, said: &UndoSaid) -> Result<Compensation, String> {
        let UndoSaid { kind, title, input, policy } = said;
        let kind = KindName::new(kind).map_err(|error| error.to_string())?;
        let (title, policy) = (title.clone(), Policy::new(policy.clone()));
        Ok(Compensation { title, input: self.write(input)?, policy, ..Compensation::new(kind) })
    }

    /// Where a task stands in the plan.
    fn place(&self, index: usize) -> String {
        let part = self.tasks[index].part;
        let before = self.tasks[..index].iter().filter(|said| said.part == part).count();
        match part {
            Part::Tasks => format!("/tasks/{before}"),
            Part::Finally => format!("/finally/{before}"),
        }
    }

    fn id(&self, index: usize) -> Option<TaskId> {
        TaskId::new(&self.tasks.get(index)?.id).ok()
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
            faults.add(self.place(index) + "/id", detail);
        }
    }

    /// The list for each element of which the task is done, where it is.
    fn for_each(&self, said: &Said) -> Result<Option<Box<ForEach>>, (&'static str, String)> {
        let Some(list) = &said.each else {
            return match said.concurrency {
                None => Ok(None),
                Some(_) => Err(("concurrency", "it is for what `Flow::each` adds".into())),
            };
        };
        let items = self.write(list).map_err(|error| ("for_each", error))?;
        Ok(Some(Box::new(ForEach { items, concurrency: said.concurrency })))
    }

    /// `None`, for the task before it, where it neither takes a wire of a task nor names one.
    fn needs(&self, said: &Said) -> Option<Box<[TaskId]>> {
        let mut sources = BTreeSet::new();
        collect_tasks(&said.input, &mut sources);
        said.each.iter().for_each(|list| collect_tasks(list, &mut sources));
        let looked_at = said.when.as_ref().and_then(When::source);
        for source in said.after.iter().copied().chain(looked_at) {
            if let Source::Task(task) | Source::Optional(task) = source {
                sources.insert(task);
            }
        }
        // What is done at the end waits for nothing of the work, which is over.
        if said.part == Part::Finally {
            let is_there = |task: &usize| self.tasks.get(*task).map(|said| said.part);
            sources.retain(|task| is_there(task) == Some(Part::Finally));
        }
        if sources.is_empty() && said.after.is_empty() && !said.at_once {
            return None;
        }
        // An id that is none is a fault of its own.
        Some(sources.into_iter().filter_map(|task| self.id(task)).collect())
    }

    fn write(&self, template: &Template) -> Result<Payload, String> {
        let mut text = String::new();
        self.write_into(template, &mut text)?;
        Ok(Payload::trusted(&text))
    }

    fn write_into(&self, template: &Template, text: &mut String) -> Result<(), String> {
        match &template.0 {
            Node::Wire(Source::Job) => text.push_str(r#"{"$input":""}"#),
            Node::Wire(Source::Item) => text.push_str(r#"{"$item":""}"#),
            Node::Wire(Source::Task(task)) => {
                let task = self.tasks.get(*task).ok_or("this wire is of another flow")?;
                text.extend([r#"{"$output":""#, &task.id, r#""}"#]);
            }
            Node::Wire(Source::Optional(task)) => {
                let task = self.tasks.get(*task).ok_or("this wire is of another flow")?;
                text.extend([r#"{"$output":""#, &task.id, r#"","default":null}"#]);
            }
            Node::Wire(Source::Value(value)) => {
                let value = self.values.get(*value).ok_or("this wire is of another flow")?;
                write_value(value, text)?;
            }
            Node::Value(value) => write_value(value, text)?,
            Node::Call(workflow, input) => {
                let name = Payload::of(workflow).map_err(|error| error.to_string())?;
                text.extend([r#"{"workflow":"#, name.as_str(), r#","input":"#]);
                self.write_into(input, text)?;
                text.push('}');
            }
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
        Node::Wire(Source::Task(task) | Source::Optional(task)) => {
            tasks.insert(*task);
        }
        Node::Wire(Source::Job | Source::Value(_) | Source::Item) | Node::Value(_) => {}
        Node::Tuple(parts) => parts.iter().for_each(|part| collect_tasks(part, tasks)),
        Node::Call(_, input) => collect_tasks(input, tasks),
    }
}
