//! The numbers under which event types stand in the log. A number is registered once, here, and
//! never given to another type, also when its type is no longer written.

use crate::job::Event;

macro_rules! types {
    ($($constant:ident = $number:literal $name:literal,)+) => {
        $(pub(super) const $constant: u16 = $number;)+

        /// Every number with its name, including those that this build cannot read.
        pub(super) const ALL: &[(u16, &str)] = &[$(($number, $name),)+];
    };
}

types! {
    JOB_SUBMITTED = 1 "JobSubmitted",
    JOB_STARTED = 2 "JobStarted",
    PAUSE_REQUESTED = 3 "PauseRequested",
    JOB_PAUSED = 4 "JobPaused",
    JOB_RESUMED = 5 "JobResumed",
    CANCEL_REQUESTED = 6 "CancelRequested",
    SKIP_REQUESTED = 7 "SkipRequested",
    JOB_REOPENED = 8 "JobReopened",
    JOB_COMPLETED = 9 "JobCompleted",
    JOB_FAILED = 10 "JobFailed",
    JOB_CANCELLED = 11 "JobCancelled",
    JOB_FORKED = 12 "JobForked",
    JOB_PURGED = 13 "JobPurged",
    DEADLINE_PASSED = 14 "DeadlinePassed",
    JOB_ENDING = 15 "JobEnding",
    JOB_LINKED = 16 "JobLinked",
    HOLD_PLACED = 17 "HoldPlaced",
    HOLD_LIFTED = 18 "HoldLifted",
    JOB_COMPENSATING = 19 "JobCompensating",
    ATTEMPT_STARTED = 20 "AttemptStarted",
    ATTEMPT_FAILED = 21 "AttemptFailed",
    ATTEMPT_TIMED_OUT = 22 "AttemptTimedOut",
    ATTEMPT_INTERRUPTED = 23 "AttemptInterrupted",
    ATTEMPT_LOST = 24 "AttemptLost",
    TASK_WAITING = 30 "TaskWaiting",
    RETRY_SCHEDULED = 31 "RetryScheduled",
    TASK_COMPLETED = 32 "TaskCompleted",
    TASK_FAILED = 33 "TaskFailed",
    TASK_SKIPPED = 34 "TaskSkipped",
    TASK_REMOVED = 35 "TaskRemoved",
    TASK_INSERTED = 36 "TaskInserted",
    TASK_MOVED = 37 "TaskMoved",
    TASK_EDITED = 38 "TaskEdited",
    TASK_EXPANDED = 39 "TaskExpanded",
    CHECKPOINT_SAVED = 40 "CheckpointSaved",
    STEP_RECORDED = 41 "StepRecorded",
    SIGNAL_RECEIVED = 42 "SignalReceived",
    SIGNAL_DELIVERED = 43 "SignalDelivered",
    CHILD_STARTED = 44 "ChildStarted",
    CHILD_PAUSED = 45 "ChildPaused",
    CHILD_ENDED = 46 "ChildEnded",
}

/// Numbers that are registered for types that no build writes yet.
pub(super) const RESERVED: &[(u16, &str)] = &[];

/// The name that is registered for a type number.
pub(super) fn name(number: u16) -> Option<&'static str> {
    ALL.iter().chain(RESERVED).find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// The number under which an event is written.
pub(super) const fn number(event: &Event) -> u16 {
    match event {
        Event::JobSubmitted(_) => JOB_SUBMITTED,
        Event::JobForked { .. } => JOB_FORKED,
        Event::JobLinked(_) => JOB_LINKED,
        Event::HoldPlaced { .. } => HOLD_PLACED,
        Event::HoldLifted => HOLD_LIFTED,
        Event::ChildStarted { .. } => CHILD_STARTED,
        Event::ChildPaused { .. } => CHILD_PAUSED,
        Event::ChildEnded { .. } => CHILD_ENDED,
        Event::JobStarted => JOB_STARTED,
        Event::PauseRequested { .. } => PAUSE_REQUESTED,
        Event::JobPaused => JOB_PAUSED,
        Event::JobResumed => JOB_RESUMED,
        Event::CancelRequested { .. } => CANCEL_REQUESTED,
        Event::JobEnding { .. } => JOB_ENDING,
        Event::JobCompensating { .. } => JOB_COMPENSATING,
        Event::SkipRequested { .. } => SKIP_REQUESTED,
        Event::JobReopened { .. } => JOB_REOPENED,
        Event::JobCompleted => JOB_COMPLETED,
        Event::JobFailed { .. } => JOB_FAILED,
        Event::JobCancelled => JOB_CANCELLED,
        Event::JobPurged(_) => JOB_PURGED,
        Event::DeadlinePassed { .. } => DEADLINE_PASSED,
        Event::AttemptStarted { .. } => ATTEMPT_STARTED,
        Event::AttemptFailed { .. } => ATTEMPT_FAILED,
        Event::AttemptTimedOut { .. } => ATTEMPT_TIMED_OUT,
        Event::AttemptInterrupted { .. } => ATTEMPT_INTERRUPTED,
        Event::AttemptLost { .. } => ATTEMPT_LOST,
        Event::TaskWaiting { .. } => TASK_WAITING,
        Event::RetryScheduled { .. } => RETRY_SCHEDULED,
        Event::TaskCompleted { .. } => TASK_COMPLETED,
        Event::TaskFailed { .. } => TASK_FAILED,
        Event::TaskSkipped { .. } => TASK_SKIPPED,
        Event::TaskRemoved { .. } => TASK_REMOVED,
        Event::TaskInserted { .. } => TASK_INSERTED,
        Event::TaskMoved { .. } => TASK_MOVED,
        Event::TaskEdited { .. } => TASK_EDITED,
        Event::TaskExpanded { .. } => TASK_EXPANDED,
        Event::CheckpointSaved { .. } => CHECKPOINT_SAVED,
        Event::StepRecorded { .. } => STEP_RECORDED,
        Event::SignalReceived { .. } => SIGNAL_RECEIVED,
        Event::SignalDelivered { .. } => SIGNAL_DELIVERED,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_number_and_no_name_is_registered_twice() {
        let all: Vec<_> = ALL.iter().chain(RESERVED).collect();
        let numbers: BTreeSet<_> = all.iter().map(|(number, _)| number).collect();
        let names: BTreeSet<_> = all.iter().map(|(_, name)| name).collect();
        assert_eq!((numbers.len(), names.len()), (all.len(), all.len()));
        assert!(!numbers.contains(&0), "0 is kept for what is no event");
    }
}
