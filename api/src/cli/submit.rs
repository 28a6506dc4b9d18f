//! `annals submit`: a job is left to whoever runs it.

use annals_engine::job::JobStatus;

use super::Session;
use super::args::SubmitArgs;
use super::backend::{Backend, Draft, Order, Submitted};
use super::error::{CliError, Exit};
use super::live::begins;
use super::place::Place;
use super::text::{plain, tasks};
use super::view::{self, DryRun, Job};
use super::watch::{self, Since};
use crate::plan_file::{Overrides, PlanFile};

pub(super) async fn submit(args: &SubmitArgs, mut session: Session) -> Result<Exit, CliError> {
    if args.watch && session.place.runs_nothing() {
        let detail = "nothing runs in a store that no server holds: `annals run` runs a plan and \
            shows it, --server has a server do so";
        return Err(CliError::usage(detail));
    }
    let overrides = Overrides::read(args.input.as_deref(), &args.set);
    let overrides = overrides.map_err(|error| CliError::usage(error.to_string()))?;
    let file = args.file.as_deref().map(PlanFile::read).transpose()?;
    let order = Order {
        draft: draft(args, file.as_ref(), &overrides)?,
        key: args.idempotency_key.clone(),
        dry_run: args.dry_run,
    };
    let backend = Backend::open_or_make(&session).await?;
    let submitted = backend.submit(order).await;
    let submitted = submitted.map_err(|error| match &file {
        Some(file) => error.in_file(file, &overrides),
        None => error,
    })?;
    if let (true, Backend::Served(server)) = (args.watch, &backend) {
        let job: Job = view::parse(&submitted.json)?;
        return watch::follow(server, &job, Since::Begin, &mut session).await;
    }
    backend.close().await?;
    if session.json {
        session.out.line(&submitted.json);
    } else if args.dry_run {
        let DryRun { job, .. } = view::parse(&submitted.json)?;
        session.out.line(would(&job));
    } else {
        session.out.lines(did(&submitted, &session.place)?);
    }
    Ok(Exit::Done)
}

fn draft(
    args: &SubmitArgs,
    file: Option<&PlanFile>,
    overrides: &Overrides,
) -> Result<Draft, CliError> {
    if let Some(file) = file {
        let source = std::fs::canonicalize(file.path());
        let source = source.unwrap_or_else(|_| file.path().to_owned());
        let json = file.with(overrides)?;
        return Ok(Draft::Plan { json, source: source.to_string_lossy().into_owned() });
    }
    let name = args.workflow.clone().unwrap_or_default();
    let input = overrides.input();
    let input = input.map_err(|error| CliError::usage(error.to_string()))?;
    Ok(Draft::Workflow { name, input })
}

fn would(job: &Job) -> String {
    format!("would be accepted: {}, {}", plain(&job.name), tasks(job.progress.total))
}

/// That a job was submitted, and what to type next.
pub(super) fn did(submitted: &Submitted, place: &Place) -> Result<Vec<String>, CliError> {
    let job: Job = view::parse(&submitted.json)?;
    let known = if submitted.is_known { " (submitted before, by this key)" } else { "" };
    let mut lines = vec![format!("{}{known}", begins(&job))];
    let mut next = |what: &str, verb: &str| {
        let command = place.command(&format!("{verb} {}", job.id));
        lines.push(format!("  {what:<8}{command}"));
    };
    if place.runs_nothing() {
        next("run:", "run --job");
        lines.push("nothing runs now; `annals serve` on this store runs it, too".into());
    } else {
        if job.status == JobStatus::Pending {
            next("start:", "execute");
        }
        next("watch:", "watch");
    }
    Ok(lines)
}
