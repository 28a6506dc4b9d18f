//! Steps: named pieces of a task whose results are recorded once, and given back on every later
//! attempt without running their code again.
//!
//! ```
//! use annals_tasks_sdk::{prelude::*, testing};
//!
//! # async fn reserve(order: u64) -> TaskResult<String> { Ok(format!("r{order}")) }
//! # async fn charge(reservation: &str) -> TaskResult<u64> { Ok(reservation.len() as u64) }
//! async fn order(cx: TaskContext, order: u64) -> TaskResult<u64> {
//!     let reservation = cx.step("reserve", || reserve(order)).await?;
//!     cx.step("charge", async { charge(&reservation).await }).await
//! }
//!
//! # async fn test() -> TaskResult<()> {
//! let run = testing::attempt().run(order, 7).await;
//! assert_eq!(run.steps(), ["reserve", "charge"]);
//!
//! // What was recorded is given back, and its code does not run.
//! let run = testing::attempt().step("reserve", "other").run(order, 7).await;
//! assert_eq!((run.steps(), run.result?), (vec!["charge".to_owned()], 5));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test()).unwrap();
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Payload, TaskContext, TaskError, TaskResult};

/// The most bytes that the name of a step may have.
pub const STEP_NAME_MAX: usize = 128;

/// The code of a step: a future, or a function that gives one, of a [`TaskResult`].
///
/// A future does nothing until it is awaited, so that either is free where the result of the step
/// is recorded already. `How` tells the two apart, and is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no code of a step",
    note = "a step takes an async block that gives a `TaskResult`, or a function that gives one"
)]
pub trait StepCode<T, How> {
    /// Begins.
    fn begin(self) -> impl Future<Output = TaskResult<T>>;
}

/// [`StepCode`] that is a function.
#[derive(Debug)]
pub enum Called {}

/// [`StepCode`] that is a future.
#[derive(Debug)]
pub enum Awaited {}

impl<T, F, R> StepCode<T, Called> for F
where
    F: FnOnce() -> R,
    R: Future<Output = TaskResult<T>>,
{
    fn begin(self) -> impl Future<Output = TaskResult<T>> {
        self()
    }
}

impl<T, R: Future<Output = TaskResult<T>>> StepCode<T, Awaited> for R {
    fn begin(self) -> impl Future<Output = TaskResult<T>> {
        self
    }
}

/// Why a text is no name of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadStepName {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has {0} bytes, more than the limit of {STEP_NAME_MAX}")]
    TooLong(usize),
    /// It has a line break or another control character.
    #[error("it has a control character")]
    Control,
}

/// Checks that `name` can be the name of a step: up to [`STEP_NAME_MAX`] bytes without control
/// characters.
pub fn check_step_name(name: &str) -> Result<(), BadStepName> {
    if name.is_empty() {
        Err(BadStepName::Empty)
    } else if name.len() > STEP_NAME_MAX {
        Err(BadStepName::TooLong(name.len()))
    } else if name.chars().any(char::is_control) {
        Err(BadStepName::Control)
    } else {
        Ok(())
    }
}

