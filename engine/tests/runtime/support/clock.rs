//! A clock that stands still until a test moves it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_engine::runtime::Clock;
use annals_tasks_sdk::Timestamp;
use tokio::sync::{oneshot, watch};

/// A moment less than `span`.
pub(crate) fn almost(span: Duration) -> Duration {
    span.saturating_sub(Duration::from_millis(1))
}

/// A clock that stands still until a test moves it.
pub(crate) struct HandClock {
    state: Mutex<State>,
    /// How many wait on it.
    sleepers: watch::Sender<usize>,
}

struct State {
    now: Timestamp,
    /// How much time has passed, whatever the clock was set to.
    passed: Duration,
    sleepers: Vec<(Timestamp, oneshot::Sender<()>)>,
}

impl HandClock {
    pub(crate) fn new() -> Arc<Self> {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let state = Mutex::new(State { now, passed: Duration::ZERO, sleepers: Vec::new() });
        Arc::new(Self { state, sleepers: watch::Sender::new(0) })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Moves time on; who has slept long enough wakes. Loops are told by `engine.look()`.
    pub(crate) fn advance(&self, by: Duration) {
        let left = self.with(|state| {
            state.now = state.now.plus(by);
            state.passed += by;
            let now = state.now;
            let (due, waiting): (Vec<_>, Vec<_>) =
                state.sleepers.drain(..).partition(|(at, _)| *at <= now);
            state.sleepers = waiting;
            // Who does not sleep any more need not be woken.
            for (_, wake) in due {
                let _ = wake.send(());
            }
            state.sleepers.retain(|(_, wake)| !wake.is_closed());
            state.sleepers.len()
        });
        self.sleepers.send_replace(left);
    }

    /// Sets the time back, as an operator may do with the clock of a machine.
    pub(crate) fn set_back(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("a test sets it back by little");
        self.with(|state| state.now = Timestamp::from_millis(state.now.as_millis() - millis));
    }

    /// Waits until somebody sleeps until exactly `span` from now.
    pub(crate) async fn until_slept_on(&self, span: Duration) {
        let mut sleepers = self.sleepers.subscribe();
        loop {
            sleepers.mark_unchanged();
            let found = self.with(|state| {
                let due = state.now.plus(span);
                state.sleepers.iter().any(|(at, wake)| *at == due && !wake.is_closed())
            });
            if found {
                return;
            }
            sleepers.changed().await.expect("the clock lives as long as the test");
        }
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        self.with(|state| state.now)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (wake, woken) = oneshot::channel();
        let sleepers = self.with(|state| {
            let due = state.now.plus(duration);
            if due > state.now {
                state.sleepers.push((due, wake));
            }
            state.sleepers.len()
        });
        self.sleepers.send_replace(sleepers);
        Box::pin(async move {
            // At once where the duration was zero: the sender is gone then.
            let _ = woken.await;
        })
    }

    fn steady(&self) -> Duration {
        self.with(|state| state.passed)
    }

    fn patience(&self, _ahead: Duration) -> Duration {
        Duration::from_hours(1)
    }
}
