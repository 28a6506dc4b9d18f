//! `annals list`.

use annals_engine::job::JobStatus;
use annals_tasks_sdk::{JobId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Session;
use super::args::ListArgs;
use super::backend::{Backend, Listing};
use super::error::{CliError, Exit};
use super::output::eprint;
use super::text::{brief, damaged, date, job_status, plain};
use super::view::{self, Job, Row};

#[derive(Serialize)]
struct List<'a> {
    items: &'a [Box<RawValue>],
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}

pub(super) async fn list(args: &ListArgs, mut session: Session) -> Result<Exit, CliError> {
    let wanted = Listing {
        filter: args.filter.filter().map_err(|bad| CliError::usage(bad.to_string()))?,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
        cursor: args.cursor.clone(),
    };
    let backend = Backend::open(&session).await?;
    let page = backend.list(wanted).await?;
    backend.close().await?;
    let rows: Vec<Row> =
        page.items.iter().map(|item| view::parse(item.get())).collect::<Result<_, _>>()?;
    if session.json {
        let list = List { items: &page.items, next_cursor: page.next_cursor.as_deref() };
        session.out.line(serde_json::to_string(&list).unwrap_or_default());
    } else {
        session.out.lines(rows.iter().map(line));
        if let Some(cursor) = &page.next_cursor {
            session.out.line(format!("there are more; --cursor {} shows them", plain(cursor)));
        }
        if let Some(job) = rows.iter().find_map(running).filter(|_| session.place.runs_nothing()) {
            let go_on = session.place.go_on(job.id, job.status);
            eprint(&format!("no engine runs on this store now; `{go_on}` goes on"));
        }
    }
    match rows.iter().filter(|row| matches!(row, Row::Damaged(_))).count() {
        0 => Ok(Exit::Done),
        damaged => Err(some_are_damaged(damaged)),
    }
}

fn running(row: &Row) -> Option<&Job> {
    match row {
        Row::Known(job) if job.status == JobStatus::Running => Some(job),
        _ => None,
    }
}

fn some_are_damaged(count: usize) -> CliError {
    let jobs = if count == 1 { "1 job".into() } else { format!("{count} jobs") };
    let detail = format!(
        "{jobs} of this list cannot be read; `annals verify` shows the damage, a backup brings \
         back what was lost"
    );
    CliError::new(Exit::Unreachable, "store_damaged", detail)
}

fn line(row: &Row) -> String {
    let job = match row {
        Row::Damaged(id) => return format!("{id}  {}  {}", date(made(*id)), damaged()),
        Row::Known(job) => job,
    };
    let counts = job.progress;
    let done = counts.completed + counts.skipped;
    // The status is padded apart, because its colour has no width.
    let space = " ".repeat(10_usize.saturating_sub(job.status.as_str().len()));
    let (id, created, status) = (job.id, date(job.created), job_status(job.status));
    let (total, name) = (counts.total, plain(&job.name));
    let mut line = format!("{id}  {created}  {status}{space} {done:>3}/{total:<3}  {name}");
    if let Some(error) = &job.error {
        line.push_str(": ");
        line.push_str(&brief(&error.message));
    }
    if let Some(wanted) = &job.wants_key {
        let key = plain(&wanted.key);
        let holder = wanted.holder;
        line.extend([": waits for its key ", &key, ", which job ", &holder.to_string(), " holds"]);
    }
    line
}

/// When an id was made, which is all that is known of a job that cannot be read.
fn made(id: JobId) -> Timestamp {
    // The first 48 bits of a UUIDv7 are milliseconds since 1970.
    Timestamp::from_millis(i64::try_from(id.as_u128() >> 80).unwrap_or(0))
}
