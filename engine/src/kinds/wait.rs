//! `wait`: `{"signal": NAME, "timeout": DURATION}`, the timeout left out where there is none.
//!
//! The runtime keeps what the task waits for; nothing here waits.

use std::time::Duration;

use annals_tasks_sdk::plan::{PlanError, PolicyFields, TaskSpec};
use annals_tasks_sdk::{Payload, PayloadError, SignalName, TaskError, Timestamp, duration};

use super::fields::{Fields, References};
use crate::job::Wait;

const KNOWN: [&str; 2] = ["signal", "timeout"];

/// What a wait that begins `now` waits for.
pub fn begin(input: &Payload, now: Timestamp) -> Result<Wait, TaskError> {
    let bad = |detail: String| TaskError::new("bad_input", detail).give_up();
    let first = |problems: Vec<PayloadError>| {
        bad(problems.first().map_or_else(String::new, ToString::to_string))
    };
    let (name, timeout) = parse(input, References::Resolved).map_err(first)?;
    let name = name.ok_or_else(|| bad("a wait has a \"signal\"".into()))?;
    // Far beyond what a clock can show it is no timeout.
    Ok(Wait::Signal { name, until: timeout.map(|timeout| now.plus(timeout)) })
}

/// Looks at the input of a plan's task; references are passed over.
pub fn check(input: &Payload) -> Result<(), Vec<PayloadError>> {
    parse(input, References::Pending).map(drop)
}

/// What a task says that has no attempts, and would have no effect.
pub(crate) fn check_policy(spec: &TaskSpec) -> Vec<PlanError> {
    let (said, unsaid) = (&*spec.policy, PolicyFields::default());
    let fields = [
        ("timeout", said.timeout.is_some(), "say how long it waits with `timeout` in its input"),
        ("heartbeat_timeout", said.heartbeat_timeout.is_some(), "leave it out"),
        ("cancel_grace", said.cancel_grace.is_some(), "leave it out"),
        ("retry", said.retry != unsaid.retry, "leave it out"),
    ];
    let faults = fields.into_iter().filter(|(_, is_said, _)| *is_said);
    let fault = |(field, _, advice): (&str, bool, &str)| PlanError {
        pointer: format!("/{field}"),
        detail: format!(
            "a task of kind `wait` has no attempts, so `{field}` means nothing: {advice}"
        ),
    };
    faults.map(fault).collect()
}

type Said = (Option<SignalName>, Option<Duration>);

fn parse(input: &Payload, references: References) -> Result<Said, Vec<PayloadError>> {
    let Some(mut fields) = Fields::open(input, &KNOWN, references)? else {
        return Ok((None, None));
    };
    if !fields.has("signal") {
        fields.problem(&[], "a wait has a \"signal\", the name of what it waits for");
    }
    let name = fields.take::<String>("signal", "the name of a signal");
    let name = name.and_then(|name| match SignalName::new(&name) {
        Ok(name) => Some(name),
        Err(error) => {
            fields.problem(&["signal"], error.to_string());
            None
        }
    });
    let timeout = fields.take::<String>("timeout", "a duration as text, such as \"2h 30m\"");
    let timeout = timeout.and_then(|text| match duration::parse_duration(&text) {
        Ok(timeout) => Some(timeout),
        Err(error) => {
            fields.problem(&["timeout"], error.to_string());
            None
        }
    });
    fields.finish()?;
    Ok((name, timeout))
}

#[cfg(test)]
mod tests {
    use annals_tasks_sdk::plan::Limits;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn begun(input: &str) -> Result<(String, Option<i64>), String> {
        match begin(&Payload::parse(input).unwrap(), NOW) {
            Ok(Wait::Signal { name, until }) => {
                Ok((name.to_string(), until.map(Timestamp::as_millis)))
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.message().to_owned()),
        }
    }

    #[test]
    fn a_wait_has_a_name_and_may_have_a_timeout() {
        assert_eq!(begun(r#"{"signal": "go"}"#), Ok(("go".into(), None)));
        let with = |timeout: &str| begun(&format!(r#"{{"signal": "go", "timeout": {timeout}}}"#));
        assert_eq!(with(r#""2h""#), Ok(("go".into(), Some(7_201_000))));
        assert_eq!(with(r#""0s""#), Ok(("go".into(), Some(1_000))));
        assert_eq!(with(r#""3650d""#).unwrap().1, Some(1_000 + 3_650 * 86_400_000));
        assert_eq!(with("null"), Ok(("go".into(), None)));
    }

    #[test]
    fn what_is_no_wait_is_refused_with_a_reason() {
        for (input, word) in [
            ("null", "object"),
            ("{}", "\"signal\""),
            (r#"{"signal": 5}"#, "name of a signal"),
            (r#"{"signal": "a b"}"#, "is not a signal name"),
            (r#"{"signal": "a", "timeout": 5}"#, "duration"),
            (r#"{"signal": "a", "timeout": "9000000d"}"#, "longer than 100 years"),
            (r#"{"signl": "a"}"#, "did you mean \"signal\""),
        ] {
            let error = begun(input).unwrap_err();
            assert!(error.contains(word), "{input}: {error}");
        }
    }

    #[test]
    fn a_plan_may_hold_references() {
        for input in [r#"{"signal": {"$input": "/x"}}"#, r#"{"$output": "a"}"#] {
            assert!(check(&Payload::parse(input).unwrap()).is_ok(), "{input}");
        }
        assert!(check(&Payload::parse(r#"{"timeout": {"$input": "/x"}}"#).unwrap()).is_err());
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        let of = |more: &str| {
            let text = format!(r#"{{"id": "a", "kind": "wait"{more}}}"#);
            let spec = TaskSpec::from_json(&text, &Limits::NONE).unwrap();
            let places = check_policy(&spec).into_iter().map(|error| error.pointer);
            places.collect::<Vec<String>>()
        };
        assert!(of(r#", "on_failure": "continue""#).is_empty());
        let all = r#", "timeout": "1h", "heartbeat_timeout": "1m", "cancel_grace": "1s",
            "retry": {"max_attempts": 2}"#;
        assert_eq!(of(all), ["/timeout", "/heartbeat_timeout", "/cancel_grace", "/retry"]);
    }
}
