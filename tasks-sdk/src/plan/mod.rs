//! The plan of a job: plain data, the same whether Rust, YAML or HTTP made it.
//!
//! Nothing here runs anything. [`Plan::from_json`] reads and checks a plan, [`Plan::check`]
//! checks one that a program put together, and both list every fault with its place.

mod check;
mod child;
mod compensate;
mod condition;
mod dataflow;
pub(crate) mod fault;
mod fields;
pub(crate) mod for_each;
mod limits;
mod order;
mod patch;
mod policy;
mod read;
mod read_policy;
mod reference;
mod sites;
mod words;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{KindName, Payload, TaskId, Timestamp};

use fault::Faults;
use read::Unread;

pub use child::ChildPlan;
pub use compensate::Compensation;
pub use condition::{Condition, Decision, JobEnd, TaskEnd, Test};
pub use fault::{PlanError, PlanErrors};
pub use for_each::{ForEach, too_many};
pub use limits::Limits;
pub use patch::TaskPatch;
pub use policy::{Backoff, OnFailure, OnLost, Policy, PolicyFields, Retry};
pub use reference::{
    Found, Reference, Unresolved, references, resolve, resolve_within, resolves_within,
};

/// What a job is to do: an ordered list of tasks, and what they share.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Free text for people, up to 256 characters.
    pub name: Box<str>,
    /// Free pairs to find jobs by.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// What the tasks take with `{"$input": POINTER}`.
    pub input: Payload,
    /// When the job starts by itself.
    pub start: Start,
    /// How long a run may take, from its start or from the execute that reopened the job; without
    /// end when left out. Time in which the job is paused does not count.
    pub deadline: Option<Duration>,
    /// Of the jobs with the same key one runs at a time, and the others wait in the order in which
    /// they started; 1 to 256 characters.
    pub exclusive: Option<Box<str>>,
    /// What the job gives, with references; the output of the last task that is not removed
    /// when this is left out.
    pub output: Option<Payload>,
    /// The steps, in the order in which people read them.
    pub tasks: Vec<TaskSpec>,
    /// Whether the first failure that fails the job stops what runs and starts nothing more.
    pub fail_fast: bool,
    /// The ends before which what the tasks have done is undone, where they say how: failed,
    /// cancelled or both. The last that has completed goes first.
    pub compensate_on: Box<[JobEnd]>,
    /// Steps that run at the end of each run, however it ends: when its end is decided and nothing
    /// else of it is alive. What becomes of them changes nothing of that end, nor for
    /// those behind them. They need one another, and nothing of `tasks`.
    pub finally: Vec<TaskSpec>,
}

/// When a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// As soon as it is accepted.
    #[default]
    Now,
    /// When somebody executes it.
    Manual,
    /// At this time, or as soon as it is accepted where that has passed. Who executes it starts it
    /// before.
    At(Timestamp),
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSpec {
    /// Unique in the plan.
    pub id: TaskId,
    /// Free text for people.
    pub title: Option<Box<str>>,
    /// Which implementation runs it.
    pub kind: KindName,
    /// What the implementation is given, with references to earlier results.
    pub input: Payload,
    /// The tasks that must be settled first. `None` means the task before it in the plan, an
    /// empty list means none.
    pub needs: Option<Box<[TaskId]>>,
    /// Whether it runs when its turn has come, or is skipped; it runs when this is left out.
    pub when: Option<Box<Condition>>,
    /// The list for each element of which it is done, where it is done more than once.
    pub for_each: Option<Box<ForEach>>,
    /// How what it has done is undone; it stays as it is when this is left out.
    pub compensate: Option<Box<Compensation>>,
    /// Timeouts, retries, and what a failure or a loss means.
    pub policy: Policy,
}

