//! What has changed between two plans, as people read it.

use annals_tasks_sdk::Payload;
use similar::TextDiff;

use crate::json::outline;

/// More lines of a difference than this are not shown.
const LINES_MAX: usize = 200;

/// The changed lines of two plans with a few around them.
pub(super) fn difference(stored: &Payload, now: &Payload, job: &str) -> String {
    let (stored, now) = (outline(stored.as_str()), outline(now.as_str()));
    let diff = TextDiff::from_lines(&stored, &now);
    let mut unified = diff.unified_diff();
    let text = unified.context_radius(3).header(&format!("plan of job {job}"), "file").to_string();
    let mut lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    if text.lines().count() > LINES_MAX {
        lines.push("(more lines differ)");
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_script_is_shown_line_by_line() {
        let plan = |script: &str| {
            let text = format!(r#"{{"tasks":[{{"id":"a","input":{{"script":{script:?}}}}}]}}"#);
            Payload::parse(&text).unwrap()
        };
        let text = difference(&plan("one\ntwo\n"), &plan("one\nthree\n"), "7");
        assert!(text.starts_with("--- plan of job 7\n+++ file\n"), "{text}");
        assert!(text.contains("-        two\n+        three"), "{text}");
    }
}
