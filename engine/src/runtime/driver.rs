//! The threads that turn loops.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::message::Envelope;
use super::turn::{Loop, TURN_MAX};

/// A loop that waits for nothing in particular looks at the clock this seldom.
const IDLE: Duration = Duration::from_secs(3600);

/// Starts the thread of a loop.
pub(super) fn start(mut each: Loop, inbox: Receiver<Envelope>) -> std::io::Result<JoinHandle<()>> {
    let name = format!("annals-loop-{}", each.index);
    std::thread::Builder::new().name(name).spawn(move || {
        let mut waiting = Vec::new();
        while !each.closed {
            match inbox.recv_timeout(patience(&each)) {
                Ok(envelope) => waiting.push(envelope),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            waiting.extend(inbox.try_iter().take(TURN_MAX - 1));
            each.turn(waiting.drain(..));
        }
    })
}

fn patience(each: &Loop) -> Duration {
    let clock = &each.shared.clock;
    match each.next_due() {
        Some(due) => clock.patience(due.since(clock.now())),
        None => IDLE,
    }
}