impl TaskContext {
    /// Runs a piece of the task whose result is recorded under `name`: durable before this
    /// returns, and given back on every later attempt of the task without running `code` again.
    ///
    /// What `code` fails with is the task's to handle, and is not recorded: the step may be tried
    /// again, in this attempt or the next. Its code may still run twice, where the engine or the
    /// machine dies between its end and the record, so hand the key of
    /// [`idempotency_key`](Self::idempotency_key) with the step's name to services that take one.
    ///
    /// Steps may run side by side (`tokio::join!`). Each name records one result: using it again
    /// in the same attempt once it has, or while it runs, fails with `duplicate_step`. An attempt
    /// that was told to stop is given results that are recorded, and begins no new step
    /// ([`TaskError::cancelled`]).
    ///
    /// The result is what its JSON is read back to, so that the first attempt sees what later
    /// ones will see. One whose recorded JSON does not fit `T`, as after a change of the type,
    /// fails without retry with `step_unreadable` and the place.
    pub async fn step<T, How, C>(&self, name: &str, code: C) -> TaskResult<T>
    where
        T: Serialize + DeserializeOwned,
        C: StepCode<T, How>,
    {
        check_step_name(name).map_err(|bad| {
            self.step_fails(name, "bad_step_name", format!("has a name that is none: {bad}"))
        })?;
        let mut claim = self.host().step_names().claim(name).ok_or_else(|| {
            let why = "is used a second time in one attempt: each step needs a name of its own";
            self.step_fails(name, "duplicate_step", why)
        })?;
        let value = match claim.given.clone() {
            Some(given) => given,
            None => match self.host().recorded_step(name).await? {
                Some(recorded) => {
                    claim.is_recorded();
                    return recorded.to().map_err(|error| {
                        let why = format!("was recorded with a result of another shape: {error}");
                        self.step_fails(name, "step_unreadable", why)
                    });
                }
                None => self.result_of_step(name, code).await?,
            },
        };
        let result = value.to().map_err(|error| self.unwritable(name, &error))?;
        claim.given = Some(value.clone());
        if let Err(error) = self.host().record_step(name, value).await {
            // An attempt that is over, or an engine that stops, may have recorded it.
            if !error.is_cancelled() {
                claim.given = None;
            }
            return Err(error);
        }
        claim.is_recorded();
        Ok(result)
    }

    async fn result_of_step<T, How, C>(&self, name: &str, code: C) -> TaskResult<Payload>
    where
        T: Serialize,
        C: StepCode<T, How>,
    {
        self.ensure_live()?;
        let result = code.begin().await?;
        Payload::of(&result).map_err(|error| self.unwritable(name, &error))
    }

    fn unwritable(&self, name: &str, error: &crate::PayloadError) -> TaskError {
        let why = format!("gave what cannot be written as JSON and read back: {error}");
        self.step_fails(name, "step_unwritable", why)
    }

    /// A failure of a step that another attempt would meet again.
    fn step_fails(&self, name: &str, code: &str, why: impl fmt::Display) -> TaskError {
        let task = &self.attempt().task;
        TaskError::new(code, format!("step {name:?} of task {task} {why}")).give_up()
    }
}

/// The names of steps that an attempt has used: what the host of its context keeps for it.
#[derive(Debug, Default)]
pub struct StepNames(Mutex<BTreeMap<Box<str>, Use>>);

#[derive(Debug)]
enum Use {
    Running,
    /// The task gave it up while this was being recorded: it may be.
    Unsure(Payload),
    Recorded,
}

impl StepNames {
    fn uses(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name, unless it is in use or has its result.
    fn claim<'a>(&'a self, name: &'a str) -> Option<Claim<'a>> {
        let given = match self.uses().entry(name.into()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Use::Running);
                None
            }
            Entry::Occupied(mut taken) => match taken.insert(Use::Running) {
                Use::Unsure(given) => Some(given),
                before => {
                    taken.insert(before);
                    return None;
                }
            },
        };
        Some(Claim { names: self, name, given, recorded: false })
    }
}

/// The use of a name by a step. When it is dropped the name is free for another try, unless it
/// has its result.
struct Claim<'a> {
    names: &'a StepNames,
    name: &'a str,
    /// What the step gave, from when its record is asked for.
    given: Option<Payload>,
    recorded: bool,
}

impl Claim<'_> {
    fn is_recorded(&mut self) {
        self.recorded = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut uses = self.names.uses();
        let next = match self.given.take() {
            _ if self.recorded => Some(Use::Recorded),
            given => given.map(Use::Unsure),
        };
        match next {
            Some(next) => drop(uses.insert(self.name.into(), next)),
            None => drop(uses.remove(self.name)),
        }
    }
}
