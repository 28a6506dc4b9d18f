//! An engine that a test drives step by step, and whose loop it may tamper with between turns.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError, TaskKind, Timestamp};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::job::Origin;
use crate::log::MemoryDisk;
use crate::runtime::by_hand::{Hands, Spawner};
use crate::runtime::engine::Engine;
use crate::runtime::executor::{Entry, Executor};
use crate::runtime::submit::Submission;
use crate::runtime::turn::Loop;
use crate::runtime::{Builder, Clock, JobHandle};

/// More steps than anything here takes.
const STEPS: usize = 10_000;

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Attempts, polled with every step.
#[derive(Default)]
struct Crowd(Mutex<Vec<Boxed>>);

impl Spawner for Crowd {
    fn spawn(&self, future: Boxed) {
        self.0.lock().unwrap().push(future);
    }

    fn block(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// A clock that stands still until it is moved.
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

/// An engine with one loop, in hand. Its kinds: `gate` waits until the gate is open, `fails` does.
pub(super) struct Driven {
    pub(super) engine: Engine,
    pub(super) disk: MemoryDisk,
    hands: Hands,
    crowd: Arc<Crowd>,
    clock: Arc<Hand>,
    gate: watch::Sender<bool>,
    /// Lives as long as the engine.
    _folder: TempDir,
}

/// What is ready is so at once.
fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Driven {
    pub(super) fn new() -> Self {
        Self::with(MemoryDisk::new(), |builder| builder)
    }

    pub(super) fn with(disk: MemoryDisk, build: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (crowd, gate) = (Arc::new(Crowd::default()), watch::Sender::new(false));
        let clock = Arc::new(Hand(AtomicI64::new(1_800_000_000_000)));
        let opened = gate.clone();
        let waits = move |cx: TaskContext, input: Payload| {
            let mut gate = opened.subscribe();
            async move {
                let opens = async { gate.wait_for(|open| *open).await.map(drop) };
                cx.or_cancelled(opens).await?.map_err(|_| TaskError::cancelled())?;
                Ok(input)
            }
        };
        let fails = async |_: TaskContext, _: Payload| -> Result<Payload, TaskError> {
            Err(TaskError::new("no", "it does not work"))
        };
        let builder = Engine::open(folder.path()).log(Box::new(disk.open()));
        let builder = builder.clock(Arc::clone(&clock) as _).loops(1).allow_unknown_kinds(true);
        let builder = builder.task(TaskKind::<Payload, Payload>::new("gate"), waits);
        let builder = build(builder.task(TaskKind::<Payload, Payload>::new("fails"), fails));
        let (engine, hands) = builder.start_by_hand(Arc::clone(&crowd) as _).unwrap();
        let mut driven = Self { engine, disk, hands, crowd, clock, gate, _folder: folder };
        let engine = driven.engine.clone();
        driven.until(engine.resume()).unwrap();
        driven
    }

    /// The next engine on the same disk, as after a kill.
    pub(super) fn again(self) -> Self {
        let disk = self.disk.clone();
        drop(self);
        Self::with(disk, |builder| builder)
    }

    /// Takes a turn, and does all that follows from it.
    pub(super) fn step(&mut self) {
        self.hands.turn(0, usize::MAX);
        self.hands.commit();
        self.hands.view();
        while self.hands.load() {}
        let attempts = std::mem::take(&mut *self.crowd.0.lock().unwrap());
        for mut attempt in attempts {
            if poll(attempt.as_mut()).is_none() {
                self.crowd.0.lock().unwrap().push(attempt);
            }
        }
    }

    /// Steps until this is there.
    pub(super) fn until<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        for _ in 0..STEPS {
            if let Some(value) = poll(future.as_mut()) {
                return value;
            }
            self.step();
        }
        panic!("{STEPS} steps were not enough");
    }

    /// Steps until there is nothing to do but to wait.
    pub(super) fn settle(&mut self) {
        for _ in 0..STEPS {
            self.step();
            let due = self.hands.next_due(0).is_some_and(|due| due <= self.clock.now());
            let mail = self.hands.mail(0).next().is_some();
            if !mail && !due && !self.hands.may_commit() {
                return;
            }
        }
        panic!("{STEPS} steps were not enough");
    }

    pub(super) fn pass(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).unwrap();
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    pub(super) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Submits a plan, and lets it go as far as it goes.
    pub(super) fn submit(&mut self, plan: &str) -> JobHandle {
        let plan = Plan::from_json(plan, &Limits::NONE).unwrap();
        let engine = self.engine.clone();
        let job = self.until(engine.submit_plan(Submission::new(plan, Origin::ENGINE))).unwrap();
        self.settle();
        job
    }

    /// Submits a job of these tasks.
    pub(super) fn job(&mut self, tasks: &str) -> JobHandle {
        self.submit(&format!(r#"{{"name": "test", "tasks": [{tasks}]}}"#))
    }

    pub(super) fn each(&mut self) -> &mut Loop {
        &mut self.hands.loops[0].each
    }

    /// The executor of a job that is loaded, to be tampered with.
    pub(super) fn executor(&mut self, id: JobId) -> &mut Executor {
        match self.each().entries.get_mut(&id) {
            Some(Entry::Loaded(executor)) => executor,
            _ => panic!("job {id} is not loaded"),
        }
    }

    /// The numbers of the events of a job that are in the log.
    pub(super) fn seqs(&self, id: JobId) -> Vec<u64> {
        let rows = self.engine.reader().rows(crate::log::Position(1), usize::MAX).unwrap();
        let rows = rows.into_iter().filter(|row| row.job == id);
        rows.flat_map(|row| row.events).map(|event| event.seq).collect()
    }
}
