//! What can be said on the command line.

use std::path::PathBuf;

use annals_engine::job::JobStatus;
use annals_tasks_sdk::{JobId, TaskId};
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::flags::{EngineFlags, ServerFlags};

/// A durable workflow engine whose event log is the truth.
///
/// `annals run FILE` runs a plan here and now. Where it fails, is stopped or is killed, the same
/// command goes on from there; what has completed does not run again.
#[derive(Debug, Parser)]
#[command(name = "annals", version, after_help = AFTER_HELP)]
pub(super) struct Cli {
    /// The folder of the store. [default: ./annals-data]
    #[arg(long, global = true, env = "ANNALS_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// The file with settings, which flags and variables overrule. [default: annals.toml, if it
    /// is there]
    #[arg(long, global = true, env = "ANNALS_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Answer in JSON: one document, or one per line where it follows.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 completed or accepted, 1 failed, 2 usage or an invalid file or plan, 3 cancelled,
4 paused, 5 rejected, 6 no such job or task, 7 the store is out of reach, 129 hung up,
130 interrupted, 143 terminated.
JOB is a job's id, or the beginning of one that no other job's id has.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a plan in the foreground, or go on with it.
    ///
    /// Goes on with the job of the same file and input if there is one that has not completed
    /// and was not cancelled; what has completed does not run again. Ctrl-C stops what runs and
    /// pauses the job. Where the file has changed since, nothing runs: the difference is shown,
    /// and --job or --new says what is meant.
    Run(RunArgs),
    /// Serve the store by HTTP, and run its jobs.
    ///
    /// Answers under /api/v1, which /api/v1/openapi.json describes, and at /livez, /readyz and
    /// /metrics. SIGTERM and Ctrl-C end it in good order: jobs go on at the next start. A second
    /// signal ends it at once, which is as safe.
    ///
    /// Each setting can be a flag, a variable, or a line of annals.toml with the name of the flag
    /// and _ for -, such as `listen = "127.0.0.1:8080"`; the first of these that there is holds.
    Serve(ServerFlags),
    /// Check a plan file; run nothing.
    Validate(ValidateArgs),
    /// List jobs, the newest first.
    List(ListArgs),
    /// Show a job with its tasks, and why it does not move.
    Show(JobArgs),
    /// Print what an attempt of a task has written.
    Logs(LogsArgs),
    /// Print the history of a job.
    Events(EventsArgs),
    /// Release a pending job, or open a failed or cancelled one again.
    Execute(ExecuteArgs),
    /// End a job.
    Cancel(CommandArgs),
    /// Hold a job.
    Pause(PauseArgs),
    /// Take a pause back.
    Resume(CommandArgs),
    /// Go on without a task.
    Skip(SkipArgs),
    /// Take a task out of the plan.
    Remove(RemoveArgs),
    /// Check the whole store: every hash, every chain, every value.
    Verify,
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether its answer is all that it does.
    pub(super) fn only_reads(&self) -> bool {
        let looks = matches!(self, Self::List(_) | Self::Show(_) | Self::Logs(_));
        looks || matches!(self, Self::Events(_) | Self::Validate(_) | Self::Verify)
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The plan: YAML, or JSON where the name ends with .json.
    #[arg(required_unless_present = "job")]
    pub(super) file: Option<PathBuf>,
    /// The job's input in place of the plan's.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(super) input: Option<String>,
    /// Set a part of the input; VALUE is JSON, or else a text.
    #[arg(long, value_name = "POINTER=VALUE")]
    pub(super) set: Vec<String>,
    /// Start a new job, also where one could go on.
    #[arg(long, conflicts_with = "job")]
    pub(super) new: bool,
    /// Go on with this job and the plan that is stored with it.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["input", "set"])]
    pub(super) job: Option<String>,
    #[command(flatten)]
    pub(super) flags: EngineFlags,
}

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// The plan: YAML, or JSON where the name ends with .json.
    pub(super) file: PathBuf,
    /// The job's input in place of the plan's.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(super) input: Option<String>,
    /// Set a part of the input; VALUE is JSON, or else a text.
    #[arg(long, value_name = "POINTER=VALUE")]
    pub(super) set: Vec<String>,
    #[command(flatten)]
    pub(super) flags: EngineFlags,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only jobs with this status; may be given more than once.
    #[arg(long, value_parser = status)]
    pub(super) status: Vec<JobStatus>,
    /// At most so many.
    #[arg(long, default_value_t = 100, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: u32,
    /// Go on behind a list that ended with this `next_cursor`.
    #[arg(long)]
    pub(super) cursor: Option<JobId>,
}

