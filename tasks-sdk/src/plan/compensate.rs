//! Compensation: how what a task has done is undone, and at which ends of a run it is.

use super::check;
use super::check::{All, Ids};
use super::dataflow::{self, Values};
use super::fault::Faults;
use super::fields::{Fields, Known};
use super::read::{name, payload};
use super::read_policy::policy;
use super::write::{self, Object};
use super::{Found, JobEnd, Limits, OnFailure, OnLost, PlanErrors, Policy, Reference, TaskSpec};
use crate::{KindName, Payload};

/// How what a task has done is undone. When it comes to that, it becomes a task of the job,
/// whose id is that of the task with `~undo` behind it.
///
/// ```
/// use annals_tasks_sdk::plan::{Limits, TaskSpec};
/// let text = r#"{"id": "charge", "kind": "charge", "compensate":
///     {"kind": "refund", "input": {"$output": "charge"}, "retry": {"max_attempts": 5}}}"#;
/// let charge = TaskSpec::from_json(text, &Limits::default())?;
/// let undo = charge.undo().unwrap();
/// assert_eq!((undo.id.as_str(), undo.kind.as_str()), ("charge~undo", "refund"));
/// # Ok::<(), annals_tasks_sdk::plan::PlanErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Compensation {
    /// Free text for people.
    pub title: Option<Box<str>>,
    /// Which implementation undoes it.
    pub kind: KindName,
    /// What that is given, with references: to the output of the task that is undone; to those of
    /// others too, with a default, since these may have given nothing.
    pub input: Payload,
    /// Timeouts, retries, and what a loss means. A failure never keeps other tasks from being
    /// undone, and nothing of it pauses the job.
    pub policy: Policy,
}

impl Compensation {
    /// The word in the ids of the tasks that undo others.
    pub const UNDO: &'static str = "undo";
    /// The ends before which what was done is undone, where a plan does not say.
    pub const ENDS: [JobEnd; 1] = [JobEnd::Cancelled];

    /// It as JSON, as it stands in [`Plan::to_json`](super::Plan::to_json).
    pub fn to_json(&self) -> Payload {
        Payload::trusted(&write(self))
    }

    /// Of this kind, with no input.
    pub fn new(kind: KindName) -> Self {
        Self { title: None, kind, input: Payload::NULL, policy: Policy::default() }
    }
}

impl TaskSpec {
    /// The task that undoes this one, where it says how. It needs nothing.
    pub fn undo(&self) -> Option<Self> {
        let Compensation { title, kind, input, policy } = self.compensate.as_deref()?.clone();
        let id = self.id.derived(Compensation::UNDO);
        Some(Self { title, input, needs: Some([].into()), policy, ..Self::new(id, kind) })
    }

    /// How many bytes its input has, its list, and the input of what undoes it.
    pub fn input_bytes(&self) -> usize {
        let undo = self.compensate.as_ref().map_or(0, |undo| undo.input.as_str().len());
        let list = self.for_each.as_ref().map_or(0, |each| each.items.as_str().len());
        self.input.as_str().len() + list + undo
    }

    /// Checks what can be checked of a task that undoes another one, alone, as [`TaskSpec::check`]
    /// does of others.
    pub fn check_undo(&self, input: &Payload, limits: &Limits) -> Result<(), PlanErrors> {
        let mut faults = Faults::default();
        let (kind, input_of) = (self.kind.clone(), self.input.clone());
        let run = Compensation { title: None, kind, input: input_of, policy: self.policy.clone() };
        check_run(&run, "", limits, &mut faults);
        let input = Values::new(input.as_str());
        let own = self.id.derived_from().map_or_else(|| self.id.as_str(), |(own, _)| own);
        for Found { pointer, reference } in
            dataflow::found(&self.input, || "/input".into(), &mut faults)
        {
            dataflow::check_input(&reference, &pointer, Some(&input), &mut faults);
            wants_default(own, &reference, &pointer, &mut faults);
        }
        faults.finish()
    }
}

const COMPENSATION: Known = Known {
    what: "`compensate`",
    fields: &[
        "title",
        "kind",
        "input",
        "timeout",
        "heartbeat_timeout",
        "cancel_grace",
        "retry",
        "on_lost",
    ],
    unsupported: &[],
};

const ENDS: [(&str, JobEnd); 2] = [("failed", JobEnd::Failed), ("cancelled", JobEnd::Cancelled)];

/// The field `compensate` of a task.
pub(super) fn read(task: &Fields<'_>, faults: &mut Faults) -> Option<Box<Compensation>> {
    let text = task.present("compensate")?;
    let fields = Fields::read(text, &task.place("compensate"), &COMPENSATION, faults)?;
    let kind = name(&fields, "kind", KindName::new, faults);
    let title = fields.string("title", faults).map(Into::into);
    let input = payload(&fields, "input", faults).unwrap_or_default();
    let policy = Policy::new(policy(&fields, faults));
    Some(Box::new(Compensation { title, kind: kind?, input, policy }))
}

