//! A loop's inbox: a queue whose reader is woken no more often than it pays.
//!
//! While a commit is under way, and while attempts that have just been started are about to
//! report, a loop that takes each message by itself makes many small turns and many small
//! commits of what would fit one. So it says how many messages are worth a turn and how long it
//! will wait for them at most; what a commit brings is worth one at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::message::Message;

/// The sending side. Commands from outside are bounded by permits; what the engine tells itself
/// is bounded by what it has started.
#[derive(Clone)]
pub(super) struct Inbox(Arc<Queue>);

/// The receiving side. When it is gone, messages are refused.
pub(super) struct Outbox(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    messages: VecDeque<Message>,
    /// The reader sleeps until so many messages are there.
    sleeps_until: Option<usize>,
    /// Whether something has come that is worth a turn at once.
    urgent: bool,
    open: bool,
}

/// Both sides of an inbox.
pub(super) fn inbox() -> (Inbox, Outbox) {
    let state = State { messages: VecDeque::new(), sleeps_until: None, urgent: false, open: true };
    let queue = Arc::new(Queue { state: Mutex::new(state), wake: Condvar::new() });
    (Inbox(Arc::clone(&queue)), Outbox(queue))
}

/// When a turn is worth taking.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worth {
    /// With so many messages, at once.
    pub(super) messages: usize,
    /// With fewer, after so long.
    pub(super) patience: Duration,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    /// Whether somebody reads what is sent.
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().open
    }

    /// Sends a message; false where nobody will read it.
    pub(super) fn send(&self, message: Message) -> bool {
        let mut state = self.0.lock();
        if !state.open {
            return false;
        }
        state.urgent |= matches!(message, Message::Durable(_) | Message::Close);
        state.messages.push_back(message);
        let wakes = match state.sleeps_until {
            Some(enough) => state.urgent || state.messages.len() >= enough,
            None => false,
        };
        if wakes {
            state.sleeps_until = None;
        }
        drop(state);
        if wakes {
            self.0.wake.notify_one();
        }
        true
    }
}

impl Outbox {
    /// Waits until a turn is worth taking, or `at_most` has passed, and takes up to `max`
    /// messages.
    pub(super) fn take(
        &self,
        into: &mut VecDeque<Message>,
        max: usize,
        worth: Worth,
        at_most: Duration,
    ) {
        let begin = Instant::now();
        let mut state = self.0.lock();
        loop {
            let there = state.messages.len();
            if state.urgent || there >= worth.messages {
                break;
            }
            let patience = if there == 0 { at_most } else { worth.patience.min(at_most) };
            let Some(left) = patience.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
            else {
                break;
            };
            state.sleeps_until = Some(if there == 0 { 1 } else { worth.messages });
            let waited = self.0.wake.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.sleeps_until = None;
        }
        state.urgent = false;
        if into.is_empty() && state.messages.len() <= max {
            std::mem::swap(into, &mut state.messages);
        } else {
            let take = state.messages.len().min(max);
            into.extend(state.messages.drain(..take));
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open = false;
        // Whoever waits for an answer hears of it by the drop of the reply.
        let messages = std::mem::take(&mut state.messages);
        drop(state);
        drop(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> Message {
        Message::Look
    }

    #[test]
    fn a_turn_is_taken_when_it_is_worth_one() {
        let (inbox, outbox) = inbox();
        let day = Duration::from_hours(24);
        let mut taken = VecDeque::new();
        for _ in 0..5 {
            assert!(inbox.send(look()));
        }
        // Enough is there, so nothing is waited for; what is too much is left.
        outbox.take(&mut taken, 3, Worth { messages: 5, patience: day }, day);
        assert_eq!(taken.len(), 3);
        // Something urgent is worth a turn whatever else is there.
        assert!(inbox.send(Message::Close));
        outbox.take(&mut taken, 100, Worth { messages: 500, patience: day }, day);
        assert_eq!(taken.len(), 6);
        // Nothing comes: the caller gets its turn when its time is up.
        outbox.take(&mut taken, 100, Worth { messages: 1, patience: day }, Duration::ZERO);
        assert_eq!(taken.len(), 6);
        drop(outbox);
        assert!(!inbox.send(look()));
    }
}
