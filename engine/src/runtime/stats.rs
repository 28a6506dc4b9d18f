//! What an engine counts, for whoever watches it.
//!
//! Each loop writes numbers of its own, so that to count costs it a store and no more; whoever
//! asks adds them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::engine::{Engine, Shared};
use super::laws::Law;
use super::turn::Loop;
use crate::job::{Event, JobStatus};
use crate::log::{Position, WriterStats};

/// What an engine has done since its start, and what it has now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// What became of jobs since the start.
    pub jobs: JobCounts,
    /// The jobs that have not ended, by their status now.
    pub open: OpenJobs,
    /// What became of attempts since the start.
    pub attempts: AttemptCounts,
    /// Attempts that are alive now, or are about to be.
    pub live_attempts: u64,
    /// Reports of attempts that came when these were not current any more, and were dropped.
    pub late_reports: u64,
    /// Jobs that wait for a time.
    pub timers: u64,
    /// The pools, in their order.
    pub pools: Vec<PoolStats>,
    /// What the engine has found when it looked at itself.
    pub checks: Checks,
    /// Histories that were read because their jobs were not loaded when they were asked for, or
    /// when their time came.
    pub loads: u64,
    /// Jobs that are not loaded and can be read all the same without their history.
    pub at_rest: AtRest,
    /// Idempotency keys that are known.
    pub keys: u64,
    /// What the writer of the log has done since the start.
    pub writer: WriterStats,
    /// The position that the next event gets.
    pub next_position: Position,
    /// Up to and including which position the views reflect the records.
    pub viewed: Position,
}

/// What became of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCounts {
    /// Were submitted.
    pub submitted: u64,
    /// Ended completed. A job that is executed again may end again.
    pub completed: u64,
    /// Ended failed.
    pub failed: u64,
    /// Ended cancelled.
    pub cancelled: u64,
}

/// Jobs that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenJobs {
    /// Not released yet.
    pub pending: u64,
    /// Running, also while all their tasks wait.
    pub running: u64,
    /// Paused and quiet.
    pub paused: u64,
    /// How many of all jobs are loaded; others are when they are due or asked for.
    pub loaded: u64,
    /// Jobs that are given up, because their history cannot be followed; not counted above.
    pub broken: u64,
}

/// What the engine finds wrong with itself: nothing, unless it has a fault, or its memory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Checks {
    /// Open jobs that nothing will move and nobody holds, when they were last looked at: each is
    /// about once a minute.
    pub without_reason: u64,
    /// How often such a job was tried again since the start.
    pub tried_again: u64,
    /// How often an event would have broken a law since the start, in the order of [`Law::ALL`].
    pub broken_laws: [u64; Law::ALL.len()],
}

/// Jobs at rest: ended or waiting, not loaded, their state kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtRest {
    /// How many there are.
    pub jobs: u64,
    /// About how much memory they take, in bytes.
    pub bytes: u64,
}

/// What became of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptCounts {
    /// Were started.
    pub started: u64,
    /// Gave a result.
    pub completed: u64,
    /// Failed.
    pub failed: u64,
    /// Were stopped.
    pub interrupted: u64,
    /// Took longer than their timeout.
    pub timed_out: u64,
    /// Were alive when an engine died.
    pub lost: u64,
}

/// A pool of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStats {
    /// What it is called.
    pub name: Arc<str>,
    /// How many slots it has.
    pub slots: u64,
    /// How many of them are taken.
    pub in_use: u64,
    /// How many tasks stand in its queue. A job has at most 64 of its tasks stand in one.
    pub waiting: u64,
}

/// A number that one thread changes and all may read.
#[derive(Debug, Default)]
struct Number(AtomicU64);

impl Number {
    /// Not an atomic addition, because nobody else writes: that costs as much as a plain one.
    fn add(&self, count: u64) {
        self.set(self.get().saturating_add(count));
    }

