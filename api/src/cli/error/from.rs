//! What errors of others are to whoever typed a command: the same words and exit codes, whether a
//! store or a server answers.

use std::path::Path;

use annals_engine::job::{Dependant, Rejection};
use annals_engine::log::LogError;
use annals_engine::runtime::{CommandError, EngineError, JobError, StartError, SubmitError};
use annals_tasks_sdk::plan::{PlanError, PlanErrors};

use super::cli_error::{CliError, More};
use super::exit::Exit;
use crate::bundle::ExportError;
use crate::client::{ClientError, Problem};
use crate::dto;
use crate::plan_file::Faults;
use crate::serve::Address;

/// The code of plans that cannot be run.
pub(super) const INVALID_PLAN: &str = "invalid_plan";
/// What to do where a job is not there.
const LIST: &str = "; `annals list` shows the jobs";

impl From<Faults> for CliError {
    fn from(faults: Faults) -> Self {
        Self::of_file(INVALID_PLAN, faults, "valid plan; nothing was started")
    }
}

impl CliError {
    /// Of a file that does not hold what it should.
    pub(in crate::cli) fn of_file(code: &'static str, faults: Faults, what: &str) -> Self {
        let detail = format!("{} holds no {what}", faults.path.display());
        let mut error = Self::new(Exit::Usage, code, detail);
        error.more.faults = Some(faults);
        error
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Log(error) => error.into(),
            // What the settings ask for cannot be had: the store is not to blame.
            StartError::Pool { .. } | StartError::Limit { .. } => {
                Self::new(Exit::Usage, "bad_setting", error.to_string())
            }
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
        LogError::Missing { .. } | LogError::Gone { .. } => "no_store",
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

impl From<ExportError> for CliError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Job(error) => error.into(),
            ExportError::Log(error) => error.into(),
            ExportError::Write(_) => Self::usage(error.to_string()),
            ExportError::StepLog { .. } => Self::unreachable(error.to_string()),
        }
    }
}

impl From<JobError> for CliError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::NotFound(_) => {
                Self::new(Exit::NoSuch, "no_such_job", format!("{error}{LIST}"))
            }
            JobError::Engine(error) => error.into(),
            JobError::Purged { job, tombstone } => {
                let left = dto::Tombstone::of(job, &tombstone);
                let mut error = Self::new(Exit::NoSuch, "purged", left.sentence());
                error.more.purged = serde_json::to_value(left).ok();
                error
            }
            JobError::NoSuchEvent { .. } => {
                Self::new(Exit::NoSuch, "no_such_event", error.to_string())
            }
            JobError::NotYet { created, .. } => {
                let message = format!("{error}: it was submitted at {}", dto::Time(created));
                Self::new(Exit::NoSuch, "no_such_event", message)
            }
            error => Self::new(Exit::Unreachable, "job_unreadable", error.to_string()),
        }
    }
}

impl From<CommandError> for CliError {
    fn from(error: CommandError) -> Self {
        let (exit, code) = match error {
            CommandError::Rejected(rejection) => return rejection.into(),
            CommandError::Job(error) => return error.into(),
            CommandError::TooLarge { .. } => (Exit::Usage, "too_large"),
            CommandError::KeyReused => (Exit::Rejected, "idempotency_key_reused"),
            _ => (Exit::Rejected, "stale"),
        };
        Self::new(exit, code, error.to_string())
    }
}

impl From<Rejection> for CliError {
    fn from(rejection: Rejection) -> Self {
        let Rejection { code, message, status, allowed, dependants, errors } = rejection;
        let exit = match code {
            "no_such_task" | "no_such_event" | "purged" => Exit::NoSuch,
            "invalid_task" => Exit::Usage,
            _ => Exit::Rejected,
        };
        let mut error = Self::new(exit, code, message);
        error.more.job_status = Some(status.to_string());
        error.more.allowed = Some(allowed.into_iter().map(str::to_owned).collect());
        error.more.dependants = dependants;
        error.more.errors = errors;
        error
    }
}

impl From<PlanErrors> for CliError {
    fn from(errors: PlanErrors) -> Self {
        let mut error = Self::new(Exit::Usage, INVALID_PLAN, "the plan is not valid");
        error.more.errors = errors.0;
        error
    }
}

impl From<SubmitError> for CliError {
    fn from(error: SubmitError) -> Self {
        let (exit, code) = match error {
            SubmitError::Plan(errors) => return errors.into(),
            SubmitError::Engine(error) => return error.into(),
            SubmitError::Job(error) => return error.into(),
            SubmitError::UnknownWorkflow { .. } => (Exit::Usage, "unknown_workflow"),
            SubmitError::TooLarge { .. } => (Exit::Usage, "too_large"),
            SubmitError::KeyReused => (Exit::Rejected, "idempotency_key_reused"),
            _ => (Exit::Usage, INVALID_PLAN),
        };
        Self::new(exit, code, error.to_string())
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let detail = error.to_string();
        match error {
            ClientError::Refused(problem) => (*problem).into(),
            ClientError::NotNow { problem, .. } => {
                let mut refused = Self::new(Exit::Unreachable, problem.code, detail);
                refused.more.request_id = problem.request_id;
                refused
            }
            ClientError::NoServer { .. } => Self::new(Exit::Unreachable, "no_server", detail),
            error if error.may_be_done() => Self::new(Exit::Unreachable, "outcome_unknown", detail),
            _ => Self::unreachable(detail),
        }
    }
}

/// What a server refuses has the words that a store has for it.
impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        let exit = exit_of(&problem);
        let help = match &*problem.code {
            "no_such_job" => LIST,
            "no_such_route" | "method_not_allowed" => {
                "; the server may be of another version than this program"
            }
            _ => "",
        };
        let mut error = Self::new(exit, problem.code, format!("{}{help}", problem.detail));
        let places = problem.errors.into_iter();
        let places = places.map(|place| PlanError { pointer: place.pointer, detail: place.detail });
        let takers = problem.dependants.into_iter();
        let takers = takers.map(|each| Dependant { task: each.task, reference: each.reference });
        *error.more = More {
            errors: places.collect(),
            job_status: problem.job_status,
            allowed: problem.allowed,
            dependants: takers.collect(),
            purged: problem.purged,
            // A refusal is the answer that was asked for: it needs no search in a log.
            request_id: problem.request_id.filter(|_| exit == Exit::Unreachable),
            ..More::default()
        };
        error
    }
}

/// The exit code of what a server refused.
fn exit_of(problem: &Problem) -> Exit {
    match (problem.status, &*problem.code) {
        (_, "no_such_job" | "no_such_task" | "no_such_event" | "no_such_attempt" | "purged") => {
            Exit::NoSuch
        }
        (_, "idempotency_key_reused" | "too_many_signals") | (401 | 403 | 409 | 412, _) => {
            Exit::Rejected
        }
        (400 | 413 | 422, _) => Exit::Usage,
        _ => Exit::Unreachable,
    }
}
