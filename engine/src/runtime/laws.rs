//! Laws: what must hold of every history, looked at once more in what is about to be written.
//!
//! The machine keeps these laws, and refuses an event that would break one when it evolves. This
//! is a second witness: it knows of a job only what was handed to the writer before, so that a
//! fault in the machine, or in the memory of its state, does not find belief here too. It looks at
//! no task, makes no room on the heap for jobs of up to 63 tasks, and does no I/O.

use annals_tasks_sdk::{JobId, Timestamp};

use super::successes::Successes;
use super::undelivered::Undelivered;
use crate::job::{
    CancelMode, Event, Illegal, Intent, Job, JobStatus, Part, Recorded, TaskNumber, TaskStatus,
};

/// A law of histories. Shown, it says what holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Law {
    /// Each event has the number behind that of its predecessor.
    #[error("the events of a job have no gap")]
    NoGap,
    /// No event is older than its predecessor.
    #[error("time does not run backwards")]
    TimeOrder,
    /// A run has one end; it is left only by what reopens the job, or by the cancel of a failed
    /// one.
    #[error("a run ends once, and only what has ended is reopened")]
    OneEnd,
    /// No attempt starts when the run has ended, or its end is decided, but those that are for the
    /// end.
    #[error("nothing starts when a run has ended, was cancelled or is past its deadline")]
    NoLateStart,
    /// A job ends behind the children that its tasks wait for.
    #[error("a job ends when its children have")]
    ChildrenFirst,
    /// What has ended is purged, and nothing comes behind that.
    #[error("only what has ended is purged, and a purge is the last that happens")]
    PurgeIsLast,
    /// A task succeeds once, however often its job is executed again; one of `finally` once for
    /// each end.
    #[error("a task succeeds once")]
    OneSuccess,
    /// What succeeds is a task of the job.
    #[error("only a task of the job succeeds")]
    OwnTask,
    /// A signal is given to a task once, and only one that has come.
    #[error("what is delivered has come, and was not delivered before")]
    OneDelivery,
    /// What the machine decides can stand where it is to stand: it refused its own event.
    #[error("an event can follow on its history")]
    Legal,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoGap,
        Self::TimeOrder,
        Self::OneEnd,
        Self::NoLateStart,
        Self::ChildrenFirst,
        Self::PurgeIsLast,
        Self::OneSuccess,
        Self::OwnTask,
        Self::OneDelivery,
        Self::Legal,
    ];

    /// A short stable word.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoGap => "no_gap",
            Self::TimeOrder => "time_order",
            Self::OneEnd => "one_end",
            Self::NoLateStart => "no_late_start",
            Self::ChildrenFirst => "children_first",
            Self::PurgeIsLast => "purge_is_last",
            Self::OneSuccess => "one_success",
            Self::OwnTask => "own_task",
            Self::OneDelivery => "one_delivery",
            Self::Legal => "legal",
        }
    }
}

/// An event that was about to be written, and the law that it would have broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event}) of job {job} would break a law of histories: {law}")]
#[non_exhaustive]
pub struct BrokenLaw {
    /// The job.
    pub job: JobId,
    /// The number that the event was to have.
    pub seq: u64,
    /// Its type.
    pub event: &'static str,
    /// The law.
    pub law: Law,
}

impl From<&Illegal> for BrokenLaw {
    fn from(Illegal { job, seq, event, .. }: &Illegal) -> Self {
        Self { job: *job, seq: *seq, event, law: Law::Legal }
    }
}

/// What was handed to the writer of a job, so far as the laws ask for it.
#[derive(Debug)]
pub(super) struct Written {
    time: Timestamp,
    run: Run,
    successes: Successes,
    /// Of the tasks of `finally`, for the present end.
    at_end: Option<Box<Successes>>,
    /// Tasks that wait for children.
    children: Vec<TaskNumber>,
    signals: Undelivered,
}

/// How far the present run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Open,
    /// Its cancel was accepted, or its deadline has passed.
    Ending,
    /// Its end is decided, and what it has done is undone.
    Undoing,
    /// Its end is decided, and the tasks of `finally` run.
    Finishing,
    /// The same, and nothing of them starts any more.
    CutShort,
    Completed,
    Failed,
    Cancelled,
    /// There is none any more.
    Purged,
}

impl Run {
    /// Of a job whose end is decided.
    fn of_ending(job: &Job) -> Self {
        match (job.is_being_undone(), job.is_cut_short()) {
            (true, false) => Self::Undoing,
            (true, true) => Self::Ending,
            (false, false) => Self::Finishing,
            (false, true) => Self::CutShort,
        }
    }
}

impl Written {
    /// Of a job of which nothing was written.
    pub(super) fn nothing() -> Self {
        let time = Timestamp::from_millis(i64::MIN);
        let (successes, children) = (Successes::default(), Vec::new());
        let signals = Undelivered::default();
        Self { time, run: Run::Open, successes, at_end: None, children, signals }
    }

