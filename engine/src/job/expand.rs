//! What a state demands of tasks that are done for each element of a list: that they become their
//! instances, and that they end when these are over.

use annals_tasks_sdk::plan::too_many;
use annals_tasks_sdk::{Exit, Payload};

use super::event::{Event, Failure, LogSize, SkippedBy, TaskNumber};
use super::fan::Fan;
use super::references::FILLED_MAX;
use super::state::{Job, Task, number};
use super::status::{JobStatus, TaskStatus};

/// Failed instances that the failure of their task names.
const NAMED: usize = 3;

impl Job {
    /// What becomes of the first task that could become its instances now; `limit` is how many it
    /// may have.
    pub(super) fn expands(&self, limit: usize) -> Option<Event> {
        let &(_, at) = self.expanding.first()?;
        let task = number(at);
        Some(match self.list_of(&self.tasks[at as usize], limit) {
            Ok(items) => Event::TaskExpanded { task, items },
            Err(error) => Event::TaskFailed { task, error },
        })
    }

    fn list_of(&self, task: &Task, limit: usize) -> Result<Payload, Failure> {
        let template = task.spec.for_each.as_ref().map_or(&Payload::NULL, |each| &each.items);
        let items = self.fill(template)?;
        let Some(elements) = items.elements() else {
            let message = format!(
                "`for_each` of task {} gives no list, but {}",
                task.spec.id,
                items.as_str().chars().take(80).collect::<String>()
            );
            return Err(Failure::new(Failure::BAD_LIST, message));
        };
        match too_many(elements.len(), limit) {
            None => Ok(items),
            Some(sentence) => {
                let message = format!("`for_each` of task {}: {sentence}", task.spec.id);
                Err(Failure::new(Failure::TOO_MANY_INSTANCES, message))
            }
        }
    }

    /// How the first task ends whose instances demand it.
    pub(super) fn ripens(&self) -> Option<Event> {
        if !matches!(self.status, JobStatus::Running | JobStatus::Paused) {
            return None;
        }
        self.ripe.iter().find_map(|&at| self.end_by_instances(at))
    }

    fn end_by_instances(&self, at: u32) -> Option<Event> {
        let (task, of) = (number(at), &self.tasks[at as usize]);
        let counts = of.items()?;
        let is_over = counts.over() == counts.total && of.unmet == 0;
        if is_over && counts.failed == 0 {
            let (output, exit, log) = (Payload::NULL, Exit::default(), LogSize::default());
            return Some(Event::TaskCompleted { task, attempt: 0, output, exit, log });
        }
        if let Some(output) = of.skip.as_deref().filter(|_| !of.is_engaged()) {
            let (by, output) = (SkippedBy::Request, output.clone());
            return Some(Event::TaskSkipped { task, by, output });
        }
        let fails = is_over || (counts.failed > 0 && self.ends_by_failure_of(of));
        fails.then(|| Event::TaskFailed { task, error: self.failure_of_instances(of) })
    }

    fn failure_of_instances(&self, task: &Task) -> Failure {
        let counts = task.items().unwrap_or_default();
        let failed = self.instances(task).filter(|(_, one)| one.status == TaskStatus::Failed);
        let one = |(_, one): (TaskNumber, &Task)| {
            let message = one.error.as_deref().map_or("", |error| &error.message);
            format!("{}: {message}", one.spec.id)
        };
        let named = failed.take(NAMED).map(one).collect::<Vec<_>>().join("; ");
        let more = (counts.failed as usize).saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let (failed, total) = (counts.failed, counts.total);
        let message = format!("{failed} of {total} instances failed: {named}{more}");
        Failure::new(Failure::INSTANCES_FAILED, message)
    }

    /// The checks of the end of a task that follows from its instances.
    pub(super) fn may_end_by_instances(
        &self,
        task: &Task,
        fan: &Fan,
        to: TaskStatus,
    ) -> Result<(), String> {
        let counts = fan.counts();
        let fits = match to {
            TaskStatus::Completed => fan.is_over() && counts.failed == 0,
            _ => counts.failed > 0 && (fan.is_over() || self.ends_by_failure_of(task)),
        };
        if !fits || !task.is_undecided() || task.unmet > 0 {
            return Err(format!("task {} does not end so by its instances", task.spec.id));
        }
        Ok(())
    }

    /// What a task gives: its own output, or the substitute that a skip brought; of one that has
    /// instances the list of what they gave, with `null` for those that gave nothing. `None` where
    /// it gives nothing, or that would be too much.
    pub fn output_of(&self, task: &Task) -> Option<Payload> {
        let ended = matches!(task.status, TaskStatus::Completed | TaskStatus::Failed);
        let Some(fan) = task.fan().filter(|_| ended) else { return task.output.clone() };
        if !task.settled || task.gives_too_much() {
            return None;
        }
        let mut list = String::with_capacity(fan.bytes() + 8 * fan.instances().len() + 2);
        list.push('[');
        for (&at, place) in fan.instances().iter().zip(0u32..) {
            if place > 0 {
                list.push(',');
            }
            list.push_str(self.tasks[at as usize].output.as_ref().map_or("null", Payload::as_str));
        }
        list.push(']');
        Some(Payload::trusted(&list))
    }
}

impl Task {
    /// The checks of `TaskExpanded`.
    pub(super) fn may_expand(&self, items: &Payload) -> Result<(), String> {
        if !self.is_to_expand() {
            return Err(format!("task {} has no instances to become", self.spec.id));
        }
        match items.elements() {
            Some(_) => Ok(()),
            None => Err("what it is to be done for is no list".into()),
        }
    }

    /// Whether what its instances gave is more than anything may take.
    pub(super) fn gives_too_much(&self) -> bool {
        self.fan().is_some_and(|fan| fan.bytes() > FILLED_MAX)
    }
}
