//! Limits that a process takes upon itself, before the program's own code runs.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};

/// What an attempt may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
    /// Processor time, of all its threads together.
    pub(crate) cpu_time: Option<Duration>,
    /// How little it is preferred.
    pub(crate) niceness: i32,
}

impl Limits {
    /// Holds this process, and what it starts, to them, but for the one of memory.
    pub(super) fn take(self) -> io::Result<()> {
        if let Some(time) = self.cpu_time {
            // SIGXCPU at the first, SIGKILL at the second.
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            set(Resource::Cpu, seconds, seconds + 1)?;
        }
        if self.niceness > 0 {
            nice(self.niceness)?;
        }
        Ok(())
    }
}

/// Holds this process to a limit of memory, from the next program on that it becomes: an allocator
/// may have reserved more than that already. What is mapped from files does not count, nor does
/// what cannot be written to: within a small limit of the address space no thread could be started.
pub(super) fn hold_memory(bytes: u64) -> io::Result<()> {
    set(Resource::Data, bytes, bytes)
}

/// Sets a limit where there is no lower one.
fn set(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let lower = |limit: u64, now: Option<u64>| Some(now.map_or(limit, |now| now.min(limit)));
    let limit =
        Rlimit { current: lower(current, now.maximum), maximum: lower(maximum, now.maximum) };
    Ok(setrlimit(resource, limit)?)
}
