//! Commands on jobs of a store that no engine runs on: recorded here, carried out by the next
//! `annals run --job`.

use annals_engine::Ask;
use annals_engine::job::{Command, Event, JobStatus, PauseMode};
use annals_engine::runtime::Answer;
use annals_tasks_sdk::Payload;
use serde::Serialize;
use serde_json::value::RawValue;

use super::args::{Asked, CommandArgs, ExecuteArgs, PauseArgs, RemoveArgs, SkipArgs};
use super::error::{CliError, Exit};
use super::{Session, store, text};
use crate::dto;

pub(super) async fn execute(args: ExecuteArgs, session: Session) -> Result<Exit, CliError> {
    let command = Command::Execute { paused: args.paused };
    ask(&args.job, command, &args.asked, session).await
}

pub(super) async fn cancel(args: CommandArgs, session: Session) -> Result<Exit, CliError> {
    ask(&args.job, Command::Cancel, &args.asked, session).await
}

pub(super) async fn pause(args: PauseArgs, session: Session) -> Result<Exit, CliError> {
    let mode = if args.interrupt { PauseMode::Interrupt } else { PauseMode::Drain };
    ask(&args.job, Command::Pause { mode }, &args.asked, session).await
}

pub(super) async fn resume(args: CommandArgs, session: Session) -> Result<Exit, CliError> {
    ask(&args.job, Command::Resume, &args.asked, session).await
}

pub(super) async fn skip(args: SkipArgs, session: Session) -> Result<Exit, CliError> {
    let output = args.output.as_deref().map(Payload::parse).transpose();
    let output =
        output.map_err(|error| CliError::usage(format!("--output must be JSON: {error}")))?;
    let command = Command::Skip { task: args.task, output, cascade: args.cascade };
    ask(&args.job, command, &args.asked, session).await
}

pub(super) async fn remove(args: RemoveArgs, session: Session) -> Result<Exit, CliError> {
    let command = Command::Remove { task: args.task, cascade: args.cascade };
    ask(&args.job, command, &args.asked, session).await
}

async fn ask(
    job: &str,
    command: Command,
    asked: &Asked,
    mut session: Session,
) -> Result<Exit, CliError> {
    let engine = store::hold(&session.data).await?;
    let job = store::find(&engine, job).await?;
    let ask = Ask {
        origin: store::origin(asked.reason.as_deref()),
        expected_seq: asked.expected_seq,
        dry_run: asked.dry_run,
    };
    let help = match &command {
        Command::Skip { .. } => " (--output JSON, --cascade)",
        Command::Remove { .. } => " (--cascade)",
        _ => "",
    };
    let answer = job.command(command, ask).await;
    let answer =
        answer.map_err(|error| CliError::from(error).with_flags("output_is_taken", help))?;
    if session.json {
        session.out.line(json(&answer, asked.dry_run));
    } else {
        session.out.lines(lines(&answer, asked.dry_run, &session.data));
    }
    engine.shutdown().await?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct DryRun<'a> {
    events: Vec<dto::Event<'a>>,
    job: Box<RawValue>,
}

fn json(answer: &Answer, dry_run: bool) -> String {
    let job = &answer.snapshot.job;
    let snapshot = dto::Job::at(&answer.snapshot).to_json();
    if !dry_run {
        return snapshot;
    }
    let events = answer.events.iter().map(|event| dto::Event::of(job, event)).collect();
    // A snapshot is JSON.
    let job = RawValue::from_string(snapshot).unwrap_or_default();
    crate::json::compact(&serde_json::to_string(&DryRun { events, job }).unwrap_or_default())
}

fn lines(answer: &Answer, dry_run: bool, data: &std::path::Path) -> Vec<String> {
    let job = &answer.snapshot.job;
    let (id, status) = (job.id(), job.status());
    if answer.events.is_empty() {
        return vec![format!("nothing to do: job {id} is {status} and stays so")];
    }
    if dry_run {
        let mut lines = vec![format!("would be accepted: job {id} would be {status}")];
        for recorded in &answer.events {
            let event = dto::Event::of(job, recorded);
            let task = event.task().map_or_else(String::new, |task| format!("  {task}"));
            lines.push(format!("  {}{task}", event.kind));
        }
        return lines;
    }
    let go_on = text::command(&format!("run --job {id}"), data);
    let then = match status {
        JobStatus::Running => format!("; nothing runs now: `{go_on}` goes on"),
        JobStatus::Pending => format!("; nothing runs now: `{go_on}` starts it"),
        JobStatus::Paused => format!("; `{go_on}` resumes it"),
        JobStatus::Failed => format!("; `{go_on}` executes it again"),
        JobStatus::Completed | JobStatus::Cancelled => String::new(),
    };
    let what = settled(answer).unwrap_or_else(|| "accepted: ".into());
    vec![format!("{what}job {id} is {status}{then}")]
}

/// Which tasks a skip or a removal has settled.
fn settled(answer: &Answer) -> Option<String> {
    let job = &answer.snapshot.job;
    let mut word = "";
    let tasks = answer.events.iter().filter_map(|recorded| {
        let (task, how) = match &recorded.event {
            Event::TaskSkipped { task, .. } => (task, "skipped"),
            Event::TaskRemoved { task } => (task, "removed"),
            _ => return None,
        };
        word = how;
        Some(job.task(*task)?.spec.id.as_str())
    });
    let tasks: Vec<&str> = tasks.collect();
    match tasks[..] {
        [] => None,
        [task] => Some(format!("task {task} is {word}; ")),
        _ => Some(format!("tasks {} are {word}; ", tasks.join(", "))),
    }
}
