//! `annals serve`: settings become a server.

use std::path::Path;

use annals_engine::Builder;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use serde::Serialize;

use super::Session;
use super::error::{CliError, Exit};
use super::output::Out;
use super::text::plain;
use crate::serve::{self, Ready, ServeError};
use crate::settings::{BadSetting, Given, KEYS, Key, Settings};

/// The settings that were given as flags.
#[derive(Debug)]
pub(super) struct ServeArgs {
    given: Given,
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        own_keys().fold(command, |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = own_keys().filter_map(|key| Some((key, matches.get_one(key.name).cloned()?)));
        Ok(Self { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// All but the one that every command has.
fn own_keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.name != "data")
}

fn flag(key: &'static Key) -> Arg {
    let origin = format!("[env: {}=] [default: {}]", key.variable(), key.default);
    let arg = Arg::new(key.name)
        .long(key.flag)
        .value_name(key.value)
        .help(format!("{} {origin}", key.help))
        .action(ArgAction::Set);
    if key.is_switch() {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    arg
}

#[derive(Serialize)]
struct Announced<'a> {
    url: &'a str,
    data: &'a Path,
    pid: u32,
}

pub(super) async fn serve(args: ServeArgs, session: Session) -> Result<Exit, CliError> {
    let Session { app, place, file, json, mut out } = session;
    let variable = |name: &str| std::env::var(name).ok();
    let mut settings = Settings::layered(file.as_ref(), variable, &args.given)?;
    place.store().clone_into(&mut settings.data);
    let logged = serve::install(&settings);
    logged.map_err(|error| CliError::unreachable(format!("cannot start threads: {error}")))?;
    let engine = app.builder(&settings.data, |engine| configured(engine, &settings));
    let ready = |ready: &Ready| announce(ready, json, &mut out);
    let served = serve::serve(&settings, engine, ready).await;
    serve::flush();
    served?;
    Ok(Exit::Done)
}

fn configured(engine: Builder, settings: &Settings) -> Builder {
    let engine = engine.slots(settings.slots).shell_slots(settings.shell_slots);
    engine.allow_unknown_kinds(settings.allow_unknown_kinds.is_allowed())
}

fn announce(ready: &Ready, json: bool, out: &mut Out) {
    let Ready { url, data } = ready;
    let pid = std::process::id();
    if json {
        let announced = Announced { url, data, pid };
        out.line(serde_json::to_string(&announced).unwrap_or_default());
    } else {
        let data = data.display().to_string();
        out.line(format!("serving {} at {url} (pid {pid})", plain(&data)));
    }
}

impl From<BadSetting> for CliError {
    fn from(error: BadSetting) -> Self {
        Self::new(Exit::Usage, "bad_setting", error.to_string())
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Start(error) => error.into(),
            ServeError::Close(error) => error.into(),
            ServeError::Bind { .. } => {
                Self::new(Exit::Unreachable, "cannot_listen", error.to_string())
            }
            error => Self::unreachable(error.to_string()),
        }
    }
}
