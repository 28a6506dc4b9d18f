//! `annals logs`: what an attempt has written, byte by byte, or line by line in JSON.

use super::Session;
use super::args::LogsArgs;
use super::backend::Backend;
use super::error::{CliError, Exit};
use super::view::{self, Job};
use annals_engine::job::TaskStatus;
use annals_tasks_sdk::JobId;

pub(super) async fn logs(args: &LogsArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(&args.job).await?;
    let printed = match backend.log(job, args, session.json, &mut session.out).await {
        Err(error) if error.exit == Exit::NoSuch => {
            let origin = origin(&backend, job, args).await.unwrap_or(None);
            let words = origin.map(|origin| format!("logs {origin} {}", args.task));
            let hint = words.map(|words| format!(" (`{}`)", session.place.command(&words)));
            Err(error.and(&hint.unwrap_or_default()))
        }
        printed => printed,
    };
    backend.close().await?;
    printed?;
    Ok(Exit::Done)
}

/// The job where the log of a task is that a fork has taken from there.
async fn origin(backend: &Backend, job: JobId, args: &LogsArgs) -> Result<Option<JobId>, CliError> {
    let job: Job = view::parse(&backend.snapshot(job, None).await?)?;
    let is_copy = job.task(args.task.as_str()).is_some_and(|task| {
        let is_open = matches!(
            task.status,
            TaskStatus::Pending
                | TaskStatus::Running
                | TaskStatus::Waiting
                | TaskStatus::Interrupted
        );
        task.attempts.is_empty() && !is_open
    });
    Ok(job.forked_from.filter(|_| is_copy).map(|from| from.job))
}
