//! Stores that no engine runs on: opened, asked, and closed again.

use std::path::Path;

use annals_engine::job::Origin;
use annals_engine::log::JobRow;
use annals_engine::runtime::{JobError, Snapshot};
use annals_engine::{Builder, Engine, JobHandle, Mode};
use annals_tasks_sdk::JobId;

use super::Session;
use super::error::{CliError, Exit};
use super::flags::EngineFlags;
use crate::list::{self, Beginning, Filter};

/// Jobs that are read at a time.
pub(super) const PAGE: usize = 1_000;

/// An engine that opens the store and runs nothing of it.
pub(super) fn hold(session: &Session, dir: &Path) -> Result<Builder, CliError> {
    let settings = EngineFlags::none().settings(session.file.as_ref())?;
    Ok(session.app.builder(dir, |engine| settings.apply(engine).create(false).mode(Mode::Hold)))
}

/// What names a job on the command line.
pub(super) enum Name {
    /// Its id.
    Id(JobId),
    /// The beginning of its id.
    Beginning(Beginning),
}

impl Name {
    /// So many jobs are shown where several are meant.
    pub(super) const SHOWN: usize = 5;

    pub(super) fn read(text: &str) -> Result<Self, CliError> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let beginning = text.parse().map_err(|_| {
            CliError::usage(format!("{text:?} is no job id, nor the beginning of one"))
        })?;
        Ok(Self::Beginning(beginning))
    }

    /// The only one of the jobs whose ids begin so.
    pub(super) fn only(text: &str, found: &[JobId]) -> Result<JobId, CliError> {
        match found {
            [id] => Ok(*id),
            [] => {
                let detail =
                    format!("no job's id begins with {text:?}; `annals list` shows the jobs");
                Err(CliError::new(Exit::NoSuch, "no_such_job", detail))
            }
            _ => {
                let ids: Vec<_> = found.iter().map(JobId::to_string).collect();
                let ids = ids.join(", ");
                let detail = format!("{text:?} is the beginning of several ids: {ids}");
                Err(CliError::new(Exit::Usage, "ambiguous_job", detail))
            }
        }
    }
}

/// Finds a job by its id, or by a beginning of it that no other job's id has.
pub(super) async fn find(engine: &Engine, text: &str) -> Result<JobHandle, CliError> {
    let job = named(engine, text).await?;
    match job.snapshot().await {
        // Whoever reads it is told; to purge it again is no error.
        Ok(_) | Err(JobError::Purged { .. }) => Ok(job),
        Err(error) => Err(error.into()),
    }
}

/// The same, but a job whose history cannot be followed is found too; one that is named by its
/// whole id may not be there.
pub(super) async fn named(engine: &Engine, text: &str) -> Result<JobHandle, CliError> {
    let id = match Name::read(text)? {
        Name::Id(id) => id,
        Name::Beginning(beginning) => {
            let filter = Filter { id: Some(beginning), ..Filter::default() };
            let page = list::page(engine, &filter, None, Name::SHOWN).await?;
            let ids: Vec<JobId> = page.jobs.iter().map(|found| found.row.job).collect();
            Name::only(text, &ids)?
        }
    };
    Ok(engine.job(id))
}

/// A job and its snapshot in a store that nothing runs on.
pub(super) async fn look(
    session: &Session,
    text: &str,
) -> Result<(Engine, JobHandle, Snapshot), CliError> {
    let engine = hold(session, session.place.store()?)?.start().await?;
    let job = find(&engine, text).await?;
    let snapshot = job.snapshot().await?;
    Ok((engine, job, snapshot))
}

/// Whether a job's history cannot be followed. Its row then says what was known last, which need
/// not be true any more; it counts as active, so that every start looks at it.
pub(super) async fn is_damaged(engine: &Engine, row: &JobRow) -> Result<bool, CliError> {
    if !row.active {
        return Ok(false);
    }
    match engine.job(row.job).snapshot().await {
        Ok(_) => Ok(false),
        Err(JobError::Unreadable { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Who sits at this terminal.
pub(super) fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

/// The same as the origin of what is asked, with the reason for it.
pub(super) fn origin(reason: Option<&str>) -> Origin {
    Origin { reason: reason.map(Into::into), ..Origin::actor(&user()) }
}
