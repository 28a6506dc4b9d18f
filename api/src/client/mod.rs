//! A client of the server: requests that outlive its restarts, answers, and streams that go on
//! where they were cut off.
//!
//! | file | what it has |
//! | --- | --- |
//! | `address` | where a server is |
//! | `request` | what is asked |
//! | `send` | one try to have it answered |
//! | `patience` | how long it is tried again, and when |
//! | `error`, `problem` | why there is no answer, in words and codes |
//! | `frames` | the frames of server-sent events |
//! | `follow` | a stream of them through restarts of the server |
//!
//! Nothing here knows what is asked for: jobs, events and logs are the matter of who asks.

mod address;
mod error;
mod follow;
mod frames;
mod patience;
mod problem;
mod request;
mod send;

pub(crate) use address::Address;
pub(crate) use error::ClientError;
pub(crate) use follow::{Follow, News};
pub(crate) use frames::Frame;
pub(crate) use patience::Patience;
pub(crate) use problem::Problem;
pub(crate) use request::Request;
pub(crate) use send::{Body, Client, Reply};

#[cfg(test)]
mod tests;
