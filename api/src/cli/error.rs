//! Errors, and the exit codes that tell them apart.

use std::path::Path;
use std::process::ExitCode;

use annals_engine::job::{Dependant, JobStatus, Rejection};
use annals_engine::log::LogError;
use annals_engine::runtime::{CommandError, EngineError, JobError, StartError, SubmitError};
use serde::Serialize;

use super::text::plain;
use crate::plan_file::{Fault, Faults};
use crate::serve::Address;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Completed, or accepted.
    Done = 0,
    Failed = 1,
    /// Usage, or a file or plan that cannot be read or is invalid.
    Usage = 2,
    Cancelled = 3,
    Paused = 4,
    Rejected = 5,
    /// No such job or task.
    NoSuch = 6,
    /// The store is out of reach.
    Unreachable = 7,
    /// By the end of its terminal.
    HungUp = 129,
    /// By Ctrl-C.
    Interrupted = 130,
    /// By SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// How a job ended that is no longer followed. One that goes on counts as paused.
    pub(super) fn of(status: JobStatus) -> Self {
        match status {
            JobStatus::Completed => Self::Done,
            JobStatus::Failed => Self::Failed,
            JobStatus::Cancelled => Self::Cancelled,
            JobStatus::Pending | JobStatus::Running | JobStatus::Paused => Self::Paused,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command could not be carried out, in words.
#[derive(Debug)]
pub(super) struct CliError {
    pub(super) exit: Exit,
    /// A stable word for programs.
    code: &'static str,
    /// A sentence without a full stop, with what to do.
    detail: String,
    /// Boxed, because most commands succeed.
    more: Box<More>,
}

/// What goes with some errors.
#[derive(Debug, Default)]
struct More {
    /// Lines to show before the sentence: faults of a file, a difference.
    lines: Option<String>,
    faults: Option<Faults>,
    rejection: Option<Rejection>,
}

/// The JSON of an error, much like the problem details of HTTP.
#[derive(Serialize)]
struct Problem<'a> {
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_status: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    allowed: &'a [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependants: Vec<Taker<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Place<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a str>,
}

#[derive(Serialize)]
struct Taker<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    reference: &'a str,
}

#[derive(Serialize)]
struct Place<'a> {
    pointer: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl CliError {
    pub(super) fn new(exit: Exit, code: &'static str, detail: impl Into<String>) -> Self {
        Self { exit, code, detail: detail.into(), more: Box::default() }
    }

    pub(super) fn usage(detail: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", detail)
    }

    pub(super) fn unreachable(detail: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, "unreachable", detail)
    }

    /// With lines that are shown before the sentence.
    pub(super) fn after_lines(mut self, lines: String) -> Self {
        self.more.lines = Some(lines);
        self
    }

    /// Names the flags that do what the sentence of an error with this code ends with.
    pub(super) fn with_flags(mut self, code: &str, flags: &str) -> Self {
        if self.code == code {
            self.detail.push_str(flags);
        }
        self
    }

    /// Says it on stderr. When that is closed nobody is left to be told.
    pub(super) fn print(&self, json: bool) {
        use std::io::Write;
        let mut out = anstream::stderr().lock();
        if json {
            let problem = serde_json::to_string(&self.problem()).unwrap_or_default();
            let _ = writeln!(out, "{problem}");
            return;
        }
        if let Some(faults) = &self.more.faults {
            for line in faults.to_string().lines() {
                let _ = writeln!(out, "{}", plain(line));
            }
        }
        if let Some(lines) = &self.more.lines {
            for line in lines.lines() {
                let _ = writeln!(out, "{}", plain(line));
            }
        }
        let _ = writeln!(out, "annals: {}", plain(&self.detail));
    }

    fn problem(&self) -> Problem<'_> {
        let rejection = self.more.rejection.as_ref();
        Problem {
            code: self.code,
            detail: &self.detail,
            job_status: rejection.map(|rejection| rejection.status.as_str()),
            allowed: rejection.map_or(&[], |rejection| &rejection.allowed),
            dependants: rejection.map_or_else(Vec::new, |rejection| {
                rejection.dependants.iter().map(Taker::of).collect()
            }),
            file: self.more.faults.as_ref().map(|faults| faults.path.display().to_string()),
            errors: self.more.faults.as_ref().map_or_else(Vec::new, places),
            difference: self.more.lines.as_deref(),
        }
    }
}

