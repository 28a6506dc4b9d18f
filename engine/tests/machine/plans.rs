//! Random plans: chains, joins, needs of tasks further down, references, policies.

use std::time::Duration;

use annals_engine::job::Place;
use annals_tasks_sdk::plan::{
    Backoff, Compensation, JobEnd, OnFailure, OnLost, Plan, Policy, PolicyFields, Retry,
};
use annals_tasks_sdk::plan::{Limits, Reference, Start, TaskPatch, TaskSpec, references};
use annals_tasks_sdk::{KindName, Payload, TaskId, Timestamp};
use fastrand::Rng;

use crate::dsl::id;
use crate::looks::{Looks, looks_of};

/// A task as the generator and the oracle know it: numbers instead of names.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    /// `None` is the task before it.
    pub(crate) needs: Option<Vec<usize>>,
    /// Whose outputs it takes, and whether with a default.
    pub(crate) takes: Vec<(usize, bool)>,
    pub(crate) on_failure: OnFailure,
    pub(crate) on_lost: OnLost,
    pub(crate) max_attempts: u32,
    /// Whether it waits for a time, or for a signal.
    pub(crate) sleeps: Option<Sleeps>,
    pub(crate) looks: Option<Looks>,
    /// Whether it is done at the end of each run.
    pub(crate) at_end: bool,
    /// In how many attempts it is undone, where it can be.
    pub(crate) undo: Option<u32>,
    /// The task that it undoes.
    pub(crate) undoes: Option<usize>,
}

/// What a task does that never runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleeps {
    ForTime,
    ForSignal,
}

/// A plan as the generator and the oracle know it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that a plan may be")]
pub(crate) struct Draft {
    pub(crate) tasks: Vec<Sketch>,
    pub(crate) output: Option<(usize, bool)>,
    pub(crate) manual: bool,
    /// When it starts by itself.
    pub(crate) start_at: Option<i64>,
    /// Of a run, in milliseconds.
    pub(crate) deadline: Option<i64>,
    pub(crate) fail_fast: bool,
    /// The ends before which what was done is undone.
    pub(crate) compensate_on: Vec<JobEnd>,
    /// Whether it has a key that others share.
    pub(crate) exclusive: bool,
    /// Whether it is a child, and whether its tasks may have children.
    pub(crate) linked: bool,
    pub(crate) spawns: bool,
}

/// The name of the task at an index.
pub(crate) fn name(at: usize) -> String {
    format!("t{at}")
}

/// A plan of one to twelve tasks.
pub(crate) fn draft(rng: &mut Rng) -> Draft {
    let tasks = loop {
        let tasks = sketches(rng);
        if !has_circle(&tasks) {
            break tasks;
        }
    };
    let work = tasks.iter().filter(|task| !task.at_end).count();
    let output = (rng.u8(..5) == 0).then(|| (rng.usize(..work), rng.bool()));
    let (manual, fail_fast) = (rng.u8(..4) == 0, rng.u8(..6) == 0);
    let (linked, spawns) = (rng.u8(..4) == 0, rng.u8(..3) == 0);
    let mut draft = Draft { output, manual, fail_fast, linked, spawns, ..Draft::of(tasks) };
    for at in 0..draft.tasks.len() {
        let at_end = draft.tasks[at].at_end;
        let needed = all_needed(&draft.tasks, at);
        if rng.u8(..5) == 0 {
            let may =
                |&other: &usize| needed.contains(&other) || (at_end && !draft.tasks[other].at_end);
            let all: Vec<usize> = (0..draft.tasks.len()).filter(may).collect();
            draft.tasks[at].looks = Looks::any(rng, &all, at_end);
        }
        if at_end {
            let all = (0..draft.tasks.len()).filter(|&other| other != at && rng.u8(..9) == 0);
            draft.tasks[at].takes = all.map(|from| (from, true)).collect();
            continue;
        }
        let taken = needed.into_iter().filter_map(|from| match rng.u8(..10) {
            0 => Some((from, true)),
            1 => Some((from, false)),
            _ => None,
        });
        draft.tasks[at].takes = taken.collect();
    }
    let longest = [2_000, 20_000, 200_000][rng.usize(..3)];
    draft.start_at = (rng.u8(..8) == 0).then(|| rng.i64(-10..20_000));
    draft.compensate_on = match rng.u8(..4) {
        0 => vec![JobEnd::Failed],
        1 | 2 => vec![JobEnd::Failed, JobEnd::Cancelled],
        _ => vec![JobEnd::Cancelled],
    };
    draft.deadline = (rng.u8(..3) == 0).then(|| rng.i64(1..longest));
    draft
}

