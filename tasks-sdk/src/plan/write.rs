//! From a plan to JSON, in one way only: fields in a fixed order, defaults left out.

use serde::Serialize;

use super::read_policy::{ON_FAILURE, ON_LOST};
use super::{Backoff, Plan, PolicyFields, Retry, Start, TaskSpec};
use crate::Payload;
use crate::duration::format_duration;

/// A JSON object that is being written.
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".into())
    }

    /// Adds a field whose value is JSON already.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&text(name));
        self.0.push(':');
        self.0.push_str(json);
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.raw(name, &text(value));
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Strings, and numbers and lists of them, always have a JSON form.
fn text<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}

fn list(parts: impl Iterator<Item = String>) -> String {
    format!("[{}]", parts.collect::<Vec<_>>().join(","))
}

pub(super) fn plan(plan: &Plan) -> Payload {
    let mut object = Object::new();
    object.field("name", &plan.name);
    if !plan.labels.is_empty() {
        object.field("labels", &plan.labels);
    }
    if !plan.input.is_null() {
        object.raw("input", plan.input.as_str());
    }
    if plan.start == Start::Manual {
        object.field("start", "manual");
    }
    if let Some(deadline) = plan.deadline {
        object.field("deadline", &format_duration(deadline));
    }
    if let Some(key) = &plan.exclusive {
        object.field("exclusive", key);
    }
    if let Some(output) = &plan.output {
        object.raw("output", output.as_str());
    }
    object.raw("tasks", &list(plan.tasks.iter().map(task)));
    Payload::trusted(&object.finish())
}

pub(super) fn task(task: &TaskSpec) -> String {
    let mut object = Object::new();
    object.field("id", &task.id);
    if let Some(title) = &task.title {
        object.field("title", title);
    }
    object.field("kind", &task.kind);
    if !task.input.is_null() {
        object.raw("input", task.input.as_str());
    }
    if let Some(needs) = &task.needs {
        object.field("needs", needs);
    }
    policy(&task.policy, &mut object);
    object.finish()
}

fn policy(policy: &PolicyFields, object: &mut Object) {
    let unsaid = PolicyFields::default();
    if let Some(timeout) = policy.timeout {
        object.field("timeout", &format_duration(timeout));
    }
    if let Some(silence) = policy.heartbeat_timeout {
        object.field("heartbeat_timeout", &format_duration(silence));
    }
    if let Some(grace) = policy.cancel_grace {
        object.field("cancel_grace", &format_duration(grace));
    }
    if policy.retry != unsaid.retry {
        object.raw("retry", &retry(&policy.retry));
    }
    if policy.on_failure != unsaid.on_failure {
        object.field("on_failure", word(&ON_FAILURE, policy.on_failure));
    }
    if policy.on_lost != unsaid.on_lost {
        object.field("on_lost", word(&ON_LOST, policy.on_lost));
    }
}

fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

fn retry(retry: &Retry) -> String {
    let mut object = Object::new();
    object.field("max_attempts", &retry.max_attempts);
    if let Some(elapsed) = retry.max_elapsed {
        object.field("max_elapsed", &format_duration(elapsed));
    }
    if retry.backoff != Backoff::default() {
        object.raw("backoff", &backoff(&retry.backoff));
    }
    if !retry.never.is_empty() {
        object.field("never", &retry.never);
    }
    object.finish()
}

fn backoff(backoff: &Backoff) -> String {
    let mut object = Object::new();
    object.field("initial", &format_duration(backoff.initial));
    object.field("factor", &backoff.factor);
    object.field("max", &format_duration(backoff.max));
    object.field("jitter", &backoff.jitter);
    object.finish()
}
