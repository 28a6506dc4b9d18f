//! Serving: the listener, its connections, and the way from the first to the last request.
//!
//! | file | what it has |
//! | --- | --- |
//! | `listener` | accepts connections; what it cannot accept makes it wait, never spin |
//! | `peers` | how many connections there may be, and which give way |
//! | `connection` | one connection, served until it ends or keeps the server waiting too long |
//! | `watch`, `guarded`, `body` | what a connection waits for, and since when |
//!
//! Nothing here knows a route or a job.

mod body;
mod connection;
mod guarded;
mod listener;
mod peers;
#[cfg(test)]
mod tests;
mod watch;
