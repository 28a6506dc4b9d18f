//! Attempts: one execution of a task, from the moment its start is durable until it is really
//! over.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::context::Host;
use annals_tasks_sdk::duration::format_duration;
use annals_tasks_sdk::{
    AttemptId, Done, Handler, JobId, Payload, Progress, Stream, TaskContext, TaskError, TaskResult,
};
use async_trait::async_trait;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::engine::Shared;
use super::executor::{Executor, Outputs, Running};
use super::message::{LiveCell, Message};
use super::panics::Guarded;
use super::registry::Behaviour;
use crate::job::{LogSize, Outcome, Report, TaskNumber, ValueDigest};
use crate::steplog::AttemptLog;

/// Longer messages are cut: the step log has the whole.
const MESSAGE_MAX: usize = 16 * 1024;
/// How long an attempt may take to end when its task says nothing of it.
const GRACE: Duration = Duration::from_secs(10);

/// What an attempt needs to run.
struct Attempt {
    shared: Arc<Shared>,
    home: usize,
    number: TaskNumber,
    id: AttemptId,
    handler: Arc<dyn Handler>,
    input: Result<Payload, TaskError>,
    checkpoint: Option<ValueDigest>,
    timeout: Option<Duration>,
    grace: Duration,
    token: CancellationToken,
    host: Arc<AttemptHost>,
}

/// Starts an attempt whose start is durable.
pub(super) fn spawn(shared: Arc<Shared>, home: usize, executor: &Executor, running: &Running) {
    let job = &executor.job;
    let Some(task) = job.task(running.task) else { return };
    let kind = shared.registry.behaviour(task.spec.kind.as_str());
    let Some(Behaviour::Run { handler, .. }) = kind else { return };
    let id = AttemptId {
        job: job.id(),
        task: task.spec.id.clone(),
        number: running.task.0,
        attempt: running.attempt,
    };
    let host = Arc::new(AttemptHost {
        shared: Arc::clone(&shared),
        home,
        job: job.id(),
        task: running.task,
        attempt: running.attempt,
        live: Arc::clone(&running.live),
        outputs: Arc::clone(&executor.outputs),
        log: shared.steplogs.open(&id),
    });
    let input = job.input_of(task);
    let attempt = Attempt {
        home,
        number: running.task,
        id,
        handler: Arc::clone(handler),
        input: input.map_err(|missing| TaskError::new(&missing.code, &missing.message).give_up()),
        checkpoint: task.checkpoint().map(|checkpoint| checkpoint.value),
        timeout: task.spec.policy.timeout,
        grace: task.spec.policy.cancel_grace.unwrap_or(GRACE),
        token: running.token.clone(),
        host,
        shared: Arc::clone(&shared),
    };
    shared.tasks.spawn(attempt.run());
}

/// Why an attempt was told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    ToStop,
    TimedOut,
}

impl Attempt {
    async fn run(self) {
        let AttemptId { job, task, attempt, .. } = &self.id;
        // The step log finds its attempt by these fields.
        let span = tracing::info_span!("attempt", job = %job, task = %task, attempt = attempt);
        let outcome = self.outcome().instrument(span).await;
        let log = self.finish_log().await;
        let report = Report::Ended { task: self.number, attempt: *attempt, outcome, log };
        self.shared.tell(self.home, Message::Report { job: *job, report });
    }

    async fn finish_log(&self) -> LogSize {
        if self.host.log.bytes() == 0 {
            return LogSize::default();
        }
        let log = self.host.log.clone();
        tokio::task::spawn_blocking(move || log.finish()).await.unwrap_or_default()
    }

    async fn outcome(&self) -> Outcome {
        match self.prepare().await {
            Ok((cx, grace_over, input)) => self.drive(cx, grace_over, input).await,
            Err(error) => Outcome::Failed(error),
        }
    }

    async fn prepare(&self) -> TaskResult<(TaskContext, CancellationToken, Payload)> {
        let input = match &self.input {
            Ok(input) => input.clone(),
            Err(error) => {
                return Err(TaskError::new(error.code(), error.message()).give_up());
            }
        };
        let checkpoint = match self.checkpoint {
            Some(digest) => Some(self.read_checkpoint(digest).await?),
            None => None,
        };
        let host: Arc<dyn Host> = Arc::clone(&self.host) as _;
        let cx = TaskContext::new(self.id.clone(), self.token.clone(), checkpoint, host);
        let grace_over = CancellationToken::new();
        let cx = if self.handler.ends_itself() {
            cx.with_grace_over(grace_over.clone())
        } else {
            cx
        };
        Ok((cx, grace_over, input))
    }

