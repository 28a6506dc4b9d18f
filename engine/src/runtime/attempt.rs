//! Attempts: one execution of a task, from the moment its start is durable until it is really
//! over.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::context::Host;
use annals_tasks_sdk::duration::format_duration;
use annals_tasks_sdk::steps::StepNames;
use annals_tasks_sdk::{
    AttemptId, Done, Handler, Payload, Progress, Stream, TaskContext, TaskError, TaskResult,
    Timestamp,
};
use async_trait::async_trait;
use tracing::Instrument;

use super::call::{Call, Ended};
use super::engine::Shared;
use super::executor::{Executor, Outputs};
use super::heartbeat::Heartbeat;
use super::message::{Live, Message, Reply};
use super::pool::PoolId;
use super::registry::{Behaviour, KindId};
use super::values::StepResult;
use crate::job::{Failure, LogSize, Outcome, Report, Steps, Task, TaskNumber, ValueDigest};
use crate::log::ValueKey;
use crate::steplog::AttemptLog;

/// Longer messages are cut: the step log has the whole.
const MESSAGE_MAX: usize = 16 * 1024;
/// Longer codes are cut: a code is a word.
const CODE_MAX: usize = 256;
/// How long an attempt may take to end when its task says nothing of it.
pub const GRACE: Duration = Duration::from_secs(10);

/// How long an attempt of a task may take to end when it is told to.
pub(super) fn grace_of(task: &Task) -> Duration {
    task.spec.policy.cancel_grace.unwrap_or(GRACE)
}

/// An attempt. One allocation carries it: what it needs to run, the host of its context, and what
/// its loop sees of it.
#[derive(Clone)]
pub(super) struct Attempt(Arc<Carried>);

/// What an attempt needs to run.
struct Carried {
    shared: Arc<Shared>,
    home: usize,
    id: AttemptId,
    handler: Arc<dyn Handler>,
    pool: PoolId,
    input: Result<Payload, Failure>,
    checkpoint: Option<ValueDigest>,
    /// What earlier attempts have recorded.
    steps: Steps,
    step_names: StepNames,
    timeout: Option<Duration>,
    /// Where something must be heard of it.
    heartbeat: Option<Arc<Heartbeat>>,
    grace: Duration,
    /// Made for who first asks for it: most attempts are over before anybody does.
    token: OnceLock<CancellationToken>,
    live: Mutex<Live>,
    outputs: Option<Arc<Outputs>>,
    /// The step log, from its first byte on.
    log: OnceLock<AttemptLog>,
}

/// Why an attempt was told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    ToStop,
    TimedOut,
    /// Nothing was heard of it for too long.
    Silent,
}

impl Attempt {
    /// An attempt that has been decided, to be run when its start is durable.
    pub(super) fn new(
        shared: &Arc<Shared>,
        home: usize,
        executor: &mut Executor,
        (task, attempt): (TaskNumber, u32),
        kind: KindId,
    ) -> Option<Self> {
        let Behaviour::Run { handler, pool } = shared.registry.get(kind) else { return None };
        let outputs = handler.reads_outputs().then(|| executor.outputs());
        let job = &executor.job;
        let (number, task) = (task.0, job.task(task)?);
        let policy = &task.spec.policy;
        let id = AttemptId { job: job.id(), task: task.spec.id.clone(), number, attempt };
        let heartbeat = policy.heartbeat_timeout;
        let heartbeat = heartbeat.map(|limit| Arc::new(Heartbeat::new(limit, &shared.clock)));
        let carried = Carried {
            shared: Arc::clone(shared),
            home,
            id,
            handler: Arc::clone(handler),
            pool: *pool,
            input: job.input_of(task),
            checkpoint: task.checkpoint().map(|checkpoint| checkpoint.value),
            steps: task.steps().clone(),
            step_names: StepNames::default(),
            timeout: policy.timeout,
            heartbeat,
            grace: grace_of(task),
            token: OnceLock::new(),
            live: Mutex::default(),
            outputs,
            log: OnceLock::new(),
        };
        if crate::steplog::is_watched() {
            // The span is told apart by the log that it finds.
            carried.log();
        }
        Some(Self(Arc::new(carried)))
    }

