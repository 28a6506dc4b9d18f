//! What the engine's errors are over HTTP.

use std::time::Duration;

use annals_engine::job::Rejection;
use annals_engine::runtime::{CommandError, EngineError, JobError, SubmitError};
use annals_tasks_sdk::plan::PlanErrors;

use super::{Code, Dependant, FieldError, Problem};
use crate::dto;

/// What a client is told to wait after a failure that only another start of the engine mends.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

impl From<PlanErrors> for Problem {
    fn from(errors: PlanErrors) -> Self {
        let detail = match &*errors.0 {
            [one] => format!("the plan is not valid: {one}"),
            all => format!("the plan is not valid: {} faults, listed in `errors`", all.len()),
        };
        let errors = errors.0.into_iter();
        let errors = errors.map(|each| FieldError { pointer: each.pointer, detail: each.detail });
        Self::new(Code::INVALID_PLAN, detail).with_errors(errors.collect())
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let Rejection { code, message, status, allowed, dependants, errors } = rejection;
        let mut problem = Self::new(Code::refused(code), message);
        let dependants = dependants.into_iter();
        problem.0.job_status = Some(status);
        problem.0.allowed = allowed;
        let errors = errors.into_iter();
        let errors = errors.map(|each| FieldError { pointer: each.pointer, detail: each.detail });
        problem.0.errors = errors.collect();
        problem.0.dependants = dependants
            .map(|each| Dependant { task: each.task, reference: each.reference })
            .collect();
        problem
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::OutcomeUnknown(_) | EngineError::Panicked => Code::OUTCOME_UNKNOWN,
            EngineError::Log(_) | EngineError::Leftovers(_) => Code::STORE_FAILED,
            EngineError::Stopped => Code::STOPPED,
            _ => Code::INTERNAL,
        };
        let problem = Self::new(code, error.to_string());
        if code == Code::INTERNAL { problem } else { problem.retry_after(AFTER_FAILURE) }
    }
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Engine(error) => error.into(),
            JobError::NotFound(_) => Self::new(Code::NO_SUCH_JOB, error.to_string()),
            JobError::Purged { job, tombstone } => Self::purged(job, tombstone),
            JobError::NoSuchEvent { .. } => Self::new(Code::NO_SUCH_EVENT, error.to_string()),
            JobError::NotYet { created, .. } => {
                let detail = format!("{error}: it was submitted at {}", dto::Time(created));
                Self::new(Code::NO_SUCH_EVENT, detail)
            }
            JobError::Unreadable { .. } => Self::new(Code::JOB_UNREADABLE, error.to_string()),
            _ => Self::new(Code::INTERNAL, error.to_string()),
        }
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Rejected(rejection) => rejection.into(),
            CommandError::Job(error) => error.into(),
            CommandError::Stale { .. } | CommandError::StaleRevision { .. } => {
                Self::new(Code::STALE, error.to_string())
            }
            CommandError::KeyReused => Self::new(Code::KEY_REUSED, error.to_string()),
            CommandError::TooLarge { .. } => Self::new(Code::TOO_LARGE, error.to_string()),
            _ => Self::new(Code::INTERNAL, error.to_string()),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Plan(errors) => errors.into(),
            SubmitError::Job(error) => error.into(),
            SubmitError::Engine(error) => error.into(),
            SubmitError::UnknownWorkflow { .. } => {
                Self::new(Code::UNKNOWN_WORKFLOW, error.to_string())
            }
            SubmitError::KeyReused => Self::new(Code::KEY_REUSED, error.to_string()),
            SubmitError::TooLarge { .. } => Self::new(Code::TOO_LARGE, error.to_string()),
            SubmitError::Input(_) => Self::new(Code::INVALID_BODY, error.to_string()),
            _ => Self::new(Code::INTERNAL, error.to_string()),
        }
    }
}
