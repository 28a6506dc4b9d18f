//! Jobs that are given up: what cannot be gone on with ends alone, and whoever waits hears why.

use std::sync::Arc;

use annals_tasks_sdk::JobId;

use super::act::{Action, answer_or_drop};
use super::error::{EngineError, JobError};
use super::executor::{Entry, Executor};
use super::message::{Message, Reply};
use super::turn::Loop;
use crate::log::{Durable, LogError};

impl Loop {
    /// Gives up on a job whose machine contradicts itself; the others go on. What it had decided
    /// before is still recorded, since it may have been answered.
    pub(super) fn break_job(&mut self, job: JobId, why: String) {
        tracing::error!(%job, why, "the job is given up");
        self.touch(job);
        // There is nothing to be buried of one that is not loaded.
        if let Some(Entry::Parked(parked)) = self.entries.get(&job) {
            self.counters.moved(Some(parked.status), None);
            self.entries.remove(&job);
            self.agenda.set(job, None);
            self.watchers.refuse(job, &JobError::Unreadable { job, why: why.clone() });
        }
        self.shared.resting.take(job);
        self.broken.insert(job, why);
    }

    /// Gives up on a job whose events of this turn cannot be written: nothing of them is to be
    /// acknowledged. The turn buries it.
    pub(super) fn spoil(&mut self, job: JobId, why: String) {
        tracing::error!(%job, why, "the job is given up: what happened to it cannot be recorded");
        self.broken.insert(job, why);
    }

    /// Does not do what rests on events that could not be written.
    pub(super) fn take_back(&mut self, job: JobId, action: Action) {
        let why = self.broken.get(&job).cloned().unwrap_or_default();
        if let Action::Answer(send) = action {
            send(Some(JobError::Unreadable { job, why }));
        }
    }

    /// Lets go of a job that was given up, for this reason.
    pub(super) fn bury(&mut self, id: JobId, why: String) {
        let Some(Entry::Loaded(executor)) = self.entries.remove(&id) else { return };
        self.loaded -= 1;
        self.counters.moved(executor.counted, None);
        self.agenda.set(id, None);
        stop_all(&executor);
        self.abandon_line(&executor);
        // The views must show where its history ends, or the next start would begin before that.
        // Of a job whose very submission could not be written there is none.
        if executor.head.seq > 0 {
            self.rows.keep(executor.row_of_broken());
        }
        for wanting in executor.wanting {
            self.abandon(wanting);
        }
        for running in executor.running {
            if running.is_spawned() {
                self.orphans.push((id, running));
            } else {
                self.live -= 1;
                self.give_back(running.held);
            }
        }
        self.watchers.refuse(id, &JobError::Unreadable { job: id, why });
    }

    pub(super) fn on_broken(&mut self, reply: Reply<Vec<(JobId, String)>>) {
        let broken = self.broken.iter().map(|(job, why)| (*job, why.clone())).collect();
        self.queue(self.durable, answer_or_drop(reply, broken));
    }

    /// The thread of this loop is ending by a panic: its jobs cannot go on, and who waits for one
    /// of them must not wait for ever. The other loops stop too, as after a failed write.
    pub(super) fn on_panic(&mut self) {
        self.shared.fail(EngineError::Panicked);
        self.shared.tell_all(|| Message::Durable(Durable::Failed(Arc::new(LogError::Closed))));
        for entry in self.entries.values() {
            if let Entry::Loaded(executor) = entry {
                stop_all(executor);
            }
        }
    }
}

/// Tells all attempts of a job to stop.
pub(super) fn stop_all(executor: &Executor) {
    for running in executor.running.iter() {
        running.own.cancel();
    }
}
