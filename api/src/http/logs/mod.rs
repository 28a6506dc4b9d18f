//! What an attempt has written: as text, or line by line as it is written.
//!
//! Ids of jobs and tasks are read into types, and a log is found by the numbers of its task and
//! attempt: nothing of a request becomes a part of a path.

mod follow;
mod text;

use annals_engine::job::AttemptOutcome;
use annals_engine::runtime::Snapshot;
use annals_engine::steplog::{Extent, LogName};
use annals_tasks_sdk::{Stream, TaskId};
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Running, TaskPath};
use super::jobs::find;
use super::problem::{Code, Problem};
use super::query::{Asked, FromQuery, Parameters, bad_query};
use super::sse::Wanted;
use super::state::AppState;
use crate::loss;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(read))
}

/// Which part of which log is asked for.
#[derive(Debug, Clone, Copy)]
struct Wish {
    attempt: Option<u32>,
    stream: Option<Stream>,
    tail: Option<usize>,
    after: u64,
}

impl FromQuery for Wish {
    const KNOWN: &'static [&'static str] = &["attempt", "stream", "tail", "after"];

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let stream = match parameters.text("stream")? {
            None => None,
            Some("stdout") => Some(Stream::Stdout),
            Some("stderr") => Some(Stream::Stderr),
            Some(_) => return Err(bad_query("`stream` must be stdout or stderr")),
        };
        let (attempt, tail) = (parameters.number("attempt")?, parameters.number("tail")?);
        let after = parameters.number("after")?.unwrap_or(0);
        Ok(Self { attempt, stream, tail, after })
    }
}

/// What an attempt of a task has written.
///
/// As text: the bytes as they were written, both streams in their order. Where the log had to drop
/// some to keep within its budget, a note in brackets stands for them. `X-Annals-Log-Next` is what
/// to give as `after` to go on behind the answer; `X-Annals-Log-Complete` says whether the attempt
/// is over, so that there will be nothing more; `X-Annals-Log-Attempt` which attempt it is. If
/// something is missing that the attempt has written, because its log is damaged, was lost with the
/// power, or found no room on the disk, a note at the end says so, and `X-Annals-Log-Missing` how
/// many bytes.
///
/// With `Accept: text/event-stream` each line comes as it is written, in a frame `line` with
/// `{"time", "stream", "text"}`, and `"partial": true` where the line goes on with the next one of
/// its stream; what is not UTF-8 is replaced, and `bytes_base64` has the bytes then.
/// A frame `gap` has `{"gap_bytes"}`. The `id` of a
/// frame is the attempt and the place behind it; `Last-Event-ID` counts more than `after` and
/// `tail`. When the attempt is over and all was sent, a frame `end` without an id says so, and the
/// stream is over. A client that comes again with the last id is told by 204 that there is nothing
/// more.
#[utoipa::path(get, path = "/jobs/{id}/tasks/{task}/log", operation_id = "readLog", tag = "tasks",
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("task" = String, Path, description = "The task's id"),
        ("attempt" = Option<u32>, Query, minimum = 1,
            description = "The attempt; the last one where it is left out"),
        ("stream" = Option<String>, Query,
            description = "`stdout` or `stderr` alone; `after` then counts that stream's bytes"),
        ("tail" = Option<u32>, Query, description = "Only so many lines at the end"),
        ("after" = Option<u64>, Query, description = "Only what comes behind so many bytes"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last frame of a \
            stream that was interrupted"),
    ),
    responses(
        (status = 200, description = "The log", content(
            (String = "text/plain"), (String = "text/event-stream")),
            headers(
                ("X-Annals-Log-Attempt" = u32, description = "Which attempt it is"),
                ("X-Annals-Log-Next" = u64, description = "`after` for what comes behind"),
                ("X-Annals-Log-Complete" = bool, description = "Whether nothing more will come"),
                ("X-Annals-Log-Missing" = String,
                    description = "How many bytes cannot be read any more, or `unknown`"))),
        (status = 204, description = "The attempt is over, and the client has all of its log"),
        (status = 410, description = "The attempt has written something, and its log is gone"),
    ))]
async fn read(
    TaskPath(job, task): TaskPath,
    Asked(wish): Asked<Wish>,
    wanted: Wanted,
    Running(engine): Running,
    State(state): State<AppState>,
) -> Result<Response, Problem> {
    match wanted {
        Wanted::Document => text::answer(&engine, job, &task, wish).await,
        Wanted::Stream(last) => follow::answer(engine, job, task, wish, &last, &state).await,
    }
}

/// An attempt whose log is asked for.
#[derive(Debug, Clone)]
struct Subject {
    name: LogName,
    /// How it ended; none while it is alive.
    outcome: Option<AttemptOutcome>,
    /// How many bytes it has written, as the event log has it: known once it has ended, unless it
    /// was lost.
    written: Option<u64>,
}

impl Subject {
    /// The attempt with this number, or the last one; none where the task has not begun yet.
    fn find(
        snapshot: &Snapshot,
        task: &TaskId,
        wanted: Option<u32>,
    ) -> Result<Option<Self>, Problem> {
        let (number, state) = find(snapshot, task)?;
        let attempts = state.attempts();
        let no_such = |detail| Problem::new(Code::NO_SUCH_ATTEMPT, detail);
        let attempt = match (wanted, attempts.last()) {
            (None, None) => return Ok(None),
            (None, last) => last,
            (Some(wanted), _) => attempts.iter().find(|attempt| attempt.number == wanted),
        };
        let attempt = attempt.ok_or_else(|| {
            let wanted = wanted.unwrap_or(0);
            no_such(match attempts.last() {
                Some(last) => {
                    format!("task {task} has no attempt {wanted}; its last is {}", last.number)
                }
                None => loss::not_run(&snapshot.job, state),
            })
        })?;
        let name = LogName { job: snapshot.job.id(), number: number.0, attempt: attempt.number };
        let (outcome, written) = (attempt.outcome, loss::written(attempt));
        Ok(Some(Self { name, outcome, written }))
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// What of it cannot be read, though it was written.
    fn missing(&self, total: u64) -> u64 {
        loss::missing(self.written, total)
    }
}

/// Of a task without an attempt: that it has none yet, or where its log is.
fn not_run(snapshot: &Snapshot, task: &TaskId) -> Result<Problem, Problem> {
    let (_, state) = find(snapshot, task)?;
    Ok(Problem::new(Code::NO_SUCH_ATTEMPT, loss::not_run(&snapshot.job, state)))
}

/// A log that cannot be read at all.
fn unreadable(subject: &Subject, error: &std::io::Error) -> Problem {
    let attempt = subject.name.attempt;
    let detail = format!("the log of attempt {attempt} cannot be read: {error}");
    Problem::new(Code::LOG_UNREADABLE, detail)
}

/// Finds out whether anything of a log is there.
fn check(subject: &Subject, extent: &Extent) -> Result<(), Problem> {
    if extent.total > 0 {
        return Ok(());
    }
    if let Some(error) = &extent.damage {
        return Err(unreadable(subject, error));
    }
    match subject.written {
        Some(written) if written > 0 => {
            Err(Problem::new(Code::LOG_MISSING, loss::gone(subject.name.attempt, written)))
        }
        _ => Ok(()),
    }
}
