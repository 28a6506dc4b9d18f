//! The list of all settings.

use super::layers::Settings;
use super::values::{address, bytes, count, filter, format, patience, served, targets};

/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name in the file. Variables are called `ANNALS_` and this in capitals.
    pub(crate) name: &'static str,
    /// Its flag without the dashes.
    pub(crate) flag: &'static str,
    /// What its value is called in help.
    pub(crate) value: &'static str,
    /// What it is for.
    pub(crate) help: &'static str,
    /// What holds where nothing is said, as it could be written or in words.
    pub(crate) default: &'static str,
    /// Whom it concerns.
    pub(crate) scope: Scope,
    /// What its value is in the file.
    pub(super) shape: Shape,
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
}

/// Whom a setting concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All that look for the store.
    Everybody,
    /// Those that run jobs.
    Engine,
    /// The server.
    Server,
}

/// What a value is in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Number,
    Switch,
    /// A list of texts; one text with commas elsewhere.
    List,
}

impl Key {
    /// Its variable.
    pub(crate) fn variable(&self) -> String {
        format!("ANNALS_{}", self.name.to_ascii_uppercase())
    }

    /// Whether its flag stands for `true` where it has no value.
    pub(crate) fn is_switch(&self) -> bool {
        self.shape == Shape::Switch
    }
}

/// All settings, in the order in which help shows them.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "data",
        flag: "data",
        value: "DIR",
        help: "The folder of the store. In the file it is relative to the file's folder.",
        default: "./annals-data",
        scope: Scope::Everybody,
        shape: Shape::Text,
        set: |settings, text| {
            settings.data = text.into();
            if text.is_empty() { Err("it is empty".into()) } else { Ok(()) }
        },
    },
    Key {
        name: "listen",
        flag: "listen",
        value: "ADDR",
        help: "Where to listen: a loopback address and a port; port 0 takes any that is free.",
        default: "127.0.0.1:7117",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| address(text).map(|address| settings.listen = address),
    },
    Key {
        name: "allow_shell",
        flag: "allow-shell",
        value: "BOOL",
        help: "Accept plans with `shell` tasks over HTTP: whoever reaches the server can then \
               run any command as its user.",
        default: "false",
        scope: Scope::Server,
        shape: Shape::Switch,
        set: |settings, text| served(text).map(|allowed| settings.allow_shell = allowed),
    },
    Key {
        name: "allow_unknown_kinds",
        flag: "allow-unknown-kinds",
        value: "BOOL",
        help: "Accept plans with kinds that are not registered; their tasks wait for a program \
               that has them.",
        default: "false",
        scope: Scope::Engine,
        shape: Shape::Switch,
        set: |settings, text| served(text).map(|allowed| settings.allow_unknown_kinds = allowed),
    },
    Key {
        name: "log_format",
        flag: "log-format",
        value: "FORMAT",
        help: "How log lines are written to stderr: `pretty`, or `json` with one object per line.",
        default: "pretty",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| format(text).map(|format| settings.log_format = format),
    },
    Key {
        name: "log",
        flag: "log",
        value: "FILTER",
        help: "Which log lines are written: a level, or a level for each target, such as \
               `warn,annals=info`. Requests are logged at `info` by `annals::access`.",
        default: "info",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| filter(text).map(|filter| settings.log = filter),
    },
    Key {
        name: "slots",
        flag: "slots",
        value: "N",
        help: "How many tasks run at once, those of kind `shell` not counted.",
        default: "64",
        scope: Scope::Engine,
        shape: Shape::Number,
        set: |settings, text| count::<u16>(text).map(|slots| settings.slots = slots.into()),
    },
    Key {
        name: "shell_slots",
        flag: "shell-slots",
        value: "N",
        help: "How many `shell` tasks run at once.",
        default: "as many as there are cores",
        scope: Scope::Engine,
        shape: Shape::Number,
        set: |settings, text| count::<u16>(text).map(|slots| settings.shell_slots = slots.into()),
    },
    Key {
        name: "allow_targets",
        flag: "allow-targets",
        value: "LIST",
        help: "What `http` tasks may reach beside public addresses: hosts, addresses and networks \
               with commas between them, or `private` for all that is not public.",
        default: "nothing else",
        scope: Scope::Engine,
        shape: Shape::List,
        set: |settings, text| targets(text).map(|targets| settings.allow_targets = targets),
    },
    Key {
        name: "lock_timeout",
        flag: "lock-timeout",
        value: "DURATION",
        help: "How long a start waits for a store that another process has: a command that is \
               about to end, or the server before this one.",
        default: "5s",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| patience(text).map(|limit| settings.lock_timeout = limit),
    },
    Key {
        name: "min_free_disk",
        flag: "min-free-disk",
        value: "SIZE",
        help: "With less space left for the data folder, /readyz says that the server is not \
               ready.",
        default: "128MiB",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| bytes(text).map(|bytes| settings.min_free_disk = bytes),
    },
    Key {
        name: "max_connections",
        flag: "max-connections",
        value: "N",
        help: "How many connections may be open. One more takes the place of those that have \
               kept the server waiting longest, or is answered 503.",
        default: "half the files that may be open, at most 8192",
        scope: Scope::Server,
        shape: Shape::Number,
        set: |settings, text| count(text).map(|most: u32| settings.max_connections = most as usize),
    },
    Key {
        name: "max_connections_per_peer",
        flag: "max-connections-per-peer",
        value: "N",
        help: "How many connections may be open from one address; a proxy is one.",
        default: "three quarters of max_connections",
        scope: Scope::Server,
        shape: Shape::Number,
        set: |settings, text| {
            count(text).map(|most: u32| settings.max_connections_per_peer = Some(most as usize))
        },
    },
    Key {
        name: "header_timeout",
        flag: "header-timeout",
        value: "DURATION",
        help: "How long the first line and the headers of a request may take.",
        default: "10s",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| patience(text).map(|limit| settings.header_timeout = limit),
    },
    Key {
        name: "body_timeout",
        flag: "body-timeout",
        value: "DURATION",
        help: "How long the body of a request may take; 1 s more for each 64 KiB that came.",
        default: "30s",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| patience(text).map(|limit| settings.body_timeout = limit),
    },
    Key {
        name: "idle_timeout",
        flag: "idle-timeout",
        value: "DURATION",
        help: "How long a connection may wait for its next request.",
        default: "30s",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| patience(text).map(|limit| settings.idle_timeout = limit),
    },
    Key {
        name: "write_timeout",
        flag: "write-timeout",
        value: "DURATION",
        help: "How long a client that is sent something may take none of it. Quiet streams are \
               not concerned.",
        default: "30s",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| patience(text).map(|limit| settings.write_timeout = limit),
    },
    Key {
        name: "shutdown_timeout",
        flag: "shutdown-timeout",
        value: "DURATION",
        help: "How long SIGTERM and Ctrl-C leave tasks to end: 10 s of it after they were told \
               to. A second signal ends at once.",
        default: "25s",
        scope: Scope::Server,
        shape: Shape::Text,
        set: |settings, text| patience(text).map(|limit| settings.shutdown_timeout = limit),
    },
];
