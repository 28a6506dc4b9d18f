//! How long something is tried again, and when.

use std::fmt;
use std::time::{Duration, Instant};

use annals_tasks_sdk::duration::format_duration;

use super::error::{ClientError, Passes};

/// The first pause between two tries.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause between two tries.
pub(super) const LONGEST: Duration = Duration::from_secs(2);

/// How long to try again where a server is away or says that it is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// So long while a server is there, but at once no longer where none is.
    WhileThere(Duration),
    /// So long.
    For(Duration),
    /// As long as it takes.
    Endless,
}

impl Patience {
    /// How much longer to try after this error, if at all.
    fn left(self, passes: Passes, since: Instant) -> Option<Duration> {
        let longest = match (self, passes) {
            (_, Passes::Never) | (Self::WhileThere(_), Passes::WhenOneIsThere) => return None,
            (Self::WhileThere(longest) | Self::For(longest), _) => longest,
            (Self::Endless, _) => return Some(Duration::MAX),
        };
        longest.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Tries that have failed so far.
#[derive(Debug)]
pub(super) struct Tries {
    since: Instant,
    pause: Duration,
    /// Who is told, once, that something is tried again.
    notice: Option<fn(&str)>,
}

impl Tries {
    pub(super) fn begin(notice: fn(&str)) -> Self {
        Self { since: Instant::now(), pause: FIRST, notice: Some(notice) }
    }

    /// Waits for the next try. The error comes back where there is none.
    pub(super) async fn pause(
        &mut self,
        error: ClientError,
        patience: Patience,
    ) -> Result<(), ClientError> {
        let Some(pause) = self.next(&error, patience) else { return Err(error) };
        if let Some(notice) = self.notice.take() {
            notice(&format!("{error}; trying again{patience}"));
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// How long to wait; none where there is no next try.
    fn next(&mut self, error: &ClientError, patience: Patience) -> Option<Duration> {
        let passes = error.passes();
        let left = patience.left(passes, self.since)?;
        let asked = match passes {
            Passes::Soon(Some(asked)) => asked,
            _ => Duration::ZERO,
        };
        // Up to half of it by chance, so that those who were cut off together do not come back
        // together.
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST);
        Some(pause.max(asked).min(left))
    }
}

/// For how long, as the end of a sentence.
impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WhileThere(longest) | Self::For(longest) => {
                write!(f, " for {}", format_duration(*longest))
            }
            Self::Endless => Ok(()),
        }
    }
}
