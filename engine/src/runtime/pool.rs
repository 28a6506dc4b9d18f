//! Pools: slots that attempts hold while they are alive, and the queues for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use annals_tasks_sdk::JobId;

use super::pool_setup::Pool;
use super::stats::PoolStats;
use crate::job::TaskNumber;

/// A pool's place among the pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolId(pub(super) usize);

/// The pool with one slot through which suspects pass one at a time.
pub(super) const SUSPECTS: PoolId = PoolId(0);
/// The pool of tasks that run in this process, where no other has them.
pub(super) const DEFAULT: PoolId = PoolId(1);
/// The pool of tasks that run as child processes.
pub(super) const SHELL: PoolId = PoolId(2);

/// What the pools are called that every engine has.
pub(super) const BUILT_IN: [&str; 3] = ["suspects", "default", "shell"];

/// How many pools there may be, those included.
pub(super) const POOLS_MAX: usize = 32;

/// A place in a queue: a greater one is further behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Place(u64);

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
pub(super) struct Pools {
    names: Vec<Arc<str>>,
    slots: Mutex<Vec<Slots>>,
}

/// The slots of one pool.
#[derive(Debug)]
struct Slots {
    count: usize,
    free: usize,
    queue: BTreeMap<Place, Waiter>,
    /// The next place behind all others.
    end: Place,
    /// Who was given a slot last: where there is only one, whoever holds it.
    last: Option<Waiter>,
}

/// How many of those in a queue are counted for those behind them.
pub(super) const COUNTED: usize = 1_000;

/// Where some stand in a queue.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) slots: usize,
    pub(super) waiting: usize,
    /// Who holds the slot, if there is only one and it is taken.
    pub(super) holder: Option<Waiter>,
    /// For each that is in the queue how many are before it; none where that are [`COUNTED`] or
    /// more.
    pub(super) before: HashMap<Place, Option<usize>>,
}

impl Pools {
    /// The usual pools with these numbers of slots, and others.
    pub(super) fn new(default: usize, shell: usize, own: &[Pool]) -> Self {
        let of = |free: usize| {
            let free = free.max(1);
            Slots { count: free, free, queue: BTreeMap::new(), end: Place(0), last: None }
        };
        let usual = [1, default, shell].map(of).into_iter();
        let slots = usual.chain(own.iter().map(|pool| of(pool.slot_count()))).collect();
        let names = BUILT_IN.into_iter().chain(own.iter().map(Pool::name));
        Self { names: names.map(Into::into).collect(), slots: Mutex::new(slots) }
    }

    /// What a pool is called.
    pub(super) fn name(&self, pool: PoolId) -> Arc<str> {
        Arc::clone(&self.names[pool.0])
    }

    fn with<T>(&self, pool: PoolId, change: impl FnOnce(&mut Slots) -> T) -> T {
        // Nothing below panics while it holds the lock.
        let mut pools = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut pools[pool.0])
    }

    /// How much of each is taken.
    pub(super) fn stats(&self) -> Vec<PoolStats> {
        let pools = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = |(pool, name): (&Slots, &Arc<str>)| PoolStats {
            name: Arc::clone(name),
            slots: pool.count as u64,
            in_use: (pool.count - pool.free) as u64,
            waiting: pool.queue.len() as u64,
        };
        pools.iter().zip(&self.names).map(stats).collect()
    }

    /// Takes a slot, or else the place in the queue that it gives. First come, first served: a
    /// free slot is not given to somebody while others wait.
    pub(super) fn take(&self, waiter: Waiter) -> Option<Place> {
        self.with(waiter.queue, |pool| {
            if pool.free > 0 && pool.queue.is_empty() {
                pool.free -= 1;
                pool.last = Some(waiter);
                return None;
            }
            let place = pool.end;
            pool.queue.insert(place, waiter);
            pool.end.0 += 1;
            Some(place)
        })
    }

    /// Gives a slot back. Gives who holds it now, if somebody waited.
    #[must_use]
    pub(super) fn give_back(&self, pool: PoolId) -> Option<Waiter> {
        self.with(pool, |pool| {
            let next = pool.queue.pop_first();
            pool.free += usize::from(next.is_none());
            pool.last = next.map(|(_, waiter)| waiter).or(pool.last);
            next.map(|(_, waiter)| waiter)
        })
    }

    /// Where these places are in a queue. Costs a look at the first of the queue.
    pub(super) fn standing(&self, queue: PoolId, places: &[Place]) -> Standing {
        self.with(queue, |pool| {
            let in_line = places.iter().filter(|place| pool.queue.contains_key(place));
            let mut before: HashMap<Place, Option<usize>> =
                in_line.map(|place| (*place, None)).collect();
            for (rank, place) in pool.queue.keys().take(COUNTED).enumerate() {
                if let Some(found) = before.get_mut(place) {
                    *found = Some(rank);
                }
            }
            let only = pool.count == 1 && pool.free == 0;
            let holder = pool.last.filter(|_| only);
            Standing { slots: pool.count, waiting: pool.queue.len(), holder, before }
        })
    }

    /// Leaves a queue. False where the slot had been granted already.
    pub(super) fn leave(&self, queue: PoolId, place: Place) -> bool {
        self.with(queue, |pool| pool.queue.remove(&place).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_to_those_who_came_first() {
        let waiter =
            |n| Waiter { home: 0, job: JobId::from_u128(n), task: TaskNumber(1), queue: DEFAULT };
        let pools = Pools::new(1, 1, &[]);
        assert_eq!(pools.take(waiter(1)), None);
        let second = pools.take(waiter(2)).unwrap();
        let third = pools.take(waiter(3)).unwrap();
        assert!(second < third);
        let standing = pools.standing(DEFAULT, &[second, third]);
        assert_eq!((standing.slots, standing.waiting), (1, 2));
        assert_eq!(standing.holder, Some(waiter(1)));
        assert_eq!([second, third].map(|place| standing.before[&place]), [Some(0), Some(1)]);
        assert!(pools.leave(DEFAULT, second));
        assert!(!pools.leave(DEFAULT, second), "it has left");
        assert_eq!(pools.give_back(DEFAULT), Some(waiter(3)));
        assert!(!pools.leave(DEFAULT, third), "it holds the slot");
        let standing = pools.standing(DEFAULT, &[third]);
        assert_eq!((standing.holder, standing.before.len()), (Some(waiter(3)), 0));
        assert_eq!(pools.give_back(DEFAULT), None);
        assert_eq!(pools.take(waiter(4)), None);
        assert!(third < pools.take(waiter(5)).unwrap(), "no place is given twice");
    }

    #[test]
    fn who_is_far_behind_is_not_counted() {
        let pools = Pools::new(1, 1, &[]);
        let waiter =
            |n| Waiter { home: 0, job: JobId::from_u128(n), task: TaskNumber(1), queue: DEFAULT };
        let places: Vec<Place> = (0..2_000).filter_map(|n| pools.take(waiter(n))).collect();
        let standing = pools.standing(DEFAULT, &[places[0], places[999], places[1_000]]);
        let before = [0, 999, 1_000].map(|at: usize| standing.before[&places[at]]);
        assert_eq!(before, [Some(0), Some(999), None]);
        assert_eq!(standing.waiting, 1_999);
    }
}
