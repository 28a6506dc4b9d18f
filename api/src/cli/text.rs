//! How things are shown to people.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use annals_engine::job::{JobStatus, TaskStatus};
use annals_tasks_sdk::{KindName, Timestamp};
use jiff::tz::TimeZone;
use owo_colors::{OwoColorize, Style};

/// Text of unknown origin in one line: what would move the cursor, colour the screen or turn
/// the direction of writing is shown as an escape.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn is_odd(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    c.is_control() || turns
}

/// The point of a message in one line: its first line, and the last where the first leads to it.
pub(super) fn brief(message: &str) -> String {
    let mut lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    match lines.next_back() {
        Some(last) if first.ends_with(':') => format!("{} {}", plain(first), plain(last.trim())),
        _ => plain(first).into_owned(),
    }
}

/// `1 task`, `2 tasks`.
pub(super) fn tasks(count: u32) -> String {
    if count == 1 { "1 task".into() } else { format!("{count} tasks") }
}

/// A duration as short as it can be read: `0.3 s`, `12 s`, `2m 05s`, `1h 02m`.
pub(super) fn duration(duration: Duration) -> String {
    let (millis, seconds) = (duration.as_millis(), duration.as_secs());
    match seconds {
        0..10 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A time of the day here: `12:00:01`.
pub(super) fn clock(time: Timestamp) -> String {
    zoned(time, "%H:%M:%S")
}

/// A day and a time here: `2026-03-01 12:00:01`.
pub(super) fn date(time: Timestamp) -> String {
    zoned(time, "%Y-%m-%d %H:%M:%S")
}

/// A time that is to come: with its day where that is not today.
pub(super) fn due(time: Timestamp) -> String {
    let is_today = zoned(time, "%Y-%m-%d") == zoned(now(), "%Y-%m-%d");
    if is_today { clock(time) } else { date(time) }
}

fn zoned(time: Timestamp, format: &str) -> String {
    let time = jiff::Timestamp::from_millisecond(time.as_millis());
    let time = time.unwrap_or(jiff::Timestamp::MAX).to_zoned_datetime(TimeZone::system());
    time.strftime(format).to_string()
}

/// Now, as the log counts.
pub(super) fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// An argument as a shell wants it.
pub(super) fn shell_quoted(argument: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !argument.is_empty() && argument.chars().all(safe) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// What to do about a job that needs kinds which this program does not have.
pub(super) fn foreign(kinds: &[KindName]) -> String {
    let names = kinds.iter().map(KindName::as_str).collect::<Vec<_>>().join(", ");
    let (kinds, are) = if kinds.len() == 1 { ("kind", "is") } else { ("kinds", "are") };
    format!("{kinds} {names} {are} of a program of its own: run that program on this store")
}

/// A task's status in its colour, padded.
pub(super) fn task_status(status: TaskStatus) -> String {
    // Padding before styling: escapes have no width.
    format!("{status:<11}").style(style(status)).to_string()
}

/// The style of a task's status.
pub(super) fn style(status: TaskStatus) -> Style {
    match status {
        TaskStatus::Completed => Style::new().green(),
        TaskStatus::Failed => Style::new().red(),
        TaskStatus::Running => Style::new().cyan(),
        TaskStatus::Waiting | TaskStatus::Interrupted => Style::new().yellow(),
        TaskStatus::Pending | TaskStatus::Skipped | TaskStatus::Removed => Style::new().dimmed(),
    }
}

/// A job's status in its colour.
pub(super) fn job_status(status: JobStatus) -> String {
    let style = match status {
        JobStatus::Completed => Style::new().green(),
        JobStatus::Failed => Style::new().red(),
        JobStatus::Running => Style::new().cyan(),
        JobStatus::Paused => Style::new().yellow(),
        JobStatus::Pending | JobStatus::Cancelled => Style::new().dimmed(),
    };
    status.as_str().style(style).to_string()
}

/// What stands for the status of a job that cannot be read.
pub(super) fn damaged() -> String {
    "damaged".style(Style::new().red()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_unknown_origin_reaches_the_terminal_raw() {
        assert_eq!(plain("plain text"), "plain text");
        assert_eq!(plain("grün ✓"), "grün ✓");
        assert_eq!(plain("\u{1b}[31mred\0\r\n"), "\\u{1b}[31mred\\u{0}\\r\\n");
        assert_eq!(plain("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
    }

    #[test]
    fn a_message_of_many_lines_has_its_point_in_one() {
        assert_eq!(brief("exit code 1:\nfirst\nlast\n"), "exit code 1: last");
        assert_eq!(brief("one\ntwo"), "one");
        assert_eq!(brief("alone:"), "alone:");
        assert_eq!(brief(""), "");
    }

    #[test]
    fn durations_are_short() {
        let shown = |millis| duration(Duration::from_millis(millis));
        let table = [(0, "0.0 s"), (340, "0.3 s"), (9_990, "9.9 s"), (12_400, "12 s")];
        for (millis, text) in table {
            assert_eq!(shown(millis), text);
        }
        assert_eq!(shown(125_000), "2m 05s");
        assert_eq!(shown(3_725_000), "1h 02m");
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(shell_quoted("a/b.yaml"), "a/b.yaml");
        assert_eq!(shell_quoted("it's here"), r"'it'\''s here'");
        assert_eq!(shell_quoted(""), "''");
    }
}
