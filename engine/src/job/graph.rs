//! Which task needs which, and what settles what.

use std::collections::{BTreeSet, HashMap};

use annals_tasks_sdk::plan::TaskSpec;

use super::event::TaskNumber;
use super::state::{Job, Task, count, number};
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
        let mut work = Vec::new();
        let mut next = Some(index);
        while let Some(index) = next.take().or_else(|| work.pop()) {
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
        let entry = (task.rank, index);
        let of_kind = &mut self.by_kind[task.kind as usize].ready;
        if task.is_ready() {
            self.ready.insert(entry);
            of_kind.insert(entry);
        } else {
            self.ready.remove(&entry);
            of_kind.remove(&entry);
        }
    }

    /// After the removal of a task those whose place in the plan makes them need it come to need
    /// the one before it. Gives that one, and them.
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

    /// What each task would need if `removed` were removed as well.
    pub(super) fn needs_without(&self, removed: &BTreeSet<TaskNumber>) -> Needs {
        let mut all = vec![Vec::new(); self.tasks.len()];
        let mut relinked = Vec::new();
        let mut before = None;
        for &at in &self.order {
            let task = &self.tasks[at as usize];
            let needs = &mut all[at as usize];
            if task.spec.needs.is_none() {
                needs.extend(before);
            } else {
                needs.clone_from(&task.needs);
            }
            if *needs != task.needs {
                relinked.push(at);
            }
            if task.status != TaskStatus::Removed && !removed.contains(&number(at)) {
                before = Some(at);
            }
        }
        Needs { all, relinked }
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

    /// Ties the tasks of a new job together.
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

/// What each task would need after an edit.
pub(super) struct Needs {
    all: Vec<Vec<u32>>,
    /// The tasks that would need another one than now.
    pub(super) relinked: Vec<u32>,
}

impl Needs {
    /// A relinked task that would come to need itself, and what it would directly need.
    pub(super) fn circle(&self) -> Option<(u32, u32)> {
        // Without a circle this takes away every task, each after all that it needs.
        let mut dependants = vec![Vec::new(); self.all.len()];
        let mut unmet: Vec<usize> = self.all.iter().map(Vec::len).collect();
        for (needs, at) in self.all.iter().zip(0u32..) {
            for &need in needs {
                dependants[need as usize].push(at);
            }
        }
        let mut work: Vec<u32> =
            (0..count(unmet.len())).filter(|&at| unmet[at as usize] == 0).collect();
        while let Some(at) = work.pop() {
            for &dependant in &dependants[at as usize] {
                unmet[dependant as usize] -= 1;
                if unmet[dependant as usize] == 0 {
                    work.push(dependant);
                }
            }
        }
        let mut within = self.relinked.iter().filter(|&&at| unmet[at as usize] > 0);
        within.find_map(|&at| {
            let &before = self.all[at as usize].first()?;
            self.reached_from(before)[at as usize].then_some((at, before))
        })
    }

    /// Whether a relinked task would no longer come after all that it does now.
    pub(super) fn loses_order(&self, job: &Job) -> bool {
        self.relinked.iter().any(|&at| {
            let now = self.all[at as usize].as_slice();
            let before =
                job.tasks[at as usize].needs.iter().flat_map(|&old| &self.all[old as usize]);
            let gone: Vec<u32> = before.copied().filter(|need| !now.contains(need)).collect();
            !gone.is_empty() && {
                let reached = self.reached_from(at);
                gone.into_iter().any(|need| !reached[need as usize])
            }
        })
    }

    /// By index, whether a task would be needed by the one at `from`, directly or through others.
    pub(super) fn reached_from(&self, from: u32) -> Vec<bool> {
        let mut seen = vec![false; self.all.len()];
        let mut work = vec![from];
        while let Some(at) = work.pop() {
            if !std::mem::replace(&mut seen[at as usize], true) {
                work.extend(&self.all[at as usize]);
            }
        }
        seen
    }
}

impl Task {
    /// Whether the task is settled as soon as everything that it needs is.
    pub(super) fn is_passed_over(&self) -> bool {
        matches!(self.status, TaskStatus::Skipped | TaskStatus::Removed)
    }
}
