//! A store that no engine runs on: what is asked of it is recorded, and carried out by the next
//! engine that does.

mod log;
mod store;

pub(in crate::cli) use store::event;
pub(super) use store::{Held, Pages, Steps};
