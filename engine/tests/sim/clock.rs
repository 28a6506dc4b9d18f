//! The clock of a simulated world: it moves when the simulation says so.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_engine::runtime::Clock;
use annals_tasks_sdk::{JobId, Timestamp};
use tokio::sync::oneshot;

/// When every world begins, by its wall clock.
const BEGIN: i64 = 1_800_000_000_000;

/// Time that only passes, and a wall clock that somebody may set. Milliseconds.
pub(crate) struct SimClock(Mutex<State>);

struct State {
    passed: i64,
    /// What the wall clock is ahead by.
    ahead: i64,
    sleepers: BTreeMap<(i64, u64), oneshot::Sender<()>>,
    sleeps: u64,
    ids: u64,
    /// The time in the last id: an engine makes ids that ascend, whatever the wall clock does.
    last_id: i64,
}

impl SimClock {
    pub(crate) fn new() -> Arc<Self> {
        let (passed, ahead, sleepers) = (0, BEGIN, BTreeMap::new());
        Arc::new(Self(Mutex::new(State { passed, ahead, sleepers, sleeps: 0, ids: 0, last_id: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much time has passed since the world began.
    pub(crate) fn passed(&self) -> i64 {
        self.state().passed
    }

    /// How much of it there is until the wall clock shows `due`.
    pub(crate) fn until(&self, due: Timestamp) -> i64 {
        let state = self.state();
        due.as_millis() - state.ahead - state.passed
    }

    /// When the first sleeper wakes.
    pub(crate) fn next_sleeper(&self) -> Option<i64> {
        let mut state = self.state();
        while state.sleepers.first_key_value().is_some_and(|(_, wake)| wake.is_closed()) {
            state.sleepers.pop_first();
        }
        state.sleepers.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Lets time pass. Who has slept long enough wakes.
    pub(crate) fn pass(&self, span: i64) {
        let mut woken = Vec::new();
        let mut state = self.state();
        state.passed += span;
        let passed = state.passed;
        while let Some(first) = state.sleepers.first_entry()
            && first.key().0 <= passed
        {
            woken.push(first.remove());
        }
        drop(state);
        for wake in woken {
            // Who does not sleep any more need not be woken.
            let _ = wake.send(());
        }
    }

    /// Sets the wall clock, forward or back.
    pub(crate) fn jump(&self, by: i64) {
        self.state().ahead += by;
    }

    /// An engine is new and knows no ids, and nobody sleeps.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        state.last_id = 0;
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        drop(sleepers);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let state = self.state();
        Timestamp::from_millis(state.passed + state.ahead)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (wake, woken) = oneshot::channel();
        let mut state = self.state();
        let span = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let due = state.passed.saturating_add(span);
        state.sleeps += 1;
        let sleep = state.sleeps;
        if span > 0 {
            state.sleepers.insert((due, sleep), wake);
        }
        drop(state);
        Box::pin(async move {
            // At once where there is nothing to wait for: the sender is gone then.
            let _ = woken.await;
        })
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.passed().unsigned_abs())
    }

    fn new_id(&self) -> JobId {
        let mut state = self.state();
        let now = state.passed + state.ahead;
        (state.ids, state.last_id) = (state.ids + 1, state.last_id.max(now));
        let time = u128::try_from(state.last_id).unwrap_or(0) & ((1 << 48) - 1);
        let mixed = state.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2;
        let number = u128::from(state.ids & 0xfff);
        let version = (7 << 76) | (0b10 << 62);
        JobId::from_u128((time << 80) | version | (number << 64) | u128::from(mixed))
    }
}
