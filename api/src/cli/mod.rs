//! The command line: what can be asked, and how it is answered.
//!
//! Every command gives an exit code: 0 completed or accepted, 1 failed, 2 usage or an invalid
//! file or plan, 3 cancelled, 4 paused, 5 rejected, 6 no such job or task, 7 the store is out of
//! reach, 129 hung up, 130 interrupted, 143 terminated. Nothing here decides anything about jobs.

mod args;
mod backend;
mod commands;
mod diagnostics;
mod error;
mod events;
mod explain;
mod list;
mod live;
mod logs;
mod output;
mod place;
mod run;
mod show;
mod store;
mod text;
mod validate;
mod verify;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use error::{CliError, Exit};
use output::{Failure, Out};
use place::Place;

/// What every command has at hand.
struct Session {
    place: Place,
    json: bool,
    out: Out,
}

/// Runs the command that the arguments name, and gives its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().any(|argument| argument == "--json");
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, wants_json),
    };
    let json = cli.json;
    diagnostics::install(json);
    diagnostics::hush_the_store();
    let session = Session { place: Place::Store(cli.data), json, out: Out::new() };
    let written = cli.command.only_reads().then(|| session.out.failure());
    let result = match cli.command {
        Command::Completions { shell } => Ok(completions(shell)),
        command => block_on(dispatch(command, session)),
    };
    // Whoever asked something has no answer then; what was done is done all the same.
    let unwritten = written.as_ref().and_then(Failure::get);
    let unwritten = unwritten.map(|error| {
        CliError::unreachable(format!("what was asked for cannot be written: {error}"))
    });
    match result.and_then(|exit| unwritten.map_or(Ok(exit), Err)) {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print(json);
            error.exit.into()
        }
    }
}

/// What clap has to say: help and version on stdout, everything else as an error.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if json && error.use_stderr() {
        let detail = error.render().to_string();
        let detail = detail.trim_start_matches("error: ").lines().next().unwrap_or_default();
        let error = CliError::usage(detail);
        error.print(true);
        return error.exit.into();
    }
    // Nobody is left to be told when the pipe is closed.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}

fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "annals", &mut script);
    Out::new().bytes(&script);
    Exit::Done
}

fn block_on(work: impl Future<Output = Result<Exit, CliError>>) -> Result<Exit, CliError> {
    // The engine has threads of its own; this one only waits for them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| CliError::unreachable(format!("cannot start: {error}")))?.block_on(work)
}

async fn dispatch(command: Command, session: Session) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => run::run(args, session).await,
        Command::Validate(args) => validate::validate(&args, session).await,
        Command::List(args) => list::list(&args, session).await,
        Command::Show(args) => show::show(&args, session).await,
        Command::Logs(args) => logs::logs(&args, session).await,
        Command::Events(args) => events::events(&args, session).await,
        Command::Verify => verify::verify(session).await,
        Command::Execute(args) => commands::execute(args, session).await,
        Command::Cancel(args) => commands::cancel(args, session).await,
        Command::Pause(args) => commands::pause(args, session).await,
        Command::Resume(args) => commands::resume(args, session).await,
        Command::Skip(args) => commands::skip(args, session).await,
        Command::Remove(args) => commands::remove(args, session).await,
        Command::Completions { shell } => Ok(completions(shell)),
    }
}
