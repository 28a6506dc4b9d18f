//! Serving: the listener, its connections, and the way from the first to the last request.
//!
//! | file | what it has |
//! | --- | --- |
//! | `listener` | accepts connections; what it cannot accept makes it wait, never spin |
//! | `peers` | how many connections there may be, and which give way |
//! | `connection` | one connection, served until it ends or keeps the server waiting too long |
//! | `watch`, `guarded`, `body` | what a connection waits for, and since when |
//! | `server`, `signals` | a server from its start to its end |
//! | `address` | the file that says where a store is served |
//! | `log` | the lines on stderr |
//!
//! Nothing here knows a route or a job.

mod address;
mod body;
mod connection;
mod guarded;
mod listener;
mod log;
mod peers;
mod server;
mod signals;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use address::Address;
pub(crate) use log::{flush, install};
pub(crate) use server::{Ready, ServeError, serve};
