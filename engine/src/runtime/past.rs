//! The past of a job: as it was at one of its events, or at a time, and step by step.

use std::sync::Arc;

use annals_tasks_sdk::Timestamp;

use super::error::JobError;
use super::handle::JobHandle;
use super::reading::Logged;
use crate::job::{Illegal, Job};
use crate::log::PageLimit;

/// What is read of a history at a time.
const PAGE: PageLimit = PageLimit { events: 4_096, bytes: 4 << 20 };

/// A moment in the life of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Behind the event of this number.
    Seq(u64),
    /// Behind the last event that was decided by this time.
    Time(Timestamp),
}

/// One step of a replay.
#[derive(Debug)]
pub struct Replayed<'a> {
    /// The job before the event; none before its first.
    pub before: Option<&'a Job>,
    /// The event.
    pub logged: &'a Logged,
    /// The job behind it.
    pub after: &'a Job,
}

impl JobHandle {
    /// The job as it was at a moment, made anew from its events. What live attempts said of their
    /// progress is no event, so nothing of it is there.
    ///
    /// # Errors
    ///
    /// [`JobError::NoSuchEvent`] and [`JobError::NotYet`] where there was no such moment.
    pub async fn at(&self, moment: Moment) -> Result<Arc<Job>, JobError> {
        let now = self.snapshot().await?.job;
        let (job, last) = (self.id(), now.seq());
        match moment {
            Moment::Seq(seq) if seq == 0 || seq > last => {
                Err(JobError::NoSuchEvent { job, seq, last })
            }
            Moment::Time(time) if time < now.created() => {
                Err(JobError::NotYet { job, time, created: now.created() })
            }
            Moment::Seq(seq) if seq == last => Ok(now),
            Moment::Time(time) if time >= now.time() => Ok(now),
            Moment::Seq(seq) => self.fold(|logged| logged.recorded.seq > seq).await,
            Moment::Time(time) => self.fold(|logged| logged.recorded.time > time).await,
        }
    }

    /// Replays the events with a seq greater than `after`, as many as the limits allow, and gives
    /// what `each` makes of them, the oldest first; nothing where there is none.
    pub async fn replay<T>(
        &self,
        after: u64,
        limit: PageLimit,
        mut each: impl FnMut(Replayed<'_>) -> T,
    ) -> Result<Vec<T>, JobError> {
        let page = self.page(after, limit).await?;
        if page.is_empty() {
            return Ok(Vec::new());
        }
        // One goes ahead of the other: so no state is copied for the sake of an event.
        let mut before = match after {
            0 => None,
            _ => Some(Arc::unwrap_or_clone(self.fold(|logged| logged.recorded.seq > after).await?)),
        };
        let mut now = before.clone();
        let mut made = Vec::with_capacity(page.len());
        for logged in &page {
            let after = self.take_in(&mut now, logged)?;
            made.push(each(Replayed { before: before.as_ref(), logged, after }));
            self.take_in(&mut before, logged)?;
        }
        Ok(made)
    }

    /// The job that its events make up to the first that is beyond.
    async fn fold(&self, is_beyond: impl Fn(&Logged) -> bool) -> Result<Arc<Job>, JobError> {
        let mut then: Option<Job> = None;
        loop {
            let after = then.as_ref().map_or(0, Job::seq);
            let page = self.page(after, PAGE).await?;
            let is_last = page.is_empty();
            for logged in &page {
                if is_beyond(logged) {
                    return self.made(then);
                }
                self.take_in(&mut then, logged)?;
            }
            if is_last {
                return self.made(then);
            }
        }
    }

    fn made(&self, job: Option<Job>) -> Result<Arc<Job>, JobError> {
        let unreadable = || JobError::Unreadable {
            job: self.id(),
            why: "its first event cannot be read".into(),
        };
        job.map(Arc::new).ok_or_else(unreadable)
    }

    fn take_in<'j>(&self, job: &'j mut Option<Job>, logged: &Logged) -> Result<&'j Job, JobError> {
        let unreadable =
            |illegal: Illegal| JobError::Unreadable { job: self.id(), why: illegal.to_string() };
        if let Some(job) = job {
            job.evolve(&logged.recorded).map_err(unreadable)?;
            Ok(job)
        } else {
            Ok(job.insert(Job::begin(self.id(), &logged.recorded).map_err(unreadable)?))
        }
    }
}