    /// What it says of itself.
    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        self.0.live()
    }

    /// Tells it to stop, and shows that.
    pub(super) fn tell_to_stop(&self, now: Timestamp) {
        self.0.live().stop(now);
        self.cancel();
    }

    /// Tells it to stop.
    pub(super) fn cancel(&self) {
        self.0.token().cancel();
    }

    /// Whether it was told to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.token.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Runs it until it is really over, and reports.
    pub(super) async fn run(self) {
        let carried = &self.0;
        // The step log finds its attempt by these fields.
        let AttemptId { job, task, number, attempt } = &carried.id;
        let span = tracing::info_span!("attempt", job = %job, task = %task, attempt = attempt);
        let outcome = if span.is_disabled() {
            self.outcome().await
        } else {
            self.outcome().instrument(span).await
        };
        let log = self.finish_log().await;
        let report = Report::Ended { task: TaskNumber(*number), attempt: *attempt, outcome, log };
        carried.shared.tell(carried.home, Message::Report { job: *job, report });
    }

    async fn finish_log(&self) -> LogSize {
        let written = self.0.log.get().filter(|log| log.bytes() > 0).cloned();
        let Some(log) = written else { return LogSize::default() };
        self.0.shared.workers.blocking(move || log.finish()).await.unwrap_or_default()
    }

    async fn outcome(&self) -> Outcome {
        match self.prepare().await {
            Ok((cx, input)) => self.drive(cx, input).await,
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn prepare(&self) -> TaskResult<(TaskContext, Payload)> {
        let carried = &self.0;
        let input = carried
            .input
            .as_ref()
            .map_err(|missing| TaskError::new(&missing.code, &missing.message).give_up())?;
        let cx = TaskContext::new(Arc::clone(carried) as _);
        let cx = match carried.checkpoint {
            Some(digest) => cx.with_checkpoint(self.read_checkpoint(digest).await?),
            None => cx,
        };
        Ok((cx, input.clone()))
    }

    async fn read_checkpoint(&self, digest: ValueDigest) -> TaskResult<Payload> {
        let key = ValueKey::Checkpoint { task: self.0.id.number };
        self.0.shared.read_value(self.0.id.job, key, digest).await.map_err(|why| {
            TaskError::new("checkpoint_unreadable", format!("the checkpoint cannot be read: {why}"))
        })
    }

    async fn drive(&self, mut cx: TaskContext, input: Payload) -> Outcome {
        // Whoever was told that it stops must not see it begin.
        if self.is_cancelled() {
            return Outcome::Interrupted(TaskError::cancelled());
        }
        let grace_over = self.0.handler.ends_itself().then(CancellationToken::new);
        if let Some(grace_over) = &grace_over {
            cx = cx.with_grace_over(grace_over.clone());
        }
        let mut call = self.call(cx, input);
        let clock = &self.0.shared.clock;
        // It was waiting for its commit until now.
        self.0.beat();
        let told = tokio::select! {
            biased;
            result = call.run() => return self.classify(Told::Nothing, result),
            () = self.0.cancelled() => Told::ToStop,
            () = self.0.timeout() => Told::TimedOut,
            () = self.0.silence() => Told::Silent,
        };
        self.0.is_stopping();
        self.cancel();
        let result = tokio::select! {
            biased;
            result = call.run() => result,
            () = clock.sleep(self.0.grace) => match grace_over {
                Some(grace_over) => {
                    grace_over.cancel();
                    call.run().await
                }
                None => call.end().await,
            }
        };
        self.classify(told, result)
    }

    /// Calls the task, on the threads of its pool if that has some for itself.
    fn call(&self, cx: TaskContext, input: Payload) -> Call<'_> {
        let carried = &self.0;
        // The call itself is the task's code too.
        match carried.shared.workers.of_pool(carried.pool) {
            None => Call::here(async { carried.handler.call(cx, input).await }),
            Some(threads) => {
                let handler = Arc::clone(&carried.handler);
                Call::apart(threads, async move { handler.call(cx, input).await })
            }
        }
    }

    fn classify(&self, told: Told, result: Ended) -> Outcome {
        let result = result.unwrap_or_else(|panic| {
            Err(TaskError::new("panic", format!("the task panicked: {panic}")))
        });
        let result = result.and_then(|done| self.within_limits(done));
        let result = result.map_err(|error| shorten(self.without_large_output(error)));
        match (told, result) {
            (Told::Nothing | Told::ToStop, Ok(done)) => Outcome::Completed(done),
            // The order to stop may have come just as the task answered that it had seen it.
            (Told::Nothing, Err(error)) if error.is_cancelled() && self.is_cancelled() => {
                Outcome::Interrupted(error)
            }
            (Told::Nothing, Err(error)) => Outcome::Failed(error),
            (Told::ToStop, Err(error)) => Outcome::Interrupted(error),
            (Told::TimedOut, result) => {
                Outcome::TimedOut(with_rest_of(result.err(), self.0.too_long()))
            }
            (Told::Silent, result) => {
                Outcome::TimedOut(with_rest_of(result.err(), self.0.too_silent()))
            }
        }
    }

    /// What a failed attempt gave is kept as a favour, and within the limits only.
    fn without_large_output(&self, error: TaskError) -> TaskError {
        let limit = self.0.shared.settings.limits.payload_bytes;
        match error.output() {
            Some(output) if output.as_str().len() > limit => error.with_output(Payload::NULL),
            _ => error,
        }
    }

    fn within_limits(&self, done: Done) -> TaskResult<Done> {
        let (bytes, limit) =
            (done.output.as_str().len(), self.0.shared.settings.limits.payload_bytes);
        if bytes <= limit {
            return Ok(done);
        }
        let message = format!("the output has {bytes} bytes, more than the limit of {limit}");
        Err(TaskError::new("output_too_large", message).give_up())
    }
}

