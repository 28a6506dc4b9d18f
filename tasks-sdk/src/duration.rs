//! Durations as people write them: `2h 30m`, `1500ms`, or ISO 8601 such as `PT1H30M`.

use std::time::Duration;

/// The longest duration that a plan can hold: 100 years of 365 days.
pub const DURATION_MAX: Duration = Duration::from_hours(100 * 365 * 24);

const HINT: &str = "write it as 30s, 2h 30m, 1500ms or PT1H30M";

/// Milliseconds of each unit, the largest first.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration: {reason}")]
pub struct BadDuration {
    /// The text as it was given, its first 64 characters.
    pub text: String,
    /// What is wrong, as a sentence.
    pub reason: String,
}

/// Reads a duration: numbers with the units `w d h m s ms`, the largest first and each at most
/// once, or ISO 8601 with weeks, days, hours, minutes and seconds (years and months have no fixed
/// length and are refused).
///
/// Seconds may have a fraction down to the millisecond: `1.5s`, `PT0.25S`. At most
/// [`DURATION_MAX`].
///
/// ```
/// use annals_tasks_sdk::duration::{format_duration, parse_duration};
/// let long = parse_duration("PT1H30M")?;
/// assert_eq!(long.as_secs(), 5400);
/// assert_eq!(format_duration(long), "1h 30m");
/// assert!(parse_duration("30").is_err());
/// # Ok::<(), annals_tasks_sdk::duration::BadDuration>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let trimmed = text.trim();
    let millis = match trimmed.strip_prefix('P') {
        Some(iso) => iso_millis(iso),
        None => plain_millis(trimmed),
    };
    let longest = u64::try_from(DURATION_MAX.as_millis()).unwrap_or(u64::MAX);
    let millis = millis.and_then(|millis| {
        let fits = millis <= longest;
        fits.then_some(millis).ok_or_else(|| "it is longer than 100 years".into())
    });
    millis
        .map(Duration::from_millis)
        .map_err(|reason| BadDuration { text: text.chars().take(64).collect(), reason })
}

/// Writes a duration so that [`parse_duration`] reads it back, down to the millisecond:
/// `2h 30m`, `1s 500ms`, `0s`.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut parts = Vec::new();
    // Weeks are read but not written: people count in days.
    for (unit, millis) in &UNITS[1..] {
        let count = rest / u128::from(*millis);
        rest %= u128::from(*millis);
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        }
    }
    if parts.is_empty() { "0s".into() } else { parts.join(" ") }
}

fn plain_millis(text: &str) -> Result<u64, String> {
    let mut rest = text;
    let (mut total, mut next_place) = (0_u64, 0);
    if rest.is_empty() {
        return Err(format!("it is empty; {HINT}"));
    }
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let place = UNITS.iter().position(|(name, _)| *name == unit);
        let place = place.ok_or_else(|| unknown_unit(number, unit))?;
        if place < next_place {
            return Err("its units must come once each, the largest first".into());
        }
        next_place = place + 1;
        total = total.saturating_add(amount(number, UNITS[place].1)?);
        rest = next.trim_start();
    }
    Ok(total)
}

fn iso_millis(text: &str) -> Result<u64, String> {
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    if time == Some("") || (date.is_empty() && time.is_none()) {
        return Err(format!("it names no amount; {HINT}"));
    }
    let dates = iso_part(date, &[("W", 604_800_000), ("D", 86_400_000)])?;
    let times = [("H", 3_600_000), ("M", 60_000), ("S", 1_000)];
    Ok(dates.saturating_add(iso_part(time.unwrap_or(""), &times)?))
}

fn iso_part(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let (mut rest, mut units, mut total) = (text, units, 0_u64);
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let unit = after.get(..1).unwrap_or("");
        let Some(place) = units.iter().position(|(name, _)| *name == unit) else {
            let known: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            let known = if known.is_empty() { "the end".into() } else { known.join(", ") };
            return Err(format!("after {number:?} stands {unit:?}, but {known} is expected"));
        };
        total = total.saturating_add(amount(number, units[place].1)?);
        (rest, units) = (&after[1..], &units[place + 1..]);
    }
    Ok(total)
}

fn split_number(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    if text.starts_with('-') {
        return Err("it is negative".into());
    }
    if end == 0 {
        return Err(format!("it does not begin each part with a number; {HINT}"));
    }
    Ok(text.split_at(end))
}

fn unknown_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() {
        format!("{number} has no unit; {HINT}")
    } else {
        format!("{unit:?} is no unit; the units are w, d, h, m, s and ms")
    }
}

/// Saturates where the product fits no machine number, so that the upper limit refuses it.
fn amount(number: &str, unit_millis: u64) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(format!("{number:?} is no number"));
    }
    if number.contains('.') && (unit_millis != 1_000 || fraction.len() > 3) {
        return Err("only seconds may have a fraction, of at most three digits".into());
    }
    let thousandths = format!("{fraction:0<3}").parse::<u64>().unwrap_or(0);
    // Only digits are left, so the one way to fail is to be too large.
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX);
    Ok(whole.saturating_mul(unit_millis).saturating_add(thousandths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        let table = [
            ("2h 30m", 9_000_000),
            ("2h30m", 9_000_000),
            (" 90s ", 90_000),
            ("1500ms", 1_500),
            ("1d", 86_400_000),
            ("1w 1ms", 604_800_001),
            ("1.5s", 1_500),
            ("5 m", 300_000),
            ("0s", 0),
            ("PT1H30M", 5_400_000),
            ("P1DT2H", 93_600_000),
            ("P2W", 1_209_600_000),
            ("PT0.25S", 250),
            ("36500d", 3_153_600_000_000),
        ];
        for (text, millis) in table {
            let read = parse_duration(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read.as_millis(), millis, "{text}");
            assert_eq!(parse_duration(&format_duration(read)), Ok(read), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_told_why() {
        let table = [
            ("", "empty"),
            ("30", "has no unit"),
            ("-1", "negative"),
            ("-5s", "negative"),
            ("1m 2h", "largest first"),
            ("1s 1s", "once each"),
            ("1m 1m", "once each"),
            ("1w 1w", "once each"),
            ("5 minutes", "the units are"),
            ("99999999999h", "longer than 100 years"),
            ("99999999999999999999999999d", "longer than 100 years"),
            ("36501d", "longer than 100 years"),
            ("1e308s", "is no unit"),
            ("NaN", "number"),
            ("∞", "number"),
            ("1.s", "is no number"),
            ("1..5s", "is no number"),
            ("1.5h", "only seconds"),
            ("1.0005s", "three digits"),
            ("P", "names no amount"),
            ("PT", "names no amount"),
            ("P1Y", "is expected"),
            ("P1M", "is expected"),
            ("PT1M1H", "is expected"),
            ("P1DT", "names no amount"),
            ("PT1ä", "is expected"),
            ("PT-1H", "negative"),
        ];
        for (text, words) in table {
            let error = parse_duration(text).expect_err(text);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
