//! Startable tasks by kind: tasks of one kind wait for the same slots, so the runtime can pass
//! over thousands that would wait without a look at each.

use std::collections::HashMap;

use annals_tasks_sdk::Timestamp;

use super::event::TaskNumber;
use super::sorted::Sorted;
use super::state::{Job, Task, count, number};
use super::waiting::Waiting;

/// The tasks of one kind that could start now.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct OfKind {
    /// The first task of the kind, which has its name.
    first: u32,
    /// Ready ones, by rank and index.
    pub(super) ready: Sorted<(u32, u32)>,
    /// Those that wait for the kind.
    pub(super) kindless: Sorted<u32>,
}

/// Tells each task which of the plan's kinds it is of.
pub(super) fn assort(tasks: &mut [Task]) -> Vec<OfKind> {
    let mut known: HashMap<Box<str>, u32> = HashMap::new();
    let mut kinds = Vec::new();
    for at in 0..tasks.len() {
        // Most tasks are of the kind of the one before.
        let before = at.checked_sub(1).map(|before| &tasks[before]);
        let same = before.filter(|before| before.spec.kind == tasks[at].spec.kind);
        let same = same.map(|before| before.kind);
        let task = &mut tasks[at];
        let name = task.spec.kind.as_str();
        task.kind = same.or_else(|| known.get(name).copied()).unwrap_or_else(|| {
            let kind = count(kinds.len());
            known.insert(name.into(), kind);
            kinds.push(OfKind { first: count(at), ..OfKind::default() });
            kind
        });
    }
    kinds
}

/// The startable tasks of a kind.
pub(crate) struct Startable<'a> {
    job: &'a Job,
    of: &'a OfKind,
}

impl<'a> Startable<'a> {
    /// The kind's name.
    pub(crate) fn kind(&self) -> &'a str {
        self.job.tasks[self.of.first as usize].spec.kind.as_str()
    }

    /// Ready ones in the order of the plan, with their place in it.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (u32, TaskNumber)> + use<'a> {
        self.of.ready.iter().map(|&(rank, at)| (rank, number(at)))
    }

    /// Those that wait for the kind, which the runtime may have by now.
    pub(crate) fn kindless(&self) -> impl Iterator<Item = TaskNumber> + use<'a> {
        self.of.kindless.iter().map(|&at| number(at))
    }
}

impl Job {
    /// The names of the kinds of the plan's tasks.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.by_kind.iter().map(|of| Startable { job: self, of }.kind())
    }

    /// The wants of [`Job::effects`] but those of retries, by kind; of kinds that have some.
    pub(crate) fn startable(&self, now: Timestamp) -> impl Iterator<Item = Startable<'_>> {
        let kinds = self.by_kind.iter().filter(move |_| self.starts_tasks(now));
        let some = kinds.filter(|of| !(of.ready.is_empty() && of.kindless.is_empty()));
        some.map(|of| Startable { job: self, of })
    }

    /// The wants of [`Job::effects`] whose back-off is over, the longest first.
    pub(crate) fn retries(&self, now: Timestamp) -> impl Iterator<Item = TaskNumber> {
        let due = self.timed.iter().filter(move |_| self.starts_tasks(now));
        let due = due.take_while(move |&&(due, _)| due <= now).map(|&(_, at)| at);
        due.filter(|&at| matches!(self.tasks[at as usize].waiting, Some(Waiting::Retry { .. })))
            .map(number)
    }
}
