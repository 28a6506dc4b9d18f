//! What the jobs are made of. A ledger outside of all engines knows what really ran.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use annals_engine::runtime::Builder;
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError, TaskResult};

use super::super::support::{Gate, Tally, task};

/// An attempt: job, number of the task, number of the attempt.
pub(super) type AttemptKey = (JobId, u32, u32);

/// What really ran.
#[derive(Clone)]
pub(super) struct Ledger(Arc<Inner>);

struct Inner {
    started: Mutex<HashSet<AttemptKey>>,
    saved: Mutex<HashMap<(JobId, u32), u32>>,
    /// What steps have returned: each is what it was recorded with, for ever.
    stepped: Mutex<HashMap<(JobId, u32, u32), u32>>,
    gates: Mutex<HashMap<JobId, Gate>>,
    alive: Tally,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            started: Mutex::default(),
            saved: Mutex::default(),
            stepped: Mutex::default(),
            gates: Mutex::default(),
            alive: Tally::new(),
        }))
    }

    pub(super) fn started(&self) -> HashSet<AttemptKey> {
        lock(&self.0.started).clone()
    }

    /// How many attempts are alive.
    pub(super) fn alive(&self) -> &Tally {
        &self.0.alive
    }

    /// The gate at which the tasks of a job hold.
    pub(super) fn gate(&self, job: JobId) -> Gate {
        lock(&self.0.gates).entry(job).or_insert_with(Gate::new).clone()
    }

    fn begin(&self, cx: &TaskContext) {
        let at = cx.attempt();
        let new = lock(&self.0.started).insert((at.job, at.number, at.attempt));
        assert!(new, "an attempt runs once");
    }

    /// Registers the kinds of task that are always there.
    pub(super) fn kinds(&self, engine: Builder) -> Builder {
        let ledger = self.clone();
        let work = move |cx: TaskContext, input: Payload| {
            let ledger = ledger.clone();
            async move { ledger.work(cx, input).await }
        };
        let ledger = self.clone();
        let hold = move |cx: TaskContext, input: Payload| {
            let ledger = ledger.clone();
            async move { ledger.hold(cx, input).await }
        };
        let ledger = self.clone();
        let save = move |cx: TaskContext, input: Payload| {
            let ledger = ledger.clone();
            async move { ledger.save(cx, input).await }
        };
        engine.task(task("work"), work).task(task("hold"), hold).task(task("save"), save)
    }

    /// Registers the kind that comes late.
    pub(super) fn late_kind(&self, engine: Builder) -> Builder {
        let ledger = self.clone();
        let late = move |cx: TaskContext, input: Payload| {
            let ledger = ledger.clone();
            async move { ledger.work(cx, input).await }
        };
        engine.task(task("late"), late)
    }

    /// Fails as often as its input says, or hangs in its first attempt where that says so.
    async fn work(&self, cx: TaskContext, input: Payload) -> TaskResult<Payload> {
        let _alive = self.0.alive.enter();
        self.begin(&cx);
        tokio::task::yield_now().await;
        let fails = input.pointer("/fails").map_or(0, |fails| fails.to().unwrap_or(0));
        if cx.attempt().attempt <= fails {
            return Err(TaskError::new("broken", "as often as it was told to"));
        }
        if input.pointer("/hangs").is_some() && cx.attempt().attempt == 1 {
            cx.cancelled().await;
            return Err(TaskError::cancelled());
        }
        Ok(input.pointer("/gives").unwrap_or_default())
    }

    /// Waits until the client says so.
    async fn hold(&self, cx: TaskContext, input: Payload) -> TaskResult<Payload> {
        let _alive = self.0.alive.enter();
        self.begin(&cx);
        let gate = self.gate(cx.attempt().job);
        cx.or_cancelled(gate.pass()).await?;
        Ok(input)
    }

    /// Saves three checkpoints, with a step before each, and finds those of earlier attempts.
    async fn save(&self, cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
        let _alive = self.0.alive.enter();
        self.begin(&cx);
        let key = (cx.attempt().job, cx.attempt().number);
        let found: u32 = cx.restore()?.unwrap_or(0);
        let saved = lock(&self.0.saved).get(&key).copied().unwrap_or(0);
        // One that was not acknowledged may be there all the same.
        assert!((saved..=saved + 1).contains(&found), "{found} is there, {saved} was saved");
        lock(&self.0.saved).insert(key, found);
        for step in 1..=found {
            self.step(&cx, step).await?;
        }
        for next in found + 1..=3 {
            self.step(&cx, next).await?;
            cx.checkpoint(&next).await?;
            lock(&self.0.saved).insert(key, next);
        }
        Ok(Payload::of("saved")?)
    }

    async fn step(&self, cx: &TaskContext, step: u32) -> TaskResult<()> {
        let key = (cx.attempt().job, cx.attempt().number, step);
        let returned = || lock(&self.0.stepped).get(&key).copied();
        let code = async {
            assert_eq!(returned(), None, "a step that has returned runs again");
            Ok(cx.attempt().attempt)
        };
        let result = cx.step(&step.to_string(), code).await?;
        let before = lock(&self.0.stepped).insert(key, result);
        assert!(before.is_none_or(|before| before == result), "a step returns something else");
        Ok(())
    }
}
