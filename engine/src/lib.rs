//! The engine of Annals: a pure job state machine, an event log, and the runtime that joins them.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`job`] | the machine: commands become events, events make the state; no I/O |
//! | [`log`] | the events on disk: hashed, verified on every read, written by group commit |
//! | [`runtime`] | the only impure part: [`Engine`], and handles on its jobs |
//! | [`kinds`] | the tasks that come with it: `shell`, `http`, `sleep`, `noop` |
//! | [`processes`] | attempts as trees of processes that can always be ended |
//! | [`steplog`] | what attempts write, one log per attempt |
//! | [`views`] | what is read of jobs, and never decided on |
//!
//! Programs that embed the engine mostly use `annals::prelude`. Here is what stands behind it:
//!
//! ```
//! use annals_engine::job::{JobStatus, Origin};
//! use annals_engine::{Engine, Submission};
//! use annals_tasks_sdk::plan::{Limits, Plan};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let engine = Engine::open(folder).start().await?;
//! let plan = r#"{"name": "two steps", "tasks": [
//!     {"id": "wait", "kind": "sleep", "input": {"for": "10ms"}},
//!     {"id": "done", "kind": "noop"}
//! ]}"#;
//! let plan = Plan::from_json(plan, &Limits::default())?;
//! let job = engine.submit_plan(Submission::new(plan, Origin::actor("ada"))).await?;
//! assert_eq!(job.ended().await?.job.status(), JobStatus::Completed);
//! for logged in job.history(0, 100).await? {
//!     println!("{} {}", logged.recorded.seq, logged.recorded.event.type_name());
//! }
//! engine.shutdown().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod isolated;
pub mod job;
pub mod kinds;
pub mod log;
pub mod processes;
pub mod runtime;
pub mod steplog;
pub mod views;

pub use kinds::isolated_entry;
pub use runtime::{
    Accepted, Ask, Builder, Engine, IdempotencyKey, JobHandle, Mode, Pool, Submission,
};
