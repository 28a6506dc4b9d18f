//! Workflows in Rust: a function that is given wires and makes a plan.
//!
//! The function runs when a job is submitted, before any of its tasks does, and only puts the
//! plan together. So a wire has no value to look at, and the plan is the same data that HTTP and
//! YAML carry.
//!
//! ```
//! use annals_tasks_sdk::{Payload, flow, prelude::*};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)] struct Order { item: String }
//! # #[derive(Serialize, Deserialize)] struct Reservation;
//! # #[derive(Serialize, Deserialize)] struct Receipt;
//!
//! const RESERVE: TaskKind<Order, Reservation> = TaskKind::new("reserve");
//! const CHARGE: TaskKind<(Order, Reservation), Receipt> = TaskKind::new("charge");
//!
//! fn fulfil(flow: &Flow, order: Wire<Order>) -> Wire<Receipt> {
//!     let reservation = flow.task(RESERVE, order);
//!     flow.task(CHARGE, (order, reservation)).attempts(3).timeout(minutes(5)).wire()
//! }
//!
//! const FULFIL: Workflow<Order, Receipt> = Workflow::new("fulfil");
//!
//! let order = Payload::of(&Order { item: "clock".into() })?;
//! let plan = flow::build_plan(FULFIL, fulfil, order)?;
//! assert_eq!(
//!     plan.tasks[1].input.as_str(),
//!     r#"[{"$input":""},{"$output":"reserve"}]"#,
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An edge between the wrong types does not compile:
//!
//! ```compile_fail,E0277
//! # use annals_tasks_sdk::prelude::*;
//! const COUNT: TaskKind<String, u64> = TaskKind::new("count");
//! const SHOUT: TaskKind<String, String> = TaskKind::new("shout");
//!
//! fn wrong(flow: &Flow, text: Wire<String>) -> Wire<String> {
//!     let count = flow.task(COUNT, text);
//!     flow.task(SHOUT, count).wire() // `Step<'_, u64>` does not give the `String` …
//! }
//! ```
//!
//! Nor does a workflow whose end is not what its name promises:
//!
//! ```compile_fail,E0277
//! # use annals_tasks_sdk::{Payload, flow, prelude::*};
//! const COUNT: TaskKind<String, u64> = TaskKind::new("count");
//! const WRONG: Workflow<String, String> = Workflow::new("wrong");
//!
//! fn wrong(flow: &Flow, text: Wire<String>) -> Wire<u64> {
//!     flow.task(COUNT, text).wire()
//! }
//! let plan = flow::build_plan(WRONG, wrong, Payload::NULL);
//! ```

mod build;
mod each;
mod input;
mod step;
mod undo;
mod when;
mod workflow;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;

use crate::plan::TaskSpec;
use crate::{Payload, PayloadError, TaskKind};
use build::{Draft, Part};
use input::{Node, Source, Template};

pub use input::{Edge, Input, Value};
pub use step::{Step, Wire};
pub use undo::Undo;
pub use workflow::{FlowErrors, PlanMaker, Workflow, WorkflowFn, build_plan, erase_workflow};

/// The plan that a workflow function is putting together.
#[derive(Default)]
pub struct Flow(RefCell<Draft>);

