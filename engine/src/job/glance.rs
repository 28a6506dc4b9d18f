//! Glances: reads of a job that fetch from memory what a step needs, and say nothing.
//!
//! Each goes one pointer further than the one before, so that whoever has several jobs to step
//! waits once for each such distance, and not for each job.

use super::event::TaskNumber;
use super::state::{Job, Task};

impl Job {
    /// Its own fields.
    pub(crate) fn glance(&self) -> u64 {
        let sets = [self.ready.is_empty(), self.live.is_empty(), self.timed.is_empty()];
        let numbers = [self.tasks.len(), self.by_kind.len(), self.bytes];
        let numbers = numbers.into_iter().fold(self.seq, |all, number| all ^ number as u64);
        let sets = sets.into_iter().fold(self.exclusive.is_some(), |all, set| all ^ set);
        numbers ^ u64::from(sets) ^ u64::from(self.unsettled)
    }

    /// A task and the next one, and the sets.
    pub(crate) fn glance_at(&self, task: TaskNumber) -> u64 {
        let next = TaskNumber(task.0.saturating_add(1));
        let tasks = [task, next].into_iter().filter_map(|task| self.task(task));
        let tasks = tasks.map(Task::glance).fold(0, std::ops::BitXor::bitxor);
        let live = self.live.first().copied().unwrap_or_default();
        let kind = self.by_kind.first().is_some_and(|of| of.ready.is_empty());
        tasks ^ u64::from(live) ^ u64::from(kind)
    }

    /// What a task points to.
    pub(crate) fn glance_behind(&self, task: TaskNumber) -> u64 {
        let Some(task) = self.task(task) else { return 0 };
        let attempt = task.attempts().last();
        let attempt =
            attempt.map_or(0, |attempt| attempt.number ^ u32::from(attempt.end.is_some()));
        u64::from(attempt ^ task.dependants.first().copied().unwrap_or_default())
    }
}

impl Task {
    fn glance(&self) -> u64 {
        let flags = self.settled ^ self.waiting.is_some() ^ self.skip.is_some();
        let numbers = self.attempts().len() ^ self.spec.kind.as_str().len();
        let counts = self.rank ^ self.unmet ^ self.failures;
        u64::from(flags) ^ numbers as u64 ^ u64::from(counts)
    }
}
