//! Times as answers show them.

use std::fmt;

use annals_tasks_sdk::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// A time, shown as RFC 3339 in UTC with milliseconds: `2026-03-01T12:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub struct Time(pub Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sums of times stay at the end of what the log's type holds, which no calendar reaches.
        let time = jiff::Timestamp::from_millisecond(self.0.as_millis());
        let time = time.unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{}", time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_z() {
        let shown = |millis| Time(Timestamp::from_millis(millis)).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(1_772_366_400_070), "2026-03-01T12:00:00.070Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999Z");
        assert!(shown(i64::MAX).starts_with("9999-12-30T"));
    }
}
