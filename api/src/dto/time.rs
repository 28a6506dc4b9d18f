//! Times as answers show them.

use std::fmt;

use annals_tasks_sdk::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// A time, shown as RFC 3339 in UTC with milliseconds: `2026-03-01T12:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub struct Time(pub Timestamp);

/// `2026-03-01T12:00:00.000Z` has so many characters.
const LENGTH: usize = 24;
const DAY: i64 = 86_400_000;

impl Time {
    /// The time as text, of a year with four digits. Answers are full of times, so that this is
    /// not left to a general formatter.
    fn text(self) -> Option<[u8; LENGTH]> {
        let (days, millis) =
            (self.0.as_millis().div_euclid(DAY), self.0.as_millis().rem_euclid(DAY));
        let (year, month, day) = date(days);
        let fits = (0..=9999).contains(&year);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, millis / 3_600_000),
            (14..16, millis / 60_000 % 60),
            (17..19, millis / 1_000 % 60),
            (20..23, millis % 1_000),
        ];
        for (place, mut number) in parts {
            for digit in text[place].iter_mut().rev() {
                *digit += u8::try_from(number % 10).unwrap_or(0);
                number /= 10;
            }
        }
        fits.then_some(text)
    }
}

/// Year, month and day of a day counted from 1970-01-01, by the Gregorian calendar. Years are
/// counted from March, so that the day that some of them lack is their last.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    // From 0000-03-01 on.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sums of times stay at the end of what the log's type holds, which no calendar reaches.
        let text = self.text().unwrap_or(*b"9999-12-31T23:59:59.999Z");
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
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
        assert!(shown(i64::MAX).starts_with("9999-12-31T"));
        assert_eq!(shown(i64::MIN), shown(i64::MAX));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let mut millis = -62_167_219_200_000;
        let mut shown = 0;
        while let Ok(time) = jiff::Timestamp::from_millisecond(millis) {
            let expected = time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
            assert_eq!(Time(Timestamp::from_millis(millis)).to_string(), expected);
            // A month or four, not in step with anything.
            millis += 37 * DAY + millis.rem_euclid(97) * DAY + millis.rem_euclid(977) * 86_399;
            shown += 1;
        }
        assert!(shown > 30_000);
    }
}
