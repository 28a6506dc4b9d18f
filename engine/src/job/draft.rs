//! Edits of the plan, thought through: what each task would need after one. An edit is decided,
//! and taken in, by the same thoughts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use annals_tasks_sdk::TaskId;
use annals_tasks_sdk::plan::TaskSpec;

use super::event::{Part, TaskNumber};
use super::state::{Job, count, index, number};
use super::status::TaskStatus;

/// The plan of a job as an edit would leave it.
pub(super) struct Draft<'a> {
    job: &'a Job,
    /// Tasks in the order of the plan. One that is new has the next index.
    pub(super) order: Cow<'a, [u32]>,
    /// The task that is new or edited, and what the plan would say of it.
    changed: Option<(u32, &'a TaskSpec)>,
    /// The part of the plan that a new task stands in.
    part: Part,
    /// Tasks that would come to need the new one.
    needed_by: Vec<u32>,
    gone: BTreeSet<TaskNumber>,
}

/// Why an edit cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// There is no such task, or none to stand behind.
    NoTask,
    /// The plan would name a task that is needed, and there is none of this name.
    UnknownNeed(TaskId),
    /// A task that is settled or alive would come to need another.
    Disturbs(u32),
    /// The first would need the second, which stands in another part of the plan.
    Apart(u32, u32),
    /// The first would need the second, which needs the first.
    Circle(u32, u32),
}

impl<'a> Draft<'a> {
    fn new(job: &'a Job) -> Self {
        let (needed_by, gone) = (Vec::new(), BTreeSet::new());
        let (order, part) = (Cow::Borrowed(&*job.order), Part::Tasks);
        Self { job, order, changed: None, part, needed_by, gone }
    }

    /// The plan with a new task behind another, or before all.
    pub(super) fn inserted(
        job: &'a Job,
        spec: &'a TaskSpec,
        part: Part,
        after: Option<TaskNumber>,
        needed_by: &[TaskNumber],
    ) -> Result<Self, Misfit> {
        let new = count(job.tasks.len());
        let mut order = job.order.clone();
        order.insert(behind(&order, after)?, new);
        let known = |&task: &TaskNumber| index(task).filter(|&at| at < new).ok_or(Misfit::NoTask);
        let needed_by = needed_by.iter().map(known).collect::<Result<_, _>>()?;
        let changed = Some((new, spec));
        Ok(Self { order: Cow::Owned(order), changed, part, needed_by, ..Self::new(job) })
    }

    /// The plan with a task behind another, or before all.
    pub(super) fn moved(
        job: &'a Job,
        task: TaskNumber,
        after: Option<TaskNumber>,
    ) -> Result<Self, Misfit> {
        let mut order = job.order.clone();
        let place = order.iter().position(|&at| number(at) == task).ok_or(Misfit::NoTask)?;
        let at = order.remove(place);
        order.insert(behind(&order, after)?, at);
        Ok(Self { order: Cow::Owned(order), ..Self::new(job) })
    }

    /// The plan where it says something else of a task.
    pub(super) fn edited(
        job: &'a Job,
        task: TaskNumber,
        spec: &'a TaskSpec,
    ) -> Result<Self, Misfit> {
        let at = index(task).filter(|_| job.task(task).is_some()).ok_or(Misfit::NoTask)?;
        Ok(Self { changed: Some((at, spec)), ..Self::new(job) })
    }

    /// The plan without these tasks.
    pub(super) fn without(job: &'a Job, removed: &BTreeSet<TaskNumber>) -> Self {
        Self { gone: removed.clone(), ..Self::new(job) }
    }

