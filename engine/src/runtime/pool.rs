//! Pools: slots that attempts hold while they are alive, and the queues for them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use annals_tasks_sdk::JobId;

use crate::job::TaskNumber;

/// A pool's place among the pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolId(pub(super) usize);

/// The pool with one slot through which suspects pass one at a time.
pub(super) const SUSPECTS: PoolId = PoolId(0);
/// The pool of tasks that run in this process.
pub(super) const DEFAULT: PoolId = PoolId(1);
/// The pool of tasks that run as child processes.
pub(super) const SHELL: PoolId = PoolId(2);

/// How many pools there are.
pub(super) const POOLS: usize = 3;

/// Somebody in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Which loop drives the job.
    pub(super) home: usize,
    /// The job.
    pub(super) job: JobId,
    /// Its task.
    pub(super) task: TaskNumber,
    /// The queue.
    pub(super) queue: PoolId,
}

/// All pools. Shared by the loops; held only for a push or a pop.
#[derive(Debug)]
pub(super) struct Pools(Mutex<[Pool; POOLS]>);

#[derive(Debug)]
struct Pool {
    free: usize,
    queue: VecDeque<Waiter>,
}

impl Pools {
    /// Pools with these numbers of slots.
    pub(super) fn new(default: usize, shell: usize) -> Self {
        let pool = |free| Pool { free, queue: VecDeque::new() };
        Self(Mutex::new([pool(1), pool(default.max(1)), pool(shell.max(1))]))
    }

    fn with<T>(&self, pool: PoolId, change: impl FnOnce(&mut Pool) -> T) -> T {
        // Nothing below panics while it holds the lock.
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut pools[pool.0])
    }

    /// Takes a slot, or a place in the queue. First come, first served: a free slot is not given
    /// to somebody while others wait.
    pub(super) fn take(&self, waiter: Waiter) -> bool {
        self.with(waiter.queue, |pool| {
            if pool.free > 0 && pool.queue.is_empty() {
                pool.free -= 1;
                true
            } else {
                pool.queue.push_back(waiter);
                false
            }
        })
    }

    /// Gives a slot back. Gives who holds it now, if somebody waited.
    #[must_use]
    pub(super) fn give_back(&self, pool: PoolId) -> Option<Waiter> {
        self.with(pool, |pool| {
            let next = pool.queue.pop_front();
            pool.free += usize::from(next.is_none());
            next
        })
    }

    /// Leaves a queue. False where the slot had been granted already.
    pub(super) fn leave(&self, waiter: Waiter) -> bool {
        self.with(waiter.queue, |pool| {
            let place = pool.queue.iter().position(|other| *other == waiter);
            place.and_then(|place| pool.queue.remove(place)).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_to_those_who_came_first() {
        let waiter =
            |n| Waiter { home: 0, job: JobId::from_u128(n), task: TaskNumber(1), queue: DEFAULT };
        let pools = Pools::new(1, 1);
        assert!(pools.take(waiter(1)));
        assert!(!pools.take(waiter(2)));
        assert!(!pools.take(waiter(3)));
        assert!(pools.leave(waiter(2)));
        assert_eq!(pools.give_back(DEFAULT), Some(waiter(3)));
        assert!(!pools.leave(waiter(3)), "it holds the slot");
        assert_eq!(pools.give_back(DEFAULT), None);
        assert!(pools.take(waiter(4)));
    }
}
