//! Texts from outside, made fit to be shown.

use std::fmt::Write;

/// A line without its end. Control characters are escaped: they could hide text on a terminal,
/// and not every store takes NUL.
pub(crate) fn printable(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for character in line.trim_end_matches('\r').chars() {
        if character.is_control() && character != '\t' {
            let _ = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}
