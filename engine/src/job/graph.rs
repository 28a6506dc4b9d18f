//! Which task needs which, and what settles what.

use std::collections::HashMap;

use annals_tasks_sdk::plan::TaskSpec;

use super::state::{Job, Task, count};
use super::status::{JobStatus, TaskStatus};

/// Resolves the needs of all tasks of a plan: `None` is the task before it.
///
/// Names the first need that is no task of the plan; a checked plan has none.
pub(super) fn resolve(specs: &[TaskSpec]) -> Result<Vec<Vec<u32>>, String> {
    let by_id: HashMap<&str, u32> =
        specs.iter().zip(0..).map(|(spec, index)| (spec.id.as_str(), index)).collect();
    let mut all = Vec::with_capacity(specs.len());
    for (spec, index) in specs.iter().zip(0u32..) {
        let mut needs = Vec::new();
        match &spec.needs {
            None => needs.extend(index.checked_sub(1)),
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
        let mut work = vec![index];
        while let Some(index) = work.pop() {
            let task = &mut self.tasks[index as usize];
            if std::mem::replace(&mut task.settled, true) {
                continue;
            }
            self.unsettled -= 1;
            let dependants = std::mem::take(&mut task.dependants);
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
        let startable = matches!(task.status, TaskStatus::Pending | TaskStatus::Interrupted);
        let entry = (task.rank, index);
        if startable && task.unmet == 0 && !task.settled {
            self.ready.insert(entry);
        } else {
            self.ready.remove(&entry);
        }
    }

    /// After the removal of a task: those whose place in the plan makes them need the task before
    /// them come to need the one before the removed one. Gives what each of them would need.
    pub(super) fn relinked(&self, removed: u32) -> (Option<u32>, Vec<u32>) {
        let rank = self.tasks[removed as usize].rank as usize;
        let present = |&&at: &&u32| self.tasks[at as usize].status != TaskStatus::Removed;
        let before = self.order[..rank].iter().rfind(present).copied();
        let mut moved = Vec::new();
        for &at in &self.order[rank + 1..] {
            let task = &self.tasks[at as usize];
            if task.spec.needs.is_none() && task.needs == [removed] {
                moved.push(at);
            }
            if task.status != TaskStatus::Removed {
                break;
            }
        }
        (before, moved)
    }

    /// Whether `from` needs `target`, directly or through others.
    pub(super) fn needs_through(&self, from: u32, target: u32) -> bool {
        let mut seen = vec![false; self.tasks.len()];
        let mut work = vec![from];
        while let Some(at) = work.pop() {
            if at == target {
                return true;
            }
            if !std::mem::replace(&mut seen[at as usize], true) {
                work.extend(&self.tasks[at as usize].needs);
            }
        }
        false
    }

    /// Makes `index` need `need` alone.
    pub(super) fn set_need(&mut self, index: u32, need: Option<u32>) {
        for old in std::mem::take(&mut self.tasks[index as usize].needs) {
            self.tasks[old as usize].dependants.retain(|&dependant| dependant != index);
        }
        let mut unmet = 0;
        if let Some(need) = need {
            self.tasks[need as usize].dependants.push(index);
            unmet = u32::from(!self.tasks[need as usize].settled);
        }
        let task = &mut self.tasks[index as usize];
        task.needs.extend(need);
        task.unmet = unmet;
    }

    /// How many tasks would be unsettled if nothing were settled yet.
    pub(super) fn link(&mut self, needs: Vec<Vec<u32>>) {
        for (needs, index) in needs.into_iter().zip(0..) {
            for &need in &needs {
                self.tasks[need as usize].dependants.push(index);
            }
            let task = &mut self.tasks[index as usize];
            task.unmet = count(needs.len());
            task.needs = needs;
            self.refresh(index);
        }
        self.unsettled = count(self.tasks.len());
        debug_assert_eq!(self.status, JobStatus::Pending);
    }
}

impl Task {
    /// Whether the task is settled as soon as everything that it needs is.
    pub(super) fn is_passed_over(&self) -> bool {
        matches!(self.status, TaskStatus::Skipped | TaskStatus::Removed)
    }
}
