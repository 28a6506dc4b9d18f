//! Tasks: the trait, the typed name, and the form in which the engine keeps both.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Exit;
use crate::{Payload, PayloadError, TaskContext, TaskError, TaskResult};

/// The name of a kind of task with the types of its input and output, declared once as a constant.
pub struct TaskKind<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> TaskKind<I, O> {
    /// Names a kind. The name is checked when the kind is registered.
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<I, O> Clone for TaskKind<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for TaskKind<I, O> {}

/// A task implementation: an `async fn(TaskContext, I) -> TaskResult<O>`, or a struct that
/// implements this trait because it holds clients.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no task from `{I}` to `{O}`",
    note = "a task is an `async fn(TaskContext, {I}) -> TaskResult<{O}>`, or a struct that \
            implements `Task<{I}, {O}>`"
)]
pub trait Task<I, O>: Send + Sync + 'static {
    /// Runs one attempt. It may run again after a crash, so what it does outside should bear
    /// that: see [`TaskContext::idempotency_key`].
    fn run(&self, cx: TaskContext, input: I) -> impl Future<Output = TaskResult<O>> + Send;
}

impl<I, O, F, R> Task<I, O> for F
where
    F: Fn(TaskContext, I) -> R + Send + Sync + 'static,
    R: Future<Output = TaskResult<O>> + Send,
{
    fn run(&self, cx: TaskContext, input: I) -> impl Future<Output = TaskResult<O>> + Send {
        self(cx, input)
    }
}

/// A task whose types are hidden: what the engine keeps and calls.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt on an input whose references have been resolved.
    async fn call(&self, cx: TaskContext, input: Payload) -> TaskResult<Done>;

    /// Looks at the input of a plan's task before anything runs. References in it are not
    /// resolved yet, so only what is certainly wrong may be refused. Pointers are relative to
    /// the input.
    fn check(&self, input: &Payload) -> Result<(), Vec<PayloadError>> {
        let _ = input;
        Ok(())
    }

    /// Whether an attempt always ends by itself once [`TaskContext::grace_over`] resolves.
    ///
    /// What runs attempts drops the future of a handler that says `false` when the grace is
    /// over. That of one that says `true` is told, and waited for: it has something outside,
    /// such as a tree of processes, that must be gone before the attempt counts as over.
    fn ends_itself(&self) -> bool {
        false
    }

    /// Whether attempts may ask for outputs of other tasks by
    /// [`TaskContext::output_of`], beside those that their input refers to.
    fn reads_outputs(&self) -> bool {
        true
    }
}

/// What a successful attempt gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// The task's output.
    pub output: Payload,
    /// How its child process ended, where there was one.
    pub exit: Exit,
}

/// Hides the types of a task.
pub fn erase<I, O, T>(task: T) -> impl Handler
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    T: Task<I, O>,
{
    Typed { task, types: PhantomData::<fn(I) -> O> }
}

struct Typed<T, I, O> {
    task: T,
    types: PhantomData<fn(I) -> O>,
}

#[async_trait]
impl<T, I, O> Handler for Typed<T, I, O>
where
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    T: Task<I, O>,
{
    async fn call(&self, cx: TaskContext, input: Payload) -> TaskResult<Done> {
        let input = input.to::<I>().map_err(|error| {
            TaskError::new("bad_input", format!("the input does not fit the task: {error}"))
                .give_up()
        })?;
        let output = self.task.run(cx, input).await?;
        let output = Payload::of(&output).map_err(|error| {
            TaskError::new("invalid_output", format!("the output is no JSON: {error}")).give_up()
        })?;
        Ok(Done { output, exit: Exit::default() })
    }
}
