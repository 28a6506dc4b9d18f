//! Idempotency keys: which requests have been carried out, and which are on their way.
//!
//! A key belongs to the first request that comes with it, until that is refused, fails, or is
//! durable. Equal requests that come meanwhile wait: they are told what the first one did, or
//! one of them takes its place.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_tasks_sdk::{JobId, Timestamp};
use tokio::sync::oneshot;

use super::clock::Clock;
use crate::job::IdempotencyKey;
use crate::log::{Hour, KeyRow, LogError, LogReader};

/// How long keys are known for, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyLimits {
    /// At least so many hours; then all of an hour are forgotten together.
    pub(super) hours: u32,
    /// At most so many; then the oldest ones are forgotten early.
    pub(super) most: usize,
}

/// A busy hour is kept in parts of this share of all keys at most, so that what is forgotten early
/// is never everything...
const PARTS: usize = 16;
/// ...nor larger than this, which is what fits a hash table of 2^17 places: to grow to the next
/// size would keep everybody waiting.
const PART_MAX: usize = 114_688;

/// The keys that an engine knows.
pub(super) struct Keys {
    clock: Arc<dyn Clock>,
    limits: KeyLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is done, by the hour and by the parts of it, the oldest first.
    done: BTreeMap<(Hour, u32), HashMap<u128, Done>>,
    known: usize,
    /// The first hour of which not all keys had to be forgotten early.
    whole: Option<Hour>,
    pending: HashMap<u128, Pending>,
}

#[derive(Clone, Copy)]
struct Done {
    body: u128,
    job: JobId,
}

/// A request on its way, and those that wait for what becomes of it.
struct Pending {
    body: u128,
    waiting: VecDeque<oneshot::Sender<Claimed>>,
}

/// What a request with a key finds.
pub(super) enum Claimed {
    /// It is the first, or the first was not carried out.
    Mine(Box<Claim>),
    /// It is a repeat of one that was carried out on this job.
    Done(JobId),
}

/// The key is taken by a request with another body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reused;

/// The right to carry out what a key stands for. Dropped unsettled, it goes to the next in line.
pub(super) struct Claim {
    keys: Arc<Keys>,
    key: IdempotencyKey,
    settled: bool,
}

