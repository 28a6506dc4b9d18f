//! The kinds of task that come with the engine.
//!
//! Each is a [`Handler`](annals_tasks_sdk::Handler), or the reading of an input whose work the
//! runtime does itself. Nothing here knows jobs, events or the log.

mod fields;
pub mod http;
pub mod noop;
pub mod shell;
pub mod sleep;
pub(crate) mod text;
pub mod wait;

pub use http::{AllowedTarget, BadTarget, Http, HttpSettings};
pub use noop::Noop;
pub use shell::{Shell, ShellSettings};

pub use crate::processes::{Supervisor, isolated_entry};
