//! How a task is run: time limits, retries, and what its failure or loss means.

use std::ops::Deref;
use std::time::Duration;

/// The [`PolicyFields`] of a task. Most tasks have the default, which takes no memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy(Option<Box<PolicyFields>>);

impl Policy {
    /// A policy with these fields.
    pub fn new(fields: PolicyFields) -> Self {
        if fields == DEFAULT { Self(None) } else { Self(Some(Box::new(fields))) }
    }

    pub(super) fn is_default(&self) -> bool {
        self.0.is_none()
    }
}

impl Deref for Policy {
    type Target = PolicyFields;

    fn deref(&self) -> &PolicyFields {
        self.0.as_deref().unwrap_or(&DEFAULT)
    }
}

static DEFAULT: PolicyFields = PolicyFields {
    timeout: None,
    heartbeat_timeout: None,
    cancel_grace: None,
    retry: Retry::NEVER,
    on_failure: OnFailure::Fail,
    on_lost: OnLost::Rerun,
};

/// How a task is run.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyFields {
    /// How long one attempt may take; without end when left out.
    pub timeout: Option<Duration>,
    /// How long nothing may be heard of an attempt; for ever when left out. Progress, a message,
    /// output, a checkpoint and `cx.heartbeat()` are heard.
    pub heartbeat_timeout: Option<Duration>,
    /// How long an attempt may take to end once it is told to stop; 10 s when left out.
    pub cancel_grace: Option<Duration>,
    /// Whether and when a failed attempt is followed by another.
    pub retry: Retry,
    /// What a failure of the task, after its last attempt, means for the job.
    pub on_failure: OnFailure,
    /// What happens after the engine died while the task ran.
    pub on_lost: OnLost,
}

impl Default for PolicyFields {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

/// Whether and when a failed attempt is followed by another.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// How many attempts may fail, the first included; at least 1.
    pub max_attempts: u32,
    /// No attempt starts when this much has passed since the first one started.
    pub max_elapsed: Option<Duration>,
    /// How long to wait between attempts, at least: a failure may
    /// [ask](crate::TaskError::retry_after) for more.
    pub backoff: Backoff,
    /// Error codes that are not retried: `exit_2`, `http_404`, `timed_out`,
    /// `heartbeat_timeout`.
    pub never: Vec<Box<str>>,
}

impl Retry {
    const NEVER: Self =
        Self { max_attempts: 1, max_elapsed: None, backoff: Backoff::DEFAULT, never: Vec::new() };
}

impl Default for Retry {
    fn default() -> Self {
        Self::NEVER.clone()
    }
}

/// The wait before attempt n + 1 is `initial × factor^(n-1)`, at most `max`, and then longer by a
/// random part of up to `jitter` times itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The first wait.
    pub initial: Duration,
    /// By how much each wait is longer than the one before; at least 1.
    pub factor: f64,
    /// The longest wait, before the jitter.
    pub max: Duration,
    /// Between 0 and 1.
    pub jitter: f64,
}

impl Backoff {
    const DEFAULT: Self = Self {
        initial: Duration::from_secs(1),
        factor: 2.0,
        max: Duration::from_mins(1),
        jitter: 0.2,
    };

    /// How long to wait after so many failed attempts, before the jitter. Total: no field and no
    /// number makes it panic.
    ///
    /// ```
    /// use annals_tasks_sdk::plan::Backoff;
    /// let waits = [1, 2, 3, 100].map(|failed| Backoff::default().wait_after(failed).as_secs());
    /// assert_eq!(waits, [1, 2, 4, 60]);
    /// ```
    pub fn wait_after(&self, failed_attempts: u32) -> Duration {
        let exponent = i32::try_from(failed_attempts.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.initial.as_secs_f64() * self.factor.powi(exponent);
        // Zero times infinity is NaN, and means no wait.
        let wait = if seconds.is_nan() { 0.0 } else { seconds.min(self.max.as_secs_f64()) };
        Duration::try_from_secs_f64(wait).unwrap_or(self.max)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT.clone()
    }
}

/// What a failure of a task means for its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The job fails when nothing else of it can run.
    #[default]
    Fail,
    /// The job goes on as if the task had succeeded without an output.
    Continue,
    /// The job is paused.
    Pause,
}

/// What happens to a task whose attempt the engine lost by dying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// It runs again.
    #[default]
    Rerun,
    /// It fails with code `lost`.
    Fail,
    /// The job is paused; resume is the consent to run it again.
    Pause,
}
