//! What is read of jobs, and never decided on.

mod explain;

pub use explain::{
    Ahead, Cause, Explained, Explanation, Gone, HeldKey, InLine, Line, Other, Reason, Remedy,
    RunDeadline, TASKS_EXPLAINED,
};
pub(crate) use explain::{Dispatch, Finder, KeyLine, Queued, Seen, Sought, explain};
