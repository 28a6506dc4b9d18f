//! What a task writes through `tracing` lands in its step log.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use annals_tasks_sdk::{AttemptId, JobId, Stream, TaskId};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::AttemptLog;
use super::write::Shared;

/// The name of the span that an attempt runs in.
pub(crate) const SPAN: &str = "attempt";

type Key = (JobId, TaskId, u32);

/// The logs that are being written. A subscriber is global, so this is too.
static LIVE: Mutex<Option<HashMap<Key, Weak<Shared>>>> = Mutex::new(None);

/// Whether anyone looks: without a layer an attempt need not be noted.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// A layer that writes events inside an attempt's span to the attempt's step log, as lines of
/// standard error.
///
/// The span is called `attempt` and has the fields `job`, `task` and `attempt`; the log must
/// have been [opened](super::StepLogs::open) before the span is made, and after this call.
pub fn layer() -> StepLogLayer {
    WATCHED.store(true, Ordering::Release);
    StepLogLayer(())
}

/// See [`layer`].
#[derive(Debug)]
pub struct StepLogLayer(());

/// Whether there is a layer, which finds only logs that are open when their span is made.
pub(crate) fn is_watched() -> bool {
    WATCHED.load(Ordering::Acquire)
}

pub(super) fn register(attempt: &AttemptId, log: &AttemptLog) {
    if !is_watched() {
        return;
    }
    let key = (attempt.job, attempt.task.clone(), attempt.attempt);
    let shared = std::sync::Arc::downgrade(log.shared());
    let mut live = live();
    let logs = live.get_or_insert_default();
    if logs.len() >= logs.capacity() {
        // Instead of growing, those that are over are forgotten.
        logs.retain(|_, log| log.strong_count() > 0);
    }
    logs.insert(key, shared);
}

fn live() -> MutexGuard<'static, Option<HashMap<Key, Weak<Shared>>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(key: &Key) -> Option<AttemptLog> {
    let shared = live().as_ref()?.get(key)?.upgrade()?;
    Some(AttemptLog::from_shared(shared))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for StepLogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() != SPAN {
            return;
        }
        let mut fields = SpanFields::default();
        attributes.record(&mut fields);
        let log = fields.key().and_then(|key| find(&key));
        if let (Some(log), Some(span)) = (log, context.span(id)) {
            span.extensions_mut().insert(log);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(mut scope) = context.event_scope(event) else { return };
        let log = scope.find_map(|span| span.extensions().get::<AttemptLog>().cloned());
        let Some(log) = log else { return };
        log.write(Stream::Stderr, line_of(event).as_bytes());
    }
}

/// An event as a line of standard error.
pub(crate) fn line_of(event: &Event<'_>) -> String {
    let metadata = event.metadata();
    let mut text = format!("{:>5} {}:", metadata.level(), metadata.target());
    event.record(&mut EventFields(&mut text));
    text.push('\n');
    text
}

/// The fields of an attempt's span, whatever the type that they were recorded as.
#[derive(Default)]
struct SpanFields {
    job: String,
    task: String,
    attempt: String,
}

impl SpanFields {
    fn key(&self) -> Option<Key> {
        let job = self.job.parse().ok()?;
        Some((job, TaskId::known(&self.task).ok()?, self.attempt.parse().ok()?))
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let place = match field.name() {
            "job" => &mut self.job,
            "task" => &mut self.task,
            "attempt" => &mut self.attempt,
            _ => return,
        };
        value.clone_into(place);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.record_str(field, text.trim_matches('"'));
    }
}

/// Writes the message, and then the other fields with their names.
struct EventFields<'a>(&'a mut String);

impl Visit for EventFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to memory does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
