//! Twins of the small types that events are made of.

use annals_tasks_sdk::{self as sdk, Payload, Timestamp};
use serde::{Deserialize, Serialize};

use super::Json;
use crate::job;

/// The JSON text of a payload that may be left out.
pub(in crate::log) fn text(payload: Option<&Payload>) -> Option<Json<'_>> {
    payload.map(Payload::as_str)
}

/// The inverse of [`text`].
pub(in crate::log) fn payload(text: Option<Json<'_>>) -> Option<Payload> {
    text.map(Payload::trusted)
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) enum PauseMode {
    Drain,
    Interrupt,
}

impl From<job::PauseMode> for PauseMode {
    fn from(mode: job::PauseMode) -> Self {
        match mode {
            job::PauseMode::Drain => Self::Drain,
            job::PauseMode::Interrupt => Self::Interrupt,
        }
    }
}

impl From<PauseMode> for job::PauseMode {
    fn from(mode: PauseMode) -> Self {
        match mode {
            PauseMode::Drain => Self::Drain,
            PauseMode::Interrupt => Self::Interrupt,
        }
    }
}

#[derive(Deserialize)]
pub(super) enum Wait {
    Timer { until: i64 },
    Kind,
}

impl From<Wait> for job::Wait {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Timer { until } => Self::Timer { until: Timestamp::from_millis(until) },
            Wait::Kind => Self::Kind,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(in crate::log) struct Failure<'a> {
    code: &'a str,
    message: &'a str,
}

impl<'a> From<&'a job::Failure> for Failure<'a> {
    fn from(failure: &'a job::Failure) -> Self {
        Self { code: &failure.code, message: &failure.message }
    }
}

impl From<Failure<'_>> for job::Failure {
    fn from(failure: Failure<'_>) -> Self {
        Self::new(failure.code, failure.message)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Exit<'a> {
    code: Option<i32>,
    #[serde(borrow)]
    signal: Option<&'a str>,
}

impl<'a> From<&'a sdk::Exit> for Exit<'a> {
    fn from(exit: &'a sdk::Exit) -> Self {
        Self { code: exit.code, signal: exit.signal.as_deref() }
    }
}

impl From<Exit<'_>> for sdk::Exit {
    fn from(exit: Exit<'_>) -> Self {
        Self { code: exit.code, signal: exit.signal.map(Into::into) }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct LogSize {
    bytes: u64,
    lines: u64,
}

impl From<job::LogSize> for LogSize {
    fn from(log: job::LogSize) -> Self {
        Self { bytes: log.bytes, lines: log.lines }
    }
}

impl From<LogSize> for job::LogSize {
    fn from(log: LogSize) -> Self {
        Self { bytes: log.bytes, lines: log.lines }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct AttemptEnd<'a> {
    #[serde(borrow)]
    error: Failure<'a>,
    retryable: bool,
    exit: Exit<'a>,
    output: Option<Json<'a>>,
    log: LogSize,
}

impl<'a> From<&'a job::AttemptEnd> for AttemptEnd<'a> {
    fn from(end: &'a job::AttemptEnd) -> Self {
        Self {
            error: (&end.error).into(),
            retryable: end.retryable,
            exit: (&end.exit).into(),
            output: text(end.output.as_ref()),
            log: end.log.into(),
        }
    }
}

impl From<AttemptEnd<'_>> for job::AttemptEnd {
    fn from(end: AttemptEnd<'_>) -> Self {
        Self {
            error: end.error.into(),
            retryable: end.retryable,
            exit: end.exit.into(),
            output: payload(end.output),
            log: end.log.into(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Digest {
    len: u32,
    hash: [u8; 32],
}

impl From<job::ValueDigest> for Digest {
    fn from(value: job::ValueDigest) -> Self {
        Self { len: value.len, hash: value.hash }
    }
}

impl From<Digest> for job::ValueDigest {
    fn from(value: Digest) -> Self {
        Self { len: value.len, hash: value.hash }
    }
}
