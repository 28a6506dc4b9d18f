//! A server from its start to its end.
//!
//! It listens before the store is open, so that whoever waits for it can see how far it is, and
//! until the store is closed, so that whoever has asked for something gets an answer.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_engine::Engine;
use annals_engine::runtime::{Builder, EngineError, StartError, Startup};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::listener::{Listener, Rest};
use super::signals::{Came, Signals};
use crate::http::{self, AppState, DiskWatch, Phase, Starting};
use crate::settings::Settings;

/// What is kept of the time for the end, so that last answers are read.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A server that is ready.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    /// Where it is reached.
    pub(crate) url: String,
    /// The folder of its store.
    pub(crate) data: PathBuf,
}

/// A server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", advice(.source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Something else that the system would not give.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The engine did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store was not closed in good order.
    #[error("the store was not closed in good order, so the next start repairs it: {0}")]
    Close(EngineError),
    /// The store was not closed in time.
    #[error(
        "the store was not closed within `shutdown_timeout`, so the next start repairs it and \
         declares attempts lost that were running"
    )]
    Late,
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; another server may run there, and --listen names another",
        _ => "",
    }
}

/// Serves until a signal comes. Says when it is ready.
///
/// A second signal ends the process at once.
pub(crate) async fn serve(
    settings: &Settings,
    engine: Builder,
    ready: impl FnOnce(&Ready),
) -> Result<(), ServeError> {
    let system = |what| move |source| ServeError::System { what, source };
    let mut signals = Signals::listen().map_err(system("listen to signals"))?;
    let address = settings.listen;
    let listener = Listener::bind(settings).await;
    let listener = listener.map_err(|source| ServeError::Bind { address, source })?;
    let url = url(listener.address().map_err(system("find out where it listens"))?);
    tracing::info!(%url, data = %settings.data.display(), "listening; the store is opened now");
    let state = AppState::starting(http_settings(settings));
    let front = Front::open(listener, &state);

    let started = tokio::select! {
        started = start(engine, &state) => started,
        came = signals.next() => {
            // To wait for a repair would help nobody: the next start begins it again.
            tracing::info!("ended by {} before the store was open", came.name());
            return Ok(());
        }
    };
    let engine = match started {
        Ok(engine) => engine,
        Err(error) => {
            state.enter(Phase::Failed(error.to_string().into()));
            front.close().await;
            return Err(error.into());
        }
    };
    let address = leave_address(&settings.data, &url);
    state.enter(Phase::Ready(engine.clone()));
    ready(&Ready { url, data: settings.data.clone() });

    let came = signals.next().await;
    end_at_the_next(signals);
    let ended = end(came, &engine, &state, settings.shutdown_timeout).await;
    drop(address);
    front.close().await;
    tracing::info!("the server has ended");
    ended
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn http_settings(settings: &Settings) -> http::Settings {
    let allow_shell = settings.allow_shell.is_allowed();
    let disk = DiskWatch { folder: settings.data.clone(), min_free: settings.min_free_disk };
    http::Settings { allow_shell, disk: Some(disk), ..http::Settings::default() }
}

/// The listener at work.
struct Front {
    close: CancellationToken,
    serving: JoinHandle<Rest>,
}

impl Front {
    fn open(listener: Listener, state: &AppState) -> Self {
        let close = CancellationToken::new();
        state.show_connections(listener.open());
        let serving = listener.serve(http::router(state.clone()), close.clone());
        Self { close, serving: tokio::spawn(serving) }
    }

    /// Accepts nothing more, and has what is being answered be answered.
    async fn close(self) {
        self.close.cancel();
        if let Ok(rest) = self.serving.await {
            rest.finish(LAST_ANSWERS).await;
        }
    }
}

async fn start(engine: Builder, state: &AppState) -> Result<Engine, StartError> {
    let told = state.clone();
    let tell = move |startup: Startup| {
        if let Startup::Waiting { .. } = startup {
            tracing::warn!("{startup}");
        }
        told.enter(Phase::Starting(doing(&startup)));
    };
    engine.progress(tell).start().await
}

fn doing(startup: &Startup) -> Starting {
    let (doing, fraction) = match startup {
        Startup::Repairing { file, fraction } => {
            (format!("repairing {} after a crash", file.display()), Some(*fraction))
        }
        Startup::Recovering { fraction } => ("recovering jobs".into(), Some(*fraction)),
        other => (other.to_string(), None),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    let percent = fraction.map(|fraction| (fraction * 100.0).clamp(0.0, 100.0) as u8);
    Starting { doing: doing.into(), percent }
}

/// A server whose address is not known to other commands is one all the same.
fn leave_address(store: &Path, url: &str) -> Option<Address> {
    let left = Address::leave(store, url);
    left.inspect_err(|error| tracing::warn!(%error, "cannot leave the address in the store")).ok()
}

fn end_at_the_next(mut signals: Signals) {
    tokio::spawn(async move {
        let came = signals.next().await;
        tracing::warn!("ended at once by a second signal, {}", came.name());
        super::log::flush();
        std::process::exit(came.exit_code());
    });
}

/// Ends what waits, then tasks, then the engine; all the while commands are answered.
async fn end(
    came: Came,
    engine: &Engine,
    state: &AppState,
    limit: Duration,
) -> Result<(), ServeError> {
    tracing::info!(
        "{} came: tasks have up to {limit:?}; a second signal ends at once",
        came.name()
    );
    state.enter(Phase::Stopping(engine.clone()));
    state.ending().cancel();
    let for_tasks = limit.saturating_sub(LAST_ANSWERS);
    match tokio::time::timeout(limit, engine.shutdown_within(for_tasks)).await {
        Ok(closed) => closed.map_err(ServeError::Close),
        Err(_) => Err(ServeError::Late),
    }
}
