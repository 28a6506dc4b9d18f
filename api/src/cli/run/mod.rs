//! `annals run`: a plan in the foreground, begun or gone on with.

mod choose;
mod difference;
mod follow;
mod summary;

use std::path::PathBuf;

use annals_engine::job::{Command, Intent, Job, JobStatus};
use annals_engine::runtime::CommandError;
use annals_engine::{Ask, Engine, JobHandle, Submission};
use annals_tasks_sdk::JobId;
use annals_tasks_sdk::plan::Plan;

use super::args::RunArgs;
use super::error::{CliError, Exit};
use super::live::{Seen, Signals};
use super::output::eprint;
use super::{Session, store, validate};
use crate::settings::Settings;
use choose::Choice;

/// What is known of a run besides its job: how to say what to type.
struct Run {
    session: Session,
    /// What `annals run` was given, as it is typed: a file, where nothing overrides it.
    again: Option<String>,
}

pub(super) async fn run(args: RunArgs, session: Session) -> Result<Exit, CliError> {
    // The handlers stand before anything is begun, so that no Ctrl-C is lost.
    let signals = Signals::listen()?;
    let plain_file = args.input.is_none() && args.set.is_empty() && args.job.is_none();
    let again = args.file.as_ref().filter(|_| plain_file);
    let again = again.map(|file| super::text::shell_quoted(&file.display().to_string()));
    let settings = args.flags.settings(session.file.as_ref())?;
    let choice = choose(&args, &settings, &session).await?;
    let mut run = Run { session, again };
    let engine = run.session.app.builder(run.session.place.store()?, |new| settings.apply(new));
    let engine = engine.start().await?;
    let (job, seen) = match choice {
        Choice::Submit { plan, source, other } => {
            if let Some(other) = other.filter(|_| !run.session.json) {
                run.session.out.line(summary::leaves_alone(&other, &run));
            }
            (submit(&engine, plan, source).await?, Seen::NOTHING)
        }
        Choice::GoOn(held) => go_on(&engine, &held, &mut run).await?,
    };
    let outcome = follow::follow(&job, seen, signals, &mut run).await?;
    close(&engine, job.id(), &mut run).await?;
    Ok(outcome)
}

async fn choose(
    args: &RunArgs,
    settings: &Settings,
    session: &Session,
) -> Result<Choice, CliError> {
    let read = |file, input, sets| validate::read(session, settings, file, input, sets);
    if let Some(text) = &args.job {
        let (engine, job, _) = store::look(session, text).await?;
        let choice = choose::go_on_with(&job).await?;
        if let Some(file) = &args.file
            && !session.json
            && choose::differs(&engine, job.id(), &read(file, None, &[])?).await?
        {
            let file = file.display().to_string();
            let file = super::text::plain(&file);
            eprint(&format!("{file} is not what the job was started with: the stored plan is run"));
        }
        engine.shutdown().await?;
        return Ok(choice);
    }
    let Some(file) = &args.file else { return Err(CliError::usage("name a plan file")) };
    let plan = read(file, args.input.as_deref(), &args.set)?;
    let source = std::fs::canonicalize(file).unwrap_or_else(|_| PathBuf::from(file));
    let source = source.to_string_lossy().into_owned();
    if args.new {
        return Ok(Choice::Submit { plan: Box::new(plan), source, other: None });
    }
    choose::choose(plan, source, session).await
}

async fn submit(engine: &Engine, plan: Box<Plan>, source: String) -> Result<JobHandle, CliError> {
    let submission = Submission {
        plan: *plan,
        workflow: None,
        source: Some(source.into()),
        origin: store::origin(None),
        key: None,
    };
    let job = engine.submit_plan(submission).await?;
    start(&job).await?;
    Ok(job)
}

/// A plan that starts by hand has its hand here; one that starts at a time is waited for.
async fn start(job: &JobHandle) -> Result<(), CliError> {
    let now = job.snapshot().await?.job;
    if now.status() == JobStatus::Pending && now.starts_at().is_none() {
        ask(job, Command::Execute { paused: false }).await?;
    }
    Ok(())
}

/// Has a job go on from where it was held; gives from where on it is news.
async fn go_on(engine: &Engine, held: &Job, run: &mut Run) -> Result<(JobHandle, Seen), CliError> {
    let job = engine.job(held.id());
    if !run.session.json {
        run.session.out.line(summary::goes_on(held));
    }
    // What the job was before anything of the store ran decides: if the start itself has found
    // it failing, then that is news, and to try again is for the next run.
    if let Some(command) = next(held) {
        // What was paused before it ever started is pending after its resume.
        if ask(&job, command).await? == JobStatus::Pending {
            start(&job).await?;
        }
    }
    Ok((job, Seen::state(held.seq(), held.status())))
}

/// The command that has a job go on, if it needs one.
fn next(job: &Job) -> Option<Command> {
    match (job.status(), job.intent()) {
        (JobStatus::Pending, None) if job.starts_at().is_some() => None,
        (JobStatus::Pending | JobStatus::Failed | JobStatus::Cancelled, None) => {
            Some(Command::Execute { paused: false })
        }
        (JobStatus::Paused, None) | (_, Some(Intent::Pause)) => Some(Command::Resume),
        _ => None,
    }
}

async fn ask(job: &JobHandle, command: Command) -> Result<JobStatus, CommandError> {
    let ask = Ask { origin: store::origin(None), ..Ask::default() };
    Ok(job.command(command, ask).await?.snapshot.job.status())
}

/// Closes the store in good order. Other jobs of it may have been going on meanwhile.
async fn close(engine: &Engine, job: JobId, run: &mut Run) -> Result<(), CliError> {
    let rows = engine.jobs(None, store::PAGE).await?;
    let mut others = 0;
    for row in &rows {
        // What is held goes on with nothing, and what cannot be read has not been going on.
        let active = row.active && row.status == JobStatus::Running && row.job != job;
        others += usize::from(active && !store::is_damaged(engine, row).await?);
    }
    if others > 0 && !run.session.json {
        let line = match others {
            1 => "stopping another job of this store; it goes on with the next run".to_owned(),
            _ => {
                format!("stopping {others} other jobs of this store; they go on with the next run")
            }
        };
        run.session.out.line(line);
    }
    Ok(engine.shutdown_now().await?)
}
