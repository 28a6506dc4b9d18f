//! What is written to stdout.

use std::fmt::Display;
use std::io::{self, IsTerminal, Stdout, Write};

use anstream::AutoStream;

/// Stdout, which may be closed by its reader at any time: from then on nothing is written, and
/// nothing fails.
pub(super) struct Out {
    stream: AutoStream<Stdout>,
    closed: bool,
}

impl Out {
    pub(super) fn new() -> Self {
        Self { stream: anstream::stdout(), closed: false }
    }

    /// Whether somebody looks at it.
    pub(super) fn is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    /// Whether nobody reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes a line; styles go where they are not wanted.
    pub(super) fn line(&mut self, line: impl Display) {
        if !self.closed {
            self.closed = writeln!(self.stream, "{line}").is_err();
        }
    }

    /// Writes some lines.
    pub(super) fn lines<L: Display>(&mut self, lines: impl IntoIterator<Item = L>) {
        for line in lines {
            self.line(line);
        }
    }

    /// Writes bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if !self.closed {
            let mut stdout = io::stdout().lock();
            self.closed = stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err();
        }
    }
}