fn status(word: &str) -> Result<JobStatus, String> {
    let found = JobStatus::ALL.iter().find(|status| status.as_str() == word);
    found.copied().ok_or_else(|| {
        let words: Vec<_> = JobStatus::ALL.iter().map(|status| status.as_str()).collect();
        format!("it is one of {}", words.join(", "))
    })
}

#[derive(Debug, Args)]
pub(super) struct JobArgs {
    /// The job.
    pub(super) job: String,
}

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The job.
    pub(super) job: String,
    /// The task's id.
    pub(super) task: String,
    /// Which attempt; the last one by default.
    #[arg(long, value_name = "N")]
    pub(super) attempt: Option<u32>,
    /// One stream alone.
    #[arg(long)]
    pub(super) stream: Option<StreamName>,
    /// Only the last lines.
    #[arg(long, value_name = "N")]
    pub(super) tail: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum StreamName {
    Stdout,
    Stderr,
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// The job.
    pub(super) job: String,
    /// Only events with a greater number.
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub(super) after: u64,
}

/// What all commands on jobs take.
#[derive(Debug, Args)]
pub(super) struct Asked {
    /// Why; kept with the events.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// Refuse if the job's last event has another number.
    #[arg(long, value_name = "SEQ")]
    pub(super) expected_seq: Option<u64>,
    /// Show what would happen, and do nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct CommandArgs {
    /// The job.
    pub(super) job: String,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct ExecuteArgs {
    /// The job.
    pub(super) job: String,
    /// Open it, but hold it.
    #[arg(long)]
    pub(super) paused: bool,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    /// The job.
    pub(super) job: String,
    /// Stop what runs; it runs again after resume.
    #[arg(long)]
    pub(super) interrupt: bool,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct SkipArgs {
    /// The job.
    pub(super) job: String,
    /// The task; the only one that waits, is interrupted or has failed by default.
    #[arg(value_parser = task)]
    pub(super) task: Option<TaskId>,
    /// What those that need its output are given instead.
    #[arg(long, value_name = "JSON")]
    pub(super) output: Option<String>,
    /// Skip those that need its output, too.
    #[arg(long)]
    pub(super) cascade: bool,
    #[command(flatten)]
    pub(super) asked: Asked,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The job.
    pub(super) job: String,
    /// The task.
    #[arg(value_parser = task)]
    pub(super) task: TaskId,
    /// Remove those that need its output, too.
    #[arg(long)]
    pub(super) cascade: bool,
    #[command(flatten)]
    pub(super) asked: Asked,
}

fn task(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|error| error.rule.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_needs_a_file_or_a_job() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        assert!(parse("annals run plan.yaml --set /a=1 --set /b=2 --data d --json"));
        assert!(parse("annals --json --data d run --job 0197"));
        assert!(parse("annals run plan.yaml --job 0197"));
        assert!(parse("annals serve --allow-shell --listen 127.0.0.1:0"));
        assert!(parse("annals serve --allow-shell=false --config annals.toml"));
        for line in [
            "annals run",
            "annals run plan.yaml --job 0197 --new",
            "annals run --job 0197 --set /a=1",
            "annals list --status done",
            "annals remove 0197 -x",
            "annals skip 0197 a/b",
            "annals serve --allow-shell false",
            "annals",
        ] {
            assert!(!parse(line), "{line}");
        }
    }
}
