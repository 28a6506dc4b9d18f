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
            _ if job.ending().is_some() && job.is_cut_short() => Run::CutShort,
            _ if job.ending().is_some() => Run::Finishing,
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
                    Part::Tasks => written.successes.add(number),
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
                if !matches!(self.run, Run::Open | Run::Finishing) =>
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
            Event::JobEnding { .. } => match self.run {
                Run::Open | Run::Ending => self.become_of(Run::Finishing),
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
            Run::Open | Run::Ending => self.become_of(Run::Ending),
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
mod tests {
    use annals_tasks_sdk::plan::JobEnd;
    use annals_tasks_sdk::{Exit, Payload};

    use super::*;
    use crate::job::{Failure, LogSize, Origin, Purged};

    const TASKS: usize = 200;

    fn recorded(seq: u64, millis: i64, event: Event) -> Recorded {
        let (time, origin) = (Timestamp::from_millis(millis), Origin::ENGINE);
        Recorded { seq, time, origin, leads: false, key: None, event }
    }

    fn completes(task: u32) -> Event {
        let (task, exit, log) = (TaskNumber(task), Exit::default(), LogSize::default());
        Event::TaskCompleted { task, attempt: 1, output: Payload::NULL, exit, log }
    }

    fn starts(task: u32) -> Event {
        Event::AttemptStarted { task: TaskNumber(task), attempt: 1 }
    }

    fn runs_out() -> Event {
        Event::DeadlinePassed { error: Failure::new(Failure::DEADLINE_EXCEEDED, "too long") }
    }

    fn cancels() -> Event {
        Event::CancelRequested { mode: CancelMode::Orderly }
    }

    fn cuts() -> Event {
        Event::CancelRequested { mode: CancelMode::Now }
    }

    fn ending() -> Event {
        Event::JobEnding { end: JobEnd::Cancelled, error: None }
    }

    fn fails() -> Event {
        Event::JobFailed { error: Failure::new("no", "it does not work") }
    }

    /// The law that the last of these events breaks, which follow on nothing; each is a turn's.
    fn broken(events: &[Event]) -> Option<Law> {
        let mut written = Written::nothing();
        let mut found = None;
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!(found, None, "only the last may break one: {events:?}");
            let event = recorded(seq, 7, event.clone());
            let taken = written.take_in((JobId::from_u128(1), TASKS), seq - 1, &[event]);
            found = taken.err().map(|broken| broken.law);
        }
        found
    }

    #[test]
    fn a_run_ends_once() {
        use Event::{JobCancelled, JobCompleted, JobStarted};
        let again = || Event::JobReopened { held: false };
        let table: [(&[Event], Option<Law>); 24] = [
            (&[JobStarted, JobCompleted], None),
            (&[JobCompleted, JobCompleted], Some(Law::OneEnd)),
            (&[JobCompleted, fails()], Some(Law::OneEnd)),
            (&[JobCompleted, JobCancelled], Some(Law::OneEnd)),
            (&[fails(), JobCompleted], Some(Law::OneEnd)),
            (&[fails(), JobCancelled], None),
            (&[fails(), JobCancelled, JobCancelled], Some(Law::OneEnd)),
            (&[cancels(), JobCancelled, fails()], Some(Law::OneEnd)),
            (&[fails(), again(), JobCompleted], None),
            (&[fails(), JobCancelled, again(), fails(), again()], None),
            (&[again()], Some(Law::OneEnd)),
            (&[JobCompleted, again()], Some(Law::OneEnd)),
            (&[cancels(), again()], Some(Law::OneEnd)),
            (&[runs_out(), fails(), again(), runs_out(), fails()], None),
            (&[runs_out(), runs_out()], Some(Law::OneEnd)),
            (&[runs_out(), cancels()], Some(Law::OneEnd)),
            (&[cancels(), runs_out()], Some(Law::OneEnd)),
            (&[fails(), runs_out()], Some(Law::OneEnd)),
            (&[cancels(), ending(), JobCancelled, again(), ending(), JobCompleted], None),
            (&[cancels(), cuts(), JobCancelled], None),
            (&[ending(), cuts(), fails()], None),
            (&[ending(), ending()], Some(Law::OneEnd)),
            (&[ending(), cancels()], Some(Law::OneEnd)),
            (&[JobCompleted, cuts()], Some(Law::OneEnd)),
        ];
        for (events, law) in table {
            assert_eq!(broken(events), law, "{events:?}");
        }
    }

    #[test]
    fn a_purge_comes_behind_an_end_and_nothing_behind_it() {
        use Event::{JobCancelled, JobCompleted, JobStarted};
        let purged = |status| {
            Event::JobPurged(Purged { status, events: 2, tasks: 1, attempts: 0, head: [7; 32] })
        };
        let purge = || purged(JobStatus::Failed);
        let last = Some(Law::PurgeIsLast);
        for end in [JobCompleted, fails(), JobCancelled] {
            assert_eq!(broken(&[JobStarted, end.clone(), purge()]), None);
            for more in [purge(), Event::JobReopened { held: true }, starts(1), JobCancelled] {
                assert_eq!(broken(&[end.clone(), purge(), more]), last);
            }
        }
        assert_eq!(broken(&[purge()]), last);
        assert_eq!(broken(&[JobStarted, purge()]), last);
        assert_eq!(broken(&[cancels(), purge()]), last);
        assert_eq!(broken(&[runs_out(), purge()]), last);
    }

    #[test]
    fn nothing_starts_late() {
        use Event::{JobCancelled, JobCompleted};
        let again = || Event::JobReopened { held: false };
        let late = Some(Law::NoLateStart);
        assert_eq!(broken(&[starts(1), starts(2)]), None);
        assert_eq!(broken(&[cancels(), starts(1)]), late);
        assert_eq!(broken(&[runs_out(), starts(1)]), late);
        assert_eq!(broken(&[runs_out(), fails(), again(), starts(1)]), None);
        assert_eq!(broken(&[JobCancelled, starts(1)]), late);
        assert_eq!(broken(&[JobCompleted, starts(1)]), late);
        assert_eq!(broken(&[fails(), starts(1)]), late);
        assert_eq!(broken(&[cancels(), JobCancelled, again(), starts(1)]), None);
        assert_eq!(broken(&[cancels(), ending(), starts(1)]), None);
        assert_eq!(broken(&[ending(), cuts(), starts(1)]), late);
    }

    #[test]
    fn a_job_ends_behind_its_children() {
        let (child, first) = (JobId::from_u128(2), Some(Law::ChildrenFirst));
        let begun = || Event::ChildStarted { task: TaskNumber(3), child, after: 0 };
        let end = crate::job::ChildEnd::Failed;
        let error = Failure::new("no", "it does not work");
        let over = || Event::ChildEnded { task: TaskNumber(3), end, seq: 9, error: error.clone() };
        for end in [Event::JobCompleted, fails(), Event::JobCancelled, ending()] {
            assert_eq!(broken(&[begun(), end.clone()]), first);
            assert_eq!(broken(&[begun(), over(), end.clone()]), None);
            assert_eq!(broken(&[begun(), completes(3), end]), None);
        }
        assert_eq!(broken(&[cancels(), begun()]), Some(Law::NoLateStart));
    }

    #[test]
    fn a_task_of_finally_succeeds_once_for_each_end() {
        let again = || Event::JobReopened { held: false };
        let once = [ending(), completes(2)];
        assert_eq!(broken(&once), None);
        assert_eq!(broken(&[ending(), completes(2), completes(2)]), Some(Law::OneSuccess));
        assert_eq!(
            broken(&[ending(), completes(2), fails(), again(), ending(), completes(2)]),
            None
        );
        // Also where the attempt has ended well although it was told to stop.
        let cut =
            [ending(), cuts(), completes(2), fails(), again(), ending(), cuts(), completes(2)];
        assert_eq!(broken(&cut), None);
    }

    #[test]
    fn a_task_of_the_job_succeeds_once() {
        let last = u32::try_from(TASKS).unwrap();
        for task in [1, 63, 64, 65, 127, 128, last] {
            assert_eq!(broken(&[completes(task), completes(task)]), Some(Law::OneSuccess));
            let again = Event::JobReopened { held: true };
            let runs = [completes(task), fails(), again, completes(task)];
            assert_eq!(broken(&runs), Some(Law::OneSuccess), "also in the next run");
        }
        assert_eq!(broken(&(1..=last).map(completes).collect::<Vec<_>>()), None);
        assert_eq!(broken(&(1..=last).rev().map(completes).collect::<Vec<_>>()), None);
        for task in [0, last + 1, u32::MAX] {
            assert_eq!(broken(&[completes(task)]), Some(Law::OwnTask));
        }
    }

    #[test]
    fn numbers_have_no_gap_and_time_does_not_run_backwards() {
        let job = JobId::from_u128(1);
        let take = |before, events: &[(u64, i64)]| {
            let of = |&(seq, time): &(u64, i64)| recorded(seq, time, Event::JobResumed);
            let events: Vec<Recorded> = events.iter().map(of).collect();
            Written::nothing().take_in((job, 1), before, &events)
        };
        let broken = |seq, law| Err(BrokenLaw { job, seq, event: "JobResumed", law });
        assert_eq!(take(4, &[(5, 9), (6, 9), (7, 10)]), Ok(()));
        assert_eq!(take(4, &[(4, 9)]), broken(4, Law::NoGap));
        assert_eq!(take(4, &[(6, 9)]), broken(6, Law::NoGap));
        assert_eq!(take(4, &[(5, 9), (5, 9)]), broken(5, Law::NoGap));
        assert_eq!(take(u64::MAX, &[(1, 9)]), broken(1, Law::NoGap));
        assert_eq!(take(4, &[(5, 9), (6, 8)]), broken(6, Law::TimeOrder));
    }

    #[test]
    fn each_law_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Law::ALL.map(Law::name).into();
        assert_eq!(words.len(), Law::ALL.len());
    }
}
