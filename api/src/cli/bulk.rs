//! `annals bulk`: one command for many jobs.

use std::io::{self, BufRead, IsTerminal};

use annals_engine::job::{CancelMode, PauseMode};
use annals_tasks_sdk::{JobId, Payload, TaskId};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::Session;
use super::args::{FilterArgs, task};
use super::backend::{Backend, ForAll, Verb};
use super::error::{CliError, Exit};
use super::output::eprint;
use super::text::plain;
use super::view;
use crate::bulk::{ALL_AND_SOME, ALL_OR_SOME};

/// So many refusals are shown to people.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(super) struct BulkArgs {
    /// The command.
    command: CommandName,
    #[command(flatten)]
    filter: FilterArgs,
    /// All jobs.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    own: OwnArgs,
    /// Why; kept with the events.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Count the jobs that would accept it, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask first. Without a terminal nobody can be asked.
    #[arg(long)]
    yes: bool,
}

/// What some commands take by themselves.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags")]
struct OwnArgs {
    /// For execute: open them, but hold them.
    #[arg(long)]
    paused: bool,
    /// For pause: stop what runs; it runs again after resume.
    #[arg(long)]
    interrupt: bool,
    /// For cancel: without what the plans do at their ends.
    #[arg(long)]
    now: bool,
    /// For skip, remove and retry: the task.
    #[arg(long, value_parser = task)]
    task: Option<TaskId>,
    /// For skip: what those that need the task's output are given instead.
    #[arg(long, value_name = "JSON")]
    output: Option<String>,
    /// For skip and remove: those that need the task's output, too.
    #[arg(long)]
    cascade: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CommandName {
    Execute,
    Cancel,
    Pause,
    Resume,
    Skip,
    Remove,
    Retry,
    Purge,
}

/// What became of it, or would.
#[derive(Deserialize)]
struct Counted {
    matched: u64,
    accepted: u64,
    refused: Vec<Refusal>,
    #[serde(default)]
    more_refused: u64,
}

#[derive(Deserialize)]
struct Refusal {
    job_id: JobId,
    detail: String,
}

pub(super) async fn bulk(args: BulkArgs, mut session: Session) -> Result<Exit, CliError> {
    let filter = args.filter.filter().map_err(|bad| CliError::usage(bad.to_string()))?;
    match (args.all, filter.is_empty()) {
        (false, true) => return Err(CliError::usage(format!("{ALL_OR_SOME} with --all"))),
        (true, false) => return Err(CliError::usage(ALL_AND_SOME)),
        _ => {}
    }
    let verb = args.verb()?;
    let asks = !(args.yes || args.dry_run);
    if asks && !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let detail = "there is no terminal to ask on: --yes says that it is meant, --dry-run \
             counts the jobs";
        return Err(CliError::usage(detail));
    }
    let backend = Backend::open(&session).await?;
    let wanted =
        |dry_run| ForAll { verb: verb.clone(), filter: &filter, reason: &args.reason, dry_run };
    if asks {
        let would: Counted = view::parse(&backend.bulk(wanted(true)).await?)?;
        if !is_meant(verb.name(), &would) {
            backend.close().await?;
            eprint("nothing was done");
            return Ok(Exit::Done);
        }
    }
    let json = backend.bulk(wanted(args.dry_run)).await?;
    backend.close().await?;
    let counted: Counted = view::parse(&json)?;
    if session.json {
        session.out.line(json);
    } else {
        session.out.lines(lines(verb.name(), &counted, &args));
    }
    let none_refused = counted.refused.is_empty();
    Ok(if none_refused { Exit::Done } else { Exit::Rejected })
}

impl BulkArgs {
    fn verb(&self) -> Result<Verb, CliError> {
        use CommandName::{Cancel, Execute, Pause, Purge, Remove, Resume, Retry, Skip};
        let OwnArgs { paused, interrupt, now, task, output, cascade } = &self.own;
        let fits = |flag: &str, is_given: bool, with: &[CommandName]| {
            if !is_given || with.contains(&self.command) {
                return Ok(());
            }
            let names: Vec<&str> = with.iter().map(|name| name.as_str()).collect();
            Err(CliError::usage(format!("{flag} goes with {}", names.join(" or "))))
        };
        fits("--paused", *paused, &[Execute])?;
        fits("--interrupt", *interrupt, &[Pause])?;
        fits("--now", *now, &[Cancel])?;
        fits("--task", task.is_some(), &[Skip, Remove, Retry])?;
        fits("--output", output.is_some(), &[Skip])?;
        fits("--cascade", *cascade, &[Skip, Remove])?;
        let output = output.as_deref().map(Payload::parse).transpose();
        let output =
            output.map_err(|error| CliError::usage(format!("--output must be JSON: {error}")))?;
        let (task, cascade) = (task.clone(), *cascade);
        let named = || {
            let needs = format!("{} needs --task", self.command.as_str());
            task.clone().ok_or_else(|| CliError::usage(needs))
        };
        Ok(match self.command {
            Execute => Verb::Execute { paused: *paused },
            Cancel if *now => Verb::Cancel(CancelMode::Now),
            Cancel => Verb::Cancel(CancelMode::Orderly),
            Pause if *interrupt => Verb::Pause(PauseMode::Interrupt),
            Pause => Verb::Pause(PauseMode::Drain),
            Resume => Verb::Resume,
            Remove => Verb::Remove { task: named()?, cascade },
            Retry => Verb::Retry { task: named()? },
            Purge => Verb::Purge,
            Skip => Verb::Skip { task, output, cascade },
        })
    }
}

impl CommandName {
    fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Skip => "skip",
            Self::Remove => "remove",
            Self::Retry => "retry",
            Self::Purge => "purge",
        }
    }
}

/// Asks whoever sits at the terminal.
fn is_meant(verb: &str, would: &Counted) -> bool {
    let Counted { matched, accepted, .. } = would;
    eprint(&format!("{verb}: {accepted} of {} would accept it. Go on? [y/N]", jobs(*matched)));
    let mut answer = String::new();
    // What cannot be read is no consent.
    let read = io::stdin().lock().read_line(&mut answer).is_ok();
    read && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".into() } else { format!("{count} jobs") }
}

fn lines(verb: &str, counted: &Counted, args: &BulkArgs) -> Vec<String> {
    let Counted { matched, accepted, refused, more_refused } = counted;
    let count = refused.len() as u64 + more_refused;
    let would = if args.dry_run { "would have " } else { "" };
    let matched = jobs(*matched);
    let mut lines =
        vec![format!("{verb}: of {matched} {accepted} {would}accepted, {count} {would}refused")];
    let shown = refused.iter().take(SHOWN);
    lines.extend(shown.map(|Refusal { job_id, detail }| format!("  {job_id}: {}", plain(detail))));
    let more = count.saturating_sub(SHOWN as u64);
    if more > 0 {
        lines.push(format!("  and {more} more; --json has up to 10000"));
    }
    lines
}
