//! What a task author needs: the [`Task`] trait, its [`TaskContext`] and [`TaskError`], the
//! [`flow`] builder with typed wires, and the [`plan`] data that it makes.
//!
//! Nothing here does I/O or knows the engine, so tasks and workflows are tested without one
//! ([`testing`]).
//!
//! ```
//! use annals_tasks_sdk::{Payload, flow, prelude::*, testing};
//!
//! // A durable name is a typed constant, declared once.
//! const FETCH: TaskKind<String, Vec<u64>> = TaskKind::new("fetch");
//! const TOTAL: TaskKind<(String, Vec<u64>), String> = TaskKind::new("total");
//!
//! // A task is a plain async function: `?` retries, `.fatal()?` gives up.
//! async fn total(cx: TaskContext, (name, numbers): (String, Vec<u64>)) -> TaskResult<String> {
//!     cx.ensure_live()?;
//!     let first = numbers.first().ok_or_else(|| TaskError::new("empty", "no numbers")).fatal()?;
//!     Ok(format!("{name}: {} from {first} on", numbers.iter().sum::<u64>()))
//! }
//!
//! // A workflow joins tasks by wires; one between wrong types does not compile.
//! const REPORT: Workflow<String, String> = Workflow::new("report");
//! fn report(flow: &Flow, name: Wire<String>) -> Wire<String> {
//!     let numbers = flow.task(FETCH, name).attempts(3).timeout(seconds(30));
//!     flow.task(TOTAL, (name, numbers)).wire()
//! }
//!
//! let plan = flow::build_plan(REPORT, report, Payload::of("sales")?)?;
//! assert_eq!(plan.tasks.len(), 2);
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let run = testing::attempt().run(total, ("sales".into(), vec![3, 4])).await;
//! assert_eq!(run.output(), "sales: 7 from 3 on");
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod cancel;
pub mod context;
pub mod duration;
pub mod error;
pub mod flow;
mod id;
mod json;
pub mod near;
mod payload;
pub mod plan;
pub mod steps;
pub mod task;
pub mod testing;
mod time;

pub use context::{AttemptId, Progress, Stream, TaskContext};
pub use error::{Exit, Fatal, RETRY_AFTER_MAX, TaskError, TaskResult};
pub use flow::{
    Edge, Flow, FlowErrors, Input, PlanMaker, Step, Undo, Value, Wire, Workflow, WorkflowFn,
};
pub use id::{BadName, JobId, KindName, SignalName, TaskId};
pub use payload::{Payload, PayloadError};
pub use task::{Done, Handler, Task, TaskKind};
pub use time::Timestamp;

/// Everything that a file of tasks and workflows needs.
pub mod prelude {
    pub use crate::flow::{Flow, Step, Value, Wire, Workflow, hours, millis, minutes, seconds};
    pub use crate::plan::{Backoff, JobEnd, OnFailure, OnLost, Retry};
    pub use crate::{Fatal, Progress, Task, TaskContext, TaskError, TaskKind, TaskResult};
}
