//! From a plan to JSON, in one way only: fields in a fixed order, defaults left out.

use serde::Serialize;

use super::read_policy::{ON_FAILURE, ON_LOST};
use super::{Backoff, Plan, PolicyFields, Retry, Start, TaskSpec, compensate, condition, for_each};
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

    pub(super) fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
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
    match plan.start {
        Start::Now => {}
        Start::Manual => object.field("start", "manual"),
        Start::At(time) => object.field("start", &crate::time::text(time)),
    }
    if plan.fail_fast {
        object.field("fail_fast", &true);
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
    compensate::write_ends(&plan.compensate_on, &mut object);
    object.raw("tasks", &list(plan.tasks.iter().map(task)));
    if !plan.finally.is_empty() {
        object.raw("finally", &list(plan.finally.iter().map(task)));
    }
    Payload::trusted(&object.finish())
}

/// As many bytes as [`plan`] could write at most; a look at the lengths tells.
pub(super) fn at_most(plan: &Plan) -> usize {
    // The names of the fields, and what else has a bound of its own.
    const OF_PLAN: usize = 256;
    const OF_TASK: usize = 128;
    const OF_POLICY: usize = 1024;
    // A byte becomes six if it is escaped; quotes and what follows are three more.
    let text = |text: &str| 6 * text.len() + 3;
    let task = |task: &TaskSpec| {
        let needs = task.needs.iter().flatten().map(|id| text(id.as_str())).sum::<usize>();
        let policy = if task.policy.is_default() {
            0
        } else {
            OF_POLICY + task.policy.retry.never.iter().map(|code| text(code)).sum::<usize>()
        };
        let title = task.title.as_deref().map_or(0, text);
        let names = text(task.id.as_str()) + text(task.kind.as_str());
        // Few tasks have one, so that it may well be written to know its length.
        let when = task.when.as_ref().map_or(0, |when| condition::write(when).len());
        let list = task.for_each.as_ref().map_or(0, |each| each.items.as_str().len());
        let undo = task.compensate.as_ref().map_or(0, |undo| compensate::write(undo).len());
        let more = needs + when + list + policy + undo;
        OF_TASK + names + title + task.input.as_str().len() + more
    };
    let labels = plan.labels.iter().map(|(key, value)| text(key) + text(value)).sum::<usize>();
    let payloads = [Some(&plan.input), plan.output.as_ref()].into_iter().flatten();
    let payloads = payloads.map(|payload| payload.as_str().len()).sum::<usize>();
    let texts = text(&plan.name) + plan.exclusive.as_deref().map_or(0, text);
    OF_PLAN + texts + labels + payloads + plan.all_tasks().map(task).sum::<usize>()
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
    if let Some(condition) = &task.when {
        object.raw("when", &condition::write(condition));
    }
    if let Some(each) = &task.for_each {
        for_each::write(each, &mut object);
    }
    policy(&task.policy, &mut object);
    if let Some(compensation) = &task.compensate {
        object.raw("compensate", &compensate::write(compensation));
    }
    object.finish()
}

pub(super) fn policy(policy: &PolicyFields, object: &mut Object) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{
        Compensation, Condition, JobEnd, Limits, OnFailure, OnLost, Policy, TaskEnd,
    };
    use super::*;
    use crate::duration::DURATION_MAX;
    use crate::{KindName, TaskId};

    /// A plan that says all there is to say, its texts of nothing but what must be escaped.
    fn plan_of(tasks: usize, letters: usize) -> Plan {
        let text = "\u{1}".repeat(letters);
        let time = DURATION_MAX.saturating_sub(Duration::from_millis(1));
        let backoff =
            Backoff { initial: time, factor: f64::MIN_POSITIVE, max: time, jitter: -f64::MAX };
        let retry = Retry {
            max_attempts: u32::MAX,
            max_elapsed: Some(time),
            backoff,
            never: vec![text.as_str().into(); letters],
        };
        let policy = Policy::new(PolicyFields {
            timeout: Some(time),
            heartbeat_timeout: Some(time),
            cancel_grace: Some(time),
            retry,
            on_failure: OnFailure::Continue,
            on_lost: OnLost::Fail,
        });
        let mut plan = Plan::new(&text);
        plan.labels = (0..letters).map(|n| (text[n..].into(), text.as_str().into())).collect();
        plan.input = Payload::of(&text).unwrap();
        plan.start = Start::Manual;
        plan.deadline = Some(time);
        plan.exclusive = Some(text.as_str().into());
        plan.output = Some(Payload::of(&text).unwrap());
        let id = |n: usize| TaskId::new(&format!("t{n}")).unwrap();
        for n in 0..tasks {
            let mut task = TaskSpec::new(id(n), KindName::new("kind").unwrap());
            task.title = Some(text.as_str().into());
            task.input = Payload::of(&text).unwrap();
            task.needs = Some((0..n).map(id).collect());
            task.policy = policy.clone();
            let ends = [TaskEnd::Interrupted; 6].into();
            task.when = Some(Box::new(Condition::Task { task: id(n), ends }));
            let mut undo = Compensation::new(KindName::new("kind").unwrap());
            (undo.title, undo.input) = (task.title.clone(), task.input.clone());
            undo.policy = policy.clone();
            task.compensate = Some(Box::new(undo));
            plan.tasks.push(task);
        }
        plan.fail_fast = true;
        plan.compensate_on = [JobEnd::Failed, JobEnd::Cancelled].into();
        plan.finally = plan.tasks.clone();
        plan
    }

    #[test]
    fn no_plan_is_larger_than_it_could_be() {
        for (tasks, letters) in [(0, 0), (1, 0), (20, 0), (1, 1), (3, 7), (20, 40)] {
            let mut plan = plan_of(tasks, letters);
            let written = plan.to_json().as_str().len();
            assert!(written <= at_most(&plan), "{tasks} tasks, {letters} letters");
            for task in plan.tasks.iter_mut().chain(&mut plan.finally) {
                task.policy = Policy::default();
            }
            assert!(plan.to_json().as_str().len() <= at_most(&plan), "{tasks} default policies");
        }
    }

    #[test]
    fn the_limit_of_a_plan_is_exact() {
        let id = TaskId::new("a").unwrap();
        let mut plan = Plan::new("p");
        plan.tasks.push(TaskSpec::new(id, KindName::new("noop").unwrap()));
        let plan_bytes = plan.to_json().as_str().len();
        assert_eq!(plan.check(&Limits { plan_bytes, ..Limits::default() }), Ok(()));
        let less = Limits { plan_bytes: plan_bytes - 1, ..Limits::default() };
        assert!(plan.check(&less).is_err());
    }
}
