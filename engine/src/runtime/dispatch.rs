//! Dispatch: the effects of jobs are brought about. Slots are granted within the turn, so that
//! the end of a task and the start of the next go into one commit.

use annals_tasks_sdk::{Payload, TaskError, Timestamp};

use super::act::Action;
use super::attempt::Attempt;
use super::desk::Desk;
use super::executor::{Executor, Held, Wanting};
use super::lives::Running;
use super::pool::{SUSPECTS, Waiter};
use super::registry::{Behaviour, KindId};
use super::turn::Loop;
use super::wants::{Search, Want};
use crate::job::{Report, TaskNumber, Wait, Waiting};

impl Loop {
    /// Brings about the effects of all jobs that the turn touched, and of those that are granted
    /// slots by it, until nothing is left to do.
    pub(super) fn reconcile_all(&mut self) {
        let mut place = 0;
        loop {
            if let Some(waiter) = self.granted.pop_front() {
                self.on_granted(waiter);
            } else if let Some(&job) = self.touched.get(place) {
                place += 1;
                if let Some(mut desk) = self.desk(job) {
                    desk.reconcile();
                }
            } else {
                break;
            }
        }
    }

    fn on_granted(&mut self, waiter: Waiter) {
        if let Some(mut desk) = self.desk(waiter.job) {
            desk.touch();
            if desk.advance(waiter) {
                desk.reconcile();
            }
        } else {
            // The job was given up while the grant was on its way.
            self.give_back_to(waiter.queue);
        }
    }

    /// Leaves the queue that a task of a job stood in that was given up.
    pub(super) fn abandon(&mut self, wanting: Wanting) {
        let Wanting { queue, place, held, .. } = wanting;
        if let Some(place) = place {
            // Has it been granted meanwhile, the grant will find that nothing wants it.
            self.shared.pools.leave(queue, place);
        }
        if held.suspect && queue != SUSPECTS {
            // It held the suspects' slot while it queued for its pool's.
            self.give_back_to(SUSPECTS);
        }
    }
}

