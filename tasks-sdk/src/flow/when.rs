//! Conditions of tasks, said in terms of wires.

use serde::Serialize;

use super::input::Source;
use super::{Edge, Payload, PayloadError, Step};
use crate::TaskId;
use crate::plan::{Condition, JobEnd, Reference, TaskEnd, Test};

/// What was said about whether a task runs.
pub(super) enum When {
    /// A value passes a test.
    Value(Source, Result<Test, PayloadError>),
    /// A task has ended so.
    Task(Source, Box<[TaskEnd]>),
    /// The job ends so.
    Job(Box<[JobEnd]>),
}

impl When {
    /// Where it looks, where that is at a wire.
    pub(super) fn source(&self) -> Option<Source> {
        match self {
            Self::Value(source, _) | Self::Task(source, _) => Some(*source),
            Self::Job(_) => None,
        }
    }

    /// The condition, with `id` to say how the task at a position is called.
    pub(super) fn condition(
        &self,
        id: impl Fn(usize) -> Option<TaskId>,
    ) -> Result<Condition, String> {
        const OTHER: &str = "this wire is of another flow";
        Ok(match self {
            Self::Value(source, test) => {
                let pointer = "".into();
                let test = test.clone().map_err(|error| format!("a value: {error}"))?;
                let reference = match source {
                    Source::Job => Reference::Input { pointer, default: None },
                    Source::Task(task) | Source::Optional(task) => {
                        let task = id(*task).ok_or(OTHER)?;
                        Reference::Output { task, pointer, default: None }
                    }
                    Source::Item => {
                        return Err("a condition is looked at once, before there are items".into());
                    }
                    Source::Value(_) => return Err("a value is known before the job runs".into()),
                };
                Condition::Value { reference, test }
            }
            Self::Task(Source::Task(task) | Source::Optional(task), ends) => {
                Condition::Task { task: id(*task).ok_or(OTHER)?, ends: ends.clone() }
            }
            Self::Task(..) => return Err("a condition on an end looks at a task".into()),
            Self::Job(ends) => Condition::Job { ends: ends.clone() },
        })
    }
}

/// Whether the task runs when its turn has come; a task without a condition does. A task that
/// does not is skipped, and what needs it goes on: what takes its output takes
/// [`Step::optional`]. What is said last counts.
impl<T> Step<'_, T> {
    /// Runs only if that gives `true`; with `false` it is skipped. It needs the task that it looks
    /// at.
    ///
    /// ```
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const CHECK: TaskKind<String, bool> = TaskKind::new("check");
    /// const REPAIR: TaskKind<String, u64> = TaskKind::new("repair");
    /// const REPORT: TaskKind<Option<u64>, String> = TaskKind::new("report");
    /// const CARE: Workflow<String, String> = Workflow::new("care");
    ///
    /// fn care(flow: &Flow, host: Wire<String>) -> Wire<String> {
    ///     let is_broken = flow.task(CHECK, host);
    ///     let repaired = flow.task(REPAIR, host).when(is_broken);
    ///     flow.task(REPORT, repaired.optional()).wire()
    /// }
    ///
    /// let plan = flow::build_plan(CARE, care, Payload::of(&"web-42")?)?;
    /// assert!(plan.to_json().as_str().contains(r#""when":{"$output":"check"}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn when(self, edge: impl Edge<bool>) -> Self {
        self.condition(When::Value(edge.wire().source, Ok(Test::IsTrue)))
    }

    /// Runs only if that gives this value.
    pub fn when_equals<V: Serialize>(self, edge: impl Edge<V>, value: V) -> Self {
        let test = Payload::of(&value).map(Test::Equals);
        self.condition(When::Value(edge.wire().source, test))
    }

    /// Runs only if that gives one of these values.
    pub fn when_in<V: Serialize>(
        self,
        edge: impl Edge<V>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(|value| Payload::of(&value));
        let values: Result<Box<[Payload]>, _> = values.collect();
        self.condition(When::Value(edge.wire().source, values.map(Test::In)))
    }

    /// Runs only if that task has ended in one of these ways: for failures, with
    /// [`OnFailure::Continue`](crate::plan::OnFailure::Continue) of that task.
    pub fn when_ended<U>(self, edge: impl Edge<U>, ends: &[TaskEnd]) -> Self {
        self.condition(When::Task(edge.wire().source, ends.into()))
    }

    /// Runs only if the job is about to end in one of these ways; for tasks of
    /// [`Flow::finally`](super::Flow::finally).
    pub fn when_job_ends(self, ends: &[JobEnd]) -> Self {
        self.condition(When::Job(ends.into()))
    }

    fn condition(self, when: When) -> Self {
        self.flow.0.borrow_mut().tasks[self.index].when = Some(when);
        self
    }
}
