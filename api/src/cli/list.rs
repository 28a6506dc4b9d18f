//! `annals list`.

use annals_engine::Engine;
use annals_engine::job::JobStatus;
use annals_engine::log::JobRow;
use serde::Serialize;
use serde_json::value::RawValue;

use super::args::ListArgs;
use super::error::{CliError, Exit};
use super::output::eprint;
use super::text::{brief, command, damaged, date, job_status, plain};
use super::{Session, store};
use crate::dto;

#[derive(Serialize)]
struct List {
    items: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A job of the list.
struct Item {
    row: JobRow,
    is_damaged: bool,
}

pub(super) async fn list(args: &ListArgs, mut session: Session) -> Result<Exit, CliError> {
    let engine = store::hold(&session.data).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut found = find(&engine, args, limit).await?;
    engine.shutdown().await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more).map(|item| item.row.job.to_string());
    if session.json {
        let items = found.iter().filter_map(|item| RawValue::from_string(item.to_json()).ok());
        let answer = List { items: items.collect(), next_cursor: last };
        session.out.line(serde_json::to_string(&answer).unwrap_or_default());
    } else {
        session.out.lines(found.iter().map(Item::line));
        if let Some(last) = last {
            session.out.line(format!("there are more; --cursor {last} shows them"));
        }
        let running = |item: &&Item| !item.is_damaged && item.row.status == JobStatus::Running;
        if let Some(item) = found.iter().find(running) {
            let go_on = command(&format!("run --job {}", item.row.job), &session.data);
            eprint(&format!("no engine runs on this store now; `{go_on}` goes on"));
        }
    }
    let damaged = found.iter().filter(|item| item.is_damaged).count();
    if damaged > 0 { Err(some_are_damaged(damaged)) } else { Ok(Exit::Done) }
}

/// The jobs that were asked for, and one more where there are more. The status of a damaged one
/// cannot be known, so it may be any that was asked for.
async fn find(engine: &Engine, args: &ListArgs, limit: usize) -> Result<Vec<Item>, CliError> {
    let (mut found, mut before) = (Vec::new(), args.cursor);
    while found.len() <= limit {
        let rows = engine.jobs(before, store::PAGE).await?;
        let Some(last) = rows.last() else { break };
        before = Some(last.job);
        for row in rows {
            let is_damaged = store::is_damaged(engine, &row).await?;
            if is_damaged || args.status.is_empty() || args.status.contains(&row.status) {
                found.push(Item { row, is_damaged });
            }
        }
    }
    Ok(found)
}

fn some_are_damaged(count: usize) -> CliError {
    let jobs = if count == 1 { "1 job".into() } else { format!("{count} jobs") };
    let detail = format!(
        "{jobs} of this list cannot be read; `annals verify` shows the damage, a backup brings \
         back what was lost"
    );
    CliError::new(Exit::Unreachable, "store_damaged", detail)
}

impl Item {
    fn to_json(&self) -> String {
        if self.is_damaged {
            // Nothing else of the row is sure to be true.
            return format!(r#"{{"id":"{}","damaged":true}}"#, self.row.job);
        }
        dto::Row::of(&self.row).to_json()
    }

    fn line(&self) -> String {
        let row = &self.row;
        if self.is_damaged {
            return format!("{}  {}  {}", row.job, date(row.created), damaged());
        }
        let (done, total) = (row.completed_tasks + row.skipped_tasks, row.total_tasks);
        // The status is padded apart, because its colour has no width.
        let space = " ".repeat(10_usize.saturating_sub(row.status.as_str().len()));
        let (id, created) = (row.job, date(row.created));
        let (status, name) = (job_status(row.status), plain(&row.name));
        let mut line = format!("{id}  {created}  {status}{space} {done:>3}/{total:<3}  {name}");
        if let Some(error) = &row.error {
            line.push_str(": ");
            line.push_str(&brief(&error.message));
        }
        line
    }
}
