//! The last lines of what an attempt wrote, for its error message.

use std::collections::VecDeque;

use crate::kinds::text::printable;

const BYTES_MAX: usize = 2 * 1024;
const LINES_MAX: usize = 10;

/// Keeps the end of what passes by.
#[derive(Default)]
pub(crate) struct Excerpt(VecDeque<u8>);

impl Excerpt {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(BYTES_MAX)..];
        let excess = (self.0.len() + kept.len()).saturating_sub(BYTES_MAX);
        self.0.drain(..excess);
        self.0.extend(kept);
    }

    /// The last lines as text that every store and terminal can take.
    pub(crate) fn lines(&self) -> String {
        let (one, other) = self.0.as_slices();
        let bytes = [one, other].concat();
        let cut = bytes.len() == BYTES_MAX;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<&str> = text.trim_end().lines().collect();
        if cut && lines.len() > 1 {
            // Its beginning is gone.
            lines.remove(0);
        }
        let skipped = lines.len().saturating_sub(LINES_MAX);
        lines.iter().skip(skipped).map(|line| printable(line)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_made_printable() {
        let mut excerpt = Excerpt::default();
        for line in 0..10_000 {
            excerpt.push(format!("line {line}\n").as_bytes());
        }
        excerpt.push(b"\0\xff\x1b[31m\r\n");
        let lines = excerpt.lines();
        assert_eq!(lines.lines().count(), LINES_MAX);
        assert!(lines.starts_with("line 9991\n"));
        assert!(lines.ends_with("\\u{0}\u{fffd}\\u{1b}[31m"));
        let mut excerpt = Excerpt::default();
        excerpt.push(&vec![0xff; 1 << 20]);
        assert!(!excerpt.lines().is_empty());
    }
}
