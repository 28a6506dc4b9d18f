//! Points in time, as the log stores them.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// In milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time `duration` later; at the end of what the type holds it stays there.
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

/// Reads a time as RFC 3339 has it. Parts of a millisecond are rounded up, so that nothing that
/// waits for the time comes before it.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|error| format!("{text:?} is no time such as 2030-01-31T08:00:00Z: {error}"))?;
    let millis = time.as_millisecond();
    let part = time.as_nanosecond() > i128::from(millis) * 1_000_000;
    Ok(Timestamp(millis + i64::from(part)))
}

/// The inverse of [`parse`]: in UTC. What no clock shows is the last time that one does.
pub(crate) fn text(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_to_the_millisecond() {
        for (text, millis) in [
            ("1970-01-01T00:00:02Z", 2_000),
            ("1970-01-01T01:00:02.0001+01:00", 2_001),
            ("2030-01-31T08:00:00.250Z", 1_896_076_800_250),
        ] {
            let time = parse(text).unwrap();
            assert_eq!(time, Timestamp(millis), "{text}");
            assert_eq!(parse(&super::text(time)), Ok(time), "{text}");
        }
        for text in ["2030-01-31", "2030-01-31T08:00", "2030-13-01T00:00:00Z", "10000-01-01T00:00Z"]
        {
            assert!(parse(text).unwrap_err().contains("is no time such as"), "{text}");
        }
    }
}
