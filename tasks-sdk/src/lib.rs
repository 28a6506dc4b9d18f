//! What a task author needs: the [`Task`] trait, its [`TaskContext`] and [`TaskError`], and the
//! [`plan`] data. Nothing here does I/O or knows the engine.
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
pub mod task;
pub mod testing;
mod time;

pub use context::{AttemptId, Progress, Stream, TaskContext};
pub use error::{Exit, Fatal, TaskError, TaskResult};
pub use flow::{Edge, Flow, Input, PlanMaker, Step, Value, Wire, Workflow, WorkflowFn};
pub use id::{BadName, JobId, KindName, TaskId};
pub use payload::{Payload, PayloadError};
pub use task::{Done, Handler, Task, TaskKind};
pub use time::Timestamp;

/// Everything that a file of tasks and workflows needs.
pub mod prelude {
    pub use crate::flow::{Flow, Step, Value, Wire, Workflow, hours, millis, minutes, seconds};
    pub use crate::plan::{Backoff, OnFailure, OnLost, Retry};
    pub use crate::{Fatal, Progress, Task, TaskContext, TaskError, TaskKind, TaskResult};
}
