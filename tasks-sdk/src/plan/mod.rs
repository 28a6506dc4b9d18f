//! The plan of a job: plain data, the same whether Rust, YAML or HTTP made it.
//!
//! Nothing here runs anything. [`Plan::from_json`] reads and checks a plan, [`Plan::check`]
//! checks one that a program put together, and both list every fault with its place.

mod policy;
mod reference;

use std::collections::BTreeMap;

use crate::{KindName, Payload, TaskId};

pub use policy::{Backoff, OnFailure, OnLost, Policy, PolicyFields, Retry};
pub use reference::{Found, Reference, Unresolved, references, resolve, resolve_within};

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
    /// What the job gives, with references; the output of the last task that is not removed
    /// when this is left out.
    pub output: Option<Payload>,
    /// The steps, in the order in which people read them.
    pub tasks: Vec<TaskSpec>,
}

/// When a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// As soon as it is accepted.
    #[default]
    Now,
    /// When somebody executes it.
    Manual,
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
            output: None,
            tasks: Vec::new(),
        }
    }
}

impl TaskSpec {
    /// A task with no input that needs the task before it.
    pub fn new(id: TaskId, kind: KindName) -> Self {
        let (title, input, needs) = (None, Payload::NULL, None);
        Self { id, title, kind, input, needs, policy: Policy::default() }
    }
}
