//! Dispatch: the effects of jobs are brought about. Slots are granted within the turn, so that
//! the end of a task and the start of the next go into one commit.

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::{JobId, TaskError, Timestamp};

use super::act::Action;
use super::executor::{Entry, Held, Running, Wanting};
use super::message::{LiveCell, Message};
use super::pool::{PoolId, SUSPECTS, Waiter};
use super::registry::Behaviour;
use super::turn::Loop;
use super::wants::{Search, Want};
use crate::job::{Effect, Report, TaskNumber, Wait, Waiting};

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
                self.reconcile(job);
            } else {
                break;
            }
        }
    }

    fn reconcile(&mut self, id: JobId) {
        let rule = self.shared.settings.losses;
        loop {
            if !self.broken.is_empty() && self.broken.contains_key(&id) {
                return;
            }
            let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return };
            let mut effects = std::mem::take(&mut self.effects);
            // The wants come last, and there may be thousands: they are looked for by kind.
            let is_want = |effect: &Effect| matches!(effect, Effect::Want { .. });
            let all = executor.job.effects(self.now, rule);
            effects.extend(all.take_while(|effect| !is_want(effect)));
            let mut wake = None;
            let mut changed = false;
            for effect in effects.drain(..) {
                match effect {
                    Effect::Run { task, attempt } => self.run(id, task, attempt),
                    Effect::Stop { task, attempt, .. } => {
                        self.order_stop(id, task, attempt);
                    }
                    Effect::Wake { at } if at <= self.now && self.dispatching => {
                        changed |= self.report(id, Report::Tick) > 0;
                    }
                    Effect::Wake { at } => wake = Some(at),
                    Effect::Want { .. } => {}
                }
            }
            self.effects = effects;
            self.agenda.set(id, wake);
            self.drop_stale_wants(id);
            changed |= self.dispatching && self.want_what_can_start(id);
            if !changed {
                return;
            }
        }
    }

    /// Has tasks take slots, or places in queues. Gives whether the job has changed.
    fn want_what_can_start(&mut self, id: JobId) -> bool {
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return false };
        let mut wants = std::mem::take(&mut self.wants);
        let (registry, rule) = (&self.shared.registry, self.shared.settings.losses);
        Search::new(registry, executor, rule, self.now, &mut wants).run();
        let mut changed = false;
        for want in wants.drain(..) {
            changed |= self.want(id, want);
        }
        self.wants = wants;
        changed
    }

    /// An attempt has been decided: it is spawned when its start is durable.
    fn run(&mut self, id: JobId, task: TaskNumber, attempt: u32) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return };
        if executor.running(task).is_some() {
            return;
        }
        // What was alive before the engine started is lost, and declared so first.
        if !executor.recovered {
            return;
        }
        let Some(place) = executor.wanting.iter().position(|wanting| wanting.task == task) else {
            return;
        };
        let held = executor.wanting.swap_remove(place).held;
        executor.running.push(Running {
            task,
            attempt,
            held,
            token: CancellationToken::new(),
            live: LiveCell::default(),
            spawned: false,
            stop_ordered: false,
        });
        self.live += 1;
        self.after_events_of(id, Action::Spawn { job: id, task, attempt });
    }

    fn order_stop(&mut self, id: JobId, task: TaskNumber, attempt: u32) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return };
        let running = executor.running.iter_mut().find(|running| running.task == task);
        if running.is_some_and(|running| !std::mem::replace(&mut running.stop_ordered, true)) {
            self.after_events_of(id, Action::Stop { job: id, task, attempt });
        }
    }

    /// A task wants a slot. Gives whether the job has changed.
    fn want(&mut self, id: JobId, want: Want) -> bool {
        let Want { task, suspect } = want;
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return false };
        if executor.wanting.iter().any(|wanting| wanting.task == task) {
            return false;
        }
        let Some(at) = executor.job.task(task) else { return false };
        let pool = match self.shared.registry.behaviour(at.spec.kind.as_str()) {
            Some(Behaviour::Run { pool, .. }) => *pool,
            Some(Behaviour::Sleep) => return self.park_sleeper(id, task),
            None if at.waiting() == Some(Waiting::Kind) => return false,
            None => return self.report(id, Report::Park { task, wait: Wait::Kind }) > 0,
        };
        let held = Held { pool, suspect };
        let queue = if suspect { SUSPECTS } else { pool };
        let waiter = Waiter { home: self.index, job: id, task, queue };
        let place = self.shared.pools.take(waiter);
        executor.wanting.push(Wanting { task, queue, place, held });
        place.is_none() && self.advance(waiter)
    }

    fn on_granted(&mut self, waiter: Waiter) {
        self.touch(waiter.job);
        if self.advance(waiter) {
            self.reconcile(waiter.job);
        }
    }

    /// A slot has been granted: the task starts, or, as a suspect, queues for its pool's slot.
    /// Gives whether the job has changed.
    fn advance(&mut self, waiter: Waiter) -> bool {
        let Waiter { job: id, task, .. } = waiter;
        let wanting = match self.entries.get_mut(&id) {
            Some(Entry::Loaded(executor)) => {
                executor.wanting.iter_mut().find(|wanting| wanting.task == task)
            }
            _ => None,
        };
        let Some(wanting) = wanting else {
            // The job was given up while the grant was on its way.
            self.give_back_to(waiter.queue);
            return false;
        };
        if wanting.held.suspect && wanting.queue == SUSPECTS {
            wanting.queue = wanting.held.pool;
            let waiter = Waiter { queue: wanting.queue, ..waiter };
            wanting.place = self.shared.pools.take(waiter);
            return wanting.place.is_none() && self.advance(waiter);
        }
        let held = wanting.held;
        let changed = self.dispatching && self.report(id, Report::Start { task }) > 0;
        if self.is_started(id, task) {
            return true;
        }
        // The job had other plans by now, or the task lacks an input.
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
            executor.wanting.retain(|wanting| wanting.task != task);
        }
        self.give_back(held);
        changed
    }

    /// Whether an attempt of the task has been decided that does not run yet.
    fn is_started(&self, id: JobId, task: TaskNumber) -> bool {
        if self.broken.contains_key(&id) {
            return false;
        }
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return false };
        let live = executor.job.task(task).and_then(|task| task.live_attempt());
        live.is_some() && executor.running(task).is_none()
    }

    /// A sleeping task holds no slot: it waits for its time.
    fn park_sleeper(&mut self, id: JobId, task: TaskNumber) -> bool {
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return false };
        let Some(at) = executor.job.task(task) else { return false };
        let now: Timestamp = self.now.max(executor.job.time());
        let until = match executor.job.input_of(at) {
            Ok(input) => crate::kinds::sleep::due(&input, now),
            Err(missing) => Err(TaskError::new(&missing.code, &missing.message)),
        };
        let report = match until {
            Ok(until) => Report::Park { task, wait: Wait::Timer { until } },
            Err(error) => Report::Refuse { task, error },
        };
        self.report(id, report) > 0
    }

    /// Gives slots back. Who waited for them starts within this turn, or in another loop's.
    pub(super) fn give_back(&mut self, held: Held) {
        self.give_back_to(held.pool);
        if held.suspect {
            self.give_back_to(SUSPECTS);
        }
    }

    fn give_back_to(&mut self, pool: PoolId) {
        match self.shared.pools.give_back(pool) {
            Some(next) if next.home == self.index => self.granted.push_back(next),
            Some(next) => self.shared.tell(next.home, Message::Granted(next)),
            None => {}
        }
    }

    /// Leaves the queues for tasks that want to start no more.
    fn drop_stale_wants(&mut self, id: JobId) {
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return };
        if executor.wanting.is_empty() {
            return;
        }
        let (job, now) = (&executor.job, self.now);
        let stale = executor.wanting.iter().filter(|wanting| !job.is_wanted(wanting.task, now));
        for wanting in stale.copied().collect::<Vec<_>>() {
            self.leave(id, wanting);
        }
    }

    /// Leaves the queue that a task stands in.
    pub(super) fn leave(&mut self, id: JobId, wanting: Wanting) {
        let Wanting { task, queue, place, held } = wanting;
        if !place.is_some_and(|place| self.shared.pools.leave(queue, place)) {
            // It has been granted meanwhile; the grant will find that nothing wants it. Of a job
            // that was given up it will not find the slot that the task held already.
            if held.suspect && queue != SUSPECTS && !self.entries.contains_key(&id) {
                self.give_back_to(SUSPECTS);
            }
            return;
        }
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
            executor.wanting.retain(|other| other.task != task);
        }
        if held.suspect && queue != SUSPECTS {
            // It held the suspects' slot while it queued for its pool's.
            self.give_back_to(SUSPECTS);
        }
    }
}