impl Keys {
    pub(super) fn new(clock: Arc<dyn Clock>, limits: KeyLimits) -> Self {
        Self { clock, limits, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a key, or waits for what becomes of the request that has it.
    pub(super) async fn claim(self: &Arc<Self>, key: IdempotencyKey) -> Result<Claimed, Reused> {
        loop {
            let turn = match self.look(key)? {
                Ok(claimed) => return Ok(claimed),
                Err(turn) => turn,
            };
            if let Ok(claimed) = turn.await {
                return Ok(claimed);
            }
        }
    }

    /// What is known of a key now, or when that will be.
    fn look(
        self: &Arc<Self>,
        key: IdempotencyKey,
    ) -> Result<Result<Claimed, oneshot::Receiver<Claimed>>, Reused> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.forget(now, self.limits);
        if let Some(done) = state.find(key.key) {
            return same(done.body, key).map(|()| Ok(Claimed::Done(done.job)));
        }
        match state.pending.entry(key.key) {
            Entry::Occupied(mut pending) => {
                same(pending.get().body, key)?;
                let (sender, turn) = oneshot::channel();
                pending.get_mut().waiting.push_back(sender);
                Ok(Err(turn))
            }
            Entry::Vacant(free) => {
                free.insert(Pending { body: key.body, waiting: VecDeque::new() });
                Ok(Ok(self.claimed(key)))
            }
        }
    }

    fn claimed(self: &Arc<Self>, key: IdempotencyKey) -> Claimed {
        Claimed::Mine(Box::new(Claim { keys: Arc::clone(self), key, settled: false }))
    }

    /// Takes in what the views know, and then what came after them.
    pub(super) fn recover(&self, reader: &dyn LogReader, tail: &[KeyRow]) -> Result<(), LogError> {
        let mut state = self.lock();
        let mut take = |KeyRow { hour, key, job }: KeyRow| {
            state.insert(key, job, hour, self.limits);
            if state.known > self.limits.most {
                state.forget(self.clock.now(), self.limits);
            }
        };
        reader.keys(self.oldest(), &mut take)?;
        tail.iter().copied().for_each(take);
        Ok(())
    }

    /// The first hour whose keys may still be young enough.
    pub(super) fn oldest(&self) -> Hour {
        Hour::of(self.clock.now()).before(self.limits.hours)
    }

    /// The first hour whose keys are still known.
    pub(super) fn since(&self) -> Hour {
        let whole = self.lock().whole;
        self.oldest().max(whole.unwrap_or(Hour(i64::MIN)))
    }

    /// How many keys are known.
    pub(super) fn known(&self) -> usize {
        self.lock().known
    }

    /// The next in line takes the place of one that was not carried out.
    fn release(self: &Arc<Self>, key: IdempotencyKey) {
        loop {
            let next = {
                let mut state = self.lock();
                let Some(pending) = state.pending.get_mut(&key.key) else { return };
                let next = pending.waiting.pop_front();
                if next.is_none() {
                    state.pending.remove(&key.key);
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(self.claimed(key)) {
                Ok(()) => return,
                // It has stopped waiting.
                Err(Claimed::Mine(mut claim)) => claim.settled = true,
                Err(Claimed::Done(_)) => {}
            }
        }
    }
}

/// What is to be kept of an event that carries a key.
pub(super) fn key_row(job: JobId, time: Timestamp, key: Option<&IdempotencyKey>) -> Option<KeyRow> {
    key.map(|&key| KeyRow { hour: Hour::of(time), key, job })
}

fn same(body: u128, key: IdempotencyKey) -> Result<(), Reused> {
    if body == key.body { Ok(()) } else { Err(Reused) }
}

impl State {
    /// Of two the younger one counts.
    fn find(&self, key: u128) -> Option<Done> {
        self.done.values().rev().find_map(|part| part.get(&key)).copied()
    }

    fn insert(&mut self, key: IdempotencyKey, job: JobId, hour: Hour, limits: KeyLimits) {
        let part_max = limits.most.div_ceil(PARTS).clamp(1, PART_MAX);
        let last = self.done.range((hour, 0)..=(hour, u32::MAX)).next_back();
        let part = match last {
            Some((&(_, part), keys)) if keys.len() >= part_max => part.saturating_add(1),
            Some((&(_, part), _)) => part,
            None => 0,
        };
        let done = Done { body: key.body, job };
        let known = self.done.entry((hour, part)).or_default().insert(key.key, done);
        self.known += usize::from(known.is_none());
    }

    /// Drops what is too old, and the oldest of what is too much.
    fn forget(&mut self, now: Timestamp, limits: KeyLimits) {
        let since = Hour::of(now).before(limits.hours);
        while let Some(first) = self.done.first_entry() {
            let hour = first.key().0;
            if hour >= since && self.known <= limits.most {
                return;
            }
            self.known -= first.remove().len();
            if hour >= since && self.done.first_key_value().is_none_or(|next| next.0.0 > hour) {
                self.whole = Some(Hour(hour.0 + 1));
            }
        }
    }
}

impl Claim {
    /// The key, for the event that it goes into.
    pub(super) fn key(&self) -> IdempotencyKey {
        self.key
    }

    /// What the key stands for was carried out on this job, at this time, and is durable.
    pub(super) fn settle(mut self, job: JobId, time: Timestamp) {
        self.settled = true;
        let pending = {
            let mut state = self.keys.lock();
            state.insert(self.key, job, Hour::of(time), self.keys.limits);
            state.pending.remove(&self.key.key)
        };
        for waiting in pending.into_iter().flat_map(|pending| pending.waiting) {
            // It may have stopped waiting.
            let _ = waiting.send(Claimed::Done(job));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            self.keys.release(self.key);
        }
    }
}
