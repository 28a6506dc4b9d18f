//! Which job a run is about: a new one, or one of the same file and input that can go on.

use std::sync::Arc;

use annals_engine::job::{Event, Job, JobStatus};
use annals_engine::log::{JobRow, LogError};
use annals_engine::runtime::{JobError, StartError};
use annals_engine::{Engine, JobHandle};
use annals_tasks_sdk::plan::Plan;
use annals_tasks_sdk::{JobId, Payload};

use super::difference;
use crate::cli::error::{CliError, Exit};
use crate::cli::{Session, store, text};

/// What is to be run.
pub(super) enum Choice {
    /// A new job.
    Submit {
        /// Its plan.
        plan: Box<Plan>,
        /// The file's canonical path.
        source: String,
        /// A job of the same file that could go on, but has another input.
        other: Option<Box<JobRow>>,
    },
    /// A job that is there, as it was before anything of the store ran.
    GoOn(Arc<Job>),
}

/// Looks for the newest job of the same file and input before anything of the store runs.
pub(super) async fn choose(
    plan: Plan,
    source: String,
    session: &Session,
) -> Result<Choice, CliError> {
    let held = store::hold(session, session.place.store()?)?.start().await;
    let engine = match held {
        Ok(engine) => engine,
        Err(StartError::Log(LogError::Missing { .. })) => {
            return Ok(Choice::Submit { plan: Box::new(plan), source, other: None });
        }
        Err(error) => return Err(error.into()),
    };
    let Found { same_input, other } = newest(&engine, &plan.input, &source).await?;
    let choice = match same_input {
        Some((row, stored)) if goes_on(row.status) => {
            if !same(&stored, &plan) {
                return Err(changed(&row, &stored, &plan, &source, session));
            }
            go_on_with(&engine.job(row.job)).await?
        }
        _ => Choice::Submit { plan: Box::new(plan), source, other },
    };
    engine.shutdown().await?;
    Ok(choice)
}

/// Whether a job was not submitted with this plan. Its input does not count: it may have been
/// given on the command line.
pub(super) async fn differs(engine: &Engine, job: JobId, now: &Plan) -> Result<bool, CliError> {
    let Some(stored) = stored(engine, job).await? else { return Ok(false) };
    let now = Plan { input: stored.input.clone(), ..now.clone() };
    Ok(!same(&stored, &now))
}

/// Goes on with this job, if this program can: what it has no kinds for would wait for ever.
pub(super) async fn go_on_with(job: &JobHandle) -> Result<Choice, CliError> {
    let missing = job.missing_kinds().await?;
    if !missing.is_empty() {
        let detail = format!("job {}: {}", job.id(), text::foreign(&missing));
        return Err(CliError::new(Exit::Rejected, "kinds_missing", detail));
    }
    Ok(Choice::GoOn(job.snapshot().await?.job))
}

fn goes_on(status: JobStatus) -> bool {
    !matches!(status, JobStatus::Completed | JobStatus::Cancelled)
}

/// Jobs of a file.
#[derive(Default)]
struct Found {
    /// The newest with the same input, and the plan that it was submitted with.
    same_input: Option<(JobRow, Plan)>,
    /// The newest with another input, if it could go on.
    other: Option<Box<JobRow>>,
}

/// Looks for jobs of this file, the newest first. One that cannot be read ends the search: it
/// could be the one that is looked for, and a new one would repeat what that has completed.
async fn newest(engine: &Engine, input: &Payload, source: &str) -> Result<Found, CliError> {
    let (mut before, mut found) = (None, Found::default());
    let mut is_first = true;
    loop {
        let rows = engine.jobs(before, store::PAGE).await?;
        let Some(last) = rows.last() else { return Ok(found) };
        before = Some(last.job);
        for row in rows {
            if row.is_unknown() {
                return Err(could_be_this(row.job));
            }
            if row.source.as_deref() != Some(source) {
                continue;
            }
            let Some(plan) = stored(engine, row.job).await? else { continue };
            if plan.input.same_value(input) {
                found.same_input = Some((row, plan));
                return Ok(found);
            }
            if std::mem::replace(&mut is_first, false) && goes_on(row.status) {
                found.other = Some(Box::new(row));
            }
        }
    }
}

async fn stored(engine: &Engine, job: JobId) -> Result<Option<Plan>, CliError> {
    let history = match engine.job(job).history(0, 1).await {
        Err(JobError::Unreadable { .. }) => return Err(could_be_this(job)),
        history => history?,
    };
    let first = history.into_iter().next();
    Ok(first.and_then(|logged| match logged.recorded.event {
        Event::JobSubmitted(submitted) => Some(submitted.plan),
        _ => None,
    }))
}

fn could_be_this(job: JobId) -> CliError {
    let detail = format!(
        "job {job} of this store cannot be read, so it may be this file's job, which would be \
         repeated; `annals verify` shows the damage, a backup brings the job back, and the same \
         command with --new starts a new job all the same"
    );
    CliError::new(Exit::Unreachable, "store_damaged", detail)
}

/// Layout, the order of keys and the spelling of texts are no change.
fn same(stored: &Plan, now: &Plan) -> bool {
    stored == now || stored.to_json().same_value(&now.to_json())
}

fn changed(row: &JobRow, stored: &Plan, now: &Plan, source: &str, session: &Session) -> CliError {
    let (id, status) = (row.job, row.status);
    let with_stored = session.place.command(&format!("run --job {id}"));
    let detail = format!(
        "{source} has changed since its job {id} was started, which is {status}; `{with_stored}` \
         goes on with the plan that it was started with, the same command with --new starts a \
         new job"
    );
    let lines = difference::difference(&stored.to_json(), &now.to_json(), &row.job.to_string());
    CliError::new(Exit::Rejected, "plan_changed", detail).after_lines(lines)
}
