//! `annals list`.

use annals_engine::log::JobRow;
use serde::Serialize;
use serde_json::value::RawValue;

use super::args::ListArgs;
use super::error::{CliError, Exit};
use super::text::{brief, date, job_status, plain};
use super::{Session, store};
use crate::dto;

#[derive(Serialize)]
struct List {
    items: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) async fn list(args: &ListArgs, mut session: Session) -> Result<Exit, CliError> {
    let engine = store::hold(&session.data).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (mut found, mut before) = (Vec::new(), args.cursor);
    // One more than asked for, to know whether there are more.
    while found.len() <= limit {
        let rows = engine.jobs(before, store::PAGE).await?;
        let Some(last) = rows.last() else { break };
        before = Some(last.job);
        let wanted = |row: &JobRow| args.status.is_empty() || args.status.contains(&row.status);
        found.extend(rows.into_iter().filter(wanted));
    }
    let more = found.len() > limit;
    found.truncate(limit);
    if session.json {
        let items =
            found.iter().filter_map(|row| RawValue::from_string(dto::Row::of(row).to_json()).ok());
        let last = found.last().filter(|_| more).map(|row| row.job.to_string());
        let answer = List { items: items.collect(), next_cursor: last };
        session.out.line(serde_json::to_string(&answer).unwrap_or_default());
    } else {
        session.out.lines(found.iter().map(line));
        if let Some(last) = found.last().filter(|_| more) {
            session.out.line(format!("there are more; --cursor {} shows them", last.job));
        }
    }
    engine.shutdown().await?;
    Ok(Exit::Done)
}

fn line(row: &JobRow) -> String {
    let (done, total) = (row.completed_tasks + row.skipped_tasks, row.total_tasks);
    // The status is padded apart, because its colour has no width.
    let space = " ".repeat(10_usize.saturating_sub(row.status.as_str().len()));
    let (status, name) = (job_status(row.status), plain(&row.name));
    let mut line =
        format!("{}  {}  {status}{space} {done:>3}/{total:<3}  {name}", row.job, date(row.created));
    if let Some(error) = &row.error {
        line.push_str(": ");
        line.push_str(&brief(&error.message));
    }
    line
}
