//! A desk: one job and what a turn may do with it, so that one look-up serves all of it.

use std::collections::VecDeque;
use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};

use super::act::{Action, Planned};
use super::agenda::Agenda;
use super::engine::Shared;
use super::executor::{Entry, Executor, Held, Touched};
use super::ids::JobMap;
use super::laws::BrokenLaw;
use super::message::Message;
use super::pool::{PoolId, SUSPECTS, Waiter};
use super::turn::{Loop, THIS_TURN};
use super::wants::Want;
use crate::job::{Context, Origin, Report, StepError, TaskNumber};

/// A loaded job, and what of its loop a turn uses for it.
pub(super) struct Desk<'a> {
    pub(super) id: JobId,
    pub(super) executor: &'a mut Executor,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) home: usize,
    pub(super) now: Timestamp,
    pub(super) dispatching: bool,
    pub(super) agenda: &'a mut Agenda,
    pub(super) touched: &'a mut VecDeque<JobId>,
    pub(super) reconciled: &'a mut Vec<JobId>,
    pub(super) granted: &'a mut VecDeque<Waiter>,
    pub(super) ready: &'a mut Vec<Planned>,
    pub(super) broken: &'a mut JobMap<String>,
    pub(super) live: &'a mut usize,
    pub(super) wants: &'a mut Vec<Want>,
}

impl Loop {
    /// The desk of a job, if that is loaded.
    pub(super) fn desk(&mut self, id: JobId) -> Option<Desk<'_>> {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return None };
        Some(Desk {
            id,
            executor,
            shared: &self.shared,
            home: self.index,
            now: self.now,
            dispatching: self.dispatching,
            agenda: &mut self.agenda,
            touched: &mut self.touched,
            reconciled: &mut self.reconciled,
            granted: &mut self.granted,
            ready: &mut self.ready,
            broken: &mut self.broken,
            live: &mut self.live,
            wants: &mut self.wants,
        })
    }

    /// Lets the machine take a report in; gives how many events that made.
    pub(super) fn report(&mut self, id: JobId, report: Report) -> usize {
        self.desk(id).map_or(0, |mut desk| desk.report(report))
    }

    /// Gives slots back. Who waited for them starts within this turn, or in another loop's.
    pub(super) fn give_back(&mut self, held: Held) {
        give_back(&self.shared, self.index, &mut self.granted, held);
    }

    pub(super) fn give_back_to(&mut self, pool: PoolId) {
        give_back_to(&self.shared, self.index, &mut self.granted, pool);
    }
}

impl Desk<'_> {
    /// Notes that the job must be reconciled in this turn.
    pub(super) fn touch(&mut self) {
        self.executor.touch(self.touched);
    }

    /// Takes in the last that the turn can hear of a job, and reconciles it while it is at hand:
    /// looked at later its memory would have to be fetched a second time.
    pub(super) fn at_once<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        if self.executor.touched != Touched::No {
            self.touch();
            return change(self);
        }
        self.executor.touched = Touched::Yes;
        self.reconciled.push(self.id);
        let made = change(self);
        self.reconcile();
        self.executor.touched = Touched::Reconciled;
        made
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.contains_key(&self.id)
    }

    /// As [`Loop::report`].
    pub(super) fn report(&mut self, report: Report) -> usize {
        if self.is_broken() {
            return 0;
        }
        let cx = Context {
            origin: Origin::ENGINE,
            key: None,
            now: self.now,
            random: fastrand::f64(),
            losses: self.shared.settings.losses,
            instances: self.shared.settings.limits.instances,
        };
        let job = self.id;
        match self.executor.step(report, &cx) {
            Ok(count) => {
                self.touch();
                count
            }
            Err(StepError::Rejected(rejection)) => {
                tracing::error!(%job, %rejection, "a report was refused");
                0
            }
            Err(StepError::Illegal(illegal)) => {
                let why = illegal.to_string();
                self.shared.note_broken_law(self.home, &BrokenLaw::from(&illegal));
                tracing::error!(%job, why, "the job is given up");
                self.touch();
                self.broken.insert(job, why);
                0
            }
        }
    }

    /// Takes in that an attempt is over: its slots are free.
    pub(super) fn attempt_is_over(&mut self, task: TaskNumber, attempt: u32) {
        if let Some(running) = self.executor.running.remove(task, attempt) {
            *self.live -= 1;
            self.give_back(running.held);
        }
    }

    /// Queues an action behind the last events of the job.
    pub(super) fn after_events(&mut self, action: Action) {
        let fresh = !self.executor.fresh.is_empty();
        let ticket = if fresh { THIS_TURN } else { self.executor.ticket };
        self.ready.push(Planned { ticket, job: Some(self.id), action });
    }

    pub(super) fn give_back(&mut self, held: Held) {
        give_back(self.shared, self.home, self.granted, held);
    }

    pub(super) fn give_back_to(&mut self, pool: PoolId) {
        give_back_to(self.shared, self.home, self.granted, pool);
    }
}

fn give_back(shared: &Shared, home: usize, granted: &mut VecDeque<Waiter>, held: Held) {
    give_back_to(shared, home, granted, held.pool);
    if held.suspect {
        give_back_to(shared, home, granted, SUSPECTS);
    }
}

fn give_back_to(shared: &Shared, home: usize, granted: &mut VecDeque<Waiter>, pool: PoolId) {
    match shared.pools.give_back(pool) {
        Some(next) if next.home == home => granted.push_back(next),
        Some(next) => shared.tell(next.home, Message::Granted(next)),
        None => {}
    }
}