impl Plan {
    /// A plan without tasks; [`Plan::check`] refuses it until it has some.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            input: Payload::NULL,
            start: Start::Now,
            deadline: None,
            exclusive: None,
            output: None,
            tasks: Vec::new(),
            fail_fast: false,
            compensate_on: Compensation::ENDS.into(),
            finally: Vec::new(),
        }
    }

    /// Reads a plan and checks it; every fault is listed with its place, not only the first.
    ///
    /// Fields that no plan has, or that this version does not do yet, are refused. `null` counts
    /// as left out, save for `needs`, where it could mean two things, and for inputs and outputs,
    /// where it is a value.
    ///
    /// ```
    /// use annals_tasks_sdk::plan::{Limits, Plan};
    /// let text = r#"{"name": "nightly", "tasks": [
    ///     {"id": "fetch", "kind": "http", "timeout": "30 sec"},
    ///     {"id": "store", "kind": "shell", "needs": ["fetsh"]}
    /// ]}"#;
    /// let errors = Plan::from_json(text, &Limits::default()).unwrap_err();
    /// assert_eq!(errors.0[0].pointer, "/tasks/0/timeout");
    /// assert_eq!(errors.0[1].detail, "no task has the id `fetsh`; did you mean `fetch`?");
    /// ```
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, PlanErrors> {
        let mut faults = Faults::default();
        let read = read::plan(text, limits, &mut faults);
        if let Some((plan, unread)) = &read {
            check::plan(plan, unread, limits, &mut faults);
        }
        faults.finish()?;
        let (plan, _) = read.expect("what could not be read left a fault");
        Ok(plan)
    }

    /// Checks a plan that a program put together, by the same rules as [`Plan::from_json`].
    pub fn check(&self, limits: &Limits) -> Result<(), PlanErrors> {
        let mut faults = Faults::default();
        check::plan(self, &Unread::default(), limits, &mut faults);
        faults.finish()?;
        // Most plans are far below the limit, and need not be written to know that.
        if write::at_most(self) <= limits.plan_bytes {
            return Ok(());
        }
        let bytes = self.to_json().as_str().len();
        if let Some(detail) = check::too_large("the plan", bytes, "plan_bytes", limits.plan_bytes) {
            return Err(PlanError { pointer: String::new(), detail }.into());
        }
        Ok(())
    }

    /// All its tasks: the work, and behind it what is done at the end.
    pub fn all_tasks(&self) -> impl Iterator<Item = &TaskSpec> {
        self.tasks.iter().chain(&self.finally)
    }

    /// JSON Pointer of a task in the plan, by its place among [all](Plan::all_tasks).
    pub fn place_of(&self, index: usize) -> String {
        match index.checked_sub(self.tasks.len()) {
            Some(index) => format!("/finally/{index}"),
            None => format!("/tasks/{index}"),
        }
    }

    /// The plan as JSON: fields in a fixed order, defaults left out. For a plan that passes
    /// [`Plan::check`], [`Plan::from_json`] gives the same plan back.
    pub fn to_json(&self) -> Payload {
        write::plan(self)
    }
}

impl TaskSpec {
    /// A task with no input that needs the task before it.
    pub fn new(id: TaskId, kind: KindName) -> Self {
        Self {
            id,
            title: None,
            kind,
            input: Payload::NULL,
            needs: None,
            when: None,
            for_each: None,
            compensate: None,
            policy: Policy::default(),
        }
    }

    /// Reads a task that is no part of a plan yet, such as one that is to be inserted, and checks
    /// what can be checked of it alone; every fault is listed with its place.
    ///
    /// ```
    /// use annals_tasks_sdk::plan::{Limits, TaskSpec};
    /// let text = r#"{"id": "report", "kind": "http", "timeout": "30 sec"}"#;
    /// let errors = TaskSpec::from_json(text, &Limits::default()).unwrap_err();
    /// assert_eq!(errors.0[0].pointer, "/timeout");
    /// ```
    pub fn from_json(text: &str, limits: &Limits) -> Result<Self, PlanErrors> {
        let mut faults = Faults::default();
        let spec = read::task(text, "", &mut faults).spec;
        check::alone(&spec, String::new, limits, &mut faults);
        faults.finish()?;
        Ok(spec)
    }

    /// Checks what can be checked of a task alone: sizes, times, the form of its references, and
    /// that its `$input` references find something in the `input` of its job. What it needs, and
    /// whose outputs it takes, is for the job to check.
    pub fn check(&self, input: &Payload, limits: &Limits) -> Result<(), PlanErrors> {
        let mut faults = Faults::default();
        check::alone(self, String::new, limits, &mut faults);
        dataflow::alone(self, input, false, &mut faults);
        faults.finish()
    }

    /// The same for a task of [`Plan::finally`], which has rules of its own: it cannot pause the
    /// job, and has a default for each output that it takes.
    pub fn check_in_finally(&self, input: &Payload, limits: &Limits) -> Result<(), PlanErrors> {
        let mut faults = Faults::default();
        check::alone(self, String::new, limits, &mut faults);
        check::of_finally(self, "", &mut faults);
        dataflow::alone(self, input, true, &mut faults);
        faults.finish()
    }

    /// The task as JSON, as it stands in [`Plan::to_json`].
    pub fn to_json(&self) -> Payload {
        Payload::trusted(&write::task(self))
    }
}
