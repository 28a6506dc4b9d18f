//! Actions: what a turn wants done, once the events that it was decided on are durable.

use annals_tasks_sdk::{JobId, TaskError, TaskResult, Timestamp};

use super::ahead::AHEAD;
use super::error::JobError;
use super::executor::Entry;
use super::keys::Claim;
use super::message::{Message, Reply};
use super::turn::{Loop, THIS_TURN};
use crate::job::TaskNumber;
use crate::log::Ticket;

/// Something to be done.
pub(super) enum Action {
    /// Call an answer that was prepared, or have it say why the job was given up instead.
    Answer(Box<dyn FnOnce(Option<JobError>) + Send>),
    /// Start the attempts, and tell those who watch, since events up to `seq` are durable.
    Publish { job: JobId, seq: u64 },
    /// Tell an attempt to stop, whose stop is durable.
    Stop { job: JobId, task: TaskNumber, attempt: u32 },
    /// Tell another job something that rests on these events.
    Tell { to: JobId, message: Box<Message> },
    /// Have a child say to its parent what it has to say.
    TellParent { child: JobId },
    /// Give the exclusive key of a job back, since its end is durable.
    LeaveLine { job: JobId },
}

/// Something to be done, the commit that it must wait for, and the job whose events it rests on.
pub(super) struct Planned {
    pub(super) ticket: Ticket,
    pub(super) job: Option<JobId>,
    pub(super) action: Action,
}

/// An answer about a job for whoever waits for it. Nobody may do so any more.
pub(super) fn answer<T, E>(reply: Reply<Result<T, E>>, value: Result<T, E>) -> Action
where
    T: Send + 'static,
    E: From<JobError> + Send + 'static,
{
    Action::Answer(Box::new(move |given_up| {
        let value = given_up.map_or(value, |error| Err(error.into()));
        drop(reply.send(value));
    }))
}

/// An answer to what came with an idempotency key: the key stands for the job from then on.
pub(super) fn answer_and_settle<T, E>(
    reply: Reply<Result<T, E>>,
    value: T,
    claim: Box<Claim>,
    (job, time): (JobId, Timestamp),
) -> Action
where
    T: Send + 'static,
    E: From<JobError> + Send + 'static,
{
    Action::Answer(Box::new(move |given_up| {
        let value = if let Some(error) = given_up {
            Err(error.into())
        } else {
            claim.settle(job, time);
            Ok(value)
        };
        drop(reply.send(value));
    }))
}

/// An answer that is not given where it would rest on a job that was given up.
pub(super) fn answer_or_drop<T: Send + 'static>(reply: Reply<T>, value: T) -> Action {
    Action::Answer(Box::new(move |given_up| {
        if given_up.is_none() {
            drop(reply.send(value));
        }
    }))
}

impl Loop {
    /// Does what durable events allow.
    pub(super) fn act(&mut self) {
        let mut done = 0_usize;
        while let Some((ticket, _)) = self.pending.front() {
            if *ticket > self.durable {
                break;
            }
            if done.is_multiple_of(AHEAD) {
                self.look_at_published();
            }
            done += 1;
            if let Some((_, action)) = self.pending.pop_front() {
                self.perform(action);
            }
        }
    }

    /// Looks at the jobs of the actions that come next.
    fn look_at_published(&self) {
        let next = self.pending.iter().take(AHEAD).take_while(|(of, _)| *of <= self.durable);
        self.look_at_changed(next.filter_map(|(_, action)| match action {
            Action::Publish { job, .. } => Some(*job),
            _ => None,
        }));
    }

    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::Answer(send) => send(None),
            Action::Publish { job, seq } => self.publish(job, seq),
            Action::Stop { job, task, attempt } => self.stop(job, task, attempt),
            Action::LeaveLine { job } => self.leave_line(job),
            Action::Tell { to, message } => self.shared.tell(self.shared.home_of(to), *message),
            Action::TellParent { child } => self.tell_parent(child),
        }
    }

    pub(super) fn publish(&mut self, job: JobId, seq: u64) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job) else { return };
        executor.durable_seq = seq;
        executor.show_outputs();
        self.starting.extend(executor.take_durable());
        if let Some(tombstone) = executor.durable_purge() {
            return self.on_purged(job, tombstone);
        }
        self.watchers.publish(job, seq, || executor.durable_end());
        let (idle, is_child) = (executor.is_idle(), executor.job.parent().is_some());
        if is_child {
            self.tell_parent(job);
        }
        if idle {
            self.settle_down(job);
        }
    }

    /// Starts the attempts of a turn.
    pub(super) fn start_attempts(&mut self) {
        self.started = self.starting.len();
        if !self.starting.is_empty() {
            self.shared.workers.run(&mut self.starting);
        }
    }

    fn stop(&mut self, job: JobId, task: TaskNumber, attempt: u32) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job) else { return };
        if let Some(running) = executor.running(task).filter(|live| live.attempt == attempt) {
            running.own.tell_to_stop(self.now);
        }
    }

    /// Queues an action behind the last events of a job.
    pub(super) fn after_events_of(&mut self, job: JobId, action: Action) {
        let ticket = match self.entries.get(&job) {
            Some(Entry::Loaded(executor)) if executor.fresh.is_empty() => executor.ticket,
            Some(Entry::Loaded(_)) => THIS_TURN,
            _ => self.durable,
        };
        self.ready.push(Planned { ticket, job: Some(job), action });
    }

    pub(super) fn queue(&mut self, ticket: Ticket, action: Action) {
        self.ready.push(Planned { ticket, job: None, action });
    }
}

/// The answer to an attempt that keeps something when it is not current any more.
pub(super) fn too_late() -> TaskResult<()> {
    Err(TaskError::cancelled())
}