impl Flow {
    /// Adds a task after those added so far.
    ///
    /// It needs the tasks whose wires are in its input and those named with [`Step::after`];
    /// where there are none, the task added before it, or nothing with [`Step::at_once`]. Its id
    /// is the name of its kind; a second use of a kind has a [`Step::id`] of its own.
    pub fn task<I, O>(&self, kind: TaskKind<I, O>, input: impl Input<I>) -> Step<'_, O> {
        self.add(kind, input, Part::Tasks)
    }

    /// Adds a task that runs at the end of each run of the job, however it ends: behind those added
    /// so, when nothing else of the job is alive. What becomes of it changes nothing of that end.
    ///
    /// It may look at that end ([`Step::when_job_ends`]), and take what other tasks gave, where
    /// they gave something ([`Step::optional`]).
    ///
    /// ```
    /// use annals_tasks_sdk::plan::JobEnd;
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const COPY: TaskKind<String, u64> = TaskKind::new("copy");
    /// const ALERT: TaskKind<(String, Option<u64>), ()> = TaskKind::new("alert");
    /// const BACKUP: Workflow<String, u64> = Workflow::new("backup");
    ///
    /// fn backup(flow: &Flow, host: Wire<String>) -> Wire<u64> {
    ///     let bytes = flow.task(COPY, host);
    ///     flow.finally(ALERT, (host, bytes.optional())).when_job_ends(&[JobEnd::Failed]);
    ///     bytes.wire()
    /// }
    ///
    /// let plan = flow::build_plan(BACKUP, backup, Payload::of(&"web-42")?)?;
    /// assert_eq!(plan.finally[0].id.as_str(), "alert");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finally<I, O>(&self, kind: TaskKind<I, O>, input: impl Input<I>) -> Step<'_, O> {
        self.add(kind, input, Part::Finally)
    }

    /// Adds a task that has a job of its own, made by a workflow that the engine has: it waits for
    /// that child without a slot, and gives what the child gives. Its id is the workflow's name.
    ///
    /// What is said of attempts is refused: none is made. The workflow says such things of its own
    /// tasks, and how long a run of it may take ([`Flow::deadline`]).
    ///
    /// ```
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const COPY: TaskKind<String, u64> = TaskKind::new("copy");
    /// const BACKUP: Workflow<String, u64> = Workflow::new("backup");
    /// const NIGHTLY: Workflow<String, u64> = Workflow::new("nightly");
    ///
    /// fn nightly(flow: &Flow, host: Wire<String>) -> Wire<u64> {
    ///     flow.job(BACKUP, host).wire()
    /// }
    ///
    /// let plan = flow::build_plan(NIGHTLY, nightly, Payload::of(&"web-42")?)?;
    /// let input = plan.tasks[0].input.as_str();
    /// assert_eq!(input, r#"{"workflow":"backup","input":{"$input":""}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn job<I, O>(&self, workflow: Workflow<I, O>, input: impl Input<I>) -> Step<'_, O> {
        let input = Box::new(input.template(self));
        let call = Template(Node::Call(workflow.name(), input));
        let index = self.0.borrow_mut().add(TaskSpec::JOB, call, Part::Tasks);
        Step { flow: self, index, types: PhantomData }.id(workflow.name())
    }

    /// Adds a task that waits for a signal: what somebody tells the job by this name is what it
    /// gives. It holds no slot meanwhile. Its id is the signal's name.
    ///
    /// It has no attempts, so what is said of these is refused;
    /// [`wait_at_most`](Flow::wait_at_most) says how long it waits.
    pub fn wait<T>(&self, signal: &str) -> Step<'_, T> {
        self.add_wait(signal, None)
    }

    /// The same, for so long: then it fails with `timed_out`.
    ///
    /// ```
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const PUBLISH: TaskKind<(String, String), u64> = TaskKind::new("publish");
    /// const RELEASE: Workflow<String, u64> = Workflow::new("release");
    ///
    /// fn release(flow: &Flow, version: Wire<String>) -> Wire<u64> {
    ///     let by = flow.wait_at_most::<String>("approved", hours(48));
    ///     flow.task(PUBLISH, (version, by)).wire()
    /// }
    ///
    /// let plan = flow::build_plan(RELEASE, release, Payload::of(&"1.0")?)?;
    /// let input = plan.tasks[0].input.as_str();
    /// assert_eq!(input, r#"{"signal":"approved","timeout":"2d"}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_at_most<T>(&self, signal: &str, timeout: Duration) -> Step<'_, T> {
        self.add_wait(signal, Some(timeout))
    }

    fn add_wait<T>(&self, signal: &str, timeout: Option<Duration>) -> Step<'_, T> {
        #[derive(Serialize)]
        struct Wait<'a> {
            signal: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            timeout: Option<String>,
        }
        let wait = Wait { signal, timeout: timeout.map(crate::duration::format_duration) };
        let input = Template(Node::Value(Payload::of(&wait)));
        let index = self.0.borrow_mut().add("wait", input, Part::Tasks);
        Step { flow: self, index, types: PhantomData }.id(signal)
    }

    fn add<I, O>(&self, kind: TaskKind<I, O>, input: impl Input<I>, part: Part) -> Step<'_, O> {
        let template = input.template(self);
        let index = self.0.borrow_mut().add(kind.name(), template, part);
        Step { flow: self, index, types: PhantomData }
    }

    /// The first failure that fails the job stops what runs, and nothing more is started.
    pub fn fail_fast(&self) -> &Self {
        self.0.borrow_mut().fail_fast = true;
        self
    }

    /// How long a run of the job may take; time in which the job is paused does not count. When it
    /// has passed the job fails with `deadline_exceeded`, and an execute opens a run with all of it
    /// again. What is said last counts.
    ///
    /// ```
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const FETCH: TaskKind<String, u64> = TaskKind::new("fetch");
    /// const NIGHTLY: Workflow<String, u64> = Workflow::new("nightly");
    ///
    /// fn nightly(flow: &Flow, url: Wire<String>) -> Wire<u64> {
    ///     flow.deadline(hours(6));
    ///     flow.task(FETCH, url).wire()
    /// }
    ///
    /// let url = Payload::of(&"https://example.org")?;
    /// let plan = flow::build_plan(NIGHTLY, nightly, url)?;
    /// assert_eq!(plan.deadline, Some(hours(6)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self, deadline: Duration) -> &Self {
        self.0.borrow_mut().deadline = Some(deadline);
        self
    }

    /// A wire that carries a value known now, for more than one task. For one task,
    /// [`Value`] does.
    ///
    /// A value that has no JSON form fails the making of the plan.
    pub fn value<T: Serialize>(&self, value: T) -> Wire<T> {
        // Written before the borrow, since writing runs code of the value's author.
        let value = Payload::of(&value);
        let index = self.0.borrow_mut().add_value(value);
        Wire { source: Source::Value(index), types: PhantomData }
    }
}

/// So many hours.
pub const fn hours(count: u64) -> Duration {
    seconds(count.saturating_mul(3_600))
}

/// So many minutes.
pub const fn minutes(count: u64) -> Duration {
    seconds(count.saturating_mul(60))
}

/// So many seconds.
pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// So many milliseconds.
pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
