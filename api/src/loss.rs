//! What an attempt has written and can be read no more: the event log knows how much it was, and
//! step logs are not synced to the disk. And why a task has no log at all.

use std::fmt;

use annals_engine::job::{Attempt, AttemptOutcome, Job, Task, TaskStatus};
use annals_engine::steplog::Extent;
use annals_tasks_sdk::JobId;

/// How many bytes an attempt has written, as the event log has it: known once it has ended, unless
/// it was lost.
pub(crate) fn written(attempt: &Attempt) -> Option<u64> {
    let is_known = attempt.outcome.is_some_and(|outcome| outcome != AttemptOutcome::Lost);
    is_known.then_some(attempt.log.bytes)
}

/// How many of so many bytes are not in a log that ends at `total`.
pub(crate) fn missing(written: Option<u64>, total: u64) -> u64 {
    written.map_or(0, |written| written.saturating_sub(total))
}

/// What to say of a log of which nothing is left.
pub(crate) fn gone(attempt: u32, written: u64) -> String {
    format!("attempt {attempt} has written {written} bytes, and its log is gone")
}

/// The job that this one was forked from, where a task has come from there with what it is: it has
/// not run here.
pub(crate) fn copied_from(job: &Job, task: &Task) -> Option<JobId> {
    let is_over = matches!(
        task.status(),
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped | TaskStatus::Removed
    );
    let has_run = !task.attempts().is_empty();
    job.forked_from().filter(|_| is_over && !has_run).map(|from| from.job)
}

/// What to say of a task that has no attempt and so no log.
pub(crate) fn not_run(job: &Job, task: &Task) -> String {
    let id = &task.spec.id;
    if let Some(items) = task.items() {
        return match items.total {
            0 => format!("task {id} was done for an empty list, and has no log"),
            1 => format!("task {id} has no log of its own: its instance has, {id}~0"),
            of => format!(
                "task {id} has no log of its own: its {of} instances have, {id}~0 to {id}~{}",
                of - 1
            ),
        };
    }
    match copied_from(job, task) {
        Some(origin) => format!(
            "task {id} has not run in this job, which is a fork of job {origin}: what was copied \
             from there has its log there"
        ),
        None => format!("task {id} has not run yet"),
    }
}

/// What cannot be read of a log. Shown, it is a note for the end of what can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// How many bytes, where that is known.
    pub(crate) bytes: Option<u64>,
    /// Why, where something else than the end of the log is there.
    damage: Option<String>,
}

impl Loss {
    /// What cannot be read of a log of so many bytes, if anything.
    pub(crate) fn of(written: Option<u64>, extent: &Extent) -> Option<Self> {
        let bytes = Some(missing(written, extent.total)).filter(|bytes| *bytes > 0);
        let damage = extent.damage.as_ref().map(ToString::to_string);
        (bytes.is_some() || damage.is_some()).then_some(Self { bytes, damage })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, &self.damage) {
            (None, None) => Ok(()),
            (None, Some(why)) => writeln!(f, "\n[the rest cannot be read: {why}]"),
            (Some(bytes), Some(why)) => writeln!(f, "\n[{bytes} bytes cannot be read: {why}]"),
            (Some(bytes), None) => writeln!(f, "\n[{bytes} bytes are missing here]"),
        }
    }
}
