//! Residency: which jobs are loaded, and which are let go.

use std::time::Duration;

use annals_tasks_sdk::JobId;

use super::error::{EngineError, JobError};
use super::executor::{Entry, Executor, Parked};
use super::recovery;
use super::turn::Loop;
use crate::job::JobStatus;
use crate::log::Head;

/// When the log could not be read, it is tried again after this time.
const READ_AGAIN: Duration = Duration::from_secs(10);

impl Loop {
    /// Notes that a job must be reconciled in this turn.
    pub(super) fn touch(&mut self, job: JobId) {
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job)
            && !std::mem::replace(&mut executor.touched, true)
        {
            self.touched.push_back(job);
        } else if matches!(self.entries.get(&job), Some(Entry::Parked(_))) {
            match self.load(job) {
                Ok(_) => self.touch(job),
                // Whoever asks for it hears the same.
                Err(error) => {
                    tracing::error!(%error, "a job that is due cannot be loaded");
                    match error {
                        JobError::Engine(_) => {
                            self.agenda.set(job, Some(self.now.plus(READ_AGAIN)));
                        }
                        // Nothing would look at it again, so it must not seem to go on.
                        JobError::Unreadable { why, .. } => {
                            self.counters.moved(self.status_of(job), None);
                            self.entries.remove(&job);
                            self.broken.insert(job, why);
                        }
                        JobError::NotFound(_) => {}
                    }
                }
            }
        }
    }

    /// The status under which a parked job is counted.
    fn status_of(&self, id: JobId) -> Option<JobStatus> {
        let near = self.rows.get(id).map(|row| row.status);
        // Where even this cannot be read, one is counted too many.
        near.or_else(|| self.shared.reader.job_row(id).ok().flatten().map(|row| row.status))
    }

    /// Lets go of a job that has nothing to do: an ended one, or one of too many that wait.
    pub(super) fn settle_down(&mut self, id: JobId) {
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return };
        if executor.ticket > self.durable || !executor.is_idle() {
            return;
        }
        let ended = executor.job.status().is_ended();
        let waits = !executor.job.is_active() && self.loaded > self.shared.settings.resident;
        if !ended && !waits {
            return;
        }
        if executor.changed {
            self.rows.keep(executor.row());
        }
        let head = executor.head;
        self.loaded -= 1;
        if ended {
            self.agenda.set(id, None);
            self.entries.remove(&id);
        } else {
            self.entries.insert(id, Entry::Parked(Parked { head }));
        }
    }

    /// The executor of a job, loaded from the log where it must be.
    pub(super) fn load(&mut self, id: JobId) -> Result<&mut Executor, JobError> {
        let known = self.known_head(id)?;
        if !matches!(self.entries.get(&id), Some(Entry::Loaded(_))) {
            let head = known.map_or_else(|| self.head_of(id), Ok)?;
            let job = recovery::load(&*self.shared.reader, id, head)?;
            let mut executor = Executor::new(job, head);
            // What is parked or has ended had nothing alive.
            executor.recovered = self.shared.settings.dispatches;
            executor.changed = self.rows.has_changed(id);
            self.entries.insert(id, Entry::Loaded(Box::new(executor)));
            self.loaded += 1;
        }
        match self.entries.get_mut(&id) {
            Some(Entry::Loaded(executor)) => Ok(executor),
            _ => Err(JobError::NotFound(id)),
        }
    }

    /// Where the history of an open job stands.
    pub(super) fn known_head(&self, id: JobId) -> Result<Option<Head>, JobError> {
        if let Some(why) = self.broken.get(&id) {
            return Err(JobError::Unreadable { job: id, why: why.clone() });
        }
        Ok(self.entries.get(&id).map(|entry| match entry {
            Entry::Loaded(executor) => executor.head,
            Entry::Parked(Parked { head }) => *head,
        }))
    }

    /// Where the history of a job stands that is neither loaded nor parked: an ended one.
    pub(super) fn head_of(&self, id: JobId) -> Result<Head, JobError> {
        if let Some(row) = self.rows.get(id) {
            return Ok(row.head);
        }
        let viewed = self.shared.reader.job_row(id).map_err(EngineError::from)?;
        viewed.map(|row| row.head).ok_or(JobError::NotFound(id))
    }
}
