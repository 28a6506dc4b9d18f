//! The crowd: all futures of a world, each polled when the simulation says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use annals_engine::runtime::by_hand::Spawner;

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// All futures of a world. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Crowd(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// None while it is polled.
    members: BTreeMap<u64, Option<Boxed>>,
    /// Which of them are attempts of the engine.
    attempts: BTreeSet<u64>,
    /// What may block its thread, in the order in which it came.
    blocking: VecDeque<Box<dyn FnOnce() + Send>>,
    ready: Arc<Ready>,
    next: u64,
}

/// Who wants to be polled.
#[derive(Default)]
struct Ready(Mutex<BTreeSet<u64>>);

struct Waking {
    member: u64,
    ready: Arc<Ready>,
}

impl Ready {
    fn members(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.ready.members().insert(self.member);
    }
}

impl Crowd {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a future in, which is to be polled.
    pub(crate) fn enter(&self, future: impl Future<Output = ()> + Send + 'static) -> u64 {
        self.state().enter(Box::pin(future))
    }

    /// Who wants to be polled, in the order of their coming.
    pub(crate) fn ready(&self) -> Vec<u64> {
        let state = self.state();
        let mut ready = state.ready.members();
        ready.retain(|member| state.members.contains_key(member));
        ready.iter().copied().collect()
    }

    /// Polls one of them. Gives whether it is over.
    pub(crate) fn poll(&self, member: u64) -> bool {
        let mut state = self.state();
        let ready = Arc::clone(&state.ready);
        ready.members().remove(&member);
        let Some(mut future) = state.members.get_mut(&member).and_then(Option::take) else {
            return true;
        };
        drop(state);
        let waker = Waker::from(Arc::new(Waking { member, ready }));
        let over = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.state();
        if over {
            state.members.remove(&member);
            state.attempts.remove(&member);
        } else if let Some(place) = state.members.get_mut(&member) {
            *place = Some(future);
        }
        over
    }

    /// Drops a future wherever it stands.
    pub(crate) fn vanish(&self, member: u64) {
        let gone = self.state().members.remove(&member);
        drop(gone);
    }

    /// Drops all of them, as the end of a process does.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        let (members, blocking) =
            (std::mem::take(&mut state.members), std::mem::take(&mut state.blocking));
        state.attempts.clear();
        state.ready.members().clear();
        drop(state);
        drop((members, blocking));
    }

    /// How many attempts there are.
    pub(crate) fn attempts(&self) -> usize {
        self.state().attempts.len()
    }

    /// How much waits that may block its thread.
    pub(crate) fn blocking(&self) -> usize {
        self.state().blocking.len()
    }

    /// Does what has waited longest.
    pub(crate) fn block_next(&self) {
        let work = self.state().blocking.pop_front();
        if let Some(work) = work {
            work();
        }
    }
}

impl State {
    fn enter(&mut self, future: Boxed) -> u64 {
        self.next += 1;
        self.members.insert(self.next, Some(future));
        self.ready.members().insert(self.next);
        self.next
    }
}

impl Spawner for Crowd {
    fn spawn(&self, future: Boxed) {
        let mut state = self.state();
        let member = state.enter(future);
        state.attempts.insert(member);
    }

    fn block(&self, work: Box<dyn FnOnce() + Send>) {
        self.state().blocking.push_back(work);
    }
}

/// Lets others go first once.
pub(crate) async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
