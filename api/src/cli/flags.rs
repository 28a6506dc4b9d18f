//! Settings as flags, made of the list of all settings.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::settings::{BadSetting, File, Given, KEYS, Key, Scope, Settings};

/// Those of a server.
#[derive(Debug)]
pub(super) struct ServerFlags(Given);

const OF_SERVER: [Scope; 2] = [Scope::Engine, Scope::Server];

impl ServerFlags {
    /// All settings, with those of the file and the environment.
    pub(super) fn settings(&self, file: Option<&File>) -> Result<Settings, BadSetting> {
        Settings::layered(&OF_SERVER, file, |name| std::env::var(name).ok(), &self.0)
    }
}

fn keys(scopes: &[Scope]) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| scopes.contains(&key.scope))
}

fn with_flags(command: Command, scopes: &[Scope]) -> Command {
    keys(scopes).fold(command, |command, key| command.arg(flag(key)))
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

fn given(matches: &ArgMatches, scopes: &[Scope]) -> Given {
    keys(scopes).filter_map(|key| Some((key, matches.get_one(key.name).cloned()?))).collect()
}

impl Args for ServerFlags {
    fn augment_args(command: Command) -> Command {
        with_flags(command, &OF_SERVER)
    }

    fn augment_args_for_update(command: Command) -> Command {
        with_flags(command, &OF_SERVER)
    }
}

impl FromArgMatches for ServerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, &OF_SERVER)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
