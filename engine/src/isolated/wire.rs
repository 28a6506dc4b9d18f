//! What the engine and the process of an attempt say to each other.
//!
//! Both are the same binary, so that the messages need no version.

use std::time::Duration;

use annals_tasks_sdk::TaskResult;
use annals_tasks_sdk::{AttemptId, Done, Exit, JobId, Payload, Progress, TaskError, TaskId};
use serde::{Deserialize, Serialize};

use super::limits::Limits;

/// A value, or none: `null` is a value, too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Maybe {
    Nothing,
    This(Payload),
}

impl From<Option<Payload>> for Maybe {
    fn from(value: Option<Payload>) -> Self {
        value.map_or(Self::Nothing, Self::This)
    }
}

impl From<Maybe> for Option<Payload> {
    fn from(value: Maybe) -> Self {
        match value {
            Maybe::Nothing => None,
            Maybe::This(value) => Some(value),
        }
    }
}

/// The attempt that a process is to run: the first message of the engine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) kind: String,
    pub(super) job: JobId,
    pub(super) task: TaskId,
    pub(super) number: u32,
    pub(super) attempt: u32,
    pub(super) input: Payload,
    pub(super) checkpoint: Maybe,
    pub(super) limits: Limits,
}

impl Assignment {
    /// Which attempt it is.
    pub(super) fn id(&self) -> AttemptId {
        AttemptId {
            job: self.job,
            task: self.task.clone(),
            number: self.number,
            attempt: self.attempt,
        }
    }
}

/// What the engine says after that.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The attempt is told to stop.
    Stop,
    /// What became of a checkpoint, or of the record of a step.
    Saved { request: u64, failure: Option<Failure> },
    /// What was recorded of a step.
    Step { request: u64, recorded: Maybe, failure: Option<Failure> },
    /// The output of a task, if it has one.
    Output { request: u64, output: Maybe },
}

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The task's code begins now.
    Begun,
    /// How far it is.
    Progress { counts: Option<(u64, u64)>, message: Option<String> },
    /// It is alive.
    Heartbeat,
    /// A checkpoint is to be made durable.
    Checkpoint { request: u64, value: Payload },
    /// What is recorded of a step is asked for.
    RecordedStep { request: u64, name: String },
    /// The result of a step is to be made durable.
    RecordStep { request: u64, name: String, value: Payload },
    /// The output of a task is asked for.
    OutputOf { request: u64, task: String },
    /// It is over.
    Completed { output: Payload, exit: Ended },
    /// It is over.
    Failed(Failure),
}

impl Report {
    pub(super) fn progress(progress: Option<Progress>, message: Option<String>) -> Self {
        let counts = progress.map(|Progress { done, total }| (done, total));
        Self::Progress { counts, message }
    }

    /// The last word about an attempt.
    pub(super) fn of(result: TaskResult<Done>) -> Self {
        match result {
            Ok(Done { output, exit }) => Self::Completed { output, exit: Ended::of(&exit) },
            Err(error) => Self::Failed(Failure::of(&error)),
        }
    }
}

/// How a process that the task started has ended.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Ended {
    code: Option<i32>,
    signal: Option<Box<str>>,
}

impl Ended {
    fn of(exit: &Exit) -> Self {
        Self { code: exit.code, signal: exit.signal.clone() }
    }

    pub(super) fn into_exit(self) -> Exit {
        Exit { code: self.code, signal: self.signal }
    }
}

/// A task's error.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    answer: Answer,
    code: String,
    alias: Option<String>,
    message: String,
    exit: Ended,
    output: Maybe,
    retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Answer {
    Retry,
    GiveUp,
    Cancelled,
}

impl Failure {
    pub(super) fn of(error: &TaskError) -> Self {
        let answer = match error {
            error if error.is_cancelled() => Answer::Cancelled,
            error if error.is_retryable() => Answer::Retry,
            _ => Answer::GiveUp,
        };
        Self {
            answer,
            code: error.code().to_owned(),
            alias: error.alias().map(str::to_owned),
            message: error.message().to_owned(),
            exit: Ended::of(error.exit()),
            output: error.output().cloned().into(),
            retry_after: error.retry_wait(),
        }
    }

    pub(super) fn into_error(self) -> TaskError {
        let error = match self.answer {
            Answer::Cancelled => {
                TaskError::cancelled().with_code(&self.code).with_message(&self.message)
            }
            Answer::GiveUp => TaskError::new(&self.code, &self.message).give_up(),
            Answer::Retry => TaskError::new(&self.code, &self.message),
        };
        let error = error.with_exit(self.exit.into_exit());
        let error = self.alias.iter().fold(error, |error, alias| error.with_alias(alias));
        let output = Option::from(self.output).into_iter();
        let error = output.fold(error, TaskError::with_output);
        self.retry_after.into_iter().fold(error, TaskError::retry_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_as_it_was() {
        let exit = Exit { code: None, signal: Some("SIGKILL".into()) };
        let full = TaskError::new("busy", "try later")
            .with_alias("http_503")
            .with_exit(exit.clone())
            .with_output(Payload::trusted(r#"{"x": 1.50}"#))
            .retry_after(Duration::from_secs(7));
        for (error, retryable, cancelled) in [
            (full, true, false),
            (TaskError::new("wrong", "no").give_up(), false, false),
            (TaskError::cancelled(), false, true),
        ] {
            let text = serde_json::to_vec(&Report::of(Err(error))).unwrap();
            let Report::Failed(failure) = serde_json::from_slice(&text).unwrap() else {
                panic!("it failed")
            };
            let error = failure.into_error();
            assert_eq!((error.is_retryable(), error.is_cancelled()), (retryable, cancelled));
            if retryable {
                assert_eq!((error.code(), error.alias()), ("busy", Some("http_503")));
                assert_eq!((error.message(), error.exit()), ("try later", &exit));
                assert_eq!(error.output().map(Payload::as_str), Some(r#"{"x": 1.50}"#));
                assert_eq!(error.retry_wait(), Some(Duration::from_secs(7)));
            }
        }
    }
}
