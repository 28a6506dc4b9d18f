//! What the shared files of the machine's tests take from there.

use annals_tasks_sdk::TaskId;

/// The id of a task.
pub(crate) fn id(name: &str) -> TaskId {
    TaskId::new(name).expect("a valid id")
}
