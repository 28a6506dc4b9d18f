//! An engine on one thread, in which nothing is left to chance: the same steps make the same
//! bytes.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use annals_engine::log::{Notice, Options, Worked};
use annals_engine::runtime::StartError;
use annals_engine::runtime::by_hand::Hands;
use annals_engine::{Engine, Mode};
use annals_tasks_sdk::{Payload, TaskContext, TaskError, TaskKind, TaskResult};

use crate::clock::SimClock;
use crate::crowd::Crowd;
use crate::sim::SimDisk;
use crate::work::options;

/// Where the store lies on the disk. No such folder is on the machine's own.
pub(crate) const STORE: &str = "/a-disk-in-memory/store";

/// For so many hours keys are known: none is too old.
const KEY_HOURS: u32 = 1_000_000;
/// The views are written after so many events, so that the last of them are behind the views.
const VIEWS_EVERY: u64 = 40;
/// As many record files as the store keeps open at a time.
const ROLL_BYTES: u64 = 27_000;

const SAVE: TaskKind<Payload, Payload> = TaskKind::new("save");
const FAIL: TaskKind<Payload, Payload> = TaskKind::new("fail");
const HANG: TaskKind<Payload, Payload> = TaskKind::new("hang");

async fn save(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    for size in [100, 3_000] {
        cx.checkpoint(&"a value that lies beside the row ".repeat(size / 30)).await?;
    }
    Ok(input)
}

async fn fail(cx: TaskContext, _: Payload) -> TaskResult<Payload> {
    cx.checkpoint(&"half done").await?;
    for name in ["first", "second"] {
        cx.step(name, async { Ok("a result beside the row".to_owned()) }).await?;
    }
    Err(TaskError::new("broken", "it does not work"))
}

async fn hang(_: TaskContext, _: Payload) -> TaskResult<Payload> {
    std::future::pending().await
}

/// What an opening has told.
pub(crate) type Notices = Arc<Mutex<Vec<Notice>>>;

pub(crate) struct House {
    pub(crate) engine: Engine,
    hands: Hands,
    crowd: Crowd,
}

impl House {
    pub(crate) fn start(
        disk: &SimDisk,
        clock: &Arc<SimClock>,
        (mode, notices): (Mode, &Notices),
    ) -> Result<Self, StartError> {
        let (crowd, told) = (Crowd::default(), Arc::clone(notices));
        let notify = move |notice| told.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
        let notify = Some(Arc::new(notify) as _);
        let store = Options { roll_bytes: ROLL_BYTES, notify, ..options(disk) };
        let builder = Engine::open(STORE)
            .store(store)
            .mode(mode)
            .clock(Arc::clone(clock) as _)
            .allow_unknown_kinds(true)
            .task(SAVE, save)
            .task(FAIL, fail)
            .task(HANG, hang)
            .loops(2)
            .slots(4)
            .views_every(VIEWS_EVERY)
            .resident(2)
            .key_hours(KEY_HOURS);
        let (engine, hands) = builder.start_by_hand(Arc::new(crowd.clone()))?;
        let mut house = Self { engine, hands, crowd };
        let engine = house.engine.clone();
        house.wait(async move { engine.resume().await })?;
        house.settle();
        Ok(house)
    }

    /// Waits for something, for which nothing but steps is needed.
    pub(crate) fn wait<T: Send + 'static>(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let done = Arc::new(Mutex::new(None));
        let put = Arc::clone(&done);
        self.crowd.enter(async move {
            let value = future.await;
            *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        loop {
            if let Some(value) = done.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return value;
            }
            assert!(self.step(), "it waits for ever");
        }
    }

    /// Has everything happen that can.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Gives whether there was anything to do.
    fn step(&mut self) -> bool {
        let mut stepped = false;
        for member in self.crowd.ready() {
            self.crowd.poll(member);
            stepped = true;
        }
        while self.crowd.blocking() > 0 {
            self.crowd.block_next();
            stepped = true;
        }
        for home in 0..self.hands.loops() {
            if self.hands.mail(home).next().is_some() {
                self.hands.turn(home, usize::MAX);
                stepped = true;
            }
        }
        while self.hands.load() {
            stepped = true;
        }
        while self.hands.commit() == Worked::Committed {
            stepped = true;
        }
        while self.hands.view() {
            stepped = true;
        }
        stepped
    }

    /// Closes the store in good order, while attempts are alive.
    pub(crate) fn close(mut self) {
        self.engine.begin_close_by_hand();
        while !self.hands.are_over() {
            assert!(self.step(), "it does not end");
        }
        self.engine.end_close_by_hand().expect("it ends in good order");
        while self.hands.commit() != Worked::Ended {
            self.hands.view();
        }
        self.engine.end_close_by_hand().expect("the store is closed");
    }
}

impl Drop for House {
    /// Futures hold the engine, and so the store.
    fn drop(&mut self) {
        self.crowd.clear();
    }
}
