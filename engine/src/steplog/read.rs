//! Reading a log, also while it is written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};

use annals_tasks_sdk::Stream;
use jiff::Timestamp;
use lz4_flex::frame::FrameDecoder;

use super::Filter;
use super::files::{Folder, Inode, Place};
use super::line::{self, LINE_MAX, Line, Positions};
use super::pack::MAGIC;

/// A line, a piece of one, or a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When its first byte was written.
    pub time: Timestamp,
    /// What it is.
    pub part: Part,
    /// What to put into [`Filter::after`] to go on behind it.
    pub after: u64,
}

/// What an [`Entry`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A line, or the end of one, without its line feed.
    Line {
        /// Where it was written.
        stream: Stream,
        /// Its bytes, of any kind.
        bytes: Vec<u8>,
    },
    /// A piece of a line that goes on, or that has no end.
    Piece {
        /// Where it was written.
        stream: Stream,
        /// Its bytes, of any kind.
        bytes: Vec<u8>,
    },
    /// So many bytes were dropped here.
    Gap {
        /// How many.
        bytes: u64,
    },
}

/// How far a log goes.
#[derive(Debug)]
pub struct Extent {
    /// The end of what the filter lets through: who reads on gives it as [`Filter::after`].
    pub after: u64,
    /// The end of both streams together. Where it is less than what the attempt has written, the
    /// rest is missing.
    pub total: u64,
    /// Why nothing can be read from there on, where something else than the end is there.
    pub damage: Option<io::Error>,
}

/// So often a reader looks again where the files have changed while it looked.
pub(super) const TRIES: usize = 100;

/// Of a log that goes on; it can be read again.
pub(super) const TOO_FAST: io::ErrorKind = io::ErrorKind::ResourceBusy;

pub(super) fn too_fast() -> io::Error {
    io::Error::new(TOO_FAST, "the log is written faster than it is read")
}

pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the log is damaged")
}

/// The files of a log that is not packed, one after the other; `None` where there are none.
pub(super) fn plain(place: &Place) -> io::Result<Option<impl Read + use<>>> {
    Ok(open(place)?.map(|found| Files(found.files)))
}

/// The open files of a log.
pub(super) struct Found {
    pub(super) files: VecDeque<File>,
    pub(super) packed: bool,
}

/// Opens all files of a log at once: what is open can be read on, whatever happens to its name.
fn open(place: &Place) -> io::Result<Option<Found>> {
    let Some(folder) = place.job()? else { return Ok(None) };
    for _ in 0..TRIES {
        let Some(mut head) = folder.open(&place.head())? else { return Ok(None) };
        let packed = is_packed(&mut head)?;
        let Some(tail) = (if packed { Some(Vec::new()) } else { tail(&folder, place)? }) else {
            continue;
        };
        // Packing gives the head's name to another file and then removes the tail.
        if folder.inode(&place.head())? == Some(Inode::of(&head)?) {
            let files = [head].into_iter().chain(tail).collect();
            return Ok(Some(Found { files, packed }));
        }
    }
    Err(too_fast())
}

/// The last segments; `None` where one was dropped between looking and opening.
fn tail(folder: &Folder, place: &Place) -> io::Result<Option<Vec<File>>> {
    let Some(tail) = folder.folder(&place.tail())? else { return Ok(Some(Vec::new())) };
    tail.names()?.iter().map(|name| tail.open(name)).collect()
}

/// Leaves out the files before the one in which the reading begins, so that who goes on with a
/// long log does not read it anew each time.
fn skip(files: &mut VecDeque<File>, filter: Filter) -> io::Result<()> {
    for index in (1..files.len()).rev() {
        let start = start(&mut files[index])?;
        if start.is_some_and(|start| position(start, filter) <= filter.after) {
            files.drain(..index);
            break;
        }
    }
    Ok(())
}

/// What the mark at the beginning of a segment says.
fn start(segment: &mut File) -> io::Result<Option<Positions>> {
    let mut text = Vec::new();
    BufReader::with_capacity(128, segment.take(128)).read_until(b'\n', &mut text)?;
    segment.rewind()?;
    Ok(match text.strip_suffix(b"\n").and_then(line::parse) {
        Some(Line::Mark { positions, .. }) => Some(positions),
        _ => None,
    })
}

fn position(passed: Positions, filter: Filter) -> u64 {
    match filter.stream {
        Some(stream) => passed[line::index(stream)],
        None => passed.iter().sum(),
    }
}

pub(super) fn is_packed(file: &mut File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == MAGIC)
}

struct Files(VecDeque<File>);

impl Read for Files {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(file) = self.0.front_mut() {
            match file.read(buffer)? {
                0 if !buffer.is_empty() => self.0.pop_front(),
                count => return Ok(count),
            };
        }
        Ok(0)
    }
}

/// Makes entries of the lines of files, and knows how far it is.
#[derive(Debug)]
pub(super) struct Sieve {
    filter: Filter,
    /// What has been passed, dropped bytes included.
    passed: Positions,
}

