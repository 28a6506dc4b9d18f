//! How a task says that it did not succeed.

use std::fmt;
use std::time::Duration;

use crate::Payload;

/// The longest wait that [`TaskError::retry_after`] takes; a longer one counts as this one.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// What a task gives back.
pub type TaskResult<T> = Result<T, TaskError>;

/// Why an attempt did not succeed.
///
/// Any error becomes one with `?` and is then retried as the task's `retry` says; `.fatal()?`
/// ([`Fatal`]) gives up at once; [`TaskError::cancelled`] says that the attempt ended because it
/// was asked to.
///
/// ```
/// use annals_tasks_sdk::prelude::*;
/// async fn parse(_cx: TaskContext, text: String) -> TaskResult<u32> {
///     Ok(text.parse().fatal()?) // parsing again would not help
/// }
/// ```
pub struct TaskError(Box<Fields>);

struct Fields {
    answer: Answer,
    code: Box<str>,
    alias: Option<Box<str>>,
    message: String,
    exit: Exit,
    output: Option<Payload>,
    retry_after: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Retry,
    GiveUp,
    Cancelled,
}

/// How a child process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, where it exited.
    pub code: Option<i32>,
    /// The name of the signal that ended it (`SIGKILL`), where one did.
    pub signal: Option<Box<str>>,
}

impl TaskError {
    /// A failure that may be retried, with a code that [`retry.never`](crate::plan::Retry::never)
    /// can name.
    pub fn new(code: &str, message: impl fmt::Display) -> Self {
        Self(Box::new(Fields {
            answer: Answer::Retry,
            code: code.into(),
            alias: None,
            message: message.to_string(),
            exit: Exit::default(),
            output: None,
            retry_after: None,
        }))
    }

    /// The attempt ended because it was asked to.
    pub fn cancelled() -> Self {
        let mut error = Self::new("cancelled", "the attempt was stopped");
        error.0.answer = Answer::Cancelled;
        error
    }

    /// The same failure, not to be retried.
    pub fn give_up(mut self) -> Self {
        self.0.answer = Answer::GiveUp;
        self
    }

    /// The next attempt is not to start before this has passed, as services say that are busy.
    ///
    /// Where the task's own back-off is longer, that counts; whether there is a next attempt is
    /// for the task's `retry` to say. At most [`RETRY_AFTER_MAX`].
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait.min(RETRY_AFTER_MAX));
        self
    }

    /// A second, narrower code by which [`retry.never`](crate::plan::Retry::never) may name this
    /// failure, such as `http_503` beside `http_status`.
    pub fn with_alias(mut self, alias: &str) -> Self {
        self.0.alias = Some(alias.into());
        self
    }

    /// Keeps how a child process ended.
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.0.exit = exit;
        self
    }

    /// Keeps what the attempt had to give in spite of its failure.
    pub fn with_output(mut self, output: Payload) -> Self {
        self.0.output = Some(output);
        self
    }

    /// The same failure with another code.
    pub fn with_code(mut self, code: &str) -> Self {
        self.0.code = code.into();
        self
    }

    /// The same failure with another sentence.
    pub fn with_message(mut self, message: impl fmt::Display) -> Self {
        self.0.message = message.to_string();
        self
    }

    /// A short stable word for programs: `exit_status`, `timed_out`, `error`.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The second code, where there is one.
    pub fn alias(&self) -> Option<&str> {
        self.0.alias.as_deref()
    }

    /// How long the next attempt is to wait at least, where somebody said so.
    pub fn retry_wait(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The sentence for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether another attempt may help.
    pub fn is_retryable(&self) -> bool {
        self.0.answer == Answer::Retry
    }

    /// Whether the attempt ended because it was asked to.
    pub fn is_cancelled(&self) -> bool {
        self.0.answer == Answer::Cancelled
    }

    /// How a child process ended, where there was one.
    pub fn exit(&self) -> &Exit {
        &self.0.exit
    }

    /// What the attempt had to give in spite of its failure.
    pub fn output(&self) -> Option<&Payload> {
        self.0.output.as_ref()
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.0.message, self.0.code)
    }
}

/// `TaskError` is not itself an `Error`, so that this conversion can take every one.
impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        Self::new("error", Chain(&error))
    }
}

/// An error with its causes, in one line.
struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        f.write_str(&text)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let next = error.to_string();
            // Many errors already say what their cause says.
            if !text.contains(&next) {
                write!(f, ": {next}")?;
            }
            text = next;
            cause = error.source();
        }
        Ok(())
    }
}

/// Gives up instead of retrying: `do_it().fatal()?`.
pub trait Fatal<T> {
    /// The failure, if there is one, is not to be retried.
    fn fatal(self) -> TaskResult<T>;
}

impl<T, E: Into<TaskError>> Fatal<T> for Result<T, E> {
    fn fatal(self) -> TaskResult<T> {
        self.map_err(|error| error.into().give_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_mark_retries_and_fatal_gives_up() {
        let question_mark = || -> TaskResult<u8> { Ok("x".parse::<u8>()?) };
        assert!(question_mark().unwrap_err().is_retryable());
        let fatal = || -> TaskResult<u8> { "x".parse::<u8>().fatal() };
        let error = fatal().unwrap_err();
        assert!(!error.is_retryable() && !error.is_cancelled());
        let again = || -> TaskResult<u8> { Err(TaskError::new("busy", "try later")).fatal() };
        assert!(!again().unwrap_err().is_retryable());
    }

    #[test]
    fn a_wait_that_was_asked_for_has_an_end() {
        let busy = |wait| TaskError::new("busy", "try later").retry_after(wait).retry_wait();
        assert_eq!(busy(Duration::from_secs(7)), Some(Duration::from_secs(7)));
        assert_eq!(busy(Duration::MAX), Some(RETRY_AFTER_MAX));
        assert_eq!(TaskError::new("busy", "try later").retry_wait(), None);
    }
}