impl<'a> Taker<'a> {
    fn of(dependant: &'a Dependant) -> Self {
        Self { task: dependant.task.as_deref(), reference: &dependant.reference }
    }
}

fn places(faults: &Faults) -> Vec<Place<'_>> {
    faults.list.iter().map(Place::of).collect()
}

impl<'a> Place<'a> {
    fn of(fault: &'a Fault) -> Self {
        let (line, column) = (fault.place.map(|at| at.line), fault.place.map(|at| at.column));
        Self { pointer: &fault.pointer, detail: &fault.detail, line, column }
    }
}

impl From<Faults> for CliError {
    fn from(faults: Faults) -> Self {
        let detail = format!("{} holds no valid plan; nothing was started", faults.path.display());
        let mut error = Self::new(Exit::Usage, "invalid_plan", detail);
        error.more.faults = Some(faults);
        error
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Log(error) => error.into(),
            error => Self::unreachable(error.to_string()),
        }
    }
}

fn log_code(error: &LogError) -> &'static str {
    match error {
        LogError::AlreadyOpen { .. } => "store_in_use",
        LogError::ReadOnly { .. } => "store_read_only",
        LogError::Full { .. } => "store_full",
        LogError::Newer { .. } => "store_newer",
        LogError::Damaged(_) => "store_damaged",
        LogError::NotAStore { .. } => "not_a_store",
        LogError::Missing { .. } => "no_store",
        _ => "unreachable",
    }
}

impl From<LogError> for CliError {
    fn from(error: LogError) -> Self {
        let detail = match &error {
            LogError::AlreadyOpen { dir, .. } => in_use(dir, &error),
            error => error.to_string(),
        };
        Self::new(Exit::Unreachable, log_code(&error), detail)
    }
}

/// What to do about a store that another process has.
fn in_use(dir: &Path, error: &LogError) -> String {
    match Address::of(dir) {
        Some(url) => {
            let dir = dir.display();
            format!("the store {dir} is served at {url}: ask that server, with --server {url}")
        }
        None => format!("{error}: Ctrl-C there holds its job; then this command works"),
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::OutcomeUnknown(_) => "outcome_unknown",
            EngineError::Log(error) => log_code(error),
            _ => "unreachable",
        };
        Self::new(Exit::Unreachable, code, error.to_string())
    }
}

impl From<JobError> for CliError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::NotFound(_) => Self::new(
                Exit::NoSuch,
                "no_such_job",
                format!("{error}; `annals list` shows the jobs of this store"),
            ),
            JobError::Engine(error) => error.into(),
            error => Self::new(Exit::Unreachable, "job_unreadable", error.to_string()),
        }
    }
}

impl From<CommandError> for CliError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Rejected(rejection) => rejection.into(),
            CommandError::Job(error) => error.into(),
            error => Self::new(Exit::Rejected, "stale", error.to_string()),
        }
    }
}

impl From<Rejection> for CliError {
    fn from(rejection: Rejection) -> Self {
        let exit = if rejection.code == "no_such_task" { Exit::NoSuch } else { Exit::Rejected };
        let mut error = Self::new(exit, rejection.code, rejection.message.clone());
        error.more.rejection = Some(rejection);
        error
    }
}

impl From<SubmitError> for CliError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Engine(error) => error.into(),
            error => Self::new(Exit::Usage, "invalid_plan", error.to_string()),
        }
    }
}
