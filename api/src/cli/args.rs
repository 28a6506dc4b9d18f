//! What can be said on the command line.

use std::path::PathBuf;
use std::time::Duration;

use annals_tasks_sdk::TaskId;
use annals_tasks_sdk::duration::parse_duration;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::bulk::BulkArgs;
use super::bundle::ExportArgs;
use super::edit_args::{EditArgs, InsertArgs, MoveArgs, RetryArgs};
use super::events::EventsArgs;
use super::flags::{EngineFlags, ServerFlags};
use super::fork::ForkArgs;
use super::past::{DiffArgs, ReplayArgs};
use super::show::ShowArgs;
use super::signal::SignalArgs;
use super::verify::VerifyArgs;
use crate::list::{BadFilter, Filter};

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
    /// A server to ask in place of a store, such as `http://127.0.0.1:7117`; a store that is served
    /// names its server itself. Not for run, serve, validate and a verify of the whole.
    #[arg(long, global = true, env = "ANNALS_SERVER", value_name = "URL")]
    pub(super) server: Option<String>,
    /// How long a server that is away or not ready is asked again. What only reads does not wait
    /// where no server is.
    #[arg(long, global = true, env = "ANNALS_RETRY_FOR", value_name = "DURATION")]
    #[arg(default_value = "30s", value_parser = parse_duration)]
    pub(super) retry_for: Duration,
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
4 paused, 5 rejected, 6 no such job or task, 7 the server or the store is out of reach,
129 hung up, 130 interrupted, 143 terminated.
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
    /// Submit a job, and leave it to whoever runs it.
    ///
    /// A server runs it at once. In a store that no server holds it is recorded, and runs under
    /// the next `annals run --job` or `annals serve`. A submission that a server may have lost is
    /// sent again, and makes one job all the same.
    Submit(SubmitArgs),
    /// Check a plan file; run nothing.
    Validate(ValidateArgs),
    /// List jobs, the newest first.
    List(ListArgs),
    /// Show a job with its tasks, and why it does not move; or as it was.
    Show(ShowArgs),
    /// Say why a job does not move, or what it is doing, and what to type to change that.
    Explain(JobArgs),
    /// Watch a job on a server to its end, also through restarts of the server.
    ///
    /// The exit code is that of the job: 0 completed, 1 failed, 3 cancelled, 4 paused. Ctrl-C
    /// leaves the job alone. In a store that no server holds nothing moves: the job is shown.
    Watch(JobArgs),
    /// Print what an attempt of a task has written.
    Logs(LogsArgs),
    /// Print the history of a job.
    Events(EventsArgs),
    /// Write a job into a file that stands alone: its events, values and step logs, and the hashes
    /// that prove them.
    ///
    /// `annals verify --bundle FILE` checks such a file, and `annals replay --bundle FILE` replays
    /// it with the code of today; neither needs a store.
    Export(ExportArgs),
    /// Print the history of a job step by step: what each event has changed.
    ///
    /// With --bundle that of an exported job; then it tells also what the code of today makes of it
    /// that the build which exported it did not, and ends with exit code 1 if there is something.
    Replay(ReplayArgs),
    /// Print what is different between two states of a job, or between two jobs.
    ///
    /// `annals diff JOB 12 17` compares the job behind its events 12 and 17, `annals diff JOB 12`
    /// behind event 12 and now, and `annals diff JOB1 JOB2` two jobs as they are now, but for their
    /// ids and times.
    Diff(DiffArgs),
    /// Release a pending job, or open a failed or cancelled one again.
    Execute(ExecuteArgs),
    /// End a job.
    Cancel(CancelArgs),
    /// Purge a job that has ended: nothing is left of it but a tombstone.
    ///
    /// It is in no list then, and whatever asks for it is told when it was purged and by whom. Its
    /// step logs and its work folder are removed; jobs that were forked from it stay. It cannot be
    /// taken back.
    Purge(CommandArgs),
    /// Hold a job.
    Pause(PauseArgs),
    /// Take a pause back.
    Resume(CommandArgs),
    /// Go on without a task.
    Skip(SkipArgs),
    /// Take a task out of the plan.
    Remove(RemoveArgs),
    /// Give many jobs a command: execute, cancel, pause, resume, skip, remove, retry or purge.
    ///
    /// Each job accepts or refuses it by itself; those that refuse are shown, and the exit code is
    /// 5 if there are any.
    Bulk(BulkArgs),
    /// Put a task into the plan.
    ///
    /// It stands behind all others, or where --after, --before or --first says. Tasks that have
    /// settled, or run now, never come to need it.
    Insert(InsertArgs),
    /// Put a task elsewhere in the plan.
    Move(MoveArgs),
    /// Have the plan say something else of a task.
    ///
    /// Fields are replaced whole; null takes one back to what it is when it is left out, as in
    /// `annals edit JOB TASK '{"timeout": "1h", "needs": null}'`.
    Edit(EditArgs),
    /// Try a task again now: at once where it waits for that, afresh where it has failed.
    Retry(RetryArgs),
    /// Tell a job something that a task of it waits for, or will.
    ///
    /// It goes to the first task in the plan that waits for a signal of this name, and is kept
    /// until one does.
    Signal(SignalArgs),
    /// Make a new job that goes on from what another one has done.
    ///
    /// What is settled and does not run anew is copied with its output, so that the new job needs
    /// nothing of the other one, which stays as it is, whatever its status.
    Fork(ForkArgs),
    /// Check the whole store, or one job: every hash, every chain, every value.
    Verify(VerifyArgs),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether its answer is all that it does.
    pub(super) fn only_reads(&self) -> bool {
        let looks = matches!(self, Self::List(_) | Self::Show(_) | Self::Watch(_));
        let tells = matches!(self, Self::Explain(_) | Self::Logs(_) | Self::Events(_));
        let past = matches!(self, Self::Replay(_) | Self::Diff(_));
        looks || tells || past || matches!(self, Self::Validate(_) | Self::Verify(_))
    }

    /// Its name, where it works on a store alone.
    pub(super) fn of_store(&self) -> Option<&'static str> {
        match self {
            Self::Run(_) => Some("run"),
            Self::Serve(_) => Some("serve"),
            Self::Validate(_) => Some("validate"),
            Self::Verify(args) if args.job.is_none() && args.bundle.is_none() => Some("verify"),
            _ => None,
        }
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
pub(super) struct SubmitArgs {
    /// The plan: YAML, or JSON where the name ends with .json.
    #[arg(required_unless_present = "workflow", conflicts_with = "workflow")]
    pub(super) file: Option<PathBuf>,
    /// Have this workflow make the plan of the input.
    #[arg(long, value_name = "NAME")]
    pub(super) workflow: Option<String>,
    /// The job's input in place of the plan's.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(super) input: Option<String>,
    /// Set a part of the input; VALUE is JSON, or else a text.
    #[arg(long, value_name = "POINTER=VALUE")]
    pub(super) set: Vec<String>,
    /// Submit the job only if nothing was submitted by this key; else that job is meant.
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub(super) idempotency_key: Option<String>,
    /// Show what would be submitted, and submit nothing.
    #[arg(long, conflicts_with = "watch")]
    pub(super) dry_run: bool,
    /// Watch the job to its end.
    #[arg(long)]
    pub(super) watch: bool,
}

