//! Calls: the code of a task while it runs, on the threads of all or on those of its pool.

use std::future::Future;

use annals_tasks_sdk::{Done, TaskError, TaskResult};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::panics::Guarded;

/// What a call gave, or how it panicked.
pub(super) type Ended = Result<TaskResult<Done>, String>;

/// A task's code that runs. Dropped, it is ended as soon as it lets go of its thread.
pub(super) enum Call<'a> {
    /// Where it is polled from.
    Here(Guarded<'a, TaskResult<Done>>),
    /// On the threads of its pool. Whoever waits for it is not blocked when it blocks, so that
    /// its timeout and its silence are seen in time.
    Apart(JoinHandle<Ended>),
}

impl<'a> Call<'a> {
    /// A call that runs when it is polled.
    pub(super) fn here(code: impl Future<Output = TaskResult<Done>> + Send + 'a) -> Self {
        Self::Here(Guarded::new(Box::pin(code)))
    }

    /// Runs it until its end. May be dropped half-way, and asked anew.
    pub(super) async fn run(&mut self) -> Ended {
        match self {
            Self::Here(code) => code.run().await,
            Self::Apart(code) => code.await.unwrap_or_else(|_| Ok(Err(dropped()))),
        }
    }

    /// Ends it although it goes on; resolves when it is really over.
    pub(super) async fn end(&mut self) -> Ended {
        match self {
            Self::Here(code) => {
                code.end();
                Ok(Err(dropped()))
            }
            Self::Apart(code) => {
                code.abort();
                self.run().await
            }
        }
    }
}

impl Call<'static> {
    /// A call that runs on these threads from now on.
    pub(super) fn apart(
        threads: &Handle,
        code: impl Future<Output = TaskResult<Done>> + Send + 'static,
    ) -> Self {
        let mut code = Guarded::new(Box::pin(code));
        Self::Apart(threads.spawn(async move { code.run().await }.in_current_span()))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Self::Apart(code) = self {
            code.abort();
        }
    }
}

fn dropped() -> TaskError {
    TaskError::new("grace_over", "the attempt was dropped: it did not end within its grace")
}