    /// What the plan would say of a task, where that is new.
    pub(super) fn spec_of(&self, at: u32) -> Option<&'a TaskSpec> {
        self.changed.filter(|(changed, _)| *changed == at).map(|(_, spec)| spec)
    }

    /// What each task would need, where the edit can be.
    pub(super) fn fitting(&self) -> Result<Needs, Misfit> {
        let needs = self.needs()?;
        let fixed = |&&at: &&u32| {
            let task = self.job.tasks.get(at as usize);
            task.is_some_and(|task| task.settled || task.is_engaged())
        };
        if let Some(&at) = needs.relinked.iter().find(fixed) {
            return Err(Misfit::Disturbs(at));
        }
        let part = |at: u32| self.job.tasks.get(at as usize).map_or(self.part, |task| task.part);
        for &at in &needs.relinked {
            if let Some(&need) = needs.of(at).iter().find(|&&need| part(need) != part(at)) {
                return Err(Misfit::Apart(at, need));
            }
        }
        match needs.circle() {
            Some((task, before)) => Err(Misfit::Circle(task, before)),
            None => Ok(needs),
        }
    }

    /// What each task would need.
    pub(super) fn needs(&self) -> Result<Needs, Misfit> {
        let mut needs = Needs {
            // By index, those of instances stay empty.
            all: vec![Vec::new(); self.job.tasks.len() + 1],
            relinked: Vec::new(),
            named: Vec::new(),
            gone: self.gone.clone(),
        };
        let (mut before, mut part) = (None, Part::Tasks);
        for &at in &*self.order {
            let part_of = self.job.tasks.get(at as usize).map_or(self.part, |task| task.part);
            if std::mem::replace(&mut part, part_of) != part_of {
                before = None;
            }
            let mut own = self.own_needs(at, before)?;
            if self.needed_by.contains(&at) {
                let new = count(self.job.tasks.len());
                if !own.contains(&new) {
                    own.push(new);
                    needs.named.push(at);
                }
            }
            let task = self.job.tasks.get(at as usize);
            if task.is_none_or(|task| task.needs != own) {
                needs.relinked.push(at);
            }
            needs.all[at as usize] = own;
            let removed = task.is_some_and(|task| task.status == TaskStatus::Removed);
            if !removed && !self.gone.contains(&number(at)) {
                before = Some(at);
            }
        }
        Ok(needs)
    }

    fn own_needs(&self, at: u32, before: Option<u32>) -> Result<Vec<u32>, Misfit> {
        // A removed task hands on what it needed; others no longer follow its place.
        if let Some(task) = self.job.tasks.get(at as usize)
            && task.status == TaskStatus::Removed
        {
            return Ok(task.needs.clone());
        }
        let changed = self.spec_of(at);
        let named = match changed {
            Some(spec) => &spec.needs,
            None => &self.job.tasks[at as usize].spec.needs,
        };
        match (named, changed) {
            (None, _) => Ok(before.into_iter().collect()),
            (Some(_), None) => Ok(self.job.tasks[at as usize].needs.clone()),
            (Some(named), Some(spec)) => {
                let find = |id: &TaskId| {
                    if *id == spec.id {
                        return Ok(at);
                    }
                    let found = self.job.find(id.as_str()).and_then(index);
                    found.ok_or_else(|| Misfit::UnknownNeed(id.clone()))
                };
                let mut needs = named.iter().map(find).collect::<Result<Vec<_>, _>>()?;
                needs.sort_unstable();
                needs.dedup();
                Ok(needs)
            }
        }
    }
}

/// The place in an order behind a task, or before all.
fn behind(order: &[u32], after: Option<TaskNumber>) -> Result<usize, Misfit> {
    let Some(after) = after else { return Ok(0) };
    let place = order.iter().position(|&at| number(at) == after);
    place.map(|place| place + 1).ok_or(Misfit::NoTask)
}

/// What each task would need after an edit.
pub(super) struct Needs {
    all: Vec<Vec<u32>>,
    /// The tasks that would need others than now, new ones included.
    pub(super) relinked: Vec<u32>,
    /// Those of them whose needs the plan must name from then on.
    pub(super) named: Vec<u32>,
    /// Tasks that would be removed.
    gone: BTreeSet<TaskNumber>,
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
            let through = |&&need: &&u32| self.reached_from(need)[at as usize];
            self.of(at).iter().find(through).map(|&need| (at, need))
        })
    }

    /// Whether a task would be removed.
    pub(super) fn is_gone(&self, task: TaskNumber) -> bool {
        self.gone.contains(&task)
    }

    /// What a task would need.
    pub(super) fn of(&self, at: u32) -> &[u32] {
        self.all.get(at as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether a relinked task would no longer come after all that it does now.
    pub(super) fn loses_order(&self, job: &Job) -> bool {
        self.relinked.iter().any(|&at| {
            let Some(task) = job.tasks.get(at as usize) else { return false };
            let mut lost: Vec<u32> = Vec::new();
            for old in &task.needs {
                // What a task needed that is gone must come before those that needed it.
                let old = if self.gone.contains(&number(*old)) { self.of(*old) } else { &[*old] };
                lost.extend(old.iter().filter(|need| !self.of(at).contains(need)));
            }
            !lost.is_empty() && {
                let reached = self.reached_from(at);
                lost.into_iter().any(|need| !reached[need as usize])
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
