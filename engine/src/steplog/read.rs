//! Reading a log, also while it is written.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::MetadataExt;

use annals_tasks_sdk::Stream;
use jiff::Timestamp;
use lz4_flex::frame::FrameDecoder;

use super::line::{self, LINE_MAX, Line, Positions};
use super::pack::MAGIC;
use super::{Filter, Place};

/// Pieces of one line are put together up to this length.
const JOINED_MAX: usize = 64 * 1024;

/// The last lines are no more than this, however many were asked for.
const LAST_MAX: usize = 4 * 1024 * 1024;

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

/// The files of a log that is not packed, one after the other; `None` where there are none.
pub(super) fn plain(place: &Place) -> io::Result<Option<impl Read + use<>>> {
    Ok(open(place)?.map(Files))
}

/// Opens all files of a log at once: what is open can be read on, whatever happens to its name.
fn open(place: &Place) -> io::Result<Option<VecDeque<File>>> {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let mut head = match File::open(place.head()) {
            Ok(head) => head,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(tail) = (if is_packed(&mut head)? { Some(Vec::new()) } else { tail(place)? })
        else {
            continue;
        };
        // Packing gives the head's name to another file and then removes the tail.
        if fs::metadata(place.head())?.ino() == head.metadata()?.ino() {
            return Ok(Some([head].into_iter().chain(tail).collect()));
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "the log is written faster than it is read"))
}

