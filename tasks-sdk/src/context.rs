//! What a running attempt knows and can do.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cancel::CancellationToken;
use crate::steps::StepNames;
use crate::{JobId, Payload, PayloadError, TaskError, TaskId, TaskResult};

/// What a running attempt knows and can do. Cloning is cheap.
#[derive(Clone)]
pub struct TaskContext {
    host: Arc<dyn Host>,
    /// Few attempts are given something: most contexts take no memory of their own.
    given: Option<Arc<Given>>,
}

#[derive(Clone, Default)]
struct Given {
    checkpoint: Option<Payload>,
    grace_over: Option<CancellationToken>,
}

/// Which attempt this is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttemptId {
    /// The job.
    pub job: JobId,
    /// The task within the job.
    pub task: TaskId,
    /// The task's place in the order of creation, from 1; names files and folders.
    pub number: u32,
    /// From 1, counted within the task.
    pub attempt: u32,
}

/// How far an attempt is. Volatile: it is shown, never logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// How much is done, in units of the task's choice.
    pub done: u64,
    /// How much there is; 0 where that is not known.
    pub total: u64,
}

/// Where an attempt's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error, and what a task logs through `tracing`.
    Stderr,
}

/// What carries the calls of a [`TaskContext`]: the engine, or a fake in tests.
#[async_trait]
pub trait Host: Send + Sync {
    /// Which attempt this is.
    fn attempt(&self) -> &AttemptId;
    /// The token that fires when the attempt is told to stop.
    fn token(&self) -> &CancellationToken;
    /// Shows progress; `message` is kept from before where it is `None`.
    fn progress(&self, progress: Option<Progress>, message: Option<String>);
    /// Takes a sign of life that says nothing else.
    fn heartbeat(&self);
    /// Makes `value` durable as the task's checkpoint.
    async fn checkpoint(&self, value: Payload) -> TaskResult<()>;
    /// The names of steps that the attempt has used; begins empty, and is the context's to fill.
    fn step_names(&self) -> &StepNames;
    /// The result of a step, where an earlier attempt of the task has recorded one.
    async fn recorded_step(&self, name: &str) -> TaskResult<Option<Payload>>;
    /// Makes `value` durable as the result of a step. To record the same once more is no fault.
    async fn record_step(&self, name: &str, value: Payload) -> TaskResult<()>;
    /// The output of a task that has completed, or was skipped with a substitute.
    fn output_of(&self, task: &str) -> Option<Payload>;
    /// Appends bytes to the attempt's step log.
    fn log(&self, stream: Stream, bytes: &[u8]);
}

impl TaskContext {
    /// The context of an attempt without checkpoint; what runs attempts calls this.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { host, given: None }
    }

    /// The same context with the last checkpoint of the task.
    pub fn with_checkpoint(self, checkpoint: Payload) -> Self {
        self.with(|given| given.checkpoint = Some(checkpoint))
    }

    /// The same context with the token that fires when the grace after the order to stop is
    /// over. Only handlers that [end themselves](crate::Handler::ends_itself) look at it.
    pub fn with_grace_over(self, token: CancellationToken) -> Self {
        self.with(|given| given.grace_over = Some(token))
    }

    fn with(mut self, change: impl FnOnce(&mut Given)) -> Self {
        change(Arc::make_mut(self.given.get_or_insert_default()));
        self
    }

    /// What carries its calls, for whoever passes those of another context on.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Which attempt this is.
    pub fn attempt(&self) -> &AttemptId {
        self.host.attempt()
    }

    /// A key for services that accept one: equal for all attempts of this task, different for
    /// any other task of any job.
    pub fn idempotency_key(&self) -> String {
        let AttemptId { job, task, .. } = self.attempt();
        format!("{job}:{task}")
    }

    /// The token that fires when the attempt is told to stop.
    pub fn token(&self) -> &CancellationToken {
        self.host.token()
    }

    /// Resolves when the attempt is told to stop.
    pub async fn cancelled(&self) {
        self.token().cancelled().await;
    }

    /// Resolves when the grace after the order to stop is over, and never where nobody will
    /// say so.
    pub async fn grace_over(&self) {
        match self.given.as_ref().and_then(|given| given.grace_over.as_ref()) {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Ends a task between two pieces of work: `cx.ensure_live()?`.
    pub fn ensure_live(&self) -> TaskResult<()> {
        if self.token().is_cancelled() { Err(TaskError::cancelled()) } else { Ok(()) }
    }

    /// Waits for `future`, or for the order to stop, whichever comes first. What `future` had
    /// not finished by then is dropped.
    pub async fn or_cancelled<F: Future>(&self, future: F) -> TaskResult<F::Output> {
        let output = self.token().run_until_cancelled(future).await;
        output.ok_or_else(TaskError::cancelled)
    }

    /// Shows how far the attempt is. Volatile: it is shown, never logged.
    pub fn progress(&self, progress: Progress) {
        self.host.progress(Some(progress), None);
    }

    /// Shows what the attempt is doing, in a few words. Volatile.
    pub fn message(&self, message: impl Into<String>) {
        self.host.progress(None, Some(message.into()));
    }

    /// Shows that the attempt is alive. Where its task has a `heartbeat_timeout`, an attempt of
    /// which nothing is heard for so long is stopped. Progress, messages, checkpoints, recorded
    /// steps and what it writes to its step log are heard, too; this is for work that has nothing
    /// to say meanwhile.
    pub fn heartbeat(&self) {
        self.host.heartbeat();
    }

    /// The last checkpoint of this task, from whichever attempt.
    pub fn restore<S: DeserializeOwned>(&self) -> Result<Option<S>, PayloadError> {
        let checkpoint = self.given.as_ref().and_then(|given| given.checkpoint.as_ref());
        checkpoint.map(Payload::to).transpose()
    }

    /// Keeps `state` for the attempts to come; durable when this returns. Only the last one is
    /// kept: see [`step`](Self::step) for results of which each is.
    pub async fn checkpoint<S: Serialize + Sync + ?Sized>(&self, state: &S) -> TaskResult<()> {
        self.host.checkpoint(Payload::of(state)?).await
    }

    /// The output of an earlier task of the job.
    ///
    /// Fails without retry where that task has none, or one that is no `T`.
    pub fn output_of<T: DeserializeOwned>(&self, task: &str) -> TaskResult<T> {
        let output = self.host.output_of(task).ok_or_else(|| {
            TaskError::new("missing_output", format!("task {task:?} has no output")).give_up()
        })?;
        output.to().map_err(|error| {
            let detail = format!("the output of task {task:?} has another shape: {error}");
            TaskError::new("bad_input", detail).give_up()
        })
    }

    /// Appends bytes to the attempt's step log.
    pub fn log(&self, stream: Stream, bytes: &[u8]) {
        self.host.log(stream, bytes);
    }
}
