//! The trace: what happened in a world, as one number, and as text for whoever asks.

use std::fmt::{self, Write};

/// What has happened so far.
pub(crate) struct Trace {
    hash: u64,
    pub(crate) steps: u32,
    line: String,
    loud: bool,
}

impl Trace {
    pub(crate) fn new(loud: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, steps: 0, line: String::new(), loud }
    }

    /// Notes what happens, at this time in milliseconds.
    pub(crate) fn note(&mut self, time: i64, what: fmt::Arguments<'_>) {
        crate::run::at(self.steps.max(1), time);
        self.line.clear();
        let written = write!(self.line, "{:>6} {time:>9} ms  {what}", self.steps);
        written.expect("a text takes all");
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.loud {
            println!("{}", self.line);
        }
    }

    /// The number that stands for all of it.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
