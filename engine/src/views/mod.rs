//! What is read of jobs, and never decided on.

mod explain;

pub use explain::{Reason, explain};
