//! Wants: which of a job's startable tasks take a place in a queue now.

use annals_tasks_sdk::Timestamp;

use super::executor::{Executor, Wanting};
use super::pool::{POOLS_MAX, PoolId, SUSPECTS};
use super::registry::{Behaviour, KindId, Registry};
use crate::job::{LossRule, TaskNumber};

/// So many tasks of one job stand in each queue at a time; the others follow as places come
/// free.
pub(super) const PLACES: usize = 64;

/// A task that is to take a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) task: TaskNumber,
    pub(super) suspect: bool,
    /// Its kind; none where that is not registered.
    pub(super) kind: Option<KindId>,
}

/// Finds the tasks of a job that are to take places.
///
/// A kind whose queue is full of the job's tasks is passed over as a whole, so that what this
/// costs does not grow with the number of tasks that wait.
pub(super) struct Search<'a> {
    registry: &'a Registry,
    executor: &'a Executor,
    rule: LossRule,
    now: Timestamp,
    /// How many of the job's tasks stand in each queue.
    standing: [usize; POOLS_MAX],
    found: &'a mut Vec<Want>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        executor: &'a Executor,
        rule: LossRule,
        now: Timestamp,
        found: &'a mut Vec<Want>,
    ) -> Self {
        found.clear();
        let mut standing = [0; POOLS_MAX];
        for wanting in &executor.wanting {
            standing[wanting.queue.0] += 1;
        }
        Self { registry, executor, rule, now, standing, found }
    }

    /// Ready ones in the order of the plan, then those whose back-off is over, then those whose
    /// kind was missing. Tasks that need no slot are never kept waiting by those that do.
    pub(super) fn run(mut self) {
        let job = &self.executor.job;
        if self.is_for_one_kind() {
            return;
        }
        let mut ready = Vec::new();
        for of in job.startable(self.now) {
            let kind = self.registry.find(of.kind());
            match self.pool(kind) {
                Some((kind, pool)) => self.first_ready((kind, pool), of.ready(), &mut ready),
                None => self.all(kind, of.ready().map(|(_, task)| task)),
            }
        }
        // Kinds whose tasks wait for the same slots take turns as the plan has them.
        ready.sort_unstable_by_key(|&(rank, _, _)| rank);
        for (_, queue, task) in ready {
            self.take(queue, task);
        }
        self.retries();
        for of in job.startable(self.now) {
            let kindless = of.kindless();
            let kind = self.registry.find(of.kind());
            match self.pool(kind) {
                Some(queue) => self.returned(queue, kindless),
                None if kind.is_some() => self.all(kind, kindless),
                None => {}
            }
        }
    }

    /// Does all of it where only one kind has tasks that could start, as most jobs have at a time,
    /// or none: then nobody must take turns.
    fn is_for_one_kind(&mut self) -> bool {
        let job = &self.executor.job;
        let mut kinds = job.startable(self.now);
        let (one, other) = (kinds.next(), kinds.next());
        if other.is_some() || job.retries(self.now).next().is_some() {
            return false;
        }
        let Some(of) = one else { return true };
        let kind = self.registry.find(of.kind());
        let Some(queue) = self.pool(kind) else { return false };
        for (_, task) in of.ready() {
            if !self.has_place(queue.1) {
                break;
            }
            self.take(queue, task);
        }
        self.returned(queue, of.kindless());
        true
    }

    /// The pool whose slots tasks of a kind hold, if it is registered and they hold some.
    fn pool(&self, kind: Option<KindId>) -> Option<(KindId, PoolId)> {
        let kind = kind?;
        match self.registry.get(kind) {
            Behaviour::Run { pool, .. } => Some((kind, *pool)),
            Behaviour::Sleep | Behaviour::Await | Behaviour::Child => None,
        }
    }

    fn retries(&mut self) {
        let mut due = self.executor.job.retries(self.now).peekable();
        if due.peek().is_none() {
            return;
        }
        let registry = self.registry;
        let pools = self.executor.job.kinds().map(|kind| self.pool(registry.find(kind)));
        let pools: Vec<Option<(KindId, PoolId)>> = pools.collect();
        for task in due {
            let may_go = |pool: &Option<(_, PoolId)>| pool.is_none_or(|(_, p)| self.has_place(p));
            if !pools.iter().any(may_go) {
                return;
            }
            let Some(at) = self.executor.job.task(task) else { continue };
            let kind = registry.find(at.spec.kind.as_str());
            match self.pool(kind) {
                Some(queue) => self.take(queue, task),
                None => self.all(kind, std::iter::once(task)),
            }
        }
    }

    /// Tasks whose kind was missing, and is there again.
    fn returned(
        &mut self,
        (kind, pool): (KindId, PoolId),
        mut tasks: impl Iterator<Item = TaskNumber>,
    ) {
        while self.has_place(pool)
            && let Some(task) = tasks.next()
        {
            self.take((kind, pool), task);
        }
    }

    /// Tasks that need no slot: sleeping ones, and those that will wait for their kind.
    fn all(&mut self, kind: Option<KindId>, tasks: impl Iterator<Item = TaskNumber>) {
        let family = self.executor.family.as_deref();
        let open = tasks.filter(|task| !family.is_some_and(|family| family.prepares(*task)));
        self.found.extend(open.map(|task| Want { task, suspect: false, kind }));
    }

    /// The first ready tasks of a kind, as many as could take places.
    fn first_ready(
        &mut self,
        queue: (KindId, PoolId),
        ready: impl Iterator<Item = (u32, TaskNumber)>,
        into: &mut Vec<(u32, (KindId, PoolId), TaskNumber)>,
    ) {
        let mut free = PLACES.saturating_sub(self.standing[queue.1.0]);
        for (rank, task) in ready {
            if free == 0 {
                break;
            }
            if !self.stands(task) {
                into.push((rank, queue, task));
                // Suspects take no places here, and there are no more of them than slots.
                free -= usize::from(!self.is_suspect(task));
            }
        }
    }

    fn take(&mut self, (kind, pool): (KindId, PoolId), task: TaskNumber) {
        let suspect = self.is_suspect(task);
        let queue = if suspect { SUSPECTS } else { pool };
        if self.has_place(queue) && !self.stands(task) {
            self.standing[queue.0] += 1;
            self.found.push(Want { task, suspect, kind: Some(kind) });
        }
    }

    fn has_place(&self, queue: PoolId) -> bool {
        self.standing[queue.0] < PLACES
    }

    fn is_suspect(&self, task: TaskNumber) -> bool {
        self.executor.job.is_suspect(task, self.rule)
    }

    fn stands(&self, task: TaskNumber) -> bool {
        let is_it = |wanting: &Wanting| wanting.task == task;
        self.executor.wanting.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use annals_tasks_sdk::plan::{Limits, Plan};
    use annals_tasks_sdk::{Handler, JobId};

    use super::super::executor::Held;
    use super::super::pool::{DEFAULT, SHELL};
    use super::*;
    use crate::job::{Context, Origin, Submitted, begin, submit};
    use crate::kinds::noop::Noop;
    use crate::log::Head;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let run = |pool| {
            let handler: Arc<dyn Handler> = Arc::new(Noop);
            Behaviour::Run { handler, pool }
        };
        registry.register("one", run(DEFAULT)).unwrap();
        registry.register("other", run(DEFAULT)).unwrap();
        registry.register("shell", run(SHELL)).unwrap();
        registry.register("sleep", Behaviour::Sleep).unwrap();
        registry
    }

    /// A job whose tasks, all of them ready, are of these kinds.
    fn job_of(kinds: &[&str]) -> Executor {
        let tasks = kinds.iter().zip(1..);
        let tasks: Vec<String> = tasks
            .map(|(kind, n)| format!(r#"{{"id": "t{n}", "kind": "{kind}", "needs": []}}"#))
            .collect();
        let text = format!(r#"{{"name": "test", "tasks": [{}]}}"#, tasks.join(","));
        let plan = Plan::from_json(&text, &Limits::NONE).unwrap();
        let submitted = Submitted { plan, workflow: None, source: None };
        let events = submit(submitted, &Limits::NONE).unwrap();
        let (origin, losses) = (Origin::ENGINE, LossRule::default());
        let cx = Context { origin, key: None, now: NOW, random: 0.5, losses, instances: 10_000 };
        let (job, _) = begin(JobId::from_u128(1), events, &cx).unwrap();
        Executor::new(job, Head::default())
    }

    fn search(executor: &Executor) -> Vec<u32> {
        let mut found = Vec::new();
        Search::new(&registry(), executor, LossRule::default(), NOW, &mut found).run();
        let mut found: Vec<u32> = found.iter().map(|want| want.task.0).collect();
        found.sort_unstable();
        found
    }

    fn stand(executor: &mut Executor, task: u32) {
        let held = Held { pool: DEFAULT, suspect: false };
        executor.wanting.push(Wanting {
            task: TaskNumber(task),
            queue: DEFAULT,
            place: None,
            held,
            kind: registry().find("one").unwrap(),
        });
    }

    #[test]
    fn a_full_queue_keeps_nobody_from_another() {
        let mut kinds = vec!["one"; 100];
        kinds.extend(["sleep", "shell", "sleep", "unknown"]);
        let mut executor = job_of(&kinds);
        let others = [101, 102, 103, 104];
        assert_eq!(search(&executor), (1..=64).chain(others).collect::<Vec<_>>());
        (1..=64).for_each(|task| stand(&mut executor, task));
        assert_eq!(search(&executor), others);
        // A place that comes free goes to the next.
        executor.wanting.swap_remove(10);
        executor.wanting.push(Wanting {
            task: TaskNumber(102),
            queue: SHELL,
            place: None,
            held: Held { pool: SHELL, suspect: false },
            kind: registry().find("shell").unwrap(),
        });
        assert_eq!(search(&executor), [11, 101, 103, 104]);
    }

    #[test]
    fn kinds_that_wait_for_the_same_slots_go_by_the_order_of_the_plan() {
        let executor = job_of(&["one", "other"].repeat(100));
        assert_eq!(search(&executor), (1..=64).collect::<Vec<_>>());
    }
}
