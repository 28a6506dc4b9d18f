//! The command line: what can be asked, and how it is answered.
//!
//! Every command gives an exit code: 0 completed or accepted, 1 failed, 2 usage or an invalid
//! file or plan, 3 cancelled, 4 paused, 5 rejected, 6 no such job or task, 7 the server or the
//! store is out of reach, 129 hung up, 130 interrupted, 143 terminated. Nothing here decides
//! anything about jobs.

mod args;
mod backend;
mod bulk;
mod bundle;
mod commands;
mod diagnostics;
mod edit_args;
mod edits;
mod error;
mod events;
mod explain;
mod flags;
mod fork;
mod list;
mod live;
mod logs;
mod output;
mod past;
mod place;
mod purge;
mod run;
mod serve;
mod show;
mod signal;
mod store;
mod submit;
mod text;
mod validate;
mod verify;
mod view;
mod watch;
mod why;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use tokio::runtime::Runtime;

use crate::App;
use crate::settings::{File, Settings};
use args::{Cli, Command};
use error::{CliError, Exit};
use output::{Failure, Out};
use place::{Place, Source, Wanted};

/// What every command has at hand.
struct Session {
    /// What the program has registered.
    app: App,
    place: Place,
    /// The file with settings.
    file: Option<File>,
    json: bool,
    /// How long a server that does not answer is asked again.
    retry_for: Duration,
    out: Out,
}

/// Runs the command that the arguments name, and gives its exit code.
pub(crate) fn main(app: App, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().any(|argument| argument == "--json");
    let matches = Cli::command().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error, wants_json),
    };
    let json = cli.json;
    diagnostics::hush_the_store();
    let out = Out::new();
    let written = cli.command.only_reads().then(|| out.failure());
    let result = carry_out(app, cli, &matches, out);
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

/// Where this is the process of an attempt, runs that with the settings of its engine, whose
/// arguments these are, and ends: nothing else is to be done, and no store opened.
fn serve_isolated(app: &App, command: &Command, file: Option<&File>) -> Result<(), CliError> {
    let settings = match command {
        Command::Run(args) => args.flags.settings(file)?,
        Command::Serve(flags) => flags.settings(file)?,
        _ => return Ok(()),
    };
    app.builder(Path::new(""), |engine| settings.apply(engine)).serve_isolated();
    Ok(())
}

fn carry_out(app: App, cli: Cli, matches: &ArgMatches, out: Out) -> Result<Exit, CliError> {
    let Cli { data, server, retry_for, config, json, command } = cli;
    if let Command::Completions { shell } = command {
        return Ok(completions(shell));
    }
    let file = File::read(config.as_deref())?;
    serve_isolated(&app, &command, file.as_ref())?;
    let usual = file.as_ref().and_then(File::data).unwrap_or_else(|| Settings::default().data);
    let by = |name| match matches.value_source(name) {
        Some(ValueSource::CommandLine) => Source::Flag,
        _ => Source::Variable,
    };
    let wanted = Wanted {
        data: data.map(|data| (data, by("data"))),
        server: server.map(|server| (server, by("server"))),
        usual,
    };
    let place = match command.of_store() {
        Some(name) => wanted.store(name)?,
        None => wanted.any()?,
    };
    let is_server = matches!(command, Command::Serve(_));
    if !is_server {
        // A server has a log of its own.
        diagnostics::install(json);
    }
    let session = Session { app, place, file, json, retry_for, out };
    let runtime = runtime(is_server);
    let runtime =
        runtime.map_err(|error| CliError::unreachable(format!("cannot start: {error}")))?;
    let result = runtime.block_on(dispatch(command, session));
    // What still runs there, such as a repair that a signal has ended, is not waited for.
    runtime.shutdown_background();
    result
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

fn runtime(is_server: bool) -> std::io::Result<Runtime> {
    let mut runtime = if is_server {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.thread_name("annals-http");
        runtime
    } else {
        // The engine has threads of its own; this one only waits for them.
        tokio::runtime::Builder::new_current_thread()
    };
    runtime.enable_all().build()
}

async fn dispatch(command: Command, session: Session) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => run::run(args, session).await,
        Command::Serve(flags) => serve::serve(flags, session).await,
        Command::Submit(args) => submit::submit(&args, session).await,
        Command::Validate(args) => validate::validate(&args, session),
        Command::List(args) => list::list(&args, session).await,
        Command::Show(args) => show::show(&args, session).await,
        Command::Watch(args) => watch::watch(&args, session).await,
        Command::Explain(args) => why::why(&args, session).await,
        Command::Logs(args) => logs::logs(&args, session).await,
        Command::Events(args) => events::events(&args, session).await,
        Command::Export(args) => bundle::export(&args, session).await,
        Command::Replay(args) => past::replay(&args, session).await,
        Command::Diff(args) => past::diff(&args, session).await,
        Command::Verify(args) => verify::verify(&args, session).await,
        Command::Execute(args) => commands::execute(args, session).await,
        Command::Cancel(args) => commands::cancel(args, session).await,
        Command::Purge(args) => purge::purge(args, session).await,
        Command::Pause(args) => commands::pause(args, session).await,
        Command::Resume(args) => commands::resume(args, session).await,
        Command::Skip(args) => commands::skip(args, session).await,
        Command::Remove(args) => commands::remove(args, session).await,
        Command::Bulk(args) => bulk::bulk(args, session).await,
        Command::Insert(args) => edits::insert(args, session).await,
        Command::Move(args) => edits::shift(args, session).await,
        Command::Edit(args) => edits::edit(args, session).await,
        Command::Fork(args) => fork::fork(args, session).await,
        Command::Retry(args) => commands::retry(args, session).await,
        Command::Signal(args) => signal::signal(args, session).await,
        Command::Completions { shell } => Ok(completions(shell)),
    }
}