/// The field `compensate_on` of a plan.
pub(super) fn read_ends(plan: &Fields<'_>, faults: &mut Faults) -> Box<[JobEnd]> {
    let said = plan.present("compensate_on").and_then(|_| {
        let all = plan.words("compensate_on", &ENDS, faults);
        all.filter(|all| !all.is_empty() || none_said(faults))
    });
    said.unwrap_or_else(|| Compensation::ENDS.into())
}

fn none_said(faults: &mut Faults) -> bool {
    let detail = "`compensate_on` must have at least one word: without `compensate` in its tasks a \
        plan undoes nothing";
    faults.add("/compensate_on", detail);
    false
}

/// What is wrong with the ends that a program has put together.
pub(super) fn check_ends(ends: &[JobEnd], faults: &mut Faults) {
    if ends.is_empty() {
        none_said(faults);
    }
    if let Some(place) = ends.iter().position(|&end| end == JobEnd::Completed) {
        let detail = "what has completed is not undone: `compensate_on` is of failed, cancelled";
        faults.add(format!("/compensate_on/{place}"), detail);
    }
}

/// What must hold of it whatever is around its task, which stands at `place`.
pub(super) fn check_alone(of: &Compensation, place: &str, limits: &Limits, faults: &mut Faults) {
    check_run(of, &format!("{place}/compensate"), limits, faults);
}

fn check_run(of: &Compensation, place: &str, limits: &Limits, faults: &mut Faults) {
    let Compensation { kind, input, policy, .. } = of;
    if kind.as_str() == TaskSpec::JOB {
        let detail = "that a child job undoes a task is not supported by this version";
        faults.add(format!("{place}/kind"), detail);
    }
    check::payload(input, || format!("{place}/input"), "the input", limits, faults);
    check::policy(policy, place, faults);
    if policy.on_failure != OnFailure::Fail {
        let detail = "a failure to undo never keeps other tasks from being undone";
        faults.add(format!("{place}/on_failure"), detail);
    }
    if policy.on_lost == OnLost::Pause {
        let detail = "what undoes a task cannot pause its job, whose end is decided";
        faults.add(format!("{place}/on_lost"), detail);
    }
}

/// That each reference in it will find what it names; `task` is at a position of the plan.
pub(super) fn data(
    all: &All<'_>,
    task: usize,
    ids: &Ids<'_>,
    input: Option<&Values<'_>>,
    faults: &mut Faults,
) {
    let spec = all.tasks[task];
    let Some(of) = spec.compensate.as_deref() else { return };
    let place = || all.place(task) + "/compensate/input";
    for Found { pointer, reference } in dataflow::found(&of.input, place, faults) {
        match dataflow::check(&reference, &pointer, input, ids, faults) {
            Some(taken) if all.is_of_finally(taken) => {
                let detail = format!("`{}` is a task of `finally`", all.tasks[taken].id);
                faults.add(pointer, detail + ", which runs when everything is undone");
            }
            Some(_) => wants_default(spec.id.as_str(), &reference, &pointer, faults),
            None => {}
        }
    }
}

/// What can be said of its references without the tasks around.
pub(super) fn data_alone(spec: &TaskSpec, input: &Values<'_>, faults: &mut Faults) {
    let Some(of) = spec.compensate.as_deref() else { return };
    let place = || "/compensate/input".into();
    for Found { pointer, reference } in dataflow::found(&of.input, place, faults) {
        dataflow::check_input(&reference, &pointer, Some(input), faults);
        wants_default(spec.id.as_str(), &reference, &pointer, faults);
    }
}

/// The task itself has completed when it is undone; others may have given nothing.
pub(super) fn wants_default(own: &str, reference: &Reference, pointer: &str, faults: &mut Faults) {
    let other = reference.task().is_some_and(|task| task.as_str() != own);
    if other && reference.default().is_none() {
        let detail = format!("only `{own}` has surely completed when it is undone: give a default");
        faults.add(pointer, detail);
    }
}

/// It as JSON.
pub(super) fn write(of: &Compensation) -> String {
    let mut object = Object::new();
    if let Some(title) = &of.title {
        object.field("title", title);
    }
    object.field("kind", &of.kind);
    if !of.input.is_null() {
        object.raw("input", of.input.as_str());
    }
    write::policy(&of.policy, &mut object);
    object.finish()
}

/// The ends as JSON, where they are not those of a plan that does not say.
pub(super) fn write_ends(ends: &[JobEnd], plan: &mut Object) {
    if *ends != Compensation::ENDS {
        let words: Vec<&str> = ends.iter().map(|end| end.as_str()).collect();
        plan.field("compensate_on", &words);
    }
}
