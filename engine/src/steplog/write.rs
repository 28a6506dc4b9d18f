//! Writing a log.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use annals_tasks_sdk::{AttemptId, Stream};
use jiff::Timestamp;

use super::files::{Place, room_for, segment};
use super::growth::Growth;
use super::line::{self, PIECE_MAX, Positions, Text};
use super::{layer, pack};
use crate::job::LogSize;

/// How much is gathered before it is written.
const GATHER: usize = 64 * 1024;

/// Short lines take more room in a file than they have bytes; this bounds by how much.
const FILE_FACTOR: u64 = 8;

/// The second half of the budget is kept in so many segments, of which the oldest is dropped.
const SEGMENTS: u64 = 4;

/// The log of one attempt while it is written. Clones write to the same log.
///
/// Writing never fails: what cannot be stored counts as dropped.
#[derive(Debug, Clone)]
pub struct AttemptLog(Arc<Shared>);

/// Who is told that something was written to a log.
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Something was written.
    fn wrote(&self);
}

#[derive(Debug)]
pub(super) struct Shared {
    place: Place,
    bounds: Bounds,
    growth: Arc<Growth>,
    listener: OnceLock<Arc<dyn Listener>>,
    state: Mutex<State>,
}

/// What a log may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How many bytes of an attempt's output are kept.
    pub(super) budget: u64,
    /// How many bytes of the disk are left to others.
    pub(super) reserve: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Lines that are not in the file yet.
    gathered: Vec<u8>,
    /// What has been taken, `gathered` included.
    taken: Positions,
    /// What has been taken, `gathered` not included.
    stored: Positions,
    lines: u64,
    /// The beginning of a character, per stream.
    unfinished: [Vec<u8>; 2],
    /// Whether the last byte of a stream was no line feed.
    mid_line: [bool; 2],
    segment: Segment,
    /// The numbers of the segments behind the head, the one being written included.
    tail: VecDeque<u64>,
    /// Whether something before `stored` is missing without a mark.
    gap: bool,
    closed: bool,
}

/// The file that is being written.
#[derive(Debug, Default)]
struct Segment {
    file: Option<File>,
    /// Its length.
    length: u64,
    /// How much of the budget it takes, `gathered` included.
    bytes: u64,
}

