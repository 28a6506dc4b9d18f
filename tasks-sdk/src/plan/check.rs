//! The rules that every plan follows, whoever made it. Needs and references have their own files.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::dataflow::data;
use super::fault::Faults;
use super::order::Order;
use super::read::Unread;
use super::words::{self, NAME_CHARS_MAX};
use super::{Backoff, Limits, OnFailure, OnLost, Plan, PolicyFields, Retry, TaskSpec};
use super::{child, compensate, condition, for_each};
use crate::duration::DURATION_MAX;
use crate::near::hint;
use crate::{Payload, json};

const HINTED_IDS_MAX: usize = 1_000;

/// A factor beyond this is a mistake; the longest wait is reached at the second retry anyway.
const FACTOR_MAX: f64 = 1_000.0;

pub(super) fn plan(plan: &Plan, unread: &Unread, limits: &Limits, faults: &mut Faults) {
    let characters = plan.name.chars().count();
    if characters == 0 || characters > NAME_CHARS_MAX {
        let rule = format!("a name has 1 to {NAME_CHARS_MAX} characters, not {characters}");
        faults.add("/name", rule);
    }
    payload(&plan.input, || "/input".into(), "the input", limits, faults);
    if let Some(output) = &plan.output {
        payload(output, || "/output".into(), "the output", limits, faults);
    }
    if let Some(deadline) = plan.deadline {
        positive(deadline, "/deadline".into(), "a deadline", faults);
    }
    compensate::check_ends(&plan.compensate_on, faults);
    let key = plan.exclusive.as_ref();
    if let Some(detail) = key.and_then(|key| words::fault("an exclusive key", key)) {
        faults.add("/exclusive", detail);
    }
    for label in plan.labels.keys() {
        if let Some(detail) = words::fault("the name of a label", label) {
            faults.add(json::join("/labels", label), detail);
        }
    }
    if plan.tasks.is_empty() {
        faults.add("/tasks", "a plan needs at least one task");
    }
    let all = All::of(plan);
    if let Some(detail) = too_many(all.tasks.len(), limits) {
        let place = if plan.tasks.len() > limits.tasks { "/tasks" } else { "/finally" };
        return faults.add(place, detail);
    }
    for (index, task) in all.tasks.iter().enumerate() {
        if faults.is_full() {
            return;
        }
        alone(task, || all.place(index), limits, faults);
        if all.is_of_finally(index) {
            of_finally(task, &all.place(index), faults);
        }
    }
    let ids = Ids::of(&all, unread, faults);
    let order = Order::of(&all, unread, &ids, faults);
    data(plan, &all, unread, &ids, &order, faults);
}

/// All tasks of a plan by their positions: those of `finally` stand behind the others.
pub(super) struct All<'a> {
    pub(super) tasks: Vec<&'a TaskSpec>,
    /// The position of the first task of `finally`.
    finally: usize,
}

impl<'a> All<'a> {
    fn of(plan: &'a Plan) -> Self {
        Self { tasks: plan.all_tasks().collect(), finally: plan.tasks.len() }
    }

    pub(super) fn is_of_finally(&self, position: usize) -> bool {
        position >= self.finally
    }

    /// The position of the task before one, in its part of the plan.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        position.checked_sub(1).filter(|_| position != self.finally)
    }

    /// JSON Pointer of a task in the plan.
    pub(super) fn place(&self, position: usize) -> String {
        match position.checked_sub(self.finally) {
            Some(index) => format!("/finally/{index}"),
            None => format!("/tasks/{position}"),
        }
    }
}

/// What a task of `finally` must be besides: the end of its job is decided, so nothing holds it.
pub(super) fn of_finally(task: &TaskSpec, place: &str, faults: &mut Faults) {
    let detail = "a task of `finally` cannot pause its job, whose end is decided";
    if task.policy.on_failure == OnFailure::Pause {
        faults.add(format!("{place}/on_failure"), detail);
    }
    if task.policy.on_lost == OnLost::Pause {
        faults.add(format!("{place}/on_lost"), detail);
    }
    if task.compensate.is_some() {
        let detail = "a task of `finally` runs when everything is undone, and stays as it is";
        faults.add(format!("{place}/compensate"), detail);
    }
}

/// What a task must be whatever is around it.
pub(super) fn alone(
    task: &TaskSpec,
    place: impl Fn() -> String,
    limits: &Limits,
    faults: &mut Faults,
) {
    if task.id.derived_from().is_some() {
        faults.add(place() + "/id", format!("`{}` is an id that the engine alone gives", task.id));
    }
    payload(&task.input, || place() + "/input", "the input", limits, faults);
    child::alone(task, &place, limits, faults);
    if let Some(condition) = &task.when {
        condition::check(condition, &(place() + "/when"), faults);
    }
    if let Some(each) = &task.for_each {
        payload(&each.items, || place() + "/for_each", "the list", limits, faults);
        for_each::check(each, &place(), limits, faults);
    }
    if !task.policy.is_default() {
        policy(&task.policy, &place(), faults);
    }
    if let Some(compensation) = &task.compensate {
        compensate::check_alone(compensation, &place(), limits, faults);
    }
}

