//! What is written to stdout.

use std::fmt::Display;
use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::{Arc, OnceLock};

use anstream::AutoStream;
use rustix::fs::OFlags;

use super::text::plain;

/// Stdout, which may be closed by its reader at any time: from then on nothing is written, and
/// nothing fails. Other failures end the writing, too, and are kept for those who only read.
pub(super) struct Out {
    stream: AutoStream<Stdout>,
    closed: bool,
    failure: Failure,
}

/// Why what was to be shown could not be written, if a reader that went away is not the reason.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Arc<OnceLock<io::Error>>);

impl Failure {
    /// The first failure.
    pub(super) fn get(&self) -> Option<&io::Error> {
        self.0.get()
    }
}

impl Out {
    pub(super) fn new() -> Self {
        let failure = Failure::default();
        if is_read_only() {
            // Later ones are not kept, and this is the first.
            let _ = failure.0.set(io::Error::other("it is open for reading only"));
        }
        Self { stream: anstream::stdout(), closed: false, failure }
    }

    /// What becomes of it, also when this is gone.
    pub(super) fn failure(&self) -> Failure {
        self.failure.clone()
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
            let written = writeln!(self.stream, "{line}");
            self.note(written);
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
            let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
            self.note(written);
        }
    }

    fn note(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        self.closed = true;
        if error.kind() != io::ErrorKind::BrokenPipe {
            // Only the first failure is told.
            let _ = self.failure.0.set(error);
        }
    }
}

/// Says something beside the answer, on stderr.
pub(super) fn eprint(line: &str) {
    // When stderr is closed nobody is left to be told.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// The same, for what nobody has asked for.
pub(super) fn note(line: &str) {
    eprint(&format!("annals: {}", plain(line)));
}

/// Whether what was given as stdout cannot be written to. The standard library takes that for a
/// stdout that is closed, and says nothing.
fn is_read_only() -> bool {
    rustix::fs::fcntl_getfl(io::stdout())
        .is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDONLY)
}