impl AttemptLog {
    pub(super) fn new(
        place: Place,
        bounds: Bounds,
        growth: Arc<Growth>,
        attempt: &AttemptId,
    ) -> Self {
        let (listener, state) = (OnceLock::new(), Mutex::default());
        let shared = Shared { place, bounds, growth, listener, state };
        let log = Self(Arc::new(shared));
        layer::register(attempt, &log);
        log
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    pub(super) fn from_shared(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Tells somebody of whatever is written from now on, however little of it is kept. There is
    /// one who is told: the first.
    pub(crate) fn tell(&self, listener: Arc<dyn Listener>) {
        let _ = self.0.listener.set(listener);
    }

    /// Appends bytes of one stream.
    pub fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        if state.closed || bytes.is_empty() {
            return;
        }
        if let Some(listener) = self.0.listener.get() {
            listener.wrote();
        }
        let now = line::stamp(Timestamp::now());
        let unfinished = std::mem::take(&mut state.unfinished[line::index(stream)]);
        if unfinished.is_empty() {
            self.take(&mut state, &now, stream, bytes);
        } else {
            self.take(&mut state, &now, stream, &[&unfinished, bytes].concat());
        }
        self.flush(&mut state, &now);
    }

    /// How many bytes have been written so far.
    pub fn bytes(&self) -> u64 {
        let state = self.state();
        // The beginning of a character is kept until the rest of it or the end comes.
        let unfinished: usize = state.unfinished.iter().map(Vec::len).sum();
        state.taken.iter().sum::<u64>() + unfinished as u64
    }

    /// Ends the log and packs it; nothing that a clone writes later is kept. Blocks for as long
    /// as packing takes: some ten milliseconds for a full log.
    pub fn finish(self) -> LogSize {
        let mut state = self.state();
        if !state.closed {
            let now = line::stamp(Timestamp::now());
            for stream in [Stream::Stdout, Stream::Stderr] {
                let rest = std::mem::take(&mut state.unfinished[line::index(stream)]);
                if !rest.is_empty() {
                    self.put(&mut state, &now, stream, Text::Piece(&rest));
                }
            }
            self.flush(&mut state, &now);
            state.closed = true;
            state.segment.file = None;
            if state.taken != [0, 0] {
                // An unpacked log is read as well.
                let _ = pack::pack(&self.0.place, self.0.bounds.reserve);
            }
        }
        let open = state.mid_line.iter().filter(|open| **open).count() as u64;
        LogSize { bytes: state.taken.iter().sum(), lines: state.lines + open }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, state: &mut State, now: &str, stream: Stream, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (mut content, ends) = match part.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (part, false),
            };
            while content.len() > PIECE_MAX {
                let (piece, _) = content.split_at(PIECE_MAX);
                let (piece, rest) = content.split_at(PIECE_MAX - line::incomplete(piece));
                self.put(state, now, stream, Text::Piece(piece));
                content = rest;
            }
            if ends {
                self.put(state, now, stream, Text::Line(content));
                continue;
            }
            let (piece, rest) = content.split_at(content.len() - line::incomplete(content));
            if !piece.is_empty() {
                self.put(state, now, stream, Text::Piece(piece));
            }
            state.unfinished[line::index(stream)] = rest.to_vec();
        }
    }

    fn put(&self, state: &mut State, now: &str, stream: Stream, text: Text<'_>) {
        let before = state.gathered.len();
        line::push_text(&mut state.gathered, now, stream, text);
        let (length, ends) = match text {
            Text::Piece(content) => (content.len() as u64, false),
            Text::Line(content) => (content.len() as u64 + 1, true),
        };
        let index = line::index(stream);
        state.taken[index] += length;
        state.lines += u64::from(ends);
        state.mid_line[index] = !ends;
        let stored = (state.gathered.len() - before) as u64;
        state.segment.bytes += length.max(stored / FILE_FACTOR);
        let share = if state.tail.is_empty() { 2 } else { 2 * SEGMENTS };
        let full = state.segment.bytes >= self.0.bounds.budget / share;
        if full || state.gathered.len() >= GATHER {
            self.flush(state, now);
        }
        if full {
            self.next_segment(state);
        }
    }

    fn next_segment(&self, state: &mut State) {
        state.segment = Segment::default();
        let next = state.tail.back().map_or(0, |last| last + 1);
        state.tail.push_back(next);
        // Each begins with a mark, because the one before it may be dropped.
        state.gap = true;
        if state.tail.len() as u64 > SEGMENTS
            && let Some(oldest) = state.tail.pop_front()
        {
            // One that stays is one part more to read.
            let _ = self.drop_segment(oldest);
        }
    }

    fn flush(&self, state: &mut State, now: &str) {
        if state.gathered.is_empty() {
            return;
        }
        let stored = self.store(state, now);
        if stored.is_err() {
            state.gap = true;
            if let Some(file) = &state.segment.file {
                // Half a line would spoil the one after it.
                let _ = file.set_len(state.segment.length);
            }
        }
        state.gathered.clear();
        state.stored = state.taken;
        self.0.growth.tell(self.0.place.name());
    }

    fn store(&self, state: &mut State, now: &str) -> io::Result<()> {
        let mut mark = Vec::new();
        if state.gap {
            line::push_mark(&mut mark, now, state.stored);
        }
        if state.segment.file.is_none() {
            state.segment.file = Some(self.create(state.tail.back().copied())?);
        }
        let Some(file) = &mut state.segment.file else { return Ok(()) };
        room_for(file, (mark.len() + state.gathered.len()) as u64, self.0.bounds.reserve)?;
        file.write_all(&mark)?;
        file.write_all(&state.gathered)?;
        state.segment.length += (mark.len() + state.gathered.len()) as u64;
        state.gap = false;
        Ok(())
    }

    /// Opens the file of a segment, or the first one.
    fn create(&self, number: Option<u64>) -> io::Result<File> {
        let place = &self.0.place;
        let folder = place.make_job()?;
        match number {
            Some(number) => folder.make(&place.tail())?.append(&segment(number)),
            None => folder.append(&place.head()),
        }
    }

    fn drop_segment(&self, number: u64) -> io::Result<()> {
        let place = &self.0.place;
        let Some(folder) = place.job()? else { return Ok(()) };
        match folder.folder(&place.tail())? {
            Some(tail) => tail.remove(&segment(number)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use annals_tasks_sdk::{JobId, TaskId};

    use super::*;
    use crate::steplog::StepLogs;

    #[derive(Debug, Default)]
    struct Count(AtomicU32);

    impl Listener for Count {
        fn wrote(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_writes_is_heard_until_the_log_ends() {
        let folder = tempfile::tempdir().unwrap();
        let task = TaskId::new("a").unwrap();
        let attempt = AttemptId { job: JobId::from_u128(1), task, number: 1, attempt: 1 };
        let (log, heard) =
            (StepLogs::new(folder.path(), 4).open(&attempt), Arc::new(Count::default()));
        log.tell(Arc::clone(&heard) as _);
        // The layer of `tracing` writes through a value of its own.
        let of_layer = AttemptLog::from_shared(Arc::clone(log.shared()));
        log.write(Stream::Stdout, b"one");
        of_layer.write(Stream::Stderr, b"two, of which nothing is kept\n");
        log.write(Stream::Stdout, b"");
        assert_eq!(heard.0.load(Ordering::Relaxed), 2);
        log.finish();
        of_layer.write(Stream::Stderr, b"late\n");
        assert_eq!(heard.0.load(Ordering::Relaxed), 2);
    }
}
