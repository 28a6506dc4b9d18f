//! Which task needs which, and what settles what.

use std::collections::HashMap;

use annals_tasks_sdk::plan::{Decision, Plan, TaskSpec};

use super::event::Part;
use super::sorted::Sorted;
use super::state::{Job, Task, count};
use super::status::{JobStatus, TaskStatus};
use super::steps::Steps;

/// Resolves the needs of all tasks of a plan: `None` is the task before it.
///
/// Names the first need that is no task of the plan; a checked plan has none.
pub(super) fn resolve(plan: &Plan) -> Result<Vec<Vec<u32>>, String> {
    // In most plans each task needs the one before it, and none is named.
    let says = |spec: &TaskSpec| spec.needs.as_ref().is_some_and(|needs| !needs.is_empty());
    let by_id: HashMap<&str, u32> = if plan.all_tasks().any(says) {
        plan.all_tasks().zip(0..).map(|(spec, index)| (spec.id.as_str(), index)).collect()
    } else {
        HashMap::new()
    };
    let finally = count(plan.tasks.len());
    let mut all = Vec::with_capacity(plan.tasks.len() + plan.finally.len());
    for (spec, index) in plan.all_tasks().zip(0u32..) {
        let mut needs = Vec::new();
        match &spec.needs {
            None => needs.extend(index.checked_sub(1).filter(|_| index != finally)),
            Some(named) => {
                for need in named {
                    needs.push(*by_id.get(need.as_str()).ok_or_else(|| need.to_string())?);
                }
                needs.sort_unstable();
                needs.dedup();
            }
        }
        all.push(needs);
    }
    Ok(all)
}

impl Job {
    /// Settles a task, and with it every skipped or removed one that thereby has all it needs.
    pub(super) fn settle(&mut self, index: u32) {
        let mut work = Vec::new();
        let mut next = Some(index);
        while let Some(index) = next.take().or_else(|| work.pop()) {
            let task = &mut self.tasks[index as usize];
            if std::mem::replace(&mut task.settled, true) {
                continue;
            }
            self.unsettled -= u32::from(task.part == Part::Tasks && !task.is_instance());
            // It never runs again, or begins anew at the next end. What could not be undone is
            // tried again where it was.
            if !(task.part == Part::Undo && task.status == TaskStatus::Failed) {
                task.steps = Steps::default();
            }
            let dependants = std::mem::take(&mut task.dependants);
            self.settle_instances(index);
            for &dependant in &dependants {
                let next = &mut self.tasks[dependant as usize];
                next.unmet -= 1;
                if next.unmet == 0 {
                    if next.is_passed_over() {
                        work.push(dependant);
                    } else {
                        self.refresh(dependant);
                    }
                }
            }
            self.tasks[index as usize].dependants = dependants;
        }
    }

    /// Brings the ready set in line with a task's state.
    pub(super) fn refresh(&mut self, index: u32) {
        let task = &self.tasks[index as usize];
        if task.fan().is_some() {
            return self.regate(index);
        }
        let entry = (task.rank, index);
        let (mut is_ready, expands) = (task.is_ready(), task.is_to_expand());
        if task.spec.when.is_some() {
            let is_declined = is_ready && self.decision(task) != Decision::Run;
            show(&mut self.declined, entry, is_declined);
            is_ready &= !is_declined;
        }
        if expands {
            return show(&mut self.expanding, entry, is_ready);
        }
        self.show_ready(entry, is_ready);
    }

    fn show_ready(&mut self, entry: (u32, u32), is_ready: bool) {
        let kind = self.tasks[entry.1 as usize].kind;
        show(&mut self.ready, entry, is_ready);
        show(&mut self.by_kind[kind as usize].ready, entry, is_ready);
    }

    /// Has the conditions of tasks that are ready looked at again: some look at what was passed
    /// over when they came into the plan, and do not need it. It may be removed after that, and in
    /// a fork it is not passed over before them.
    pub(super) fn look_anew(&mut self) {
        let ready = self.ready.iter().chain(self.declined.iter()).chain(self.expanding.iter());
        let ready = ready.map(|&(_, at)| at);
        let conditional = ready.filter(|&at| self.tasks[at as usize].spec.when.is_some());
        for at in conditional.collect::<Vec<u32>>() {
            self.refresh(at);
        }
    }

    /// From now on it is this part's turn.
    pub(super) fn turn_to(&mut self, part: Part) {
        let before = std::mem::replace(&mut self.turn, part);
        if before == part {
            return;
        }
        for at in 0..count(self.tasks.len()) {
            let task = &mut self.tasks[at as usize];
            // Instances follow the task that they are of.
            if task.settled || task.is_instance() {
                continue;
            }
            if task.part == part {
                task.unmet -= 1;
                self.settle_or_refresh(at);
            } else if task.part == before {
                task.unmet += 1;
                self.refresh(at);
            }
        }
    }

    /// One for a part whose turn it is not: an unmet need beside those that a task names.
    fn is_closed(&self, part: Part) -> u32 {
        u32::from(part != self.turn)
    }

    /// After the removal of a task the one whose place in the plan makes it need that comes to need
    /// the one before it. Gives both. A task that is removed already keeps what it needed.
    pub(super) fn relinked(&self, removed: u32) -> (Option<u32>, Option<u32>) {
        let rank = self.tasks[removed as usize].rank as usize;
        let part = self.tasks[removed as usize].part;
        let present = |&&at: &&u32| {
            let task = &self.tasks[at as usize];
            task.status != TaskStatus::Removed && task.part == part
        };
        let before = self.order[..rank].iter().rfind(present).copied();
        let next = self.order[rank + 1..].iter().find(present).copied();
        let follows = |&at: &u32| {
            let task = &self.tasks[at as usize];
            task.spec.needs.is_none() && task.needs == [removed]
        };
        (before, next.filter(follows))
    }

    /// Makes `index` need these alone.
    pub(super) fn set_needs(&mut self, index: u32, needs: Vec<u32>) {
        for old in std::mem::take(&mut self.tasks[index as usize].needs) {
            self.tasks[old as usize].dependants.retain(|&dependant| dependant != index);
        }
        let mut unmet = self.is_closed(self.tasks[index as usize].part);
        for &need in &needs {
            self.tasks[need as usize].dependants.push(index);
            unmet += u32::from(!self.tasks[need as usize].settled);
        }
        let task = &mut self.tasks[index as usize];
        task.needs = needs;
        task.unmet = unmet;
    }

    /// Ties the tasks of a new job together.
    pub(super) fn link(&mut self, needs: Vec<Vec<u32>>) {
        for (needs, index) in needs.into_iter().zip(0..) {
            for &need in &needs {
                self.tasks[need as usize].dependants.push(index);
            }
            let closed = self.is_closed(self.tasks[index as usize].part);
            let task = &mut self.tasks[index as usize];
            task.unmet = count(needs.len()) + closed;
            task.needs = needs;
            self.refresh(index);
        }
        let work = self.tasks.iter().filter(|task| task.part == Part::Tasks);
        self.unsettled = count(work.count());
        debug_assert_eq!(self.status, JobStatus::Pending);
    }
}

/// Has a set hold an entry, or not.
fn show(set: &mut Sorted<(u32, u32)>, entry: (u32, u32), is_in: bool) {
    if is_in {
        set.insert(entry);
    } else {
        set.remove(&entry);
    }
}

impl Task {
    /// Whether the task is settled as soon as everything that it needs is.
    pub(super) fn is_passed_over(&self) -> bool {
        matches!(self.status, TaskStatus::Skipped | TaskStatus::Removed)
    }
}
