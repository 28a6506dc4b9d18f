//! Jobs and events as people are shown them, read from the JSON that programs are given: what is
//! seen of a job is the same whether a store or a server answers.
//!
//! Fields that are not shown are passed over, and so are those of newer servers.

mod event;
mod explanation;
mod job;
mod read;

pub(super) use event::{DryRun, Event};
pub(super) use explanation::{Explanation, Suggestion};
pub(super) use job::{Attempt, Error, Items, Job, Row, Task, Waiting};
pub(super) use read::{parse, time};
