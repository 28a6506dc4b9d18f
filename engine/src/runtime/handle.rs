//! Handles on jobs.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use annals_tasks_sdk::{JobId, KindName, Payload, SignalName};
use serde::de::DeserializeOwned;

use super::engine::{Engine, Shared};
use super::error::{CommandError, EngineError, JobError};
use super::keys::Claimed;
use super::message::{Answer, Ask, Commanded, Message, Snapshot};
use crate::job::{Command, Failure, Job, JobStatus, Origin, TaskStatus};
use crate::log::Head;

/// A job of an engine. Cloning is cheap.
#[derive(Clone)]
pub struct JobHandle {
    engine: Engine,
    job: JobId,
}

impl JobHandle {
    pub(super) fn new(engine: Engine, job: JobId) -> Self {
        Self { engine, job }
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.job
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn shared(&self) -> (&Arc<Shared>, usize) {
        let shared = &self.engine.0.shared;
        (shared, shared.home_of(self.job))
    }

    /// The job, where it is not loaded and its state is known all the same.
    pub(super) fn at_rest(&self) -> Option<(Arc<Job>, Head)> {
        let (shared, _) = self.shared();
        // Where the engine answers no more, it does not answer this either.
        if shared.is_over() { None } else { shared.resting.get(self.job) }
    }

    /// The job as its durable events have made it, and what its live attempts say.
    pub async fn snapshot(&self) -> Result<Snapshot, JobError> {
        if let Some((job, _)) = self.at_rest() {
            return Ok(Snapshot::of(job));
        }
        let ((shared, home), job) = (self.shared(), self.job);
        shared.ask(home, |reply| Message::Snapshot { job, reply }).await?
    }

    /// Asks something of the job. What it did is durable when this returns.
    ///
    /// Where it comes with a key, and a command with that key was carried out before, nothing is
    /// done again. While an equal one is on its way this waits for it.
    pub async fn command(&self, command: Command, ask: Ask) -> Result<Answer, CommandError> {
        let ((shared, home), job) = (self.shared(), self.job);
        let (bytes, limit) = (weight(&command, &ask), shared.settings.limits.payload_bytes);
        if bytes > limit {
            return Err(CommandError::TooLarge { bytes, limit });
        }
        let claim = match ask.key.filter(|_| !ask.dry_run) {
            None => None,
            Some(key) => match shared.keys.claim(key).await? {
                Claimed::Mine(claim) => Some(claim),
                Claimed::Done(other) if other != job => return Err(CommandError::KeyReused),
                Claimed::Done(_) => {
                    let snapshot = match (self.snapshot().await, &command) {
                        (Err(JobError::Purged { job, tombstone }), Command::Purge { .. }) => {
                            Snapshot::of(Arc::new(Job::of_tombstone(job, tombstone)))
                        }
                        (now, _) => now?,
                    };
                    return Ok(Answer { events: Vec::new(), snapshot, replayed: true });
                }
            },
        };
        let clears = matches!(command, Command::Purge { .. }) && !ask.dry_run;
        let commanded = |reply| Commanded { job, command, ask, claim, reply };
        let tell = |reply| Message::Command(Box::new(commanded(reply)));
        let answer = shared.ask(home, tell).await??;
        if clears {
            // It is purged, whatever keeps its files from being removed now.
            let _ = shared.ask(home, |reply| Message::WhenCleared { job, reply }).await;
        }
        Ok(answer)
    }

    /// Leaves nothing of the job, which must have ended, but a tombstone: the answer's job says
    /// what that says. It is durable when this returns, and the job's work folder and step logs are
    /// removed, or will be by the next start of the engine. Every reader is told
    /// [`JobError::Purged`] from then on.
    pub async fn purge(&self, ask: Ask) -> Result<Answer, CommandError> {
        self.command(Command::PURGE, ask).await
    }

    /// Tells the job something that a task of it waits for, or will: it is kept until one does.
    /// Where `ask` comes with a key, the signal with that key comes once, as long as the job is
    /// there.
    pub async fn signal(
        &self,
        name: SignalName,
        payload: Payload,
        ask: Ask,
    ) -> Result<Answer, CommandError> {
        self.command(Command::Signal { name, payload }, ask).await
    }

    /// Waits until the job's durable seq is greater than `after`, and gives it.
    pub async fn changed(&self, after: u64) -> Result<u64, JobError> {
        if let Some((job, _)) = self.at_rest().filter(|(job, _)| job.seq() > after) {
            return Ok(job.seq());
        }
        let ((shared, home), job) = (self.shared(), self.job);
        shared.ask(home, |reply| Message::Changed { job, after, reply }).await?
    }

    /// Waits until the job has ended: completed, failed or cancelled.
    pub async fn ended(&self) -> Result<Snapshot, JobError> {
        if let Some((job, _)) = self.at_rest().filter(|(job, _)| job.status().is_ended()) {
            return Ok(Snapshot::of(job));
        }
        let ((shared, home), job) = (self.shared(), self.job);
        shared.ask(home, |reply| Message::Ended { job, reply }).await?
    }

    /// Waits until the job has ended, and reads its output into a type of yours.
    pub async fn output<O: DeserializeOwned>(&self) -> Result<O, OutputError> {
        let ended = self.ended().await?;
        let job = &ended.job;
        match job.status() {
            JobStatus::Completed => {
                let output = job.output().map_err(OutputError::failed)?;
                let output = output.unwrap_or(Payload::NULL);
                output.to().map_err(|error| OutputError::Shape(error.to_string()))
            }
            JobStatus::Cancelled => Err(OutputError::Cancelled),
            _ => {
                let error = job.error().map(|(error, _)| error.clone());
                Err(error.map_or(OutputError::Cancelled, OutputError::failed))
            }
        }
    }

    /// The kinds, in order of their names, that tasks of this job need still and that this engine
    /// does not have. Tasks of such kinds wait until an engine has them.
    pub async fn missing_kinds(&self) -> Result<Vec<KindName>, JobError> {
        let job = self.snapshot().await?.job;
        let left = job.tasks().filter(|(_, task)| !task.is_settled());
        let left = left.filter(|(_, task)| task.status() != TaskStatus::Removed);
        let kinds: BTreeSet<&KindName> = left.map(|(_, task)| &task.spec.kind).collect();
        let registry = &self.engine.0.shared.registry;
        let missing = kinds.into_iter().filter(|kind| registry.behaviour(kind.as_str()).is_none());
        Ok(missing.cloned().collect())
    }
}

/// How many bytes of free text a command brings along.
pub(super) fn weight(command: &Command, ask: &Ask) -> usize {
    let brought = match command {
        Command::Skip { output: Some(output), .. } => output.as_str().len(),
        Command::Insert { task, .. } => task.input.as_str().len(),
        Command::Edit { patch, .. } => patch.bytes(),
        Command::Signal { payload, .. } => payload.as_str().len(),
        _ => 0,
    };
    brought + weight_of_origin(&ask.origin)
}

/// How many bytes of free text say who asks for something.
pub(super) fn weight_of_origin(origin: &Origin) -> usize {
    let Origin { actor, request_id, reason } = origin;
    [actor, request_id, reason].into_iter().flatten().map(|text| text.len()).sum()
}

/// A job whose output has a type.
#[derive(Clone)]
pub struct OutputHandle<O> {
    job: JobHandle,
    output: PhantomData<fn() -> O>,
}

impl<O> OutputHandle<O> {
    pub(super) fn new(job: JobHandle) -> Self {
        Self { job, output: PhantomData }
    }
}

impl<O> Deref for OutputHandle<O> {
    type Target = JobHandle;

    fn deref(&self) -> &JobHandle {
        &self.job
    }
}

impl<O: DeserializeOwned> OutputHandle<O> {
    /// Waits until the job has ended, and gives its output.
    pub async fn output(&self) -> Result<O, OutputError> {
        self.job.output().await
    }
}

/// Why a job gave no output.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// It failed.
    #[error("the job failed: {message} [{code}]")]
    Failed {
        /// The error's stable word.
        code: Box<str>,
        /// The error's sentence.
        message: Box<str>,
    },
    /// It was cancelled.
    #[error("the job was cancelled")]
    Cancelled,
    /// Its output is not of the type that was asked for.
    #[error("the output has another shape: {0}")]
    Shape(String),
    /// The job cannot answer.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl OutputError {
    fn failed(failure: Failure) -> Self {
        Self::Failed { code: failure.code, message: failure.message }
    }
}

impl From<EngineError> for OutputError {
    fn from(error: EngineError) -> Self {
        Self::Job(error.into())
    }
}
