//! The attempts of one job that are alive, or are about to be when their start is durable.
//!
//! Most jobs have one at a time, and one may have ten thousand: nothing that a turn does with one
//! of them looks at the others.

use std::collections::VecDeque;

use super::attempt::Attempt;
use super::executor::Held;
use crate::job::TaskNumber;

/// A live attempt.
pub(super) struct Running {
    pub(super) task: TaskNumber,
    pub(super) attempt: u32,
    pub(super) held: Held,
    pub(super) own: Attempt,
    /// The same, to be run when its start is durable.
    waiting: Option<Attempt>,
    /// The seq of the job with which its start is durable.
    pub(super) seq: u64,
    /// Whether a stop has been decided; it is carried out when that is durable.
    pub(super) stop_ordered: bool,
}

impl Running {
    /// One whose start is durable with this seq of its job.
    pub(super) fn new(of: (TaskNumber, u32), held: Held, own: Attempt, seq: u64) -> Self {
        let (task, attempt) = of;
        let waiting = Some(own.clone());
        Self { task, attempt, held, own, waiting, seq, stop_ordered: false }
    }

    /// Whether it has come to life.
    pub(super) fn is_spawned(&self) -> bool {
        self.waiting.is_none()
    }
}

/// The live attempts of a job, by their tasks.
#[derive(Default)]
pub(super) struct Lives {
    all: VecDeque<Running>,
    /// Those that have not come to life, in the order in which they will.
    starting: VecDeque<(u64, TaskNumber)>,
    /// How many have been ordered to stop.
    stopping: usize,
}

impl Lives {
    /// Takes in an attempt. Its task has no other one, and none starts with an earlier event.
    pub(super) fn insert(&mut self, running: Running) {
        self.starting.push_back((running.seq, running.task));
        match self.place(running.task) {
            Err(place) => self.all.insert(place, running),
            Ok(place) => self.all[place] = running,
        }
    }

    /// Takes this attempt of a task out, if it is there.
    pub(super) fn remove(&mut self, task: TaskNumber, attempt: u32) -> Option<Running> {
        let place = self.place(task).ok().filter(|&place| self.all[place].attempt == attempt)?;
        let running = self.all.remove(place)?;
        self.stopping -= usize::from(running.stop_ordered);
        Some(running)
    }

    /// The live attempt of a task.
    pub(super) fn get(&self, task: TaskNumber) -> Option<&Running> {
        self.place(task).ok().map(|place| &self.all[place])
    }

    /// Takes those whose start is durable with this seq and that have not come to life yet.
    pub(super) fn take_durable(&mut self, durable: u64) -> impl Iterator<Item = Attempt> {
        std::iter::from_fn(move || {
            loop {
                let (seq, task) = self.starting.pop_front_if(|(seq, _)| *seq <= durable)?;
                let place = self.place(task).ok().filter(|&place| self.all[place].seq == seq);
                // It may be over without having begun.
                if let Some(attempt) = place.and_then(|place| self.all[place].waiting.take()) {
                    return Some(attempt);
                }
            }
        })
    }

    /// Notes that stops are ordered for those attempts that are to end, of which the job says that
    /// there are so many; gives those for which they had not been.
    pub(super) fn order_stops(
        &mut self,
        wanted: usize,
        is_to_end: impl Fn(&Running) -> bool,
    ) -> Vec<(TaskNumber, u32)> {
        let mut ordered = Vec::new();
        // A stop that was ordered stands until its attempt is over, so where the numbers are equal
        // nothing is left to do.
        if wanted != self.stopping {
            let others = self.all.iter_mut().filter(|running| !running.stop_ordered);
            for running in others.filter(|running| is_to_end(running)) {
                running.stop_ordered = true;
                ordered.push((running.task, running.attempt));
            }
            self.stopping += ordered.len();
        }
        ordered
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn first(&self) -> Option<&Running> {
        self.all.front()
    }

    /// In the order of the numbers of their tasks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.all.iter()
    }

    /// Forgets them, as nothing of the engine does.
    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Has a stop be taken for ordered that is not.
    #[cfg(test)]
    pub(super) fn make_deaf(&mut self) -> TaskNumber {
        self.stopping += 1;
        self.all[0].stop_ordered = true;
        self.all[0].task
    }

    fn place(&self, task: TaskNumber) -> Result<usize, usize> {
        match self.all.back() {
            // Tasks mostly start in their order.
            Some(last) if last.task < task => Err(self.all.len()),
            _ => self.all.binary_search_by_key(&task, |running| running.task),
        }
    }
}

impl IntoIterator for Lives {
    type Item = Running;
    type IntoIter = std::collections::vec_deque::IntoIter<Running>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}
