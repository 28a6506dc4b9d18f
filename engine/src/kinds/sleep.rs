//! `sleep`: `{"for": DURATION}` or `{"until": TIME}`.
//!
//! The runtime keeps the due time; nothing here waits.

use annals_tasks_sdk::{Payload, PayloadError, TaskError, Timestamp, duration};

use super::fields::{Fields, References};

/// When a sleep that begins `now` is over.
///
/// A time that has passed is due at once; one that no clock can show is refused.
pub fn due(input: &Payload, now: Timestamp) -> Result<Timestamp, TaskError> {
    let sleep = parse(input, References::Resolved).map_err(|problems| {
        let detail = problems.first().map_or_else(String::new, ToString::to_string);
        TaskError::new("bad_input", detail).give_up()
    })?;
    match sleep {
        Some(Sleep::For(span)) => after(now, span).ok_or_else(|| {
            let detail = "the sleep would end after the year 9999, which no clock can show";
            TaskError::new("bad_input", detail).give_up()
        }),
        Some(Sleep::Until(time)) => Ok(time),
        // Only a pending reference gives nothing, and there is none in a resolved input.
        None => Ok(now),
    }
}

/// Looks at the input of a plan's task; references are passed over.
pub fn check(input: &Payload) -> Result<(), Vec<PayloadError>> {
    parse(input, References::Pending).map(drop)
}

enum Sleep {
    For(std::time::Duration),
    Until(Timestamp),
}

fn after(now: Timestamp, span: std::time::Duration) -> Option<Timestamp> {
    let millis = i64::try_from(span.as_millis()).ok()?;
    let due = now.as_millis().checked_add(millis)?;
    (due <= jiff::Timestamp::MAX.as_millisecond()).then_some(Timestamp::from_millis(due))
}

fn parse(input: &Payload, references: References) -> Result<Option<Sleep>, Vec<PayloadError>> {
    let Some(mut fields) = Fields::open(input, &["for", "until"], references)? else {
        return Ok(None);
    };
    if fields.has("for") == fields.has("until") {
        fields.problem(&[], "a sleep has either \"for\" or \"until\"");
    }
    let span = fields.take::<String>("for", "a duration as text, such as \"2h 30m\"");
    let span = span.and_then(|text| match duration::parse_duration(&text) {
        Ok(span) => Some(Sleep::For(span)),
        Err(error) => {
            fields.problem(&["for"], error.to_string());
            None
        }
    });
    let time = fields.take::<String>("until", "a time as text (RFC 3339)");
    let time = time.and_then(|text| match text.parse::<jiff::Timestamp>() {
        Ok(time) => Some(Sleep::Until(Timestamp::from_millis(rounded_up(time)))),
        Err(error) => {
            let detail = format!("{text:?} is no time such as 2030-01-31T08:00:00Z: {error}");
            fields.problem(&["until"], detail);
            None
        }
    });
    fields.finish()?;
    Ok(span.or(time))
}

/// Rounded up, so that a sleep never ends before its time.
fn rounded_up(time: jiff::Timestamp) -> i64 {
    let millis = time.as_millisecond();
    let part = time.as_nanosecond() > i128::from(millis) * 1_000_000;
    millis + i64::from(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_at(input: &str) -> Result<i64, String> {
        let input = Payload::parse(input).unwrap();
        due(&input, Timestamp::from_millis(1_000))
            .map(Timestamp::as_millis)
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn both_forms_give_a_due_time() {
        assert_eq!(due_at(r#"{"for": "1h"}"#), Ok(3_601_000));
        assert_eq!(due_at(r#"{"for": "1500ms"}"#), Ok(2_500));
        assert_eq!(due_at(r#"{"until": "1970-01-01T00:00:02Z"}"#), Ok(2_000));
        assert_eq!(due_at(r#"{"until": "1970-01-01T01:00:02.0001+01:00"}"#), Ok(2_001));
        assert!(due_at(r#"{"until": "9999-12-30T00:00:00Z"}"#).is_ok());
        assert!(due_at(r#"{"for": "3650d"}"#).is_ok());
    }

    #[test]
    fn what_is_no_sleep_is_refused_with_a_reason() {
        for (input, word) in [
            ("null", "object"),
            ("{}", "either"),
            (r#"{"for": "1h", "until": "2030-01-01T00:00:00Z"}"#, "either"),
            (r#"{"for": 5}"#, "duration"),
            (r#"{"untill": "2030-01-01T00:00:00Z"}"#, "did you mean \"until\""),
            (r#"{"until": "tomorrow"}"#, "is no time"),
            (r#"{"for": "9000000d"}"#, "longer than 100 years"),
        ] {
            let error = due_at(input).unwrap_err();
            assert!(error.contains(word), "{input}: {error}");
        }
    }

    #[test]
    fn a_sleep_does_not_outlast_the_calendar() {
        let input = Payload::parse(r#"{"for": "1d"}"#).unwrap();
        let late = Timestamp::from_millis(jiff::Timestamp::MAX.as_millisecond());
        assert!(due(&input, late).unwrap_err().message().contains("year 9999"));
    }

    #[test]
    fn a_plan_may_hold_references() {
        for input in [r#"{"for": {"$input": "/x"}}"#, r#"{"$output": "a"}"#] {
            assert!(check(&Payload::parse(input).unwrap()).is_ok());
        }
        assert!(check(&Payload::parse(r#"{"for": {"x": 1}}"#).unwrap()).is_err());
    }
}