fn sketches(rng: &mut Rng) -> Vec<Sketch> {
    let len = rng.usize(1..=12);
    // Some plans are plain, so that long runs without a failure happen too.
    let strange = if rng.bool() { 3 } else { 12 };
    // Some have something to do at the end, which stands behind the work.
    let work = if rng.u8(..4) == 0 { rng.usize(1..=len) } else { len };
    let mut sketch = |at: usize| Sketch {
        needs: if at < work { needs(rng, 0, at, work) } else { needs(rng, work, at, len) },
        takes: Vec::new(),
        looks: None,
        at_end: at >= work,
        on_failure: match rng.u8(..strange) {
            0 => OnFailure::Continue,
            1 if at < work => OnFailure::Pause,
            _ => OnFailure::Fail,
        },
        on_lost: match rng.u8(..strange * 2) {
            0 => OnLost::Fail,
            1 if at < work => OnLost::Pause,
            _ => OnLost::Rerun,
        },
        max_attempts: if rng.bool() { 1 } else { rng.u32(2..5) },
        sleeps: match rng.u8(..12) {
            0 => Some(Sleeps::ForTime),
            1 => Some(Sleeps::ForSignal),
            _ => None,
        },
        undo: (at < work && rng.u8(..4) == 0).then(|| rng.u32(1..3)),
        undoes: None,
    };
    (0..len).map(&mut sketch).collect()
}

/// Among those of its part of the plan, which begins at `first`.
fn needs(rng: &mut Rng, first: usize, at: usize, len: usize) -> Option<Vec<usize>> {
    match rng.u8(..10) {
        0 => Some(Vec::new()),
        // Of any, those further down included; circles are thrown away.
        1 => Some((first..len).filter(|&need| need != at && rng.u8(..4) == 0).collect()),
        2 | 3 => Some((first..at).filter(|_| rng.u8(..3) == 0).collect()),
        _ => None,
    }
}

/// What a task directly needs while nothing is removed.
fn needed(tasks: &[Sketch], at: usize) -> Vec<usize> {
    let before = at.checked_sub(1).filter(|&before| tasks[before].at_end == tasks[at].at_end);
    tasks[at].needs.clone().unwrap_or_else(|| before.into_iter().collect())
}

fn all_needed(tasks: &[Sketch], at: usize) -> Vec<usize> {
    let (mut seen, mut work) = (vec![false; tasks.len()], needed(tasks, at));
    while let Some(next) = work.pop() {
        if !std::mem::replace(&mut seen[next], true) {
            work.extend(needed(tasks, next));
        }
    }
    (0..tasks.len()).filter(|&other| seen[other]).collect()
}

fn has_circle(tasks: &[Sketch]) -> bool {
    (0..tasks.len()).any(|at| all_needed(tasks, at).contains(&at))
}

impl Draft {
    /// A plan that says nothing but what its tasks are.
    pub(crate) fn of(tasks: Vec<Sketch>) -> Self {
        let (output, manual, deadline, start_at) = (None, false, None, None);
        Self {
            tasks,
            output,
            manual,
            start_at,
            deadline,
            fail_fast: false,
            compensate_on: Compensation::ENDS.into(),
            exclusive: false,
            linked: false,
            spawns: false,
        }
    }

    /// The plan that is submitted.
    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::new("walk");
        let deadline = self.deadline.map(|limit| u64::try_from(limit).unwrap());
        plan.deadline = deadline.map(Duration::from_millis);
        plan.start = match self.start_at {
            Some(at) => Start::At(Timestamp::from_millis(at)),
            None if self.manual => Start::Manual,
            None => Start::Now,
        };
        plan.output = self.output.map(|(from, default)| Payload::trusted(&taken(from, default)));
        plan.fail_fast = self.fail_fast;
        plan.compensate_on = self.compensate_on.clone().into();
        for (at, sketch) in (0..).zip(&self.tasks) {
            let part = if sketch.at_end { &mut plan.finally } else { &mut plan.tasks };
            part.push(sketch.spec(at));
        }
        plan
    }
}

impl Sketch {
    /// What a plan says of a task, read back. Needs of nobody are left out.
    pub(crate) fn of(spec: &TaskSpec, at_end: bool) -> Self {
        let index = |name: &str| name.strip_prefix('t').unwrap().parse::<usize>().unwrap();
        let taken = references(&spec.template()).unwrap().into_iter().filter_map(|found| {
            let Reference::Output { task, default, .. } = found.reference else { return None };
            Some((index(task.as_str()), default.is_some()))
        });
        let needs = |needs: &[TaskId]| needs.iter().map(|need| index(need.as_str())).collect();
        Self {
            needs: spec.needs.as_deref().map(needs),
            takes: taken.collect(),
            on_failure: spec.policy.on_failure,
            on_lost: spec.policy.on_lost,
            max_attempts: spec.policy.retry.max_attempts,
            sleeps: Self::of_kind(spec.kind.as_str()),
            looks: looks_of(spec),
            at_end,
            undo: spec.compensate.as_ref().map(|undo| undo.policy.retry.max_attempts),
            undoes: None,
        }
    }

    fn of_kind(kind: &str) -> Option<Sleeps> {
        match kind {
            "sleep" => Some(Sleeps::ForTime),
            "wait" => Some(Sleeps::ForSignal),
            _ => None,
        }
    }

