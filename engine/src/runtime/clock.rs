//! Time: the one place that reads a clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use annals_tasks_sdk::{JobId, Timestamp};
use uuid::Uuid;

/// What the engine takes time from; tests bring their own.
pub trait Clock: Send + Sync + 'static {
    /// What the time is.
    fn now(&self) -> Timestamp;

    /// Resolves when `duration` has passed.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// How much time has passed since some moment that stays the same. Unlike [`Clock::now`] nobody
    /// sets it: it goes with what [`Clock::sleep`] waits for.
    fn steady(&self) -> Duration {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed()
    }

    /// How long a loop may wait for messages before it looks at the clock again, when the next
    /// due time is `ahead`. A clock that jumps by hand also wakes its loops by hand.
    fn patience(&self, ahead: Duration) -> Duration {
        // The wall clock may be set while a loop waits, so no wait is long.
        ahead.min(Duration::from_secs(30))
    }

    /// An id for a job that is made now: greater than all that were given out before.
    fn new_id(&self) -> JobId {
        // A clock that stands before 1970 cannot be written into an id; it is read as 1970.
        let is_sane = SystemTime::now() >= UNIX_EPOCH;
        let epoch = || Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0));
        JobId::from_uuid(if is_sane { Uuid::now_v7() } else { epoch() })
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