impl Sieve {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, passed: [0, 0] }
    }

    /// What to put into [`Filter::after`] to go on behind what has been passed.
    pub(super) fn after(&self) -> u64 {
        self.position().max(self.filter.after)
    }

    /// The same filter, for what comes behind what has been passed.
    pub(super) fn rest(&self) -> Filter {
        Filter { after: self.after(), ..self.filter }
    }

    /// What has been passed of both streams together.
    pub(super) fn total(&self) -> u64 {
        self.passed.iter().sum()
    }

    fn position(&self) -> u64 {
        position(self.passed, self.filter)
    }

    /// Takes a line of a file, without its line feed. Gives what is wanted of it.
    pub(super) fn pass(&mut self, line: &[u8]) -> io::Result<Option<Entry>> {
        let line = line::parse(line).ok_or_else(damaged)?;
        let before = self.position();
        let (stamp, part) = match line {
            Line::Mark { stamp, positions } => {
                self.passed = positions;
                let from = before.max(self.filter.after);
                (stamp, Part::Gap { bytes: self.position().saturating_sub(from) })
            }
            Line::Text { stamp, stream, ends, content } => {
                self.passed[line::index(stream)] += content.len() as u64 + u64::from(ends);
                if self.filter.stream.is_some_and(|wanted| wanted != stream) {
                    return Ok(None);
                }
                let skipped = self.filter.after.saturating_sub(before);
                let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(content.len());
                let bytes = content[skipped..].to_vec();
                let part =
                    if ends { Part::Line { stream, bytes } } else { Part::Piece { stream, bytes } };
                (stamp, part)
            }
        };
        let after = self.position();
        if after <= self.filter.after || part == (Part::Gap { bytes: 0 }) {
            return Ok(None);
        }
        let time = line::time(stamp).ok_or_else(damaged)?;
        Ok(Some(Entry { time, part, after }))
    }
}

/// The pieces of a log as they lie in its files, filtered.
pub(super) struct Pieces {
    source: Option<BufReader<Box<dyn Read + Send + Sync>>>,
    sieve: Sieve,
    line: Vec<u8>,
    /// Something could not be read: what comes behind it is not to be trusted.
    broken: bool,
}

impl Pieces {
    pub(super) fn open(place: &Place, filter: Filter) -> io::Result<Self> {
        Self::of(open(place)?, filter)
    }

    fn of(found: Option<Found>, filter: Filter) -> io::Result<Self> {
        let source = found.map(|Found { mut files, packed }| {
            skip(&mut files, filter)?;
            let files = Files(files);
            let source: Box<dyn Read + Send + Sync> =
                if packed { Box::new(FrameDecoder::new(files)) } else { Box::new(files) };
            Ok::<_, io::Error>(BufReader::with_capacity(64 * 1024, source))
        });
        let (sieve, line) = (Sieve::new(filter), Vec::new());
        Ok(Self { source: source.transpose()?, sieve, line, broken: false })
    }

    /// Reads on to the end, and gives how far the log goes.
    pub(super) fn extent(mut self) -> Extent {
        let damage = loop {
            match self.next() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let (after, total) = (self.sieve.position(), self.sieve.total());
        Extent { after, total, damage }
    }

    pub(super) fn after(&self) -> u64 {
        self.sieve.after()
    }

    pub(super) fn total(&self) -> u64 {
        self.sieve.total()
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        if self.broken {
            return Err(damaged());
        }
        self.read().inspect_err(|_| self.broken = true)
    }

    fn read(&mut self) -> io::Result<Option<Entry>> {
        while self.read_line()? {
            if let Some(entry) = self.sieve.pass(&self.line)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Reads a line without its end; one that has none is still being written.
    fn read_line(&mut self) -> io::Result<bool> {
        let Some(source) = &mut self.source else { return Ok(false) };
        self.line.clear();
        source.take(LINE_MAX as u64).read_until(b'\n', &mut self.line)?;
        if self.line.len() == LINE_MAX && !self.line.ends_with(b"\n") {
            return Err(damaged());
        }
        Ok(self.line.pop() == Some(b'\n'))
    }
}

/// The bytes of a log as they were written; where some were dropped a note stands in brackets.
pub struct Raw {
    pieces: Pieces,
    upto: u64,
    ready: Vec<u8>,
    taken: usize,
    /// Whether what is ready is no part of the log.
    is_note: bool,
}

impl Raw {
    pub(super) fn new(pieces: Pieces) -> Self {
        Self { pieces, upto: u64::MAX, ready: Vec::new(), taken: 0, is_note: false }
    }

    /// Ends where [`Raw::after`] reaches `position`, however much is written meanwhile.
    pub fn upto(self, position: u64) -> Self {
        Self { upto: position, ..self }
    }

    /// What to put into [`Filter::after`] to go on behind what has been read.
    pub fn after(&self) -> u64 {
        let unread = if self.is_note { 0 } else { (self.ready.len() - self.taken) as u64 };
        self.pieces.after().saturating_sub(unread).min(self.upto)
    }

    /// The bytes that stand for an entry, up to where the reading ends.
    fn take(&mut self, entry: Entry) {
        let beyond = entry.after.saturating_sub(self.upto);
        self.taken = 0;
        self.is_note = matches!(entry.part, Part::Gap { .. });
        self.ready = match entry.part {
            Part::Piece { bytes, .. } => bytes,
            Part::Line { mut bytes, .. } => {
                bytes.push(b'\n');
                bytes
            }
            Part::Gap { bytes } => match bytes.saturating_sub(beyond) {
                0 => Vec::new(),
                bytes => format!("\n[{bytes} bytes were dropped here]\n").into_bytes(),
            },
        };
        if !self.is_note {
            let beyond = usize::try_from(beyond).unwrap_or(usize::MAX);
            self.ready.truncate(self.ready.len().saturating_sub(beyond));
        }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            if self.pieces.after() >= self.upto {
                return Ok(0);
            }
            let Some(entry) = self.pieces.next()? else { return Ok(0) };
            self.take(entry);
        }
        let count = (&self.ready[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}