/// The last segments; `None` where one was dropped between looking and opening.
fn tail(place: &Place) -> io::Result<Option<Vec<File>>> {
    let mut paths = match fs::read_dir(place.tail()) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    paths.sort_unstable();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        match File::open(path) {
            Ok(file) => files.push(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(files))
}

/// Leaves out the files before the one in which the reading begins, so that who follows a long
/// log does not read it anew each time.
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

fn is_packed(file: &mut File) -> io::Result<bool> {
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

/// The pieces of a log as they lie in its files, filtered.
pub(super) struct Pieces {
    source: Option<BufReader<Box<dyn Read + Send>>>,
    filter: Filter,
    /// What has been passed, dropped bytes included.
    passed: Positions,
    line: Vec<u8>,
}

impl Pieces {
    pub(super) fn open(place: &Place, filter: Filter) -> io::Result<Self> {
        let source = open(place)?.map(|mut files| -> io::Result<Box<dyn Read + Send>> {
            let packed = files.front_mut().map_or(Ok(false), is_packed)?;
            skip(&mut files, filter)?;
            let files = Files(files);
            Ok(if packed { Box::new(FrameDecoder::new(files)) } else { Box::new(files) })
        });
        let source = source.transpose()?.map(|source| BufReader::with_capacity(64 * 1024, source));
        Ok(Self { source, filter, passed: [0, 0], line: Vec::new() })
    }

    fn next(&mut self) -> io::Result<Option<Entry>> {
        while self.read_line()? {
            let line = std::mem::take(&mut self.line);
            let entry = line::parse(&line).map(|line| self.entry(&line));
            self.line = line;
            match entry {
                Some(None) => {}
                Some(entry) => return Ok(entry),
                None => return Err(io::Error::new(io::ErrorKind::InvalidData, "damaged log")),
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, "damaged log"));
        }
        Ok(self.line.pop() == Some(b'\n'))
    }

    fn entry(&mut self, line: &Line<'_>) -> Option<Entry> {
        let before = self.position();
        match line {
            Line::Mark { time, positions } => {
                self.passed = *positions;
                let from = before.max(self.filter.after);
                let bytes = self.position().saturating_sub(from);
                let part = Part::Gap { bytes };
                (bytes > 0).then(|| Entry { time: *time, part, after: self.position() })
            }
            Line::Text { time, stream, ends, content } => {
                let length = content.len() as u64 + u64::from(*ends);
                self.passed[line::index(*stream)] += length;
                let wanted = self.filter.stream.is_none_or(|wanted| wanted == *stream);
                let after = self.position();
                if !wanted || after <= self.filter.after {
                    return None;
                }
                let skipped = self.filter.after.saturating_sub(before);
                let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(content.len());
                let (stream, bytes) = (*stream, content[skipped..].to_vec());
                let part = if *ends {
                    Part::Line { stream, bytes }
                } else {
                    Part::Piece { stream, bytes }
                };
                Some(Entry { time: *time, part, after })
            }
        }
    }

    fn position(&self) -> u64 {
        position(self.passed, self.filter)
    }
}

/// The bytes of a log as they were written; where some were dropped a note stands in brackets.
pub struct Raw {
    pieces: Pieces,
    ready: Vec<u8>,
    taken: usize,
    /// Whether what is ready is no part of the log.
    is_note: bool,
}

impl Raw {
    pub(super) fn new(pieces: Pieces) -> Self {
        Self { pieces, ready: Vec::new(), taken: 0, is_note: false }
    }

    /// What to put into [`Filter::after`] to go on behind what has been read.
    pub fn after(&self) -> u64 {
        let unread = if self.is_note { 0 } else { (self.ready.len() - self.taken) as u64 };
        self.pieces.position().max(self.pieces.filter.after).saturating_sub(unread)
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            let Some(entry) = self.pieces.next()? else { return Ok(0) };
            self.taken = 0;
            self.is_note = matches!(entry.part, Part::Gap { .. });
            self.ready = match entry.part {
                Part::Piece { bytes, .. } => bytes,
                Part::Line { mut bytes, .. } => {
                    bytes.push(b'\n');
                    bytes
                }
                Part::Gap { bytes } => {
                    format!("\n[{bytes} bytes were dropped here]\n").into_bytes()
                }
            };
        }
        let count = (&self.ready[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

/// The lines of a log, in the order in which they were written.
///
/// Where one stream writes in the middle of the other's line, that line comes in pieces.
pub struct Entries {
    pieces: Pieces,
    ahead: Option<Entry>,
}

impl Entries {
    pub(super) fn new(pieces: Pieces) -> Self {
        Self { pieces, ahead: None }
    }

    fn read(&mut self) -> io::Result<Option<Entry>> {
        let first = match self.ahead.take() {
            Some(entry) => Some(entry),
            None => self.pieces.next()?,
        };
        let Some(mut entry) = first else { return Ok(None) };
        while let Part::Piece { stream, bytes } = &mut entry.part {
            let Some(next) = self.pieces.next()? else { break };
            let (its, more, ends) = match &next.part {
                Part::Piece { stream, bytes } => (*stream, bytes, false),
                Part::Line { stream, bytes } => (*stream, bytes, true),
                Part::Gap { .. } => {
                    self.ahead = Some(next);
                    break;
                }
            };
            if its != *stream || bytes.len() + more.len() > JOINED_MAX {
                self.ahead = Some(next);
                break;
            }
            bytes.extend_from_slice(more);
            entry.after = next.after;
            if ends {
                let bytes = std::mem::take(bytes);
                entry.part = Part::Line { stream: its, bytes };
            }
        }
        Ok(Some(entry))
    }

    pub(super) fn last_lines(self, lines: usize) -> io::Result<Vec<Entry>> {
        let mut last: VecDeque<Entry> = VecDeque::new();
        let (mut ended, mut size) = (0, 0);
        for entry in self {
            let entry = entry?;
            size += entry.size();
            ended += usize::from(entry.ends_line());
            last.push_back(entry);
            while let Some(first) = last.front() {
                let unended = last.back().is_some_and(|entry| !entry.ends_line());
                if ended + usize::from(unended) <= lines && size <= LAST_MAX {
                    break;
                }
                size -= first.size();
                ended -= usize::from(first.ends_line());
                last.pop_front();
            }
        }
        Ok(last.into())
    }
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl Entry {
    fn ends_line(&self) -> bool {
        matches!(self.part, Part::Line { .. })
    }

    fn size(&self) -> usize {
        match &self.part {
            Part::Line { bytes, .. } | Part::Piece { bytes, .. } => bytes.len(),
            Part::Gap { .. } => 0,
        }
    }
}
