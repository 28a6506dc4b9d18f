//! Starting: the attempts of a turn come to life together.
//!
//! Most attempts that do not wait for anything are over when they have been polled once. A task of
//! the runtime for each would cost more than many of them do, so one task polls them one after the
//! other, and only those that wait get tasks of their own.
//!
//! An attempt may block its thread at its first poll. The others must not wait for it: while some
//! are left there is always one more task of this kind, which another thread may take.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use super::attempt::Attempt;

/// So many are polled before other tasks have their turn.
const POLLS_MAX: usize = 64;

/// Attempts that are to be polled for the first time.
struct Starting(Mutex<std::vec::IntoIter<Attempt>>);

/// Starts attempts on the threads of a runtime.
pub(super) fn start(threads: &Handle, attempts: Vec<Attempt>) {
    let starting = Arc::new(Starting(Mutex::new(attempts.into_iter())));
    threads.spawn(poll_all(starting));
}

impl Starting {
    /// The next one, and whether it leaves others.
    fn next(&self) -> Option<(Attempt, bool)> {
        // Nothing below panics while it holds the lock.
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = attempts.next()?;
        Some((next, attempts.len() > 0))
    }
}

/// Has another task take part. What this thread spawns last waits for this thread alone, so there
/// is something behind that task which does nothing.
fn call_for_help(starting: &Arc<Starting>) {
    tokio::spawn(poll_all(Arc::clone(starting)));
    tokio::spawn(std::future::ready(()));
}

fn poll_all(starting: Arc<Starting>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut alone = true;
        let mut room = None;
        let mut polls = 0;
        while let Some((attempt, more)) = starting.next() {
            if std::mem::take(&mut alone) && more {
                call_for_help(&starting);
            }
            let mut first = Room::filled(room.take(), || attempt.run());
            match poll_fn(|cx| Poll::Ready(first.poll(cx))).await {
                Poll::Ready(()) => room = Some(first),
                Poll::Pending => drop(tokio::spawn(poll_fn(move |cx| first.poll(cx)))),
            }
            polls += 1;
            if polls == POLLS_MAX {
                polls = 0;
                tokio::task::yield_now().await;
            }
        }
    })
}

/// The memory of a future, which many may have one after the other.
struct Room<F>(Pin<Box<Option<F>>>);

impl<F: Future<Output = ()>> Room<F> {
    /// A future in memory that was had before, if there is some.
    fn filled(before: Option<Self>, future: impl FnOnce() -> F) -> Self {
        match before {
            None => Self(Box::pin(Some(future()))),
            Some(mut room) => {
                room.0.set(Some(future()));
                room
            }
        }
    }

    /// Polls the future, and drops it when it is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = self.0.as_mut().as_pin_mut() else { return Poll::Ready(()) };
        let polled = future.poll(cx);
        if polled.is_ready() {
            self.0.set(None);
        }
        polled
    }
}