    async fn read_checkpoint(&self, digest: ValueDigest) -> TaskResult<Payload> {
        let (reader, job, task) = (Arc::clone(&self.shared.reader), self.id.job, self.number.0);
        let read = tokio::task::spawn_blocking(move || reader.value(job, task, &digest)).await;
        let unreadable = |why: String| {
            TaskError::new("checkpoint_unreadable", format!("the checkpoint cannot be read: {why}"))
        };
        let value = read.map_err(|error| unreadable(error.to_string()))?;
        let value = value.map_err(|error| unreadable(error.to_string()))?;
        let value = value.ok_or_else(|| unreadable("the log does not have it any more".into()))?;
        let text = std::str::from_utf8(&value).map_err(|error| unreadable(error.to_string()))?;
        Ok(Payload::trusted(text))
    }

    async fn drive(
        &self,
        cx: TaskContext,
        grace_over: CancellationToken,
        input: Payload,
    ) -> Outcome {
        let mut future = Guarded::new(self.handler.call(cx, input));
        let clock = &self.shared.clock;
        let timeout = async {
            match self.timeout {
                Some(timeout) => clock.sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let told = tokio::select! {
            biased;
            result = future.run() => return self.classify(Told::Nothing, result),
            () = self.token.cancelled() => Told::ToStop,
            () = timeout => Told::TimedOut,
        };
        self.token.cancel();
        let result = tokio::select! {
            biased;
            result = future.run() => result,
            () = clock.sleep(self.grace) => {
                if self.handler.ends_itself() {
                    grace_over.cancel();
                    future.run().await
                } else {
                    future.end();
                    Ok(Err(TaskError::new("grace_over", "the attempt was dropped: it did not end within its grace")))
                }
            }
        };
        self.classify(told, result)
    }

    fn classify(&self, told: Told, result: Result<TaskResult<Done>, String>) -> Outcome {
        let result = result.unwrap_or_else(|panic| {
            Err(TaskError::new("panic", format!("the task panicked: {panic}")))
        });
        match (told, result.and_then(|done| self.within_limits(done)).map_err(shorten)) {
            (Told::Nothing | Told::ToStop, Ok(done)) => Outcome::Completed(done),
            // The order to stop may have come just as the task answered that it had seen it.
            (Told::Nothing, Err(error)) if error.is_cancelled() && self.token.is_cancelled() => {
                Outcome::Interrupted(error)
            }
            (Told::Nothing, Err(error)) => Outcome::Failed(error),
            (Told::ToStop, Err(error)) => Outcome::Interrupted(error),
            (Told::TimedOut, result) => Outcome::TimedOut(self.timed_out(result.err())),
        }
    }

    fn timed_out(&self, error: Option<TaskError>) -> TaskError {
        let limit = format_duration(self.timeout.unwrap_or_default());
        let message = format!("the attempt took longer than its timeout of {limit}");
        let timed_out = TaskError::new("timed_out", message);
        let Some(error) = error else { return timed_out };
        let timed_out = timed_out.with_exit(error.exit().clone());
        match error.output() {
            Some(output) => timed_out.with_output(output.clone()),
            None => timed_out,
        }
    }

    fn within_limits(&self, done: Done) -> TaskResult<Done> {
        let (bytes, limit) = (done.output.as_str().len(), self.shared.settings.limits.payload_bytes);
        if bytes <= limit {
            return Ok(done);
        }
        let message = format!("the output has {bytes} bytes, more than the limit of {limit}");
        Err(TaskError::new("output_too_large", message).give_up())
    }
}

/// Cuts a message that would weigh on the log, at the boundary of a character.
fn shorten(error: TaskError) -> TaskError {
    if error.message().len() <= MESSAGE_MAX {
        return error;
    }
    let end = error.message().floor_char_boundary(MESSAGE_MAX);
    let message = format!("{} ... (cut)", &error.message()[..end]);
    error.with_message(message)
}

/// Carries the calls of an attempt's context.
struct AttemptHost {
    shared: Arc<Shared>,
    home: usize,
    job: JobId,
    task: TaskNumber,
    attempt: u32,
    live: LiveCell,
    outputs: Arc<Outputs>,
    log: AttemptLog,
}

#[async_trait]
impl Host for AttemptHost {
    fn progress(&self, progress: Option<Progress>, message: Option<String>) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.progress = progress.or(live.progress);
        if message.is_some() {
            live.message = message;
        }
    }

    async fn checkpoint(&self, value: Payload) -> TaskResult<()> {
        let (bytes, limit) = (value.as_str().len(), self.shared.settings.limits.payload_bytes);
        if bytes > limit {
            let message = format!("the checkpoint has {bytes} bytes, more than the limit of {limit}");
            return Err(TaskError::new("checkpoint_too_large", message).give_up());
        }
        let (reply, answer) = oneshot::channel();
        let (job, task, attempt) = (self.job, self.task, self.attempt);
        self.shared.tell(self.home, Message::Checkpoint { job, task, attempt, value, reply });
        // The engine stops when it cannot write; nothing the attempt does counts any more then.
        answer.await.unwrap_or_else(|_| Err(TaskError::cancelled()))
    }

    fn output_of(&self, task: &str) -> Option<Payload> {
        self.outputs.get(task)
    }

    fn log(&self, stream: Stream, bytes: &[u8]) {
        self.log.write(stream, bytes);
    }
}
