//! The agenda of a loop: which job is to be looked at when.

use std::collections::BTreeSet;

use annals_tasks_sdk::{JobId, Timestamp};

use super::ids::JobMap;

/// Due times, at most one per job.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    by_time: BTreeSet<(Timestamp, JobId)>,
    by_job: JobMap<Timestamp>,
}

impl Agenda {
    /// Sets or clears the time at which a job is due.
    pub(super) fn set(&mut self, job: JobId, due: Option<Timestamp>) {
        let old = match due {
            Some(due) => self.by_job.insert(job, due),
            None => self.by_job.remove(&job),
        };
        if old == due {
            return;
        }
        if let Some(old) = old {
            self.by_time.remove(&(old, job));
        }
        if let Some(due) = due {
            self.by_time.insert((due, job));
        }
    }

    /// The time of a job.
    pub(super) fn of(&self, job: JobId) -> Option<Timestamp> {
        self.by_job.get(&job).copied()
    }

    /// How many jobs have a time.
    pub(super) fn len(&self) -> usize {
        self.by_job.len()
    }

    /// The earliest due time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|&(due, _)| due)
    }

    /// Takes the next job that is due at `now`.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<JobId> {
        let &(due, job) = self.by_time.first().filter(|&&(due, _)| due <= now)?;
        self.by_time.remove(&(due, job));
        self.by_job.remove(&job);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_one_time_and_the_earliest_comes_first() {
        let (one, other) = (JobId::from_u128(1), JobId::from_u128(2));
        let at = Timestamp::from_millis;
        let mut agenda = Agenda::default();
        agenda.set(one, Some(at(50)));
        agenda.set(other, Some(at(20)));
        agenda.set(one, Some(at(10)));
        assert_eq!(agenda.next(), Some(at(10)));
        assert_eq!(agenda.take_due(at(9)), None);
        assert_eq!(agenda.take_due(at(60)), Some(one));
        agenda.set(other, None);
        assert_eq!(agenda.take_due(at(60)), None);
        assert_eq!(agenda.next(), None);
    }
}
