//! The signals that end a command which follows a job.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::error::{CliError, Exit};

/// The signals that end what follows a job.
pub(in crate::cli) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored, as below `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Since here on they no longer end the process by themselves.
    pub(in crate::cli) fn listen() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                CliError::unreachable(format!("cannot listen to signals: {error}"))
            })
        };
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let hang_up = (!ignores_hang_up()).then(|| listen(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: listen(interrupt)?, terminate: listen(terminate)?, hang_up })
    }

    /// The exit code of the next one.
    pub(in crate::cli) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            () = hung_up(self.hang_up.as_mut()) => Exit::HungUp,
        }
    }
}

async fn hung_up(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether whoever started this process wants it to outlive its terminal. To listen to the
/// signal would take that back.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal is the lowest bit, and SIGHUP is the first.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
