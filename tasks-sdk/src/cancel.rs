//! Cancellation: the token that fires when an attempt is told to stop.

pub use tokio_util::sync::CancellationToken;

/// Why an attempt is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The job was cancelled.
    Cancel,
    /// The job was paused with `interrupt`.
    Pause,
    /// The task was skipped.
    Skip,
    /// The attempt took longer than its `timeout`.
    Timeout,
    /// The engine shuts down.
    Shutdown,
}
