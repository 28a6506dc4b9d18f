//! The lines of a log, put together of their pieces.

use std::collections::VecDeque;
use std::io;

use super::read::{Entry, Part, Pieces};

/// Pieces of one line are put together up to this length.
const JOINED_MAX: usize = 64 * 1024;

/// The last lines are no more than this, however many were asked for.
const LAST_MAX: usize = 4 * 1024 * 1024;

/// The lines of a log, in the order in which they were written.
///
/// Where one stream writes in the middle of the other's line, that line comes in pieces.
pub struct Entries {
    pieces: Pieces,
    joiner: Joiner,
}

impl Entries {
    pub(super) fn new(pieces: Pieces) -> Self {
        Self { pieces, joiner: Joiner::default() }
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
        self.joiner.next(|| self.pieces.next()).transpose()
    }
}

/// Puts the pieces of a line together.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    /// What was found behind the piece that was given last.
    ahead: Option<io::Result<Entry>>,
}

impl Joiner {
    /// The next line, piece or gap of what `more` gives, as long as that gives anything.
    pub(super) fn next(
        &mut self,
        mut more: impl FnMut() -> io::Result<Option<Entry>>,
    ) -> io::Result<Option<Entry>> {
        let first = match self.ahead.take() {
            Some(ahead) => Some(ahead?),
            None => more()?,
        };
        let Some(mut entry) = first else { return Ok(None) };
        while let Part::Piece { .. } = entry.part {
            match more().transpose() {
                None => break,
                Some(Ok(next)) if goes_on(&entry.part, &next.part) => append(&mut entry, next),
                other => {
                    self.ahead = other;
                    break;
                }
            }
        }
        Ok(Some(entry))
    }
}

/// Whether `next` belongs to the line of this piece, and there is room for it.
fn goes_on(piece: &Part, next: &Part) -> bool {
    let Part::Piece { stream, bytes } = piece else { return false };
    match next {
        Part::Piece { stream: its, bytes: more } | Part::Line { stream: its, bytes: more } => {
            stream == its && bytes.len() + more.len() <= JOINED_MAX
        }
        Part::Gap { .. } => false,
    }
}

fn append(entry: &mut Entry, next: Entry) {
    let Part::Piece { stream, bytes } = &mut entry.part else { return };
    entry.after = next.after;
    match next.part {
        Part::Piece { bytes: more, .. } => bytes.extend_from_slice(&more),
        Part::Line { bytes: more, .. } => {
            bytes.extend_from_slice(&more);
            let (stream, bytes) = (*stream, std::mem::take(bytes));
            entry.part = Part::Line { stream, bytes };
        }
        Part::Gap { .. } => {}
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
