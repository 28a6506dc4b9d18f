//! What is read of jobs, and never decided on.

mod explain;

pub use explain::{
    Ahead, Cause, Explained, Explanation, Gone, InLine, Line, Other, Reason, Remedy,
    TASKS_EXPLAINED,
};
pub(crate) use explain::{Dispatch, Finder, KeyLine, Queued, Seen, Sought, explain};
