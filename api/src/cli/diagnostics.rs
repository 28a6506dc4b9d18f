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

/// Keeps the panics of the store's library to itself: it panics on some damaged files, the store
/// catches that, and what is damaged is said in words.
pub(super) fn hush_the_store() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.location().is_some_and(|place| is_of_redb(place.file())) {
            before(info);
        }
    }));
}

/// Whether a source file is one of redb's, as Cargo lays out packages.
fn is_of_redb(file: &str) -> bool {
    file.split(['/', '\\']).any(|part| {
        part.strip_prefix("redb-")
            .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panics_of_redb_are_known_by_their_place() {
        assert!(is_of_redb("/home/ada/.cargo/registry/src/index/redb-4.6.0/src/tree.rs"));
        assert!(!is_of_redb("engine/src/log/redb/file.rs"));
        assert!(!is_of_redb("/home/ada/redb-store/src/main.rs"));
    }
}
