//! Tests of tasks without an engine: an attempt on a fake host that keeps what it is told.
//!
//! ```
//! use annals_tasks_sdk::{prelude::*, testing};
//!
//! async fn count(cx: TaskContext, to: u64) -> TaskResult<u64> {
//!     let mut done = cx.restore()?.unwrap_or(0);
//!     while done < to {
//!         cx.ensure_live()?;
//!         done += 1;
//!         cx.checkpoint(&done).await?;
//!     }
//!     Ok(done)
//! }
//!
//! # async fn test() -> TaskResult<()> {
//! let run = testing::attempt().checkpoint(&3).run(count, 5).await;
//! assert_eq!(run.checkpoints::<u64>(), [4, 5]);
//! assert_eq!(run.result?, 5);
//!
//! // Told to stop in the middle, and then run again from where it was.
//! let stopped = testing::attempt().cancel_when(|call| call.is_checkpoint()).run(count, 5).await;
//! assert!(stopped.error().is_cancelled());
//! let resumed = stopped.next_attempt().run(count, 5).await;
//! assert_eq!(resumed.checkpoints::<u64>(), [2, 3, 4, 5]);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test()).unwrap();
//! ```
//!
//! Nothing here has time limits: a test that must not hang wraps the run in
//! `tokio::time::timeout`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cancel::CancellationToken;
use crate::context::Host;
use crate::steps::StepNames;
use crate::{AttemptId, Done, Handler, JobId, Payload, Progress, Stream};
use crate::{Task, TaskContext, TaskId, TaskResult};

/// The first attempt of a task `task` of a job, without checkpoint and outputs of others.
pub fn attempt() -> Attempt {
    Attempt {
        number: 1,
        task: TaskId::new("task").expect("this is an id"),
        token: CancellationToken::new(),
        checkpoint: None,
        steps: BTreeMap::new(),
        outputs: HashMap::new(),
        cancel_when: Box::new(|_| false),
    }
}

/// An attempt that is being set up.
#[must_use = "an attempt does nothing until it is run"]
pub struct Attempt {
    number: u32,
    task: TaskId,
    token: CancellationToken,
    checkpoint: Option<Payload>,
    steps: BTreeMap<Box<str>, Payload>,
    outputs: HashMap<Box<str>, Payload>,
    cancel_when: Condition,
}

type Condition = Box<dyn FnMut(&Call) -> bool + Send>;

impl Attempt {
    /// The state that an earlier attempt kept. Panics where it has no JSON form.
    pub fn checkpoint<S: Serialize + ?Sized>(mut self, state: &S) -> Self {
        self.checkpoint = Some(json(state));
        self
    }

    /// The result of a step that an earlier attempt recorded. Panics where it has no JSON form.
    pub fn step<T: Serialize + ?Sized>(mut self, name: &str, result: &T) -> Self {
        self.steps.insert(name.into(), json(result));
        self
    }

    /// The output of another task of the job. Panics where it has no JSON form.
    pub fn output_of<T: Serialize + ?Sized>(mut self, task: &str, output: &T) -> Self {
        self.outputs.insert(task.into(), json(output));
        self
    }

