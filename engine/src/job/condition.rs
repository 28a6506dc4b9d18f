//! Conditions: what the state says to a task whose turn has come.

use annals_tasks_sdk::plan::{Condition, Decision, TaskEnd};

use super::event::{Event, Failure, SkippedBy};
use super::state::{Job, Task, number};
use super::status::TaskStatus;

impl Job {
    /// Whether a task that is ready runs. What it looks at is settled by then, so that this stays
    /// as it is.
    pub(super) fn decision(&self, task: &Task) -> Decision {
        let Some(condition) = task.spec.when.as_deref() else { return Decision::Run };
        let passes = match condition {
            Condition::Value { reference, test } => {
                let whole = self.value_of(reference);
                let part = whole.and_then(|whole| whole.pointer(reference.pointer()));
                return test.decide(part.as_ref().or(reference.default()));
            }
            Condition::Task { task, ends } => {
                let looked_at = self.find(task.as_str()).and_then(|number| self.task(number));
                looked_at.is_some_and(|task| ends.contains(&end_of(task.status)))
            }
            Condition::Job { ends } => self.ending.is_some_and(|end| ends.contains(&end)),
            _ => return Decision::Bad,
        };
        if passes { Decision::Run } else { Decision::Skip }
    }

    /// What becomes of the first task that could start, but for its condition.
    pub(super) fn declines(&self) -> Option<Event> {
        let &(_, at) = self.declined.first()?;
        let task = number(at);
        let spec = &self.tasks[at as usize].spec;
        if self.decision(&self.tasks[at as usize]) == Decision::Skip {
            return Some(Event::TaskSkipped { task, by: SkippedBy::Condition, output: None });
        }
        let message = format!(
            "the condition of task {} is neither true nor false; other values are tested with \
             `equals` or `in`",
            spec.id
        );
        let error = Failure::new(Failure::BAD_CONDITION, message);
        Some(Event::TaskFailed { task, error })
    }
}

fn end_of(status: TaskStatus) -> TaskEnd {
    match status {
        TaskStatus::Completed => TaskEnd::Completed,
        TaskStatus::Failed => TaskEnd::Failed,
        TaskStatus::Skipped => TaskEnd::Skipped,
        TaskStatus::Removed => TaskEnd::Removed,
        TaskStatus::Interrupted => TaskEnd::Interrupted,
        // Nothing runs or waits when anything is looked at.
        TaskStatus::Pending | TaskStatus::Running | TaskStatus::Waiting => TaskEnd::Pending,
    }
}
