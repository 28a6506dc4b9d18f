//! Stores that no engine runs on: opened, asked, and closed again.

use std::path::Path;

use annals_engine::job::Origin;
use annals_engine::log::JobRow;
use annals_engine::runtime::{JobError, Snapshot};
use annals_engine::{Engine, JobHandle, Mode};
use annals_tasks_sdk::JobId;

use super::error::{CliError, Exit};

/// Jobs that are read at a time.
pub(super) const PAGE: usize = 1_000;

/// Opens the store without running anything of it.
pub(super) async fn hold(dir: &Path) -> Result<Engine, CliError> {
    Ok(Engine::open(dir).create(false).mode(Mode::Hold).start().await?)
}

/// Finds a job by its id, or by a beginning of it that no other job's id has.
pub(super) async fn find(engine: &Engine, text: &str) -> Result<JobHandle, CliError> {
    if let Ok(id) = text.parse::<JobId>() {
        let job = engine.job(id);
        job.snapshot().await?;
        return Ok(job);
    }
    let prefix = text.to_ascii_lowercase();
    if prefix.is_empty() || !prefix.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        let detail = format!("{text:?} is no job id, nor the beginning of one");
        return Err(CliError::usage(detail));
    }
    let mut found = matching(engine, &prefix).await?;
    match found.len() {
        1 => Ok(engine.job(found.swap_remove(0))),
        0 => Err(no_such_job(text)),
        _ => {
            let ids: Vec<_> = found.iter().map(JobId::to_string).collect();
            let detail = format!("{text:?} is the beginning of several ids: {}", ids.join(", "));
            Err(CliError::new(Exit::Usage, "ambiguous_job", detail))
        }
    }
}

fn no_such_job(text: &str) -> CliError {
    let detail = format!("no job's id begins with {text:?}; `annals list` shows the jobs");
    CliError::new(Exit::NoSuch, "no_such_job", detail)
}

/// The first few jobs whose ids begin with `prefix`.
async fn matching(engine: &Engine, prefix: &str) -> Result<Vec<JobId>, CliError> {
    const SHOWN: usize = 5;
    let digits = prefix.replace('-', "");
    let bound = |digit: char| {
        let padded: String = digits.chars().chain(std::iter::repeat(digit)).take(32).collect();
        u128::from_str_radix(&padded, 16).unwrap_or_default()
    };
    // Ids sort as numbers, so those with one beginning lie together.
    let before = bound('f').checked_add(1).map(JobId::from_u128);
    let rows = engine.jobs(before, SHOWN).await?;
    let ids = rows.iter().map(|row| row.job);
    Ok(ids.filter(|id| id.to_string().starts_with(prefix)).collect())
}

/// A job and its snapshot in a store that nothing runs on.
pub(super) async fn look(
    dir: &Path,
    text: &str,
) -> Result<(Engine, JobHandle, Snapshot), CliError> {
    let engine = hold(dir).await?;
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
pub(super) fn origin(reason: Option<&str>) -> Origin {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let name = named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    Origin { reason: reason.map(Into::into), ..Origin::actor(&name) }
}
