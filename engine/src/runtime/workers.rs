//! Workers: where attempts run, and reads that block. Threads of a Tokio runtime as a rule; one
//! that has the engine in hand brings its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::attempt::Attempt;
use super::error::EngineError;

/// Runs what an engine in hand has to run.
pub trait Spawner: Send + Sync + 'static {
    /// Has a future polled until it is over.
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>);
    /// Has work done that may block its thread.
    fn block(&self, work: Box<dyn FnOnce() + Send>);
}

/// Who runs attempts.
#[derive(Clone)]
pub(super) enum Workers {
    Threads(tokio::runtime::Handle),
    Hands(Arc<dyn Spawner>),
}

impl Workers {
    /// Starts attempts together: one hand-over to the other threads, not one each.
    pub(super) fn run(&self, starting: &mut Vec<Attempt>) {
        match self {
            Self::Threads(threads) if starting.len() == 1 => {
                starting.drain(..).for_each(|attempt| drop(threads.spawn(attempt.run())));
            }
            Self::Threads(threads) => {
                let starting = std::mem::take(starting);
                threads.spawn(async move {
                    for attempt in starting {
                        tokio::spawn(attempt.run());
                    }
                });
            }
            Self::Hands(hands) => {
                starting.drain(..).for_each(|attempt| hands.spawn(Box::pin(attempt.run())));
            }
        }
    }

    /// Does what may block where that is allowed.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        match self {
            // On the runtime of whoever asks.
            Self::Threads(_) => {
                tokio::task::spawn_blocking(work).await.map_err(|_| EngineError::Stopped)
            }
            Self::Hands(hands) => {
                let (sender, done) = oneshot::channel();
                // Whoever asked may have stopped waiting.
                hands.block(Box::new(move || drop(sender.send(work()))));
                done.await.map_err(|_| EngineError::Stopped)
            }
        }
    }
}
