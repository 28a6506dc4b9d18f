//! Cancellation: the token that fires when an attempt is told to stop.

pub use tokio_util::sync::CancellationToken;
