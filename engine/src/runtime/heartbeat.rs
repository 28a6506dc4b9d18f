//! Heartbeats: for how long nothing was heard of an attempt.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock::Clock;
use crate::steplog::Listener;

/// When an attempt was heard of last. Who says something pays for a look at the clock and a store;
/// only who waits for silence has a timer.
pub(super) struct Heartbeat {
    limit: Duration,
    clock: Arc<dyn Clock>,
    /// In microseconds of the clock's steady time.
    last: AtomicU64,
}

impl Heartbeat {
    /// An attempt of which something must be heard within `limit` from now, and again and again.
    pub(super) fn new(limit: Duration, clock: &Arc<dyn Clock>) -> Self {
        let heartbeat = Self { limit, clock: Arc::clone(clock), last: AtomicU64::new(0) };
        heartbeat.beat();
        heartbeat
    }

    /// Notes that something was heard.
    pub(super) fn beat(&self) {
        let now = u64::try_from(self.clock.steady().as_micros()).unwrap_or(u64::MAX);
        // Of two at a time the later one counts.
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// For how long nothing may be heard.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Resolves when nothing was heard for the whole of the limit.
    pub(super) async fn silence(&self) {
        loop {
            let last = Duration::from_micros(self.last.load(Ordering::Relaxed));
            let left = self.limit.saturating_sub(self.clock.steady().saturating_sub(last));
            if left.is_zero() {
                return;
            }
            self.clock.sleep(left).await;
        }
    }
}

impl Listener for Heartbeat {
    fn wrote(&self) {
        self.beat();
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat").field("limit", &self.limit).finish_non_exhaustive()
    }
}