    /// The number of the attempt, 1 otherwise.
    pub fn number(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// The id of the task, `task` otherwise. Panics where it is none.
    pub fn task_id(mut self, id: &str) -> Self {
        self.task = TaskId::new(id).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Tells the attempt to stop as soon as it has made a call of which this is true: in the
    /// same place each time.
    pub fn cancel_when(mut self, condition: impl FnMut(&Call) -> bool + Send + 'static) -> Self {
        self.cancel_when = Box::new(condition);
        self
    }

    /// Tells the attempt to stop before it begins.
    pub fn cancelled(self) -> Self {
        self.token.cancel();
        self
    }

    /// The token that tells the attempt to stop, for tests that fire it themselves.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Runs the task to its end.
    pub async fn run<I, O>(mut self, task: impl Task<I, O>, input: I) -> Run<O> {
        let (cx, host) = self.start();
        let result = task.run(cx, input).await;
        Run { result, number: self.number, task: self.task, host }
    }

    /// Runs a task whose types are hidden.
    pub async fn call(mut self, handler: &impl Handler, input: Payload) -> Run<Done> {
        let (cx, host) = self.start();
        let result = handler.call(cx, input).await;
        Run { result, number: self.number, task: self.task, host }
    }

    fn start(&mut self) -> (TaskContext, Arc<Fake>) {
        let attempt = AttemptId {
            job: JobId::from_u128(1),
            task: self.task.clone(),
            number: 1,
            attempt: self.number,
        };
        let cancel_when = std::mem::replace(&mut self.cancel_when, Box::new(|_| false));
        let host = Arc::new(Fake {
            attempt,
            token: self.token.clone(),
            outputs: std::mem::take(&mut self.outputs),
            steps: std::mem::take(&mut self.steps),
            names: StepNames::default(),
            restored: self.checkpoint.clone(),
            kept: Mutex::new(Kept { calls: Vec::new(), cancel_when }),
        });
        let checkpoint = self.checkpoint.take().into_iter();
        let cx = TaskContext::new(host.clone());
        (checkpoint.fold(cx, TaskContext::with_checkpoint), host)
    }
}

/// What an attempt told its host.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// [`TaskContext::checkpoint`].
    Checkpoint(Payload),
    /// [`TaskContext::step`]: its code has run, and this is recorded.
    Step(Box<str>, Payload),
    /// [`TaskContext::progress`].
    Progress(Progress),
    /// [`TaskContext::message`].
    Message(String),
    /// [`TaskContext::heartbeat`].
    Heartbeat,
    /// [`TaskContext::log`].
    Log(Stream, Vec<u8>),
}

impl Call {
    /// Whether it kept a checkpoint.
    pub fn is_checkpoint(&self) -> bool {
        matches!(self, Self::Checkpoint(_))
    }

    /// Whether it recorded the step of this name.
    pub fn is_step(&self, name: &str) -> bool {
        matches!(self, Self::Step(step, _) if **step == *name)
    }
}

/// An attempt that is over.
pub struct Run<O> {
    /// What the task gave. Taking it out (`run.result?`) comes last, or `output` and `error` look
    /// at it.
    pub result: TaskResult<O>,
    number: u32,
    task: TaskId,
    host: Arc<Fake>,
}

impl<O> Run<O> {
    /// The output. Panics with the error where there is none.
    #[track_caller]
    pub fn output(&self) -> &O {
        self.result.as_ref().unwrap_or_else(|error| panic!("the attempt failed: {error:?}"))
    }

    /// The error. Panics where the attempt succeeded.
    #[track_caller]
    pub fn error(&self) -> &crate::TaskError {
        self.result.as_ref().err().expect("the attempt succeeded")
    }

    /// The checkpoints that the attempt made, in their order. Panics where one is no `S`.
    #[track_caller]
    pub fn checkpoints<S: DeserializeOwned>(&self) -> Vec<S> {
        let read = |payload: &Payload| payload.to().unwrap_or_else(|error| panic!("{error}"));
        let calls = self.calls();
        let states = calls.iter().filter_map(|call| match call {
            Call::Checkpoint(state) => Some(read(state)),
            _ => None,
        });
        states.collect()
    }

    /// The names of the steps whose code has run and that the attempt recorded, in their order.
    pub fn steps(&self) -> Vec<String> {
        let calls = self.calls().into_iter();
        let names = calls.filter_map(|call| match call {
            Call::Step(name, _) => Some(name.into_string()),
            _ => None,
        });
        names.collect()
    }

    /// The result of a step, be it recorded in this attempt or before. Panics where it is no `T`.
    #[track_caller]
    pub fn step<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let result = self.all_steps().remove(name)?;
        Some(result.to().unwrap_or_else(|error| panic!("{error}")))
    }

