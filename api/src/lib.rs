//! Annals: a durable workflow engine whose event log is the truth.
//!
//! This is the library that programs embed ([`prelude`]), and the library behind the `annals`
//! command: the JSON that answers are made of ([`dto`]), the reading of plan files
//! ([`plan_file`]), the engine over HTTP ([`http`]), and the command line (`cli`).
//!
//! ```
//! use annals::prelude::*;
//!
//! const GREET: TaskKind<String, String> = TaskKind::new("greet");
//! async fn greet(_cx: TaskContext, name: String) -> TaskResult<String> {
//!     Ok(format!("hello, {name}"))
//! }
//!
//! const WELCOME: Workflow<String, String> = Workflow::new("welcome");
//! fn welcome(flow: &Flow, name: Wire<String>) -> Wire<String> {
//!     flow.task(GREET, name).attempts(3).wire()
//! }
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let data = folder.path().join("annals-data");
//! let engine = Engine::open(data) // a folder; what was running there goes on
//!     .task(GREET, greet)
//!     .workflow(WELCOME, welcome)
//!     .start()
//!     .await?;
//! let job = engine.submit(WELCOME, &"Ada".to_owned()).await?; // durable from here on
//! assert_eq!(job.output().await?, "hello, Ada");
//! engine.shutdown().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod app;
mod bulk;
pub mod bundle;
mod cli;
mod client;
pub mod dto;
pub mod http;
pub mod json;
pub mod list;
mod loss;
pub mod plan_file;
mod serve;
mod settings;

pub use app::{App, router};

/// To be called first in `main` by programs that offer `shell` tasks or have isolated pools.
pub use annals_engine::isolated_entry;

/// Everything that a program needs to write tasks and run them.
pub mod prelude {
    pub use annals_engine::job::{JobStatus, TaskNumber, TaskStatus};
    pub use annals_engine::runtime::{JobError, Snapshot};
    pub use annals_engine::{Ask, Engine, JobHandle, Mode, Pool, Submission};
    pub use annals_tasks_sdk::prelude::*;
}
