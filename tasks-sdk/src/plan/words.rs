//! Words that are compared letter by letter, and so must be told apart by whoever reads them.

/// The most characters that a name or a key has.
pub(super) const NAME_CHARS_MAX: usize = 256;

/// What is wrong with such a word, as a sentence; `what` says what it is.
pub(super) fn fault(what: &str, word: &str) -> Option<String> {
    let characters = word.chars().count();
    if characters == 0 || characters > NAME_CHARS_MAX {
        return Some(format!("{what} has 1 to {NAME_CHARS_MAX} characters, not {characters}"));
    }
    if let Some(unseen) = word.chars().find(|&c| is_unseen(c)) {
        let code = u32::from(unseen);
        return Some(format!(
            "{what} has no control characters and none that are invisible, such as U+{code:04X}"
        ));
    }
    (word.trim() != word).then(|| format!("{what} has no blanks at its ends: {word:?}"))
}

/// Whether a character has an effect and no shape: two words that differ in it look the same.
fn is_unseen(c: char) -> bool {
    let has_no_shape = matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    c.is_control() || has_no_shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_alike_are_alike() {
        for word in
            ["a", "host/web-42", "two words", "\u{e4}\u{5b57}", "e\u{301}", &"x".repeat(256)]
        {
            assert_eq!(fault("a key", word), None, "{word:?}");
        }
        for (word, end) in [
            ("", "has 1 to 256 characters, not 0"),
            (&"x".repeat(257), "has 1 to 256 characters, not 257"),
            ("a\tb", "such as U+0009"),
            ("a\u{200b}", "such as U+200B"),
            ("a\u{202e}b", "such as U+202E"),
            ("\u{feff}a", "such as U+FEFF"),
            (" a", "has no blanks at its ends: \" a\""),
            ("a\u{a0}", "has no blanks at its ends: \"a\\u{a0}\""),
            (" ", "has no blanks at its ends: \" \""),
        ] {
            let found = fault("a key", word).unwrap_or_default();
            assert!(found.starts_with("a key has ") && found.ends_with(end), "{word:?}: {found}");
        }
    }
}