/// What a header can carry.
pub(super) fn key(text: &str) -> Result<String, String> {
    let fits =
        (1..=255).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if fits { Ok(text.into()) } else { Err("it has 1 to 255 printable ASCII characters".into()) }
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
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// At most so many.
    #[arg(long, default_value_t = 100, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: u32,
    /// Go on behind a list, with the same filters, that ended with this `next_cursor`.
    #[arg(long)]
    pub(super) cursor: Option<String>,
}

/// Which jobs are meant.
#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Only jobs with this status; more than once, or with commas between: with one of these.
    #[arg(long)]
    pub(super) status: Vec<String>,
    /// Only jobs of this workflow.
    #[arg(long, value_name = "NAME")]
    pub(super) workflow: Option<String>,
    /// Only jobs with this label; more than once: with each of these.
    #[arg(long, value_name = "KEY:VALUE")]
    pub(super) label: Vec<String>,
    /// Only jobs in this queue.
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,
    /// Only forks of this job; its whole id.
    #[arg(long, value_name = "ID")]
    pub(super) forked_from: Option<String>,
    /// Only jobs that were submitted at this time, such as 2026-03-01T12:00:00Z, or later.
    #[arg(long, value_name = "TIME")]
    pub(super) created_after: Option<String>,
    /// Only jobs that were submitted before this time.
    #[arg(long, value_name = "TIME")]
    pub(super) created_before: Option<String>,
    /// Only jobs that ended at this time or later.
    #[arg(long, value_name = "TIME")]
    pub(super) finished_after: Option<String>,
    /// Only jobs that ended before this time.
    #[arg(long, value_name = "TIME")]
    pub(super) finished_before: Option<String>,
    /// Only jobs with this text in their name or in the message of their error.
    #[arg(long, value_name = "TEXT")]
    pub(super) text: Option<String>,
}

