//! Questions about jobs.

use annals_tasks_sdk::JobId;

use super::act::answer;
use super::error::JobError;
use super::message::{Reply, Snapshot};
use super::turn::Loop;
use crate::log::Position;

impl Loop {
    pub(super) fn on_snapshot(&mut self, id: JobId, reply: Reply<Result<Snapshot, JobError>>) {
        let action = match self.load(id) {
            Ok(executor) => {
                let snapshot = executor.snapshot();
                answer(reply, Ok(snapshot))
            }
            Err(error) => answer(reply, Err(error)),
        };
        self.after_events_of(id, action);
        // Was it loaded for this question alone, it goes again.
        self.touch(id);
    }

    pub(super) fn on_head(&mut self, id: JobId, reply: Reply<Result<Position, JobError>>) {
        // Events of the present turn are in a row of their own, which is not counted yet.
        let head = self.known_head(id).and_then(|head| head.map_or_else(|| self.head_of(id), Ok));
        self.after_events_of(id, answer(reply, head.map(|head| head.row)));
    }

    pub(super) fn on_changed(
        &mut self,
        id: JobId,
        after: u64,
        reply: Reply<Result<u64, JobError>>,
    ) {
        match self.load(id) {
            Ok(executor) if executor.durable_seq > after => {
                // Later events may be on their way; this rests on none of them.
                let seq = executor.durable_seq;
                self.queue(self.durable, answer(reply, Ok(seq)));
            }
            Ok(executor) => {
                // Whoever asked before may have stopped waiting.
                executor.watchers.retain(|(_, reply)| !reply.is_closed());
                executor.watchers.push((after, reply.without_permit()));
            }
            Err(error) => self.after_events_of(id, answer(reply, Err(error))),
        }
        self.touch(id);
    }

    pub(super) fn on_ended(&mut self, id: JobId, reply: Reply<Result<Snapshot, JobError>>) {
        match self.load(id) {
            Ok(executor)
                if executor.job.status().is_ended()
                    && executor.durable_seq == executor.job.seq() =>
            {
                let snapshot = executor.snapshot();
                self.after_events_of(id, answer(reply, Ok(snapshot)));
            }
            Ok(executor) => {
                executor.end_watchers.retain(|reply| !reply.is_closed());
                executor.end_watchers.push(reply.without_permit());
            }
            Err(error) => self.after_events_of(id, answer(reply, Err(error))),
        }
        self.touch(id);
    }
}
