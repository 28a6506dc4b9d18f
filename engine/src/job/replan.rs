//! Edits of the plan, taken in: what they make of the tasks around.

use annals_tasks_sdk::plan::TaskSpec;

use super::draft::{Draft, Needs};
use super::event::{Event, Part, TaskNumber};
use super::kinds;
use super::size;
use super::state::{Job, Task, count, index};
use super::status::TaskStatus;
use super::steps::Steps;
use super::waiting::Waiting;

impl Job {
    /// Takes in what the plan says of a task from now on, and what a task becomes.
    pub(super) fn take_in_of_plan(&mut self, event: &Event) {
        match event {
            Event::TaskInserted { spec, part, after, needed_by, .. } => {
                self.task_inserted(spec, *part, *after, needed_by);
            }
            Event::TaskMoved { task, after } => self.task_moved(*task, *after),
            Event::TaskEdited { task, spec, reset } => self.task_edited(*task, spec, *reset),
            Event::TaskExpanded { task, items } => self.expand(*task, items),
            _ => self.take_in_of_child(event),
        }
    }

    fn task_inserted(
        &mut self,
        spec: &TaskSpec,
        part: Part,
        after: Option<TaskNumber>,
        needed_by: &[TaskNumber],
    ) {
        let Some((order, needs)) = thought(Draft::inserted(self, spec, part, after, needed_by))
        else {
            return;
        };
        let new = count(self.tasks.len());
        let id_of = |&at: &u32| self.tasks[at as usize].spec.id.as_str();
        let name = self.names.partition_point(|at| id_of(at) < spec.id.as_str());
        self.names.insert(name, new);
        self.tasks.push(Task::new(spec.clone(), part));
        self.unsettled += u32::from(part == Part::Tasks);
        self.rearrange(order, &needs);
        self.bytes += size::of_task(&self.tasks[new as usize]);
    }

    fn task_moved(&mut self, task: TaskNumber, after: Option<TaskNumber>) {
        if let Some((order, needs)) = thought(Draft::moved(self, task, after)) {
            self.rearrange(order, &needs);
        }
    }

    fn task_edited(&mut self, task: TaskNumber, spec: &TaskSpec, reset: bool) {
        let Some(at) = index(task) else { return };
        let Some((order, needs)) = thought(Draft::edited(self, task, spec)) else { return };
        let task = &mut self.tasks[at as usize];
        let old = std::mem::replace(&mut task.spec, spec.clone());
        if reset {
            task.checkpoint = None;
            task.steps = Steps::default();
        }
        if old.kind != spec.kind || old.input != spec.input {
            task.outdate_child();
        }
        self.bytes += size::of_task(&self.tasks[at as usize]);
        self.edit_instances(at, &old, reset);
        self.rearrange(order, &needs);
        if self.tasks[at as usize].begins_anew_with(&old, spec) {
            self.set_status(at, TaskStatus::Pending, None);
        }
        let task = &self.tasks[at as usize];
        let is_tolerated = task.is_tolerated() && task.part != Part::Undo;
        if task.status == TaskStatus::Failed && is_tolerated && !task.settled {
            self.failed.retain(|&other| other != at);
            self.counts.tolerated += 1;
            self.settle(at);
        }
    }

    /// Puts the tasks into another order, with other needs.
    fn rearrange(&mut self, order: Vec<u32>, needs: &Needs) {
        self.order = order;
        self.set_ranks();
        self.rank_instances();
        for &at in &needs.relinked {
            self.set_needs(at, needs.of(at).to_vec());
        }
        for &at in &needs.named {
            let ids = needs.of(at).iter().map(|&need| self.tasks[need as usize].spec.id.clone());
            let ids = ids.collect();
            self.tasks[at as usize].spec.needs = Some(ids);
        }
        self.sort_in_anew();
        for &at in &needs.relinked {
            let task = &self.tasks[at as usize];
            if task.status == TaskStatus::Waiting && task.unmet > 0 {
                // It waits for others first; then it begins.
                self.set_status(at, TaskStatus::Pending, None);
            }
            self.settle_or_refresh(at);
        }
    }

    fn set_ranks(&mut self) {
        for (&at, rank) in self.order.iter().zip(0..) {
            self.tasks[at as usize].rank = rank;
        }
    }

    /// Takes in that tasks stand elsewhere in the order of the plan, and that there are more.
    pub(super) fn rank_anew(&mut self) {
        self.set_ranks();
        self.rank_instances();
        self.sort_in_anew();
    }

    /// Makes the sets by kind and the ready set anew: kinds and ranks have changed.
    fn sort_in_anew(&mut self) {
        self.by_kind = kinds::assort(&mut self.tasks);
        for &at in &self.kindless {
            let kind = self.tasks[at as usize].kind;
            self.by_kind[kind as usize].kindless.insert(at);
        }
        self.ready.clear();
        self.declined.clear();
        self.expanding.clear();
        for place in 0..self.order.len() {
            self.refresh(self.order[place]);
        }
        for at in 0..count(self.tasks.len()) {
            if self.tasks[at as usize].is_instance() {
                self.refresh(at);
            }
        }
    }
}

impl Task {
    /// Whether what it waits for is no more what it is to wait for.
    pub(super) fn begins_anew_with(&self, old: &TaskSpec, spec: &TaskSpec) -> bool {
        match self.waiting {
            Some(_) if self.is_to_expand() => true,
            Some(Waiting::Kind) => old.kind != spec.kind,
            Some(Waiting::Timer { .. } | Waiting::Signal { .. }) => {
                old.kind != spec.kind || old.input != spec.input
            }
            // The time of a back-off stands.
            Some(Waiting::Retry { .. } | Waiting::Job) | None => false,
        }
    }
}

/// What was checked before it was taken in fits.
fn thought(draft: Result<Draft<'_>, super::draft::Misfit>) -> Option<(Vec<u32>, Needs)> {
    let draft = draft.ok()?;
    let needs = draft.needs().ok()?;
    Some((draft.order.into_owned(), needs))
}
