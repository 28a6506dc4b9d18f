//! Watchers: who waits for a job to change or to end. They are kept apart from the jobs, so that
//! a job that somebody watches can be let go of all the same.

use annals_tasks_sdk::JobId;

use super::error::JobError;
use super::ids::JobMap;
use super::message::{Reply, Snapshot};

/// With so many watchers it is first looked whether some have stopped waiting.
const SWEEP_FROM: usize = 1024;

/// Waits for an event after this seq.
type OfChange = (u64, Reply<Result<u64, JobError>>);
type OfEnd = Reply<Result<Snapshot, JobError>>;

/// Who waits for the jobs of a loop.
pub(super) struct Watchers {
    jobs: JobMap<OfJob>,
    /// How many there are, those that have stopped waiting included.
    count: usize,
    /// How many of them wait for a change.
    changing: usize,
    /// With so many it is looked who has: as often as the number doubles, so that to watch costs
    /// the same however many do.
    sweep_at: usize,
}

#[derive(Default)]
struct OfJob {
    changes: Vec<OfChange>,
    ends: Vec<OfEnd>,
}

impl Default for Watchers {
    fn default() -> Self {
        Self { jobs: JobMap::default(), count: 0, changing: 0, sweep_at: SWEEP_FROM }
    }
}

impl Watchers {
    /// Tells this one when the durable seq of the job is greater than `after`.
    pub(super) fn add_for_change(
        &mut self,
        job: JobId,
        after: u64,
        reply: Reply<Result<u64, JobError>>,
    ) {
        self.make_room();
        self.changing += 1;
        self.jobs.entry(job).or_default().changes.push((after, reply.without_permit()));
    }

    /// Tells this one when the job has ended.
    pub(super) fn add_for_end(&mut self, job: JobId, reply: OfEnd) {
        self.make_room();
        self.jobs.entry(job).or_default().ends.push(reply.without_permit());
    }

    fn make_room(&mut self) {
        self.count += 1;
        if self.count < self.sweep_at {
            return;
        }
        self.jobs.retain(|_, of| {
            of.changes.retain(|(_, reply)| !reply.is_closed());
            of.ends.retain(|reply| !reply.is_closed());
            !of.is_empty()
        });
        self.count = 1 + self.jobs.values().map(OfJob::len).sum::<usize>();
        self.changing = self.jobs.values().map(|of| of.changes.len()).sum();
        self.sweep_at = SWEEP_FROM.max(2 * self.count);
    }

    /// Tells those who wait for it that the job's events up to `seq` are durable, and, where it
    /// has ended with them, how it stands. They may have stopped waiting.
    pub(super) fn publish(&mut self, job: JobId, seq: u64, end: impl FnOnce() -> Option<Snapshot>) {
        let end = end();
        // Most who wait do so for an end: then most events concern nobody.
        if self.changing == 0 && end.is_none() {
            return;
        }
        let Some(of) = self.jobs.get_mut(&job) else { return };
        let (before, changing) = (of.len(), of.changes.len());
        for (_, reply) in of.changes.extract_if(.., |(after, _)| seq > *after) {
            drop(reply.send(Ok(seq)));
        }
        if let Some(snapshot) = end {
            of.ends.drain(..).for_each(|reply| drop(reply.send(Ok(snapshot.clone()))));
        }
        self.count -= before - of.len();
        self.changing -= changing - of.changes.len();
        if of.is_empty() {
            self.jobs.remove(&job);
        }
    }

    /// Tells all who wait for a job why it is given up.
    pub(super) fn refuse(&mut self, job: JobId, error: &JobError) {
        let Some(of) = self.jobs.remove(&job) else { return };
        self.count -= of.len();
        self.changing -= of.changes.len();
        for (_, reply) in of.changes {
            drop(reply.send(Err(error.clone())));
        }
        for reply in of.ends {
            drop(reply.send(Err(error.clone())));
        }
    }
}

impl OfJob {
    fn len(&self) -> usize {
        self.changes.len() + self.ends.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId::from_u128(1);

    #[test]
    fn who_has_stopped_waiting_takes_no_room_for_long() {
        let mut watchers = Watchers::default();
        let mut waiting = Vec::new();
        for n in 0..100_000_u64 {
            let (reply, answer) = Reply::new(None);
            watchers.add_for_change(JobId::from_u128(u128::from(n % 5_000)), n, reply);
            if n % 5_000 == 1 {
                waiting.push((n, answer));
            }
            assert!(watchers.count <= 2 * SWEEP_FROM);
            assert!(watchers.jobs.len() <= watchers.count);
        }
        // Those that wait still are told what they wait for.
        watchers.publish(JOB, 50_000, || None);
        for (after, answer) in &mut waiting {
            assert_eq!(answer.try_recv().is_ok(), *after < 50_000);
        }
        watchers.publish(JOB, 100_000, || None);
        for (after, answer) in &mut waiting {
            assert_eq!(answer.try_recv().is_ok(), *after >= 50_000);
        }
        assert!(!watchers.jobs.contains_key(&JOB));
    }

    #[test]
    fn a_job_that_is_given_up_is_told_of_to_all_who_wait_for_it() {
        let mut watchers = Watchers::default();
        let ((change, mut changed), (end, mut ended)) = (Reply::new(None), Reply::new(None));
        watchers.add_for_change(JOB, 7, change);
        watchers.add_for_end(JOB, end);
        watchers.publish(JobId::from_u128(2), 9, || None);
        watchers.publish(JOB, 7, || None);
        assert!(changed.try_recv().is_err() && ended.try_recv().is_err());
        watchers.refuse(JOB, &JobError::NotFound(JOB));
        assert!(changed.try_recv().unwrap().is_err() && ended.try_recv().unwrap().is_err());
        assert_eq!(watchers.count, 0);
    }
}