/// The positions of tasks by their ids.
pub(super) struct Ids<'a>(HashMap<&'a str, usize>);

impl<'a> Ids<'a> {
    fn of(all: &All<'a>, unread: &Unread, faults: &mut Faults) -> Self {
        let unread: HashSet<usize> = unread.ids.iter().copied().collect();
        let mut positions = HashMap::with_capacity(all.tasks.len());
        for (index, task) in all.tasks.iter().enumerate() {
            if unread.contains(&index) {
                continue;
            }
            let first = *positions.entry(task.id.as_str()).or_insert(index);
            if first != index {
                let first = all.place(first);
                let detail = format!("the id `{}` is that of {first} already", task.id);
                faults.add(all.place(index) + "/id", detail);
            }
        }
        Self(positions)
    }

    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.0.get(id).copied()
    }

    /// The sentence for an id that no task has.
    pub(super) fn unknown(&self, id: &str) -> String {
        // Near names are looked for among so many only.
        let candidates = if self.0.len() <= HINTED_IDS_MAX { Some(self.0.keys()) } else { None };
        let near = hint(id, candidates.into_iter().flatten().copied());
        format!("no task has the id `{id}`{near}")
    }
}

pub(super) fn too_many(tasks: usize, limits: &Limits) -> Option<String> {
    let limit = limits.tasks;
    (tasks > limit).then(|| format!("the plan has {tasks} tasks; the limit `tasks` is {limit}"))
}

pub(super) fn too_large(what: &str, bytes: usize, name: &str, limit: usize) -> Option<String> {
    (bytes > limit).then(|| format!("{what} has {bytes} bytes; the limit `{name}` is {limit}"))
}

pub(super) fn payload(
    payload: &Payload,
    pointer: impl FnOnce() -> String,
    what: &str,
    limits: &Limits,
    faults: &mut Faults,
) {
    let bytes = payload.as_str().len();
    if let Some(detail) = too_large(what, bytes, "payload_bytes", limits.payload_bytes) {
        faults.add(pointer(), detail);
    }
}

pub(super) fn policy(policy: &PolicyFields, pointer: &str, faults: &mut Faults) {
    if let Some(timeout) = policy.timeout {
        positive(timeout, format!("{pointer}/timeout"), "a timeout", faults);
    }
    if let Some(silence) = policy.heartbeat_timeout {
        positive(silence, format!("{pointer}/heartbeat_timeout"), "a heartbeat timeout", faults);
    }
    if let Some(grace) = policy.cancel_grace {
        duration(grace, format!("{pointer}/cancel_grace"), faults);
    }
    retry(&policy.retry, &format!("{pointer}/retry"), faults);
}

fn retry(retry: &Retry, pointer: &str, faults: &mut Faults) {
    if retry.max_attempts == 0 {
        let detail = "`max_attempts` must be at least 1: it counts the first attempt too";
        faults.add(format!("{pointer}/max_attempts"), detail);
    }
    if let Some(elapsed) = retry.max_elapsed {
        positive(elapsed, format!("{pointer}/max_elapsed"), "`max_elapsed`", faults);
    }
    backoff(&retry.backoff, &format!("{pointer}/backoff"), faults);
}

fn backoff(backoff: &Backoff, pointer: &str, faults: &mut Faults) {
    duration(backoff.initial, format!("{pointer}/initial"), faults);
    duration(backoff.max, format!("{pointer}/max"), faults);
    if backoff.max < backoff.initial {
        faults.add(format!("{pointer}/max"), "`max` must not be less than `initial`");
    }
    // Written so that NaN fails.
    if !(1.0..=FACTOR_MAX).contains(&backoff.factor) {
        let detail = format!("`factor` must be a number from 1 to {FACTOR_MAX}");
        faults.add(format!("{pointer}/factor"), detail);
    }
    if !(0.0..=1.0).contains(&backoff.jitter) {
        faults.add(format!("{pointer}/jitter"), "`jitter` must be a number from 0 to 1");
    }
}

fn positive(length: Duration, pointer: String, what: &str, faults: &mut Faults) {
    if length.is_zero() {
        faults.add(pointer, format!("{what} must be longer than zero"));
    } else {
        duration(length, pointer, faults);
    }
}

fn duration(length: Duration, pointer: String, faults: &mut Faults) {
    if length > DURATION_MAX {
        faults.add(pointer, "it is longer than 100 years");
    } else if !length.subsec_nanos().is_multiple_of(1_000_000) {
        faults.add(pointer, "durations are counted in whole milliseconds");
    }
}
