//! Where jobs are: in a store that no server holds, or on a server.

use std::path::{Path, PathBuf};

use annals_engine::job::JobStatus;
use annals_tasks_sdk::JobId;

use super::error::CliError;
use super::text::shell_quoted;
use crate::client::Address;
use crate::serve;

/// Where the jobs are that a command is about.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In the store in this folder.
    Store(PathBuf),
    /// On a server.
    Server {
        /// Where it is.
        address: Address,
        /// What names it on a command line; nothing where it need not be named.
        named: String,
    },
}

/// What was said of the place.
#[derive(Debug)]
pub(super) struct Wanted {
    /// A folder, and who said so.
    pub(super) data: Option<(PathBuf, Source)>,
    /// A server, and who said so.
    pub(super) server: Option<(String, Source)>,
    /// The folder that is meant where nothing was said.
    pub(super) usual: PathBuf,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A flag.
    Flag,
    /// A variable.
    Variable,
}

impl Wanted {
    /// The store, for what works on a store alone; `what` that is.
    pub(super) fn store(self, what: &str) -> Result<Place, CliError> {
        if let Some((_, Source::Flag)) = self.server {
            let detail = format!(
                "`{what}` works on a store of its own, not on a server; `submit` has a server run \
                 a plan"
            );
            return Err(CliError::usage(detail));
        }
        let data = self.data.map(|(data, _)| data);
        Ok(Place::Store(data.unwrap_or(self.usual)))
    }

    /// Where the jobs are for what works with both. A store that is served is asked for by its
    /// server.
    pub(super) fn any(self) -> Result<Place, CliError> {
        let server = match (&self.data, self.server) {
            (Some((_, Source::Flag)), Some((_, Source::Flag))) => {
                let detail = "--server and --data name two places: name one";
                return Err(CliError::usage(detail));
            }
            (Some((_, Source::Flag)), _) => None,
            (_, server) => server,
        };
        if let Some((url, source)) = server {
            let address: Address = url.parse().map_err(|why| {
                let name = if source == Source::Flag { "--server" } else { "ANNALS_SERVER" };
                CliError::usage(format!("{name} is {url:?}: {why}"))
            })?;
            let named = match source {
                Source::Flag => format!(" --server {}", shell_quoted(&url)),
                Source::Variable => String::new(),
            };
            return Ok(Place::Server { address, named });
        }
        let store = Place::Store(self.data.map_or(self.usual, |(data, _)| data));
        Ok(store.served().unwrap_or(store))
    }
}

impl Place {
    /// The server that has this store, if one has.
    fn served(&self) -> Option<Self> {
        let Self::Store(dir) = self else { return None };
        let address = serve::Address::of(dir)?.parse().ok()?;
        Some(Self::Server { address, named: self.named() })
    }

    /// The folder of the store.
    pub(super) fn store(&self) -> Result<&Path, CliError> {
        match self {
            Self::Store(dir) => Ok(dir),
            Self::Server { .. } => Err(CliError::usage("this works on a store, not on a server")),
        }
    }

    /// What names it on a command line.
    fn named(&self) -> String {
        match self {
            Self::Store(dir) if usual_store() == *dir => String::new(),
            Self::Store(dir) => format!(" --data {}", shell_quoted(&dir.display().to_string())),
            Self::Server { named, .. } => named.clone(),
        }
    }

    /// What to type for `annals WORDS`, with the place where it is not the usual one.
    pub(super) fn command(&self, words: &str) -> String {
        format!("annals {words}{}", self.named())
    }

    /// Whether nothing runs there while it is looked at.
    pub(super) fn runs_nothing(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// What to type so that a job in this status moves.
    pub(super) fn go_on(&self, job: JobId, status: JobStatus) -> String {
        let verb = match (self, status) {
            (Self::Store(_), _) => "run --job",
            (_, JobStatus::Pending | JobStatus::Failed | JobStatus::Cancelled) => "execute",
            (_, JobStatus::Paused) => "resume",
            (_, JobStatus::Running | JobStatus::Completed) => "watch",
        };
        self.command(&format!("{verb} {job}"))
    }
}

/// The store that is meant where none is named.
fn usual_store() -> PathBuf {
    std::env::var_os("ANNALS_DATA").map_or_else(|| "./annals-data".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(data: Option<Source>, server: Option<Source>) -> Wanted {
        Wanted {
            data: data.map(|source| ("/nowhere/d".into(), source)),
            server: server.map(|source| ("localhost:7117".into(), source)),
            usual: "/nowhere/u".into(),
        }
    }

    fn shown(place: Result<Place, CliError>) -> String {
        match place {
            Ok(place) => place.command("list"),
            Err(error) => format!("{:?}", error.exit),
        }
    }

    #[test]
    fn flags_count_more_than_variables_and_servers_more_than_stores() {
        use Source::{Flag, Variable};
        let (by_server, by_data) = ("annals list --server localhost:7117", "annals list --data ");
        let data = format!("{by_data}/nowhere/d");
        for (given, place) in [
            ((None, None), format!("{by_data}/nowhere/u")),
            ((Some(Variable), None), data.clone()),
            ((None, Some(Variable)), "annals list".into()),
            ((Some(Variable), Some(Variable)), "annals list".into()),
            ((Some(Variable), Some(Flag)), by_server.into()),
            ((Some(Flag), Some(Variable)), data),
            ((Some(Flag), Some(Flag)), "Usage".into()),
        ] {
            assert_eq!(shown(wanted(given.0, given.1).any()), place, "{given:?}");
        }
    }

    #[test]
    fn what_works_on_a_store_takes_no_server() {
        use Source::{Flag, Variable};
        let error = wanted(None, Some(Flag)).store("run").unwrap_err();
        assert_eq!(error.exit, super::super::error::Exit::Usage);
        let place = wanted(Some(Variable), Some(Variable)).store("run").unwrap();
        assert_eq!(place.store().unwrap(), Path::new("/nowhere/d"));
    }
}