    /// Of a job as its history, which is written, has made it.
    pub(super) fn of(job: &Job) -> Self {
        let run = match (job.status(), job.intent()) {
            _ if job.purged().is_some() => Run::Purged,
            (JobStatus::Completed, _) => Run::Completed,
            (JobStatus::Failed, _) => Run::Failed,
            (JobStatus::Cancelled, _) => Run::Cancelled,
            _ if job.ending().is_some() => Run::of_ending(job),
            (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) => Run::Ending,
            (_, Some(Intent::Pause) | None) => Run::Open,
        };
        let children = job.children().collect();
        let signals = Undelivered::of(job);
        let mut written = Self { time: job.time(), run, children, signals, ..Self::nothing() };
        if job.counts().completed > 0 || job.has_instances() {
            let all = job.numbered_tasks();
            let completed = all.filter(|(_, task)| task.status() == TaskStatus::Completed);
            for (number, task) in completed {
                // Each number comes once.
                let _ = match task.part() {
                    Part::Tasks | Part::Undo => written.successes.add(number),
                    Part::Finally => written.at_end.get_or_insert_default().add(number),
                };
            }
        }
        written
    }

    /// Looks at the next events of a job that has so many tasks, and takes them for written. After
    /// an error this value is of no use any more.
    pub(super) fn take_in(
        &mut self,
        (job, tasks): (JobId, usize),
        before: u64,
        events: &[Recorded],
    ) -> Result<(), BrokenLaw> {
        let mut last = before;
        for Recorded { seq, time, event, .. } in events {
            let held = if *seq != last.wrapping_add(1) {
                Err(Law::NoGap)
            } else if *time < self.time {
                Err(Law::TimeOrder)
            } else {
                self.follow(event, *seq, tasks)
            };
            held.map_err(|law| BrokenLaw { job, seq: *seq, event: event.type_name(), law })?;
            (last, self.time) = (*seq, *time);
        }
        Ok(())
    }

    fn follow(&mut self, event: &Event, seq: u64, tasks: usize) -> Result<(), Law> {
        match event {
            _ if self.run == Run::Purged => Err(Law::PurgeIsLast),
            Event::JobPurged(_) => self.vanish(),
            Event::AttemptStarted { .. } | Event::ChildStarted { .. }
                if !matches!(self.run, Run::Open | Run::Undoing | Run::Finishing) =>
            {
                Err(Law::NoLateStart)
            }
            Event::ChildStarted { task, .. } => {
                self.children.push(*task);
                Ok(())
            }
            Event::ChildEnded { task, .. } => {
                self.children.retain(|other| other != task);
                Ok(())
            }
            Event::JobCompleted
            | Event::JobFailed { .. }
            | Event::JobCancelled
            | Event::JobCompensating { .. }
            | Event::JobEnding { .. }
                if !self.children.is_empty() =>
            {
                Err(Law::ChildrenFirst)
            }
            Event::TaskCompleted { task, .. } if task.0 == 0 || task.0 as usize > tasks => {
                Err(Law::OwnTask)
            }
            Event::TaskCompleted { task, .. } => {
                self.children.retain(|other| other != task);
                match self.run {
                    Run::Finishing | Run::CutShort => {
                        self.at_end.get_or_insert_default().add(*task)
                    }
                    _ => self.successes.add(*task),
                }
            }
            Event::SignalReceived { .. } => self.signals.add(seq),
            Event::SignalDelivered { signal, .. } => self.signals.deliver(*signal),
            Event::CancelRequested { mode: CancelMode::Now } => self.cut_short(),
            Event::CancelRequested { mode: CancelMode::Orderly } | Event::DeadlinePassed { .. } => {
                self.begin_to_end()
            }
            Event::JobCompensating { .. } => match self.run {
                Run::Open | Run::Ending => self.become_of(Run::Undoing),
                _ => Err(Law::OneEnd),
            },
            Event::JobEnding { .. } => match self.run {
                Run::Open | Run::Ending | Run::Undoing => self.become_of(Run::Finishing),
                _ => Err(Law::OneEnd),
            },
            Event::JobCompleted => self.end(Run::Completed),
            Event::JobFailed { .. } => self.end(Run::Failed),
            Event::JobCancelled if self.run == Run::Failed => self.become_of(Run::Cancelled),
            Event::JobCancelled => self.end(Run::Cancelled),
            Event::JobReopened { .. } => match self.run {
                Run::Failed | Run::Cancelled => {
                    self.at_end = None;
                    self.become_of(Run::Open)
                }
                _ => Err(Law::OneEnd),
            },
            _ => Ok(()),
        }
    }

    /// What is decided of the end of a run is decided once.
    fn begin_to_end(&mut self) -> Result<(), Law> {
        match self.run {
            Run::Open => self.become_of(Run::Ending),
            _ => Err(Law::OneEnd),
        }
    }

    /// From now on nothing starts before the end, whichever it is.
    fn cut_short(&mut self) -> Result<(), Law> {
        match self.run {
            Run::Open | Run::Ending | Run::Undoing => self.become_of(Run::Ending),
            Run::Finishing => self.become_of(Run::CutShort),
            _ => Err(Law::OneEnd),
        }
    }

    fn end(&mut self, end: Run) -> Result<(), Law> {
        match self.run {
            Run::Completed | Run::Failed | Run::Cancelled | Run::Purged => Err(Law::OneEnd),
            _ => self.become_of(end),
        }
    }

    /// The job goes, if it has ended.
    fn vanish(&mut self) -> Result<(), Law> {
        match self.run {
            Run::Completed | Run::Failed | Run::Cancelled => self.become_of(Run::Purged),
            _ => Err(Law::PurgeIsLast),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is the end of what may be refused")]
    fn become_of(&mut self, run: Run) -> Result<(), Law> {
        self.run = run;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
