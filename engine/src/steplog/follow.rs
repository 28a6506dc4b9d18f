//! Following a log while it is written.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::entries::Joiner;
use super::files::{Folder, Inode, Place, segment};
use super::growth::Watch;
use super::line::LINE_MAX;
use super::read::{Entry, Pieces, Sieve, TOO_FAST, TRIES, damaged, is_packed, too_fast};
use super::{Filter, LogName};

/// Reads a log as it grows, and goes on where it was: what has been read is not read again.
///
/// Lines that are written in parts come in pieces. Whatever is dropped, or packed, while somebody
/// reads it, no byte comes twice, and what does not come is told as a gap.
pub struct Follower {
    place: Place,
    filter: Filter,
    /// How far both streams together were read.
    total: u64,
    source: Source,
    joiner: Joiner,
    watch: Watch,
    /// Something could not be read: what comes behind it is not to be trusted.
    broken: bool,
}

enum Source {
    /// There is no file yet.
    Nothing,
    Growing(Growing),
    Packed(Pieces),
}

/// The file that is being read, of a log that may grow still.
struct Growing {
    folder: Folder,
    /// The first file as it was when the reading began: packing replaces it.
    head: Inode,
    sieve: Sieve,
    reader: BufReader<File>,
    /// The end of the last whole line in this file.
    offset: u64,
    /// Which segment it is; the first file is none.
    segment: Option<u64>,
    /// A later segment is there, so nothing comes to this one any more: what is there is the rest.
    is_left: bool,
    line: Vec<u8>,
}

/// What there is behind the end of a file.
enum Behind {
    /// Something that can be read now.
    More,
    /// Nothing yet.
    Nothing,
    /// Another arrangement of the log's files.
    Rearranged,
}

impl Follower {
    pub(super) fn new(place: Place, filter: Filter, watch: Watch) -> Self {
        let (source, joiner) = (Source::Nothing, Joiner::default());
        Self { place, filter, total: 0, source, joiner, watch, broken: false }
    }

    /// Which log it is.
    pub fn name(&self) -> LogName {
        self.place.name()
    }

    /// How far it has read, both streams together.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The next line, piece or gap; `None` where there is none yet. Blocks for the disk alone.
    pub fn read(&mut self) -> io::Result<Option<Entry>> {
        let Self { place, filter, total, source, joiner, watch, broken } = self;
        joiner.next(|| {
            loop {
                if *broken {
                    return Err(damaged());
                }
                let entry = advance(place, filter, source);
                *total = source.total().max(*total);
                *broken = entry.as_ref().is_err_and(|error| error.kind() != TOO_FAST);
                if let Some(entry) = entry? {
                    return Ok(Some(entry));
                }
                // What was written since the end was seen has not been looked for.
                if !watch.has_grown() {
                    return Ok(None);
                }
            }
        })
    }

    /// Waits until there may be more than [`Follower::read`] has found. The end of an attempt is
    /// no growth.
    pub async fn growth(&self) {
        self.watch.growth().await;
    }
}

/// Reads on in the source, and makes it another one where the files have changed.
fn advance(place: &Place, filter: &mut Filter, source: &mut Source) -> io::Result<Option<Entry>> {
    for _ in 0..TRIES {
        match source {
            Source::Nothing => match Growing::open(place, *filter)? {
                Some(found) => *source = found,
                None => return Ok(None),
            },
            Source::Packed(pieces) => return pieces.next(),
            Source::Growing(growing) => {
                let entry = growing.read();
                *filter = growing.sieve.rest();
                if let Ok(Some(entry)) = entry {
                    return Ok(Some(entry));
                }
                match growing.behind(place, entry.err())? {
                    Behind::More => {}
                    Behind::Nothing => return Ok(None),
                    Behind::Rearranged => *source = Source::Nothing,
                }
            }
        }
    }
    Err(too_fast())
}

impl Source {
    fn total(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Growing(growing) => growing.sieve.total(),
            Self::Packed(pieces) => pieces.total(),
        }
    }
}

impl Growing {
    /// Opens the log anew; the sieve lets through what comes behind what was read before.
    fn open(place: &Place, filter: Filter) -> io::Result<Option<Source>> {
        let Some(folder) = place.job()? else { return Ok(None) };
        let Some(mut file) = folder.open(&place.head())? else { return Ok(None) };
        if is_packed(&mut file)? {
            return Ok(Some(Source::Packed(Pieces::open(place, filter)?)));
        }
        let (head, sieve) = (Inode::of(&file)?, Sieve::new(filter));
        let reader = BufReader::with_capacity(64 * 1024, file);
        let (offset, line) = (0, Vec::new());
        let growing =
            Self { folder, head, sieve, reader, offset, segment: None, is_left: false, line };
        Ok(Some(Source::Growing(growing)))
    }

    /// The next entry in this file.
    fn read(&mut self) -> io::Result<Option<Entry>> {
        while self.read_line()? {
            if let Some(entry) = self.sieve.pass(&self.line)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Reads a line without its end. One that has none is read again when it may have one: the
    /// writer takes back what it could not write as a whole.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read = (&mut self.reader).take(LINE_MAX as u64).read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            self.offset += read as u64;
            return Ok(true);
        }
        if read == LINE_MAX {
            return Err(damaged());
        }
        self.reader.seek(SeekFrom::Start(self.offset))?;
        Ok(false)
    }

    /// Finds out how it goes on where this file gives nothing more, or cannot be read.
    fn behind(&mut self, place: &Place, error: Option<io::Error>) -> io::Result<Behind> {
        let head = self.folder.inode(&place.head())?;
        if head.is_some_and(|head| head != self.head) {
            return Ok(Behind::Rearranged);
        }
        if self.reader.get_ref().metadata()?.len() < self.offset {
            // The writer took back a part of what it could not write as a whole.
            return Ok(Behind::Rearranged);
        }
        if let Some(error) = error {
            return Err(error);
        }
        let Some(tail) = self.folder.folder(&place.tail())? else { return Ok(Behind::Nothing) };
        let numbers = tail.names()?.into_iter().filter_map(|name| name.parse::<u64>().ok());
        let later = |number: &u64| self.segment.is_none_or(|segment| *number > segment);
        let Some(next) = numbers.filter(later).min() else { return Ok(Behind::Nothing) };
        if !std::mem::replace(&mut self.is_left, true) {
            return Ok(Behind::More);
        }
        // Where it was dropped in between, the one after it is looked for.
        if let Some(file) = tail.open(&segment(next))? {
            self.reader = BufReader::with_capacity(64 * 1024, file);
            (self.offset, self.segment, self.is_left) = (0, Some(next), false);
        }
        Ok(Behind::More)
    }
}
