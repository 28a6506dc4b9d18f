//! Panics of tasks: caught, with message and place.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::task::Poll;

thread_local! {
    /// Whether this thread runs a task's code right now.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic of a task on this thread was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has the places of tasks' panics noted; other panics are handled as before.
pub(crate) fn note_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_TASK.get() {
                let place = info.location().map(ToString::to_string);
                PLACE.with_borrow_mut(|kept| *kept = place);
            } else {
                before(info);
            }
        }));
    });
}

/// Runs a piece of a task's code; a panic becomes its message and place.
pub(crate) fn guard<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    let outer = IN_TASK.replace(true);
    let result = catch_unwind(AssertUnwindSafe(code));
    IN_TASK.set(outer);
    result.map_err(|payload| {
        let place = PLACE.with_borrow_mut(Option::take);
        let message = message_of(&*payload);
        // The payload is the task's own value: its drop may panic too.
        if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
            std::mem::forget(second);
        }
        match place {
            Some(place) => format!("{message} (at {place})"),
            None => message,
        }
    })
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "the panic carries no message".into())
}

/// A future whose panics are caught, also those in its drop.
pub(crate) struct Guarded<'a, T>(Option<Boxed<'a, T>>);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<'a, T> Guarded<'a, T> {
    pub(crate) fn new(future: Boxed<'a, T>) -> Self {
        Self(Some(future))
    }

    /// Polls on; after a panic the future is gone.
    pub(crate) async fn run(&mut self) -> Result<T, String> {
        std::future::poll_fn(|cx| {
            let Some(future) = self.0.as_mut() else {
                return Poll::Ready(Err("the task has panicked before".into()));
            };
            match guard(|| future.as_mut().poll(cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(output)) => {
                    self.end();
                    Poll::Ready(Ok(output))
                }
                Err(panic) => {
                    self.end();
                    Poll::Ready(Err(panic))
                }
            }
        })
        .await
    }

    /// Drops the future.
    pub(crate) fn end(&mut self) {
        if let Some(future) = self.0.take()
            && let Err(panic) = guard(move || drop(future))
        {
            tracing::warn!(panic, "a task panicked while it was dropped");
        }
    }
}

impl<T> Drop for Guarded<'_, T> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            let _ = guard(move || drop(future));
        }
    }
}
