//! How what a step has done is undone, said in terms of wires.

use std::fmt;
use std::time::Duration;

use super::build::UndoSaid;
use super::{Flow, Input, Step};
use crate::TaskKind;
use crate::plan::{JobEnd, OnLost, PolicyFields, Retry};

/// How a [`Step`] is undone, as was said with [`Step::compensate`]. Its methods say how what undoes
/// it is run; what is said last counts.
#[derive(Clone, Copy)]
pub struct Undo<'f> {
    flow: &'f Flow,
    index: usize,
}

impl fmt::Debug for Undo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Undo({})", self.index)
    }
}

impl<'f, T> Step<'f, T> {
    /// Says how what it has done is undone, when the job is cancelled, or at the ends that
    /// [`Flow::compensate_on`] names: by a task of this kind with this input. For that the
    /// step's own
    /// output is there; of other steps take [`Step::optional`], since they may have given nothing.
    ///
    /// ```
    /// use annals_tasks_sdk::plan::JobEnd;
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const RESERVE: TaskKind<String, u64> = TaskKind::new("reserve");
    /// const RELEASE: TaskKind<u64, ()> = TaskKind::new("release");
    /// const SHIP: TaskKind<u64, String> = TaskKind::new("ship");
    /// const ORDER: Workflow<String, String> = Workflow::new("order");
    ///
    /// fn order(flow: &Flow, item: Wire<String>) -> Wire<String> {
    ///     flow.compensate_on(&[JobEnd::Failed, JobEnd::Cancelled]);
    ///     let reservation = flow.task(RESERVE, item);
    ///     reservation.compensate(RELEASE, reservation).attempts(5);
    ///     flow.task(SHIP, reservation).wire()
    /// }
    ///
    /// let plan = flow::build_plan(ORDER, order, Payload::of(&"clock")?)?;
    /// let undo = plan.tasks[0].undo().unwrap();
    /// assert_eq!(undo.id.as_str(), "reserve~undo");
    /// assert_eq!(undo.input.as_str(), r#"{"$output":"reserve"}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What undoes it takes what it is given, or it does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use annals_tasks_sdk::prelude::*;
    /// const RESERVE: TaskKind<String, u64> = TaskKind::new("reserve");
    /// const RELEASE: TaskKind<String, ()> = TaskKind::new("release");
    ///
    /// fn wrong(flow: &Flow, item: Wire<String>) -> Wire<u64> {
    ///     let reservation = flow.task(RESERVE, item);
    ///     reservation.compensate(RELEASE, reservation); // it does not give the `String` …
    ///     reservation.wire()
    /// }
    /// ```
    pub fn compensate<I, O>(self, kind: TaskKind<I, O>, input: impl Input<I>) -> Undo<'f> {
        let Self { flow, index, .. } = self;
        let (kind, input) = (kind.name(), input.template(flow));
        let said = UndoSaid { kind, title: None, input, policy: PolicyFields::default() };
        flow.0.borrow_mut().tasks[index].undo = Some(said);
        Undo { flow, index }
    }
}

impl Flow {
    /// The ends before which what the steps have done is undone, where they say how
    /// ([`Step::compensate`]): failed, cancelled or both; cancelled alone where nothing is said.
    pub fn compensate_on(&self, ends: &[JobEnd]) -> &Self {
        self.0.borrow_mut().compensate_on = Some(ends.into());
        self
    }
}

impl Undo<'_> {
    /// Free text for people.
    pub fn title(self, title: &str) -> Self {
        self.said(|said| said.title = Some(title.into()))
    }

    /// How many attempts may fail, the first included.
    pub fn attempts(self, count: u32) -> Self {
        self.said(|said| said.policy.retry.max_attempts = count)
    }

    /// Whether and when a failed attempt is followed by another.
    pub fn retry(self, retry: Retry) -> Self {
        self.said(|said| said.policy.retry = retry)
    }

    /// How long one attempt may take.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.said(|said| said.policy.timeout = Some(timeout))
    }

    /// How long nothing may be heard of an attempt.
    pub fn heartbeat_timeout(self, silence: Duration) -> Self {
        self.said(|said| said.policy.heartbeat_timeout = Some(silence))
    }

    /// How long an attempt may take to end once it is told to stop.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        self.said(|said| said.policy.cancel_grace = Some(grace))
    }

    /// What happens after the engine died while it ran: it runs again, or fails.
    pub fn on_lost(self, action: OnLost) -> Self {
        self.said(|said| said.policy.on_lost = action)
    }

    fn said(self, change: impl FnOnce(&mut UndoSaid)) -> Self {
        if let Some(said) = &mut self.flow.0.borrow_mut().tasks[self.index].undo {
            change(said);
        }
        self
    }
}