/// Cuts texts that would weigh on the log, at the boundary of a character.
fn shorten(error: TaskError) -> TaskError {
    let (code, message) = (cut(error.code(), CODE_MAX), cut(error.message(), MESSAGE_MAX));
    let error = code.into_iter().fold(error, |error, code| error.with_code(&code));
    message.into_iter().fold(error, TaskError::with_message)
}

fn cut(text: &str, most: usize) -> Option<String> {
    let cut = || format!("{} ... (cut)", &text[..text.floor_char_boundary(most)]);
    (text.len() > most).then(cut)
}

/// An error that says why an attempt was stopped, with what else there is to the one that it gave.
fn with_rest_of(error: Option<TaskError>, timed_out: TaskError) -> TaskError {
    let Some(error) = error else { return timed_out };
    let timed_out = timed_out.with_exit(error.exit().clone());
    let waits = error.retry_wait().into_iter();
    let timed_out = waits.fold(timed_out, TaskError::retry_after);
    match error.output() {
        Some(output) => timed_out.with_output(output.clone()),
        None => timed_out,
    }
}

impl Carried {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when the attempt is told to stop.
    async fn cancelled(&self) {
        self.token().cancelled().await;
    }

    /// Resolves when the attempt has taken too long.
    async fn timeout(&self) {
        match self.timeout {
            Some(timeout) => self.shared.clock.sleep(timeout).await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when nothing was heard of the attempt for too long.
    async fn silence(&self) {
        match &self.heartbeat {
            Some(heartbeat) => heartbeat.silence().await,
            None => std::future::pending().await,
        }
    }

    fn too_long(&self) -> TaskError {
        let limit = format_duration(self.timeout.unwrap_or_default());
        let message = format!("the attempt took longer than its timeout of {limit}");
        TaskError::new(Failure::TIMED_OUT, message)
    }

    fn too_silent(&self) -> TaskError {
        let limit = self.heartbeat.as_ref().map(|heartbeat| heartbeat.limit());
        let limit = format_duration(limit.unwrap_or_default());
        let message = format!(
            "nothing was heard of the attempt for {limit}, its heartbeat timeout: output, \
             progress, checkpoints, steps and heartbeats count"
        );
        TaskError::new(Failure::HEARTBEAT_TIMEOUT, message)
    }

    /// Notes that something was heard of the attempt.
    fn beat(&self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.beat();
        }
    }

    fn within_limit(&self, value: &Payload, code: &str, what: &str) -> TaskResult<()> {
        let (bytes, limit) = (value.as_str().len(), self.shared.settings.limits.payload_bytes);
        if bytes <= limit {
            return Ok(());
        }
        let message = format!("{what} has {bytes} bytes, more than the limit of {limit}");
        Err(TaskError::new(code, message).give_up())
    }

    /// Has a value made durable.
    async fn keep(&self, ask: impl FnOnce(Reply<TaskResult<()>>) -> Message) -> TaskResult<()> {
        self.beat();
        let (reply, answer) = Reply::new(None);
        self.shared.tell(self.home, ask(reply));
        // The engine stops when it cannot write; nothing the attempt does counts any more then.
        let kept = answer.await.unwrap_or_else(|_| Err(TaskError::cancelled()));
        // It could say nothing else meanwhile.
        self.beat();
        kept
    }

    /// The step log, which is opened when it is asked for first.
    fn log(&self) -> &AttemptLog {
        self.log.get_or_init(|| {
            let log = self.shared.steplogs.open(&self.id);
            if let Some(heartbeat) = &self.heartbeat {
                log.tell(Arc::clone(heartbeat) as _);
            }
            log
        })
    }

    /// Shows that the attempt was told to stop, if that is not shown yet.
    fn is_stopping(&self) {
        self.live().stop(self.shared.clock.now());
    }
}

/// The calls of an attempt's context.
#[async_trait]
impl Host for Carried {
    fn attempt(&self) -> &AttemptId {
        &self.id
    }

