//! Settings as flags, made of the list of all settings.

use std::fmt::Debug;
use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::settings::{BadSetting, File, Given, KEYS, Key, Scope, Settings};

/// Those of a server.
pub(super) type ServerFlags = Flags<OfServer>;

/// Those of whatever runs jobs, or checks what would run.
pub(super) type EngineFlags = Flags<OfEngine>;

/// Settings that were given as flags.
#[derive(Debug)]
pub(super) struct Flags<S>(Given, PhantomData<S>);

/// Whose settings are flags of a command.
pub(super) trait Scopes: Debug {
    const SCOPES: &'static [Scope];
}

#[derive(Debug)]
pub(super) struct OfServer;

impl Scopes for OfServer {
    const SCOPES: &'static [Scope] = &[Scope::Engine, Scope::Server];
}

#[derive(Debug)]
pub(super) struct OfEngine;

impl Scopes for OfEngine {
    const SCOPES: &'static [Scope] = &[Scope::Engine];
}

impl<S: Scopes> Flags<S> {
    /// For what takes none of them.
    pub(super) fn none() -> Self {
        Self(Given::new(), PhantomData)
    }

    /// All these settings, with those of the file and the environment.
    pub(super) fn settings(&self, file: Option<&File>) -> Result<Settings, BadSetting> {
        Settings::layered(S::SCOPES, file, |name| std::env::var(name).ok(), &self.0)
    }
}

fn keys(scopes: &[Scope]) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| scopes.contains(&key.scope))
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

impl<S: Scopes> Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        keys(S::SCOPES).fold(command, |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Scopes> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = keys(S::SCOPES);
        let given = given.filter_map(|key| Some((key, matches.get_one(key.name).cloned()?)));
        Ok(Self(given.collect(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
