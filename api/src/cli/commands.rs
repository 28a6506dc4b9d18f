//! Commands on jobs. In a store that no engine runs on they are recorded, and carried out by the
//! next engine that does.

use annals_engine::job::{CancelMode, JobStatus, PauseMode};
use annals_tasks_sdk::Payload;

use super::Session;
use super::args::{Asked, CancelArgs, CommandArgs, ExecuteArgs, PauseArgs, RemoveArgs, SkipArgs};
use super::backend::{Answered, Backend, Settled, Verb};
use super::edit_args::RetryArgs;
use super::error::{CliError, Exit};
use super::place::Place;
use super::text::plain;
use super::view::{self, DryRun, Event, Job};

pub(super) async fn execute(args: ExecuteArgs, session: Session) -> Result<Exit, CliError> {
    let verb = Verb::Execute { paused: args.paused };
    ask(&args.job, verb, &args.asked, session).await
}

pub(super) async fn cancel(args: CancelArgs, session: Session) -> Result<Exit, CliError> {
    let mode = if args.now { CancelMode::Now } else { CancelMode::Orderly };
    ask(&args.job, Verb::Cancel(mode), &args.asked, session).await
}

pub(super) async fn pause(args: PauseArgs, session: Session) -> Result<Exit, CliError> {
    let mode = if args.interrupt { PauseMode::Interrupt } else { PauseMode::Drain };
    ask(&args.job, Verb::Pause(mode), &args.asked, session).await
}

pub(super) async fn resume(args: CommandArgs, session: Session) -> Result<Exit, CliError> {
    ask(&args.job, Verb::Resume, &args.asked, session).await
}

pub(super) async fn skip(args: SkipArgs, session: Session) -> Result<Exit, CliError> {
    let output = args.output.as_deref().map(Payload::parse).transpose();
    let output =
        output.map_err(|error| CliError::usage(format!("--output must be JSON: {error}")))?;
    let verb = Verb::Skip { task: args.task, output, cascade: args.cascade };
    ask(&args.job, verb, &args.asked, session).await
}

pub(super) async fn remove(args: RemoveArgs, session: Session) -> Result<Exit, CliError> {
    let verb = Verb::Remove { task: args.task, cascade: args.cascade };
    ask(&args.job, verb, &args.asked, session).await
}

pub(super) async fn retry(args: RetryArgs, session: Session) -> Result<Exit, CliError> {
    ask(&args.job, Verb::Retry { task: args.task }, &args.asked, session).await
}

/// Asks something of a job, and says what came of it.
pub(super) async fn ask(
    job: &str,
    verb: Verb,
    asked: &Asked,
    mut session: Session,
) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(job).await?;
    let help = match &verb {
        Verb::Skip { .. } => " (--output JSON, --cascade)",
        Verb::Remove { .. } => " (--cascade)",
        _ => "",
    };
    let answer = backend.command(job, verb, asked).await;
    let answer = answer.map_err(|error| error.with_flags("output_is_taken", help))?;
    if session.json {
        session.out.line(&answer.json);
    } else if asked.dry_run {
        session.out.lines(would(&answer)?);
    } else {
        session.out.line(did(&answer, &session.place)?);
    }
    backend.close().await?;
    Ok(Exit::Done)
}

fn nothing(job: &Job) -> String {
    format!("nothing to do: job {} is {} and stays so", job.id, job.status)
}

/// What a dry run shows.
fn would(answer: &Answered) -> Result<Vec<String>, CliError> {
    let DryRun { events, job } = view::parse(&answer.json)?;
    if events.is_empty() {
        return Ok(vec![nothing(&job)]);
    }
    let first = format!("would be accepted: job {} would be {}", job.id, job.status);
    Ok(would_be(first, &events))
}

/// A line, and below it events that would be.
pub(super) fn would_be(first: String, events: &[Event]) -> Vec<String> {
    let mut lines = vec![first];
    for event in events {
        let task = event.data.task.as_ref().map_or_else(String::new, |task| format!("  {task}"));
        lines.push(format!("  {}{task}", plain(&event.kind)));
    }
    lines
}

/// What a command did.
fn did(answer: &Answered, place: &Place) -> Result<String, CliError> {
    let job: Job = view::parse(&answer.json)?;
    if !answer.is_news {
        return Ok(nothing(&job));
    }
    let what = answer.settled.words().unwrap_or_else(|| "accepted: ".into());
    let then = if place.runs_nothing() { needs(&job, place) } else { String::new() };
    Ok(format!("{what}job {} is {}{then}", job.id, job.status))
}

/// What a job needs to move where nothing runs.
fn needs(job: &Job, place: &Place) -> String {
    let go_on = place.go_on(job.id, job.status);
    match job.status {
        JobStatus::Running => format!("; nothing runs now: `{go_on}` goes on"),
        JobStatus::Pending => format!("; nothing runs now: `{go_on}` starts it"),
        JobStatus::Paused => format!("; `{go_on}` resumes it"),
        JobStatus::Failed => format!("; `{go_on}` executes it again"),
        JobStatus::Completed | JobStatus::Cancelled => String::new(),
    }
}

impl Settled {
    fn words(&self) -> Option<String> {
        let how = self.how;
        match &self.tasks[..] {
            [] => None,
            [task] => Some(format!("task {task} is {how}; ")),
            tasks => Some(format!("tasks {} are {how}; ", tasks.join(", "))),
        }
    }
}
