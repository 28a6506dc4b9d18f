//! A server: what is asked of it is carried out by its engine.

mod ask;
mod events;
mod log;

pub(in crate::cli) use ask::Server;
pub(super) use events::{Pages, Stream};
