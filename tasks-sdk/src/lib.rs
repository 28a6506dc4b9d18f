//! What a task author needs: the [`Task`] trait, its [`TaskContext`] and [`TaskError`], and the
//! [`plan`] data. Nothing here does I/O or knows the engine.
#![forbid(unsafe_code)]

pub mod cancel;
pub mod context;
pub mod duration;
pub mod error;
mod id;
mod json;
mod payload;
pub mod plan;
pub mod task;
mod time;

pub use context::{AttemptId, Progress, Stream, TaskContext};
pub use error::{Exit, Fatal, TaskError, TaskResult};
pub use id::{BadName, JobId, KindName, TaskId};
pub use payload::{Payload, PayloadError};
pub use task::{Done, Handler, Task, TaskKind};
pub use time::Timestamp;

/// Everything that a file of tasks needs.
pub mod prelude {
    pub use crate::{Fatal, Progress, Task, TaskContext, TaskError, TaskKind, TaskResult};
}
