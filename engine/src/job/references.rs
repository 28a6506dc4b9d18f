//! Data flow: what a task is given, what the job gives, and who takes whose output.

use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::{Found, Reference, Unresolved, references, resolve_within};

use super::event::{Failure, TaskNumber};
use super::state::{Job, Task};
use super::status::TaskStatus;

/// A template that takes large outputs many times over grows no further than this.
const FILLED_MAX: usize = 16 << 20;

/// A place where the output of a task is taken, without a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependant {
    /// The id of the task that takes it; `None` is the plan's `output`.
    pub task: Option<String>,
    /// JSON Pointer of the reference in that task's input, or in the plan's output.
    pub reference: String,
}

impl Job {
    /// The input of a task, with the values that its references name.
    pub fn input_of(&self, task: &Task) -> Result<Payload, Failure> {
        self.fill(&task.spec.input)
    }

    /// What the job gives: the plan's `output`, or the output of the last task that has not been
    /// removed.
    pub fn output(&self) -> Result<Option<Payload>, Failure> {
        if let Some(template) = &self.header.output {
            return self.fill(template).map(Some);
        }
        let last = self.order.iter().rev().map(|&at| &self.tasks[at as usize]);
        let mut last = last.filter(|task| task.status != TaskStatus::Removed);
        Ok(last.next().and_then(|task| task.output.clone()))
    }

    fn fill(&self, template: &Payload) -> Result<Payload, Failure> {
        let filled = resolve_within(template, FILLED_MAX, |reference| self.value_of(reference));
        filled.map_err(|unresolved| {
            let Found { pointer, reference } = match unresolved {
                Unresolved::Missing(missing) => *missing,
                too_large => return Failure::new("input_too_large", too_large.to_string()),
            };
            let what = match reference {
                Reference::Output { task, pointer, .. } => {
                    format!("task {task:?} has no output at {pointer:?}")
                }
                Reference::Input { pointer, .. } => {
                    format!("the job's input has nothing at {pointer:?}")
                }
                _ => "the reference is of a sort that this version does not know".to_owned(),
            };
            Failure::new("missing_output", format!("{what}, which {pointer:?} takes"))
        })
    }

    fn value_of(&self, reference: &Reference) -> Option<Payload> {
        match reference {
            Reference::Output { task, .. } => self.task(self.find(task.as_str())?)?.output.clone(),
            Reference::Input { .. } => Some(self.header.input.clone()),
            _ => None,
        }
    }

    /// Who takes the output of `task` and has no default: unsettled tasks, and the plan's output.
    pub(super) fn takers(&self, task: TaskNumber) -> Vec<(Option<u32>, Dependant)> {
        let Some(gone) = self.task(task) else { return Vec::new() };
        let id = gone.spec.id.as_str();
        let takes = |template: &Payload| -> Vec<String> {
            let found = references(template).unwrap_or_default();
            let strict = found.into_iter().filter(|found| {
                matches!(&found.reference, Reference::Output { task, default: None, .. }
                    if task.as_str() == id)
            });
            strict.map(|found| found.pointer).collect()
        };
        let mut takers = Vec::new();
        for (at, other) in (0..).zip(&self.tasks) {
            if other.settled || other.is_passed_over() {
                continue;
            }
            for reference in takes(&other.spec.input) {
                let task = Some(other.spec.id.to_string());
                takers.push((Some(at), Dependant { task, reference }));
            }
        }
        for reference in self.header.output.as_ref().map(takes).unwrap_or_default() {
            takers.push((None, Dependant { task: None, reference }));
        }
        takers
    }
}
