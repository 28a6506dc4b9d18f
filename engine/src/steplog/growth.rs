//! Who follows a log is told when it grows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::LogName;

/// The logs that somebody follows. Costs a writer one look where nobody follows any.
#[derive(Debug, Default)]
pub(super) struct Growth {
    followers: AtomicUsize,
    logs: Mutex<HashMap<LogName, watch::Sender<()>>>,
}

impl Growth {
    /// Tells those who follow this log to look again.
    pub(super) fn tell(&self, name: LogName) {
        if self.followers.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(log) = self.logs().get(&name) {
            log.send_replace(());
        }
    }

    fn logs(&self) -> MutexGuard<'_, HashMap<LogName, watch::Sender<()>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who follows a log. To be made before the log is read.
#[derive(Debug)]
pub(super) struct Watch {
    growth: Arc<Growth>,
    name: LogName,
    changes: watch::Receiver<()>,
}

impl Watch {
    pub(super) fn new(growth: &Arc<Growth>, name: LogName) -> Self {
        growth.followers.fetch_add(1, Ordering::SeqCst);
        let changes = growth.logs().entry(name).or_default().subscribe();
        Self { growth: Arc::clone(growth), name, changes }
    }

    /// Whether the log has grown since the last call that said so.
    pub(super) fn has_grown(&mut self) -> bool {
        self.changes.borrow_and_update().has_changed()
    }

    /// Waits until [`Watch::has_grown`] would say so.
    pub(super) async fn growth(&self) {
        // A copy, so that waiting takes nothing away from `has_grown`.
        let mut changes = self.changes.clone();
        // The sender lives as long as anyone who follows.
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut logs = self.growth.logs();
        // This one is among those that are counted.
        if logs.get(&self.name).is_some_and(|log| log.receiver_count() <= 1) {
            logs.remove(&self.name);
        }
        drop(logs);
        self.growth.followers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use annals_tasks_sdk::JobId;

    use super::*;

    #[test]
    fn a_log_is_forgotten_when_nobody_follows_it_any_more() {
        let growth = Arc::new(Growth::default());
        let name = LogName { job: JobId::from_u128(1), number: 1, attempt: 1 };
        growth.tell(name);
        let (mut one, mut other) = (Watch::new(&growth, name), Watch::new(&growth, name));
        assert!(!one.has_grown());
        growth.tell(name);
        assert!(one.has_grown() && !one.has_grown() && other.has_grown());
        drop(one);
        growth.tell(name);
        assert!(other.has_grown());
        drop(other);
        assert!(growth.logs().is_empty());
        assert_eq!(growth.followers.load(Ordering::SeqCst), 0);
    }
}
