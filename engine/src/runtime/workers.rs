//! Workers: where attempts run, and reads that block. Threads of Tokio runtimes as a rule; one
//! that has the engine in hand brings its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

use super::attempt::Attempt;
use super::error::EngineError;
use super::pool::PoolId;
use super::pool_setup::{OwnThreads, Pool, numbered};
use super::starting;

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
    Threads(Threads),
    Hands(Arc<dyn Spawner>),
}

/// The threads of an engine.
#[derive(Clone)]
pub(super) struct Threads {
    all: Handle,
    /// Those that pools have for themselves.
    own: Vec<(PoolId, Handle)>,
}

impl Workers {
    /// Starts attempts together: one hand-over to the other threads, not one each.
    pub(super) fn run(&self, starting: &mut Vec<Attempt>) {
        match self {
            Self::Threads(Threads { all, .. }) if starting.len() == 1 => {
                starting.drain(..).for_each(|attempt| drop(all.spawn(attempt.run())));
            }
            Self::Threads(Threads { all, .. }) => {
                starting::start(all, std::mem::take(starting));
            }
            Self::Hands(hands) => {
                starting.drain(..).for_each(|attempt| hands.spawn(Box::pin(attempt.run())));
            }
        }
    }

    /// The threads that a pool has for itself.
    pub(super) fn of_pool(&self, pool: PoolId) -> Option<&Handle> {
        let Self::Threads(Threads { own, .. }) = self else { return None };
        own.iter().find(|(id, _)| *id == pool).map(|(_, threads)| threads)
    }

    /// Has work done that may block, and that nobody waits for.
    pub(super) fn aside(&self, work: impl FnOnce() + Send + 'static) {
        match self {
            Self::Threads(Threads { all, .. }) => drop(all.spawn_blocking(work)),
            Self::Hands(hands) => hands.block(Box::new(work)),
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

/// Starts so many threads for all tasks, and those that pools have for themselves. The runtimes
/// are their owners.
pub(super) fn start(all: usize, pools: &[Pool]) -> std::io::Result<(Workers, Vec<Runtime>)> {
    let mut runtimes = vec![runtime("annals-task", OwnThreads { count: all, niceness: 0 })?];
    let mut own = Vec::new();
    for (id, pool) in numbered(pools) {
        if let Some(threads) = pool.own_threads() {
            let runtime = runtime(&format!("annals-{}", pool.name()), threads)?;
            own.push((id, runtime.handle().clone()));
            runtimes.push(runtime);
        }
    }
    let all = runtimes[0].handle().clone();
    Ok((Workers::Threads(Threads { all, own }), runtimes))
}

fn runtime(name: &str, threads: OwnThreads) -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads.count).thread_name(name).enable_all();
    if threads.niceness > 0 {
        // Of this thread alone, as Linux has it. Whoever may not do even that runs as others do.
        builder.on_thread_start(move || {
            let _ = rustix::process::nice(threads.niceness);
        });
    }
    builder.build()
}
