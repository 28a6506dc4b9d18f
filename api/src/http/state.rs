//! What handlers share: where the engine stands, what is allowed, and when everything ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use annals_engine::Engine;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::metrics::Requests;
use super::problem::{Code, Problem};
use super::shared::Streams;

/// What a client is told to wait before it asks an engine again that is not there yet.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What all handlers share. Cloning is cheap.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    phase: watch::Sender<Phase>,
    settings: Settings,
    ending: CancellationToken,
    requests: Requests,
    streams: Streams,
}

/// Where the engine stands.
#[derive(Clone)]
pub enum Phase {
    /// It opens and recovers its store; the API answers 503 `starting`.
    Starting(Starting),
    /// It answers.
    Ready(Engine),
    /// It could not be started, in words; the API answers 503 `start_failed`.
    Failed(Arc<str>),
    /// It is being shut down: not ready any more, but it answers until it is closed.
    Stopping(Engine),
}

/// What a start is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starting {
    /// In words: "opening the store".
    pub doing: Arc<str>,
    /// How much of that is done, in percent, where it is known.
    pub percent: Option<u8>,
}

/// What is allowed over HTTP, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Whether plans that come over HTTP may have tasks of kind `shell`. Those of registered
    /// workflows always may.
    pub allow_shell: bool,
    /// The most bytes that the body of a request may have. A plan has its own limit, which is that
    /// of the engine.
    pub body_bytes: usize,
    /// The most jobs that one batch may have.
    pub batch_jobs: usize,
    /// The longest time that a request may ask to wait.
    pub wait_max: Duration,
    /// The disk that must not be full for the server to be ready; none is looked at by default.
    pub disk: Option<DiskWatch>,
}

/// A disk that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskWatch {
    /// A folder on it, the store's.
    pub folder: PathBuf,
    /// With fewer bytes left for it the server is not ready.
    pub min_free: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow_shell: false,
            body_bytes: 17 << 20,
            batch_jobs: 1_000,
            wait_max: Duration::from_mins(5),
            disk: None,
        }
    }
}

impl Phase {
    /// The names of all.
    pub const NAMES: [&'static str; 4] = ["starting", "ready", "failed", "stopping"];

    /// A word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting(_) => "starting",
            Self::Ready(_) => "ready",
            Self::Failed(_) => "failed",
            Self::Stopping(_) => "stopping",
        }
    }
}

impl AppState {
    /// For an engine that is about to be started.
    pub fn starting(settings: Settings) -> Self {
        let doing = Starting { doing: "opening the store".into(), percent: None };
        Self::new(Phase::Starting(doing), settings)
    }

    /// For an engine that runs.
    pub fn ready(engine: Engine, settings: Settings) -> Self {
        Self::new(Phase::Ready(engine), settings)
    }

    fn new(phase: Phase, settings: Settings) -> Self {
        let (phase, _) = watch::channel(phase);
        Self(Arc::new(Inner {
            phase,
            settings,
            ending: CancellationToken::new(),
            requests: Requests::default(),
            streams: Streams::default(),
        }))
    }

    /// Goes on to a phase, which everyone who follows them hears of.
    pub fn enter(&self, phase: Phase) {
        self.0.phase.send_replace(phase);
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        self.0.phase.borrow().clone()
    }

    /// Follows the phases.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.0.phase.subscribe()
    }

    /// The engine, or why it does not answer.
    pub fn engine(&self) -> Result<Engine, Problem> {
        match &*self.0.phase.borrow() {
            Phase::Ready(engine) | Phase::Stopping(engine) => Ok(engine.clone()),
            Phase::Starting(Starting { doing, percent }) => {
                let percent = percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
                let detail = format!("the engine is starting: {doing}{percent}");
                Err(Problem::new(Code::STARTING, detail).retry_after(RETRY_AFTER))
            }
            Phase::Failed(why) => {
                Err(Problem::new(Code::START_FAILED, format!("the engine did not start: {why}")))
            }
        }
    }

    /// What is allowed.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Fires when the server ends: streams and long waits must end then.
    pub fn ending(&self) -> &CancellationToken {
        &self.0.ending
    }

    /// What streams share.
    pub(super) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    /// What is counted of requests.
    pub(super) fn requests(&self) -> &Requests {
        &self.0.requests
    }

    /// Has the number of open connections shown among the metrics.
    pub(crate) fn show_connections(&self, open: Arc<AtomicUsize>) {
        self.0.requests.show_connections(open);
    }
}
