//! `noop`: does nothing, at once. It takes any input and gives `null`.

use annals_tasks_sdk::{Done, Handler, Payload, TaskContext, TaskResult};
use async_trait::async_trait;

/// The `noop` kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

#[async_trait]
impl Handler for Noop {
    async fn call(&self, _cx: TaskContext, _input: Payload) -> TaskResult<Done> {
        Ok(Done::default())
    }

    fn reads_outputs(&self) -> bool {
        false
    }
}
