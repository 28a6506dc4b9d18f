//! The handles of a workflow function: a task that was added, and where its data goes.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::input::Source;
use super::{Edge, Flow};
use crate::plan::{OnFailure, OnLost, PolicyFields, Retry};

/// Data that will be there when the job runs: its input, or the output of a task.
pub struct Wire<T> {
    pub(super) source: Source,
    pub(super) types: PhantomData<fn() -> T>,
}

impl<T> Clone for Wire<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Wire<T> {}

impl<T> fmt::Debug for Wire<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({:?})", self.source)
    }
}

/// A task that was added to a [`Flow`]. It is a wire of its output as it stands; its methods say
/// how it is run; what is said last counts.
pub struct Step<'f, T> {
    pub(super) flow: &'f Flow,
    pub(super) index: usize,
    pub(super) types: PhantomData<fn() -> T>,
}

impl<T> Clone for Step<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Step<'_, T> {}

impl<T> fmt::Debug for Step<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({})", self.index)
    }
}

impl<T> Step<'_, T> {
    /// The wire of its output, free of the flow's lifetime.
    pub fn wire(self) -> Wire<T> {
        Wire { source: Source::Task(self.index), types: PhantomData }
    }

    /// The wire of its output where it may give none: because of a condition, of a failure that the
    /// plan goes on with, or of an operator who skipped it. Then it carries `None`.
    pub fn optional(self) -> Wire<Option<T>> {
        Wire { source: Source::Optional(self.index), types: PhantomData }
    }

    /// Names the task in its job; its id is the name of its kind otherwise.
    pub fn id(self, id: &str) -> Self {
        self.flow.0.borrow_mut().tasks[self.index].id = id.into();
        self
    }

    /// Free text for people.
    pub fn title(self, title: &str) -> Self {
        self.flow.0.borrow_mut().tasks[self.index].title = Some(title.into());
        self
    }

    /// Starts only when that task is settled, whose output it may not take.
    pub fn after<U>(self, edge: impl Edge<U>) -> Self {
        self.flow.0.borrow_mut().tasks[self.index].after.push(edge.wire().source);
        self
    }

    /// Needs no task besides those whose wires it takes, not even the one added before it.
    pub fn at_once(self) -> Self {
        self.flow.0.borrow_mut().tasks[self.index].at_once = true;
        self
    }

    /// How many attempts may fail, the first included.
    pub fn attempts(self, count: u32) -> Self {
        self.policy(|policy| policy.retry.max_attempts = count)
    }

    /// Whether and when a failed attempt is followed by another.
    pub fn retry(self, retry: Retry) -> Self {
        self.policy(|policy| policy.retry = retry)
    }

    /// How long one attempt may take.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.policy(|policy| policy.timeout = Some(timeout))
    }

    /// How long nothing may be heard of an attempt; see
    /// [`TaskContext::heartbeat`](crate::TaskContext::heartbeat).
    pub fn heartbeat_timeout(self, silence: Duration) -> Self {
        self.policy(|policy| policy.heartbeat_timeout = Some(silence))
    }

    /// How long an attempt may take to end once it is told to stop.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        self.policy(|policy| policy.cancel_grace = Some(grace))
    }

    /// What a failure of the task, after its last attempt, means for the job.
    pub fn on_failure(self, action: OnFailure) -> Self {
        self.policy(|policy| policy.on_failure = action)
    }

    /// What happens after the engine died while the task ran.
    pub fn on_lost(self, action: OnLost) -> Self {
        self.policy(|policy| policy.on_lost = action)
    }

    fn policy(self, change: impl FnOnce(&mut PolicyFields)) -> Self {
        change(&mut self.flow.0.borrow_mut().tasks[self.index].policy);
        self
    }
}
