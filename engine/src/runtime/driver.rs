//! The threads that turn loops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::engine::Shared;
use super::error::EngineError;
use super::inbox::{Outbox, Worth};
use super::turn::{Loop, TURN_MAX};

/// A loop that waits for nothing in particular looks at the clock this seldom.
const IDLE: Duration = Duration::from_hours(1);
/// While a commit is under way, what comes in could not be committed anyway: it is taken up in
/// pieces of this size, so that it is decided meanwhile.
const DURING_COMMIT: Worth = Worth { messages: 64, patience: Duration::from_millis(1) };
/// Attempts that have just been started are given this long to report together.
const AFTER_STARTS: Duration = Duration::from_micros(250);
/// So many reports are worth a turn, however many attempts have been started.
const REPORTS_MAX: usize = 512;

/// Starts the thread of a loop.
pub(super) fn start(each: Loop, outbox: Outbox) -> std::io::Result<JoinHandle<()>> {
    let name = format!("annals-loop-{}", each.index);
    std::thread::Builder::new().name(name).spawn(move || {
        // Dropped before the outbox: who is refused then must find the reason.
        let mut each = Turning(each);
        let mut waiting = VecDeque::new();
        while !each.0.is_over() {
            outbox.take(&mut waiting, TURN_MAX, worth(&each.0), at_most(&each.0));
            // After a panic who waits for an answer hears of it by the drop of what the turn
            // has not come to, and must find the reason then.
            let _reason = Reason(Arc::clone(&each.0.shared));
            each.0.turn(&mut waiting, TURN_MAX);
        }
    })
}

/// Notes, while a panic unwinds, why there are no answers any more.
struct Reason(Arc<Shared>);

impl Drop for Reason {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(EngineError::Panicked);
        }
    }
}

/// A loop whose end by a panic everybody hears of.
struct Turning(Loop);

impl Drop for Turning {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.on_panic();
        }
    }
}

fn worth(each: &Loop) -> Worth {
    if !each.pending.is_empty() {
        return DURING_COMMIT;
    }
    let messages = (each.started / 2).clamp(1, REPORTS_MAX);
    Worth { messages, patience: AFTER_STARTS }
}

fn at_most(each: &Loop) -> Duration {
    if each.has_more() {
        return Duration::ZERO;
    }
    let clock = &each.shared.clock;
    match each.next_due().into_iter().chain(each.next_look()).min() {
        Some(due) => clock.patience(due.since(clock.now())),
        None => IDLE,
    }
}
