//! What one connection waits for, and since when.
//!
//! A peer may be quiet for as long as the server works for it, and for a limited time whenever
//! the server waits for the peer. Nothing here does I/O or waits.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

/// So long a connection that the server ends is read from, so that the peer gets to read the last
/// answer: what arrives at a closed socket destroys what was sent and not read yet.
const LINGER: Duration = Duration::from_secs(2);

/// How long the server waits for a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the first line and the headers of a request.
    pub(super) header: Duration,
    /// For the body of a request, at first.
    pub(super) body: Duration,
    /// For another request.
    pub(super) idle: Duration,
    /// For a peer that takes nothing of what it is sent.
    pub(super) write: Duration,
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Watch(Mutex<State>);

#[derive(Debug)]
struct State {
    stage: Stage,
    /// When the peer began to take nothing of what it is sent.
    stuck_since: Option<Instant>,
    order: Option<Order>,
    waker: Option<Waker>,
}

/// How far the exchange with the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Another request may come.
    Idle(Instant),
    /// A request has begun, or the connection is new.
    Head(Instant),
    /// A request is being worked on.
    Work,
    /// The same, but the rest of its body is waited for.
    Body(Instant),
    /// All is said; the peer is to read it.
    Closing(Instant),
}

/// What a connection is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// End after the request that is being worked on.
    Finish,
    /// End now.
    Leave,
}

/// When a connection must be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// When it says so.
    Later,
    /// At this time, at which its peer has kept the server waiting too long.
    At(Instant),
    /// It was told something.
    Ordered(Order),
}

impl Watch {
    /// Of a new connection, whose peer is expected to speak first.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            stage: Stage::Head(Instant::now()),
            stuck_since: None,
            order: None,
            waker: None,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has arrived.
    pub(super) fn received(&self) {
        let mut state = self.state();
        if let Stage::Idle(_) = state.stage {
            state.stage = Stage::Head(Instant::now());
        }
    }

    /// The peer has taken something.
    pub(super) fn sent(&self) {
        let mut state = self.state();
        state.stuck_since = None;
        // The answer that it still reads is the last one's.
        if let Stage::Idle(since) = &mut state.stage {
            *since = Instant::now();
        }
    }

    /// The peer does not take what it is sent.
    pub(super) fn stuck(&self) {
        self.state().stuck_since.get_or_insert_with(Instant::now);
    }

    /// The head of a request is here.
    pub(super) fn begin(&self) {
        self.state().stage = Stage::Work;
    }

    /// More of the request's body is needed, and not here yet.
    pub(super) fn need_body(&self) {
        let mut state = self.state();
        if state.stage == Stage::Work {
            state.stage = Stage::Body(Instant::now());
        }
    }

    /// No more of the body is waited for.
    pub(super) fn have_body(&self) {
        let mut state = self.state();
        if let Stage::Body(_) = state.stage {
            state.stage = Stage::Work;
        }
    }

    /// The request is answered.
    pub(super) fn answered(&self) {
        self.state().stage = Stage::Idle(Instant::now());
    }

    /// The last answer is written.
    pub(super) fn closing(&self) {
        let mut state = self.state();
        if !matches!(state.stage, Stage::Closing(_)) {
            state.stage = Stage::Closing(Instant::now());
        }
    }

    /// Tells the connection something. It hears each order once.
    pub(super) fn tell(&self, order: Order) {
        let mut state = self.state();
        state.order = Some(order);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Since when the server waits for the peer; none while the peer waits for the server.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let state = self.state();
        let silent_since = match state.stage {
            Stage::Idle(since)
            | Stage::Head(since)
            | Stage::Body(since)
            | Stage::Closing(since) => Some(since),
            Stage::Work => None,
        };
        [silent_since, state.stuck_since].into_iter().flatten().min()
    }

    /// When to look again. Whoever asks is woken when an order comes; its own steps it sees.
    pub(super) fn look(&self, patience: &Patience, waker: &Waker) -> Look {
        let mut state = self.state();
        if let Some(order) = state.order.take() {
            return Look::Ordered(order);
        }
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        let late = match state.stage {
            Stage::Idle(since) => Some(since + patience.idle),
            Stage::Head(since) => Some(since + patience.header),
            Stage::Closing(since) => Some(since + LINGER),
            // The body itself knows its time, and answers when it is over.
            Stage::Work | Stage::Body(_) => None,
        };
        // Who has not read the last answer cannot be blamed for the next request.
        let stuck = state.stuck_since.map(|since| since + patience.write);
        stuck.or(late).map_or(Look::Later, Look::At)
    }
}
