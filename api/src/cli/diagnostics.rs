//! What the engine has to say besides its answers: on stderr, warnings unless more is asked for.

use tracing::Level;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// Shows warnings and errors, or what `ANNALS_LOG` names. Programs that read JSON are not given
/// lines that are none, unless they ask for them.
pub(super) fn install(json: bool) {
    let asked = std::env::var("ANNALS_LOG").ok().filter(|filter| !filter.is_empty());
    if asked.is_none() && json {
        return;
    }
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    // A filter from the environment is costly to make, so the usual one is a mere level.
    let layer = if let Some(filter) = asked {
        lines.with_filter(EnvFilter::new(filter)).boxed()
    } else {
        lines.without_time().with_filter(LevelFilter::from_level(Level::WARN)).boxed()
    };
    // A program that has installed its own shows what it wants.
    let _ = registry().with(annals_engine::steplog::layer()).with(layer).try_init();
}
