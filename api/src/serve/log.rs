//! The log of a server: lines on stderr, for people or in JSON.
//!
//! Whoever reads stderr may be slow, or gone. So lines go to a thread that writes them, and where
//! that does not keep up, lines are left out and counted: nobody's request waits for a log.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::settings::{LogFormat, Settings};

/// So many bytes of lines may wait to be written.
const WAITING_MAX: usize = 1 << 20;
/// How long the end of the process waits for lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The log of this process, if it has one.
static LOG: OnceLock<Arc<Lines>> = OnceLock::new();

/// Begins the log that the settings ask for. A program that has one of its own keeps it.
pub(crate) fn install(settings: &Settings) -> io::Result<()> {
    let lines = Arc::new(Lines::new(settings.log_format));
    let writing = Arc::clone(&lines);
    std::thread::Builder::new()
        .name("annals-log".into())
        .spawn(move || writing.write_all_to(&mut io::stderr()))?;
    let writer = Writer(Arc::clone(&lines));
    let filter = EnvFilter::new(&settings.log);
    let shown = match settings.log_format {
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_span_list(false);
            lines.with_writer(writer).with_filter(filter).boxed()
        }
        LogFormat::Pretty => {
            let colours = anstream::AutoStream::choice(&io::stderr());
            let colours = colours != anstream::ColorChoice::Never;
            fmt::layer().with_ansi(colours).with_writer(writer).with_filter(filter).boxed()
        }
    };
    if registry().with(annals_engine::steplog::layer()).with(shown).try_init().is_ok() {
        // This is the first log of the process, or the other would have been in the way.
        let _ = LOG.set(lines);
    }
    Ok(())
}

/// Waits until what was logged is written, for a limited time.
pub(crate) fn flush() {
    if let Some(lines) = LOG.get() {
        lines.flush(LAST_LINES);
    }
}

/// Lines on their way.
#[derive(Debug)]
struct Lines {
    format: LogFormat,
    queue: Mutex<Queue>,
    /// There is something to write, or nothing any more.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    left_out: u64,
    writing: bool,
}

impl Lines {
    fn new(format: LogFormat) -> Self {
        Self { format, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// What stands in the place of lines that nobody could write.
    fn in_place_of(&self, left_out: u64) -> String {
        let words = format!("{left_out} lines were left out: stderr is read too slowly");
        match self.format {
            LogFormat::Pretty => format!("WARN {words}\n"),
            LogFormat::Json => format!("{{\"level\":\"WARN\",\"message\":\"{words}\"}}\n"),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut queue = self.queue();
        if queue.bytes.len() + line.len() > WAITING_MAX {
            queue.left_out += 1;
            return;
        }
        let was_empty = queue.bytes.is_empty();
        queue.bytes.extend_from_slice(line);
        drop(queue);
        if was_empty {
            self.changed.notify_all();
        }
    }

    /// Writes what comes, for as long as the process lives.
    fn write_all_to(&self, out: &mut impl Write) {
        let mut bytes = Vec::new();
        loop {
            let mut queue = self.queue();
            queue.writing = false;
            self.changed.notify_all();
            while queue.bytes.is_empty() {
                queue = self.wait(queue);
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut queue.bytes);
            queue.writing = true;
            let left_out = std::mem::take(&mut queue.left_out);
            drop(queue);
            // When nobody reads stderr there is nobody to be told.
            let _ = out.write_all(&bytes);
            if left_out > 0 {
                let _ = out.write_all(self.in_place_of(left_out).as_bytes());
            }
        }
    }

    fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut queue = self.queue();
        while queue.writing || !queue.bytes.is_empty() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return };
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Where the layer writes its lines, each in one piece.
struct Writer(Arc<Lines>);

/// The same, for one line.
struct Line<'a>(&'a Lines);

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A stderr that takes something only when it is told to.
    struct Slow {
        may_go_on: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.may_go_on.recv().map_err(io::Error::other)?;
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_stderr_that_is_full_and_what_is_missing_is_said() {
        let lines = Arc::new(Lines::new(LogFormat::Json));
        let (go_on, may_go_on) = channel();
        let (written, shown) = channel();
        let writing = Arc::clone(&lines);
        std::thread::spawn(move || writing.write_all_to(&mut Slow { may_go_on, written }));

        let line = vec![b'x'; WAITING_MAX / 4];
        // What is being written does not count any more, so up to twice as much finds its place.
        (0..20).for_each(|_| lines.push(&line));
        lines.flush(Duration::from_millis(1));
        drop((0..50).map(|_| go_on.send(())).collect::<Vec<_>>());
        lines.flush(Duration::from_mins(1));
        drop(go_on);
        let shown: Vec<u8> = shown.try_iter().flatten().collect();
        let text = String::from_utf8(shown).unwrap();
        let kept = text.matches('x').count() / line.len();
        let said = text.trim_matches('x').trim_end();
        let said: serde_json::Value = serde_json::from_str(said).expect("an object of its own");
        let left_out = format!("{} lines were left out", 20 - kept);
        assert!(said["message"].as_str().unwrap().starts_with(&left_out), "{said}, {kept}");
    }
}