    fn all_steps(&self) -> BTreeMap<Box<str>, Payload> {
        let recorded = self.calls().into_iter().filter_map(|call| match call {
            Call::Step(name, result) => Some((name, result)),
            _ => None,
        });
        self.host.steps.clone().into_iter().chain(recorded).collect()
    }

    /// The progress that the attempt showed, in its order.
    pub fn progress(&self) -> Vec<Progress> {
        let calls = self.calls().into_iter();
        let progress = calls.filter_map(|call| match call {
            Call::Progress(progress) => Some(progress),
            _ => None,
        });
        progress.collect()
    }

    /// The messages that the attempt showed, in their order.
    pub fn messages(&self) -> Vec<String> {
        let calls = self.calls().into_iter();
        let messages = calls.filter_map(|call| match call {
            Call::Message(message) => Some(message),
            _ => None,
        });
        messages.collect()
    }

    /// All that the attempt logged, to either stream; bytes that are no UTF-8 are replaced.
    pub fn log(&self) -> String {
        let calls = self.calls().into_iter();
        let bytes = calls.filter_map(|call| match call {
            Call::Log(_, bytes) => Some(bytes),
            _ => None,
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>().concat()).into_owned()
    }

    /// Everything that the attempt told its host, in its order.
    pub fn calls(&self) -> Vec<Call> {
        self.host.kept().calls.clone()
    }

    /// The attempt that follows this one: numbered by one more, with the last checkpoint, the
    /// recorded steps and the outputs of the other tasks.
    pub fn next_attempt(&self) -> Attempt {
        let last = self.calls().into_iter().rev().find_map(|call| match call {
            Call::Checkpoint(state) => Some(state),
            _ => None,
        });
        let mut next = attempt().number(self.number.saturating_add(1));
        next.task = self.task.clone();
        next.checkpoint = last.or_else(|| self.host.restored.clone());
        next.steps = self.all_steps();
        next.outputs.clone_from(&self.host.outputs);
        next
    }
}

impl<O: fmt::Debug> fmt::Debug for Run<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("result", &self.result)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

struct Fake {
    attempt: AttemptId,
    token: CancellationToken,
    outputs: HashMap<Box<str>, Payload>,
    restored: Option<Payload>,
    steps: BTreeMap<Box<str>, Payload>,
    names: StepNames,
    kept: Mutex<Kept>,
}

struct Kept {
    calls: Vec<Call>,
    cancel_when: Condition,
}

impl Fake {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("a condition of cancel_when panicked")
    }

    fn keep(&self, call: Call) {
        let mut kept = self.kept();
        if (kept.cancel_when)(&call) {
            self.token.cancel();
        }
        kept.calls.push(call);
    }
}

#[async_trait]
impl Host for Fake {
    fn attempt(&self) -> &AttemptId {
        &self.attempt
    }

    fn token(&self) -> &CancellationToken {
        &self.token
    }

    fn progress(&self, progress: Option<Progress>, message: Option<String>) {
        let progress = progress.map(Call::Progress);
        progress.into_iter().chain(message.map(Call::Message)).for_each(|call| self.keep(call));
    }

    fn heartbeat(&self) {
        self.keep(Call::Heartbeat);
    }

    async fn checkpoint(&self, value: Payload) -> TaskResult<()> {
        self.keep(Call::Checkpoint(value));
        Ok(())
    }

    fn step_names(&self) -> &StepNames {
        &self.names
    }

    async fn recorded_step(&self, name: &str) -> TaskResult<Option<Payload>> {
        Ok(self.steps.get(name).cloned())
    }

    async fn record_step(&self, name: &str, value: Payload) -> TaskResult<()> {
        self.keep(Call::Step(name.into(), value));
        Ok(())
    }

    fn output_of(&self, task: &str) -> Option<Payload> {
        self.outputs.get(task).cloned()
    }

    fn log(&self, stream: Stream, bytes: &[u8]) {
        self.keep(Call::Log(stream, bytes.to_vec()));
    }
}

#[track_caller]
fn json<T: Serialize + ?Sized>(value: &T) -> Payload {
    Payload::of(value).unwrap_or_else(|error| panic!("{error}"))
}
