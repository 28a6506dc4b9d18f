//! Fan-out: a task that is done for each element of a list.

use crate::Payload;

/// For what a task is done more than once: an instance of it for each element of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    /// A list, or a reference that gives one.
    pub items: Payload,
    /// How many instances may have begun and not be over at a time, those included that wait for
    /// their next attempt; all of them when left out.
    pub concurrency: Option<u32>,
}
