//! Jobs and events as people are shown them, read from the JSON that programs are given: what is
//! seen of a job is the same whether a store or a server answers.
//!
//! Fields that are not shown are passed over, and so are those of newer servers.

mod event;
mod job;
mod read;

pub(super) use event::{Event, EventData};
pub(super) use job::{Attempt, Error, Job, Row, Task, Waiting};

use serde::de::DeserializeOwned;

use super::error::CliError;

/// Reads one of these out of an answer.
pub(super) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, CliError> {
    serde_json::from_str(json).map_err(|error| {
        CliError::unreachable(format!(
            "what was answered cannot be read: {error}; it may be of another version than this \
             program"
        ))
    })
}
