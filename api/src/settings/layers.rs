//! All settings together, and how one layer gives way to the next.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use annals_engine::kinds::{AllowedTarget, HttpSettings};
use annals_engine::{Builder, Pool};

use super::file::File;
use super::key::{KEYS, Key, Scope};
use super::values::{LogFormat, Served};

/// Where the server listens if nothing else is said.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7117);

/// More connections than this are not accepted unless somebody asks for it.
const CONNECTIONS: usize = 8_192;

/// What is set. [`KEYS`] says what each means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    pub(crate) listen: SocketAddr,
    pub(crate) allow_shell: Served,
    pub(crate) allow_unknown_kinds: Served,
    pub(crate) log_format: LogFormat,
    pub(crate) log: String,
    pub(crate) slots: usize,
    pub(crate) shell_slots: usize,
    /// Beside those that the program has itself.
    pub(crate) pools: Vec<Pool>,
    pub(crate) allow_targets: Vec<AllowedTarget>,
    pub(crate) lock_timeout: Duration,
    pub(crate) min_free_disk: u64,
    pub(crate) max_connections: usize,
    /// See [`Settings::connections_of_a_peer`].
    pub(super) max_connections_per_peer: Option<usize>,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: "./annals-data".into(),
            listen: LISTEN,
            allow_shell: Served::Refused,
            allow_unknown_kinds: Served::Refused,
            log_format: LogFormat::Pretty,
            log: "info".into(),
            slots: 64,
            shell_slots: std::thread::available_parallelism().map_or(1, usize::from),
            pools: Vec::new(),
            allow_targets: Vec::new(),
            lock_timeout: Duration::from_secs(5),
            min_free_disk: 128 << 20,
            max_connections: half_of_open_files(),
            max_connections_per_peer: None,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(25),
        }
    }
}

/// The store and what tasks open need files, too.
fn half_of_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = usize::try_from(limit.unwrap_or(u64::MAX) / 2).unwrap_or(usize::MAX);
    half.clamp(1, CONNECTIONS)
}

/// What a layer says of some settings, as text.
pub(crate) type Given = Vec<(&'static Key, String)>;

/// A setting that cannot be what it was set to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {detail}")]
pub(crate) struct BadSetting {
    /// The flag, the variable, or the place in the file.
    pub(crate) place: String,
    /// What is wrong, as a sentence without a full stop.
    pub(crate) detail: String,
}

impl Settings {
    /// Puts the layers together: `flags` over the variables over the file over the defaults.
    ///
    /// Each layer is read whole: what is wrong in one is an error, also where another layer has
    /// its way. Only of the variables those are left alone that concern somebody else: the
    /// environment is not one command's.
    pub(crate) fn layered(
        scopes: &[Scope],
        file: Option<&File>,
        variable: impl Fn(&str) -> Option<String>,
        flags: &Given,
    ) -> Result<Self, BadSetting> {
        let mut settings = Self::default();
        if let Some(file) = file {
            file.set(&mut settings)?;
        }
        for key in KEYS.iter().filter(|key| scopes.contains(&key.scope)) {
            let name = key.variable();
            // A variable that is empty is as good as none.
            if let Some(text) = variable(&name).filter(|text| !text.is_empty()) {
                (key.set)(&mut settings, &text)
                    .map_err(|detail| BadSetting { place: name, detail })?;
            }
        }
        for (key, text) in flags {
            let place = || format!("--{}", key.flag);
            (key.set)(&mut settings, text)
                .map_err(|detail| BadSetting { place: place(), detail })?;
        }
        Ok(settings)
    }

    /// Tells an engine what is set for it.
    pub(crate) fn apply(&self, engine: Builder) -> Builder {
        let targets = HttpSettings::default().allow(self.allow_targets.iter().cloned());
        let engine = engine.slots(self.slots).shell_slots(self.shell_slots).http(targets);
        let engine = self.pools.iter().cloned().fold(engine, Builder::pool);
        engine.allow_unknown_kinds(self.allow_unknown_kinds.is_allowed())
    }

    /// How many connections one address may have.
    pub(crate) fn connections_of_a_peer(&self) -> usize {
        let share = (self.max_connections - self.max_connections / 4).max(1);
        self.max_connections_per_peer.unwrap_or(share)
    }
}
