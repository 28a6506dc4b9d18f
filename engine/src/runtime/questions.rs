//! Questions about jobs.

use annals_tasks_sdk::JobId;

use super::act::answer;
use super::error::JobError;
use super::message::{Reply, Snapshot};
use super::turn::Loop;
use crate::log::Position;

impl Loop {
    pub(super) fn on_snapshot(&mut self, id: JobId, reply: Reply<Result<Snapshot, JobError>>) {
        let mut snapshot = self.at_hand(id).map(|executor| executor.snapshot());
        if let Ok(snapshot) = &mut snapshot {
            snapshot.lack = self.lack_known(id);
        }
        self.after_events_of(id, answer(reply, snapshot));
    }

    /// Where a job's history stands. None where the views have it, unless there is no such job.
    pub(super) fn on_head(&mut self, id: JobId, reply: Reply<Result<Option<Position>, JobError>>) {
        // Events of the present turn are in a row of their own, which is not counted yet.
        let head = self.head_of(id).map(|head| head.map(|head| head.row));
        self.after_events_of(id, answer(reply, head));
    }

    pub(super) fn on_changed(
        &mut self,
        id: JobId,
        after: u64,
        reply: Reply<Result<u64, JobError>>,
    ) {
        match self.at_hand(id).map(|executor| executor.durable_seq) {
            // Later events may be on their way; this rests on none of them.
            Ok(seq) if seq > after => self.queue(self.durable, answer(reply, Ok(seq))),
            Ok(_) => self.watchers.add_for_change(id, after, reply),
            Err(error) => self.after_events_of(id, answer(reply, Err(error))),
        }
    }

    pub(super) fn on_ended(&mut self, id: JobId, reply: Reply<Result<Snapshot, JobError>>) {
        match self.at_hand(id).map(|executor| executor.durable_end()) {
            Ok(Some(snapshot)) => self.after_events_of(id, answer(reply, Ok(snapshot))),
            Ok(None) => self.watchers.add_for_end(id, reply),
            Err(error) => self.after_events_of(id, answer(reply, Err(error))),
        }
    }
}