    fn token(&self) -> &CancellationToken {
        self.token.get_or_init(CancellationToken::new)
    }

    fn progress(&self, progress: Option<Progress>, message: Option<String>) {
        self.beat();
        self.live().says(progress, message);
    }

    fn heartbeat(&self) {
        self.beat();
    }

    async fn checkpoint(&self, value: Payload) -> TaskResult<()> {
        self.within_limit(&value, "checkpoint_too_large", "the checkpoint")?;
        let (job, attempt, task) = (self.id.job, self.id.attempt, TaskNumber(self.id.number));
        self.keep(|reply| Message::Checkpoint { job, task, attempt, value, reply }).await
    }

    fn step_names(&self) -> &StepNames {
        &self.step_names
    }

    async fn recorded_step(&self, name: &str) -> TaskResult<Option<Payload>> {
        self.beat();
        let Some(step) = self.steps.get(name) else { return Ok(None) };
        let key = ValueKey::Step { seq: step.seq };
        let read = self.shared.read_value(self.id.job, key, step.value).await;
        // It could say nothing else meanwhile.
        self.beat();
        read.map(Some).map_err(|why| {
            let task = &self.id.task;
            let message = format!("the result of step {name:?} of task {task} cannot be read");
            TaskError::new("step_unreadable", format!("{message}: {why}"))
        })
    }

    async fn record_step(&self, name: &str, value: Payload) -> TaskResult<()> {
        let what = format!("the result of step {name:?} of task {}", self.id.task);
        self.within_limit(&value, "step_too_large", &what)?;
        let (job, attempt, task) = (self.id.job, self.id.attempt, TaskNumber(self.id.number));
        let step = StepResult { task, attempt, name: name.into(), value };
        self.keep(|reply| Message::Step { job, step, reply }).await
    }

    fn output_of(&self, task: &str) -> Option<Payload> {
        self.outputs.as_ref().and_then(|outputs| outputs.get(task))
    }

    fn log(&self, stream: Stream, bytes: &[u8]) {
        // It tells who listens.
        self.log().write(stream, bytes);
    }
}