impl Desk<'_> {
    /// Brings about what the job's state asks for, until nothing is left to do.
    pub(super) fn reconcile(&mut self) {
        while !self.is_broken() && self.reconcile_once() {}
        self.executor.encode_ahead();
    }

    /// Gives whether the job has changed by it.
    fn reconcile_once(&mut self) -> bool {
        self.run_started();
        self.order_stops();
        let mut changed = self.obey_parent();
        let mut wake = self.executor.job.wake(self.now);
        if wake.is_some_and(|at| at <= self.now && self.dispatching) {
            changed |= self.report(Report::Tick) > 0;
            wake = None;
        }
        // While nothing starts, what could start now has its time still to come: the job may be let
        // go of meanwhile, and is found by its time when tasks start again.
        let due = if self.dispatching { wake } else { self.executor.job.due() };
        self.agenda.set(self.id, due);
        let has_its_turn = self.dispatching && self.has_its_turn();
        self.drop_stale_wants();
        changed |= has_its_turn && self.want_what_can_start();
        self.lead_children();
        changed
    }

    /// Has tasks take slots, or places in queues. Gives whether the job has changed.
    fn want_what_can_start(&mut self) -> bool {
        let mut wants = std::mem::take(self.wants);
        let (registry, rule) = (&self.shared.registry, self.shared.settings.losses);
        Search::new(registry, self.executor, rule, self.now, &mut wants).run();
        let mut changed = false;
        for want in wants.drain(..) {
            changed |= self.want(want);
        }
        *self.wants = wants;
        changed
    }

    /// Brings about that attempts are alive which have been decided. Their tasks stood in queues.
    fn run_started(&mut self) {
        let mut place = 0;
        while let Some(&wanting) = self.executor.wanting.get(place) {
            match self.started(wanting.task).filter(|_| self.executor.recovered) {
                Some(attempt) => {
                    self.executor.wanting.swap_remove(place);
                    self.run(wanting, attempt);
                }
                None => place += 1,
            }
        }
    }

    /// An attempt has been decided: it comes to life when its start is durable.
    fn run(&mut self, wanting: Wanting, attempt: u32) {
        let Wanting { task, held, kind, .. } = wanting;
        let own = Attempt::new(self.shared, self.home, self.executor, (task, attempt), kind);
        // Only tasks of kinds that run hold slots.
        let Some(own) = own else { return self.give_back(held) };
        let running = Running::new((task, attempt), held, own, self.executor.job.seq());
        self.executor.running.insert(running);
        *self.live += 1;
    }

    /// Has attempts end whose end was decided.
    fn order_stops(&mut self) {
        let Executor { job, running, .. } = &mut *self.executor;
        let is_to_end = |running: &Running| job.is_to_end(running.task, running.attempt);
        for (task, attempt) in running.order_stops(job.stopping(), is_to_end) {
            self.after_events(Action::Stop { job: self.id, task, attempt });
        }
    }

    /// A task wants a slot. Gives whether the job has changed.
    fn want(&mut self, want: Want) -> bool {
        let Want { task, suspect, kind } = want;
        if self.executor.wanting.iter().any(|wanting| wanting.task == task) {
            return false;
        }
        let Some(at) = self.executor.job.task(task) else { return false };
        let behaviour = kind.map(|kind| (kind, self.shared.registry.get(kind)));
        let (kind, pool) = match behaviour {
            Some((kind, Behaviour::Run { pool, .. })) => (kind, *pool),
            Some((_, Behaviour::Sleep)) => return self.park(task, sleep),
            Some((_, Behaviour::Await)) => return self.park(task, crate::kinds::wait::begin),
            Some((_, Behaviour::Child)) => return self.want_child(task),
            None if at.waiting() == Some(Waiting::Kind) => return false,
            None => return self.report(Report::Park { task, wait: Wait::Kind }) > 0,
        };
        let held = Held { pool, suspect };
        let queue = if suspect { SUSPECTS } else { pool };
        let waiter = Waiter { home: self.home, job: self.id, task, queue };
        let place = self.shared.pools.take(waiter);
        self.executor.wanting.push(Wanting { task, queue, place, held, kind });
        place.is_none() && self.advance(waiter)
    }

    /// A slot has been granted: the task starts, or, as a suspect, queues for its pool's slot.
    /// Gives whether the job has changed.
    fn advance(&mut self, waiter: Waiter) -> bool {
        let task = waiter.task;
        let mut wanting = self.executor.wanting.iter_mut();
        let Some(wanting) = wanting.find(|wanting| wanting.task == task) else {
            self.give_back_to(waiter.queue);
            return false;
        };
        if wanting.held.suspect && wanting.queue == SUSPECTS {
            wanting.queue = wanting.held.pool;
            let waiter = Waiter { queue: wanting.queue, ..waiter };
            wanting.place = self.shared.pools.take(waiter);
            return wanting.place.is_none() && self.advance(waiter);
        }
        let (held, kind) = (wanting.held, wanting.kind);
        if !self.is_of_kind(task, kind) {
            // It was edited while the grant was on its way: it queues where it belongs now.
            self.executor.wanting.retain(|wanting| wanting.task != task);
            self.give_back(held);
            return true;
        }
        let may_start = self.dispatching && self.executor.holds_its_key();
        let changed = may_start && self.report(Report::Start { task }) > 0;
        if self.started(task).is_some() {
            return true;
        }
        // The job had other plans by now, or the task lacks an input.
        self.executor.wanting.retain(|wanting| wanting.task != task);
        self.give_back(held);
        changed
    }

    /// The attempt of the task that has been decided and does not run yet.
    fn started(&self, task: TaskNumber) -> Option<u32> {
        let live = self.executor.job.task(task)?.live_attempt()?.number;
        (self.executor.running(task).is_none() && !self.is_broken()).then_some(live)
    }

    /// A task of a kind that waits holds no slot. `begin` says for what it waits.
    fn park(
        &mut self,
        task: TaskNumber,
        begin: impl FnOnce(&Payload, Timestamp) -> Result<Wait, TaskError>,
    ) -> bool {
        let job = &self.executor.job;
        let Some(at) = job.task(task) else { return false };
        let wait = match job.input_of(at) {
            Ok(input) => begin(&input, self.now.max(job.time())),
            Err(missing) => Err(TaskError::new(&missing.code, &missing.message)),
        };
        let report = match wait {
            Ok(wait) => Report::Park { task, wait },
            Err(error) => Report::Refuse { task, error },
        };
        self.report(report) > 0
    }

    /// Leaves the queues for tasks that want to start no more.
    fn drop_stale_wants(&mut self) {
        if self.executor.wanting.is_empty() {
            return;
        }
        let (job, now) = (&self.executor.job, self.now);
        let may_start = self.executor.holds_its_key();
        let stale = |wanting: &&Wanting| {
            !may_start
                || !job.is_wanted(wanting.task, now)
                || !self.is_of_kind(wanting.task, wanting.kind)
        };
        let stale = self.executor.wanting.iter().filter(stale).copied();
        for wanting in stale.collect::<Vec<_>>() {
            self.leave(wanting);
        }
    }

    /// Whether a task is of this kind still: it may have been edited.
    fn is_of_kind(&self, task: TaskNumber, kind: KindId) -> bool {
        let task = self.executor.job.task(task);
        task.is_some_and(|task| self.shared.registry.find(task.spec.kind.as_str()) == Some(kind))
    }

    /// Leaves the queue that a task stands in.
    fn leave(&mut self, wanting: Wanting) {
        let Wanting { task, queue, place, held, .. } = wanting;
        if !place.is_some_and(|place| self.shared.pools.leave(queue, place)) {
            // It has been granted meanwhile; the grant will find that nothing wants it.
            return;
        }
        self.executor.wanting.retain(|other| other.task != task);
        if held.suspect && queue != SUSPECTS {
            // It held the suspects' slot while it queued for its pool's.
            self.give_back_to(SUSPECTS);
        }
    }
}

/// What a task of kind `sleep` waits for.
fn sleep(input: &Payload, now: Timestamp) -> Result<Wait, TaskError> {
    crate::kinds::sleep::due(input, now).map(|until| Wait::Timer { until })
}