    /// A task that undoes another one.
    pub(crate) fn of_undo(of: usize, max_attempts: u32) -> Self {
        Self {
            needs: Some(Vec::new()),
            takes: Vec::new(),
            on_failure: OnFailure::Fail,
            on_lost: OnLost::Rerun,
            max_attempts,
            sleeps: None,
            looks: None,
            at_end: false,
            undo: None,
            undoes: Some(of),
        }
    }

    /// The same as an edit leaves it.
    pub(crate) fn of_undo_edited(of: usize, spec: &TaskSpec) -> Self {
        let (on_lost, sleeps) = (spec.policy.on_lost, Self::of_kind(spec.kind.as_str()));
        Self { on_lost, sleeps, ..Self::of_undo(of, spec.policy.retry.max_attempts) }
    }

    /// A task for a plan of so many tasks, which may well not fit.
    pub(crate) fn any(rng: &mut Rng, len: usize) -> Self {
        let mut sketch = sketches(rng).swap_remove(0);
        let some = |rng: &mut Rng| (0..len).filter(|_| rng.usize(..=len) == 0).collect::<Vec<_>>();
        sketch.needs = (rng.u8(..3) == 0).then(|| some(rng));
        sketch.takes = if rng.u8(..3) == 0 {
            some(rng).into_iter().map(|from| (from, rng.bool())).collect()
        } else {
            Vec::new()
        };
        let all: Vec<usize> = (0..len).collect();
        let at_end = rng.u8(..6) == 0;
        sketch.looks = Looks::any(rng, &all, at_end).filter(|_| rng.u8(..4) == 0);
        sketch
    }

    /// Some of its fields but those that are `fixed`, for another task; others left out.
    pub(crate) fn patch(&self, rng: &mut Rng, fixed: &[&str]) -> TaskPatch {
        let fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(self.spec(0).to_json().as_str()).unwrap();
        let some = fields.into_iter().filter(|(name, _)| !fixed.contains(&&**name) && rng.bool());
        let mut patch: serde_json::Map<_, _> = some.collect();
        for left_out in ["needs", "input", "on_failure", "when", "compensate"] {
            if fixed.contains(&left_out) {
                continue;
            }
            if rng.u8(..4) == 0 {
                patch.entry(left_out).or_insert(serde_json::Value::Null);
            }
        }
        patch.entry("title").or_insert(rng.u8(..).to_string().into());
        let patch = serde_json::Value::from(patch).to_string();
        TaskPatch::from_json(&patch, &Limits::default()).unwrap()
    }

    pub(crate) fn spec(&self, at: usize) -> TaskSpec {
        let kind = match self.sleeps {
            Some(Sleeps::ForTime) => "sleep",
            Some(Sleeps::ForSignal) => "wait",
            None => "noop",
        };
        let kind = KindName::new(kind).unwrap();
        let mut spec = TaskSpec::new(id(&name(at)), kind);
        spec.needs =
            self.needs.as_ref().map(|needs| needs.iter().map(|&need| id(&name(need))).collect());
        if !self.takes.is_empty() {
            let list = self.takes.iter().map(|&(from, default)| taken(from, default));
            spec.input = Payload::trusted(&format!("[{}]", list.collect::<Vec<_>>().join(",")));
        }
        spec.when = self.looks.as_ref().map(|looks| Box::new(looks.condition()));
        let backoff = backoff();
        spec.compensate = self.undo.map(|attempts| Box::new(compensation(at, attempts)));
        let never = vec!["exit_2".into(), "busy_2".into()];
        let retry = Retry { max_attempts: self.max_attempts, backoff, never, max_elapsed: None };
        let (on_failure, on_lost) = (self.on_failure, self.on_lost);
        let fields = PolicyFields { retry, on_failure, on_lost, ..PolicyFields::default() };
        spec.policy = Policy::new(fields);
        spec
    }
}

fn backoff() -> Backoff {
    let (initial, max) = (Duration::from_secs(5), Duration::from_secs(30));
    Backoff { initial, factor: 2.0, max, jitter: 0.5 }
}

/// What undoes the task at an index, and takes its output.
fn compensation(at: usize, max_attempts: u32) -> Compensation {
    let never = vec!["exit_2".into(), "busy_2".into()];
    let retry = Retry { max_attempts, backoff: backoff(), never, max_elapsed: None };
    let mut undo = Compensation::new(KindName::new("noop").unwrap());
    undo.input = Payload::trusted(&taken(at, true));
    undo.policy = Policy::new(PolicyFields { retry, ..PolicyFields::default() });
    undo
}

/// A place in a plan of so many tasks, or one too many.
pub(crate) fn place(rng: &mut Rng, len: usize) -> Place {
    let other = id(&name(rng.usize(..=len)));
    match rng.u8(..6) {
        0 => Place::First,
        1 | 2 => Place::Before(other),
        3 | 4 => Place::After(other),
        _ => Place::Last,
    }
}

fn taken(from: usize, default: bool) -> String {
    let default = if default { r#","default":0"# } else { "" };
    format!(r#"{{"$output":"{}"{default}}}"#, name(from))
}
