//! What a task writes through `tracing` in a process of its own goes to standard error, which is
//! its step log.

use std::io::Write;

use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::steplog::{SPAN, line_of};

struct ToStderr;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ToStderr {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let in_attempt = |mut scope: tracing_subscriber::registry::Scope<'_, S>| {
            scope.any(|span| span.name() == SPAN)
        };
        if context.event_scope(event).is_some_and(in_attempt) {
            // Who reads it is gone only when this process is about to be.
            let _ = std::io::stderr().lock().write_all(line_of(event).as_bytes());
        }
    }
}

/// Listens, unless the program has somebody who does.
pub(super) fn listen() {
    let subscriber = tracing_subscriber::registry().with(ToStderr);
    let _ = tracing::subscriber::set_global_default(subscriber);
}