impl FilterArgs {
    /// Which jobs are wanted.
    pub(super) fn filter(&self) -> Result<Filter, BadFilter> {
        let many = [("status", &self.status), ("label", &self.label)];
        let one = [
            ("workflow", &self.workflow),
            ("queue", &self.queue),
            ("forked_from", &self.forked_from),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
            ("finished_after", &self.finished_after),
            ("finished_before", &self.finished_before),
            ("text", &self.text),
        ];
        let many =
            many.into_iter().flat_map(|(name, values)| values.iter().map(move |v| (name, v)));
        let one = one.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut filter = Filter::default();
        many.chain(one).try_for_each(|(name, value)| filter.add(name, value))?;
        Ok(filter)
    }
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
    #[arg(value_parser = task)]
    pub(super) task: TaskId,
    /// Which attempt; the last one by default.
    #[arg(long, value_name = "N")]
    pub(super) attempt: Option<u32>,
    /// One stream alone.
    #[arg(long)]
    pub(super) stream: Option<StreamName>,
    /// Only the last lines.
    #[arg(long, value_name = "N")]
    pub(super) tail: Option<usize>,
    /// Go on while the attempt writes, until it is over. In a store that no server holds nothing
    /// is written, so that what is there is all.
    #[arg(long)]
    pub(super) follow: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum StreamName {
    Stdout,
    Stderr,
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
pub(super) struct CancelArgs {
    /// The job.
    pub(super) job: String,
    /// Without what its plan does at the end, in `finally`; what runs of that is stopped, too.
    #[arg(long)]
    pub(super) now: bool,
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

pub(super) fn task(text: &str) -> Result<TaskId, String> {
    TaskId::known(text).map_err(|error| error.rule.to_owned())
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
        assert!(parse("annals insert 0197 @task.yaml --after a --needed-by b --needed-by c"));
        assert!(parse("annals edit 0197 a @fields.json --reset --dry-run"));
        assert!(parse("annals serve --allow-shell=false --config annals.toml"));
        for line in [
            "annals run",
            "annals run plan.yaml --job 0197 --new",
            "annals run --job 0197 --set /a=1",
            "annals remove 0197 -x",
            "annals skip 0197 a/b",
            "annals move 0197 a --after b --before c",
            "annals edit 0197 a",
            "annals serve --allow-shell false",
            "annals",
        ] {
            assert!(!parse(line), "{line}");
        }
    }
}