    fn subtract(&self, count: u64) {
        self.set(self.get().saturating_sub(count));
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one loop counts.
#[derive(Debug, Default)]
pub(super) struct Counters {
    submitted: Number,
    job_completed: Number,
    job_failed: Number,
    job_cancelled: Number,
    pending: Number,
    running: Number,
    paused: Number,
    loaded: Number,
    broken: Number,
    started: Number,
    completed: Number,
    failed: Number,
    interrupted: Number,
    timed_out: Number,
    lost: Number,
    live: Number,
    late: Number,
    timers: Number,
    loads: Number,
    without_reason: Number,
    tried_again: Number,
    broken_laws: [Number; Law::ALL.len()],
}

impl Counters {
    /// Counts what an event says.
    pub(super) fn count(&self, event: &Event) {
        let number = match event {
            Event::JobSubmitted(_) => &self.submitted,
            Event::JobCompleted => &self.job_completed,
            Event::JobFailed { .. } => &self.job_failed,
            Event::JobCancelled => &self.job_cancelled,
            Event::AttemptStarted { .. } => &self.started,
            Event::TaskCompleted { attempt, .. } if *attempt > 0 => &self.completed,
            Event::AttemptFailed { .. } => &self.failed,
            Event::AttemptInterrupted { .. } => &self.interrupted,
            Event::AttemptTimedOut { .. } => &self.timed_out,
            Event::AttemptLost { .. } => &self.lost,
            _ => return,
        };
        number.add(1);
    }

    /// Notes that a job has another status, or that it is there, or that it is no more.
    pub(super) fn moved(&self, from: Option<JobStatus>, to: Option<JobStatus>) {
        if from == to {
            return;
        }
        if let Some(from) = from.and_then(|status| self.of(status)) {
            from.subtract(1);
        }
        if let Some(to) = to.and_then(|status| self.of(status)) {
            to.add(1);
        }
    }

    fn of(&self, status: JobStatus) -> Option<&Number> {
        match status {
            JobStatus::Pending => Some(&self.pending),
            JobStatus::Running => Some(&self.running),
            JobStatus::Paused => Some(&self.paused),
            // How many have ended in all the store's time would have to be counted in the views.
            JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled => None,
        }
    }

    /// The history of a job is read.
    pub(super) fn load(&self) {
        self.loads.add(1);
    }

    /// So many jobs have no reason to stand still.
    pub(super) fn without_reason(&self, jobs: usize) {
        self.without_reason.set(jobs as u64);
    }

    /// One of them is tried again.
    pub(super) fn tried_again(&self) {
        self.tried_again.add(1);
    }

    /// An event would have broken a law.
    pub(super) fn broken_law(&self, law: Law) {
        if let Some(place) = Law::ALL.iter().position(|each| *each == law) {
            self.broken_laws[place].add(1);
        }
    }

    /// A report came too late.
    pub(super) fn late(&self) {
        self.late.add(1);
    }
}

impl Loop {
    /// Shows how many there are of what the loop has, once a turn.
    pub(super) fn show_sizes(&self) {
        self.counters.loaded.set(self.loaded as u64);
        self.counters.live.set(self.live as u64);
        self.counters.broken.set(self.broken.len() as u64);
        self.counters.timers.set(self.agenda.len() as u64);
    }
}

impl Shared {
    /// How often each law was about to be broken.
    fn broken_laws(&self) -> [u64; Law::ALL.len()] {
        let times =
            |place: usize| self.counters.iter().map(move |each| each.broken_laws[place].get());
        std::array::from_fn(|place| times(place).sum())
    }
}

impl Engine {
    /// What the engine has done since its start, and what it has now. What loops and attempts
    /// change at this moment may be counted in one number and not yet in another.
    pub fn stats(&self) -> EngineStats {
        let shared = &self.0.shared;
        let sum = |number: fn(&Counters) -> &Number| {
            shared.counters.iter().map(|counters| number(counters).get()).sum()
        };
        EngineStats {
            jobs: JobCounts {
                submitted: sum(|counters| &counters.submitted),
                completed: sum(|counters| &counters.job_completed),
                failed: sum(|counters| &counters.job_failed),
                cancelled: sum(|counters| &counters.job_cancelled),
            },
            open: OpenJobs {
                pending: sum(|counters| &counters.pending),
                running: sum(|counters| &counters.running),
                paused: sum(|counters| &counters.paused),
                loaded: sum(|counters| &counters.loaded),
                broken: sum(|counters| &counters.broken),
            },
            attempts: AttemptCounts {
                started: sum(|counters| &counters.started),
                completed: sum(|counters| &counters.completed),
                failed: sum(|counters| &counters.failed),
                interrupted: sum(|counters| &counters.interrupted),
                timed_out: sum(|counters| &counters.timed_out),
                lost: sum(|counters| &counters.lost),
            },
            live_attempts: sum(|counters| &counters.live),
            late_reports: sum(|counters| &counters.late),
            timers: sum(|counters| &counters.timers),
            pools: shared.pools.stats(),
            checks: Checks {
                without_reason: sum(|counters| &counters.without_reason),
                tried_again: sum(|counters| &counters.tried_again),
                broken_laws: shared.broken_laws(),
            },
            loads: sum(|counters| &counters.loads),
            at_rest: shared.resting.stats(),
            keys: shared.keys.known() as u64,
            writer: shared.writer.stats(),
            next_position: shared.reader.next_position(),
            viewed: shared.reader.viewed(),
        }
    }
}
