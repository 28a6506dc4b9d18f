//! One line of a log file.

use std::io::Write;

use annals_tasks_sdk::Stream;
use jiff::Timestamp;

/// Longer lines are stored in pieces, which bounds the memory of writers and readers.
pub(super) const PIECE_MAX: usize = 16 * 1024;

/// The longest line of a file: a piece and what stands before it.
pub(super) const LINE_MAX: usize = PIECE_MAX + 128;

/// How many bytes of each stream there were, standard output first.
pub(super) type Positions = [u64; 2];

pub(super) fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// What a line of a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Text { stamp: &'a [u8], stream: Stream, ends: bool, content: &'a [u8] },
    Mark { stamp: &'a [u8], positions: Positions },
}

/// The time as it stands in a file, made once for all lines that share it.
pub(super) fn stamp(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// Appends a piece; with `ends` a line feed followed it.
pub(super) fn push_text(to: &mut Vec<u8>, stamp: &str, stream: Stream, text: Text<'_>) {
    let (tag, content) = match text {
        Text::Piece(content) => (b'P', content),
        Text::Line(content) => (b'F', content),
    };
    to.extend_from_slice(stamp.as_bytes());
    to.extend_from_slice(match stream {
        Stream::Stdout => b" stdout ",
        Stream::Stderr => b" stderr ",
    });
    to.extend_from_slice(&[tag, b' ']);
    to.extend_from_slice(content);
    to.push(b'\n');
}

/// What is written of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text<'a> {
    /// Some bytes of a line that goes on.
    Piece(&'a [u8]),
    /// The bytes before a line feed.
    Line(&'a [u8]),
}

pub(super) fn push_mark(to: &mut Vec<u8>, stamp: &str, positions: Positions) {
    let [stdout, stderr] = positions;
    // Writing to memory does not fail.
    let _ = writeln!(to, "{stamp} mark F {stdout} {stderr}");
}

/// Reads the time of a line.
pub(super) fn time(stamp: &[u8]) -> Option<Timestamp> {
    std::str::from_utf8(stamp).ok()?.parse().ok()
}

/// Reads a line without its line feed; `None` where it is none of ours. Its time is left as it
/// is, because many lines are read for what comes behind them.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let (stamp, stream) = (parts.next()?, parts.next()?);
    let (tag, content) = (parts.next()?, parts.next()?);
    let ends = match tag {
        b"F" => true,
        b"P" => false,
        _ => return None,
    };
    let stream = match stream {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        b"mark" => {
            let (stdout, stderr) = std::str::from_utf8(content).ok()?.split_once(' ')?;
            let positions = [stdout.parse().ok()?, stderr.parse().ok()?];
            return Some(Line::Mark { stamp, positions });
        }
        _ => return None,
    };
    Some(Line::Text { stamp, stream, ends, content })
}

/// How many bytes at the end are the beginning of a character that is not complete. Pieces end
/// before them, so that a reader of pieces sees whole characters.
pub(super) fn incomplete(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    for (index, byte) in last.iter().enumerate() {
        let length = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => continue,
        };
        let there = last.len() - index;
        let goes_on = last[index + 1..].iter().all(|byte| (0x80..=0xBF).contains(byte));
        if there < length && goes_on {
            return there;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were_written() {
        let time = Timestamp::from_nanosecond(1_700_000_000_123_456_789).unwrap();
        let mut file = Vec::new();
        let content = b" a  b\r\0\xff ";
        push_text(&mut file, &stamp(time), Stream::Stderr, Text::Piece(content));
        let stamp_text = stamp(time);
        let stamp_bytes = stamp_text.as_bytes();
        let parsed = parse(file.strip_suffix(b"\n").unwrap());
        let expected =
            Line::Text { stamp: stamp_bytes, stream: Stream::Stderr, ends: false, content };
        assert_eq!(parsed, Some(expected));
        file.clear();
        push_mark(&mut file, &stamp(time), [1, 2]);
        let expected = Line::Mark { stamp: stamp_bytes, positions: [1, 2] };
        assert_eq!(parse(file.strip_suffix(b"\n").unwrap()), Some(expected));
        assert_eq!(super::time(stamp_bytes), Some(time));
        assert_eq!(super::time(b"2026-13-01T00:00:00Z"), None);
        for damaged in ["", "x", "2026-01-01T00:00:00Z stdout F", "2026-01-01T00:00:00Z x F a"] {
            assert_eq!(parse(damaged.as_bytes()), None);
        }
    }

    #[test]
    fn an_unfinished_character_is_told_from_a_finished_one() {
        for (bytes, expected) in [
            (b"a".as_slice(), 0),
            (b"\xc3", 1),
            (b"a\xc3\xa4", 0),
            (b"\xe2\x82", 2),
            (b"\xf0\x9f\x98", 3),
            (b"\xf0\x9f\x98\x80", 0),
            (b"\xff\xff", 0),
            (b"\xc3a", 0),
        ] {
            assert_eq!(incomplete(bytes), expected, "{bytes:?}");
        }
    }
}
