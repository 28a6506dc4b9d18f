//! The fields of a task that make its policy. Whether the values make sense is checked later,
//! together with those of plans that programs make.

use super::fault::Faults;
use super::fields::{Fields, Known, string};
use super::{Backoff, OnFailure, OnLost, PolicyFields, Retry};
use crate::json;

const RETRY: Known = Known {
    what: "`retry`",
    fields: &["max_attempts", "max_elapsed", "backoff", "never"],
    unsupported: &[],
};

const BACKOFF: Known =
    Known { what: "`backoff`", fields: &["initial", "factor", "max", "jitter"], unsupported: &[] };

pub(super) const ON_FAILURE: [(&str, OnFailure); 3] =
    [("fail", OnFailure::Fail), ("continue", OnFailure::Continue), ("pause", OnFailure::Pause)];

pub(super) const ON_LOST: [(&str, OnLost); 3] =
    [("rerun", OnLost::Rerun), ("fail", OnLost::Fail), ("pause", OnLost::Pause)];

pub(super) fn policy(fields: &Fields<'_>, faults: &mut Faults) -> PolicyFields {
    PolicyFields {
        timeout: fields.positive("timeout", "a timeout", faults),
        heartbeat_timeout: fields.positive("heartbeat_timeout", "a heartbeat timeout", faults),
        cancel_grace: fields.duration("cancel_grace", faults),
        retry: retry(fields, faults).unwrap_or_default(),
        on_failure: fields.word("on_failure", &ON_FAILURE, faults).unwrap_or_default(),
        on_lost: fields.word("on_lost", &ON_LOST, faults).unwrap_or_default(),
    }
}

fn retry(task: &Fields<'_>, faults: &mut Faults) -> Option<Retry> {
    let text = task.present("retry")?;
    let fields = Fields::read(text, &task.place("retry"), &RETRY, faults)?;
    let max_elapsed = fields.positive("max_elapsed", "`max_elapsed`", faults);
    let rule = "a whole number from 1 to 4294967295";
    // A limit on time alone means: as often as the time allows.
    let unsaid = if max_elapsed.is_some() { u32::MAX } else { 1 };
    Some(Retry {
        max_attempts: fields.number("max_attempts", rule, faults).unwrap_or(unsaid),
        max_elapsed,
        backoff: backoff(&fields, faults).unwrap_or_default(),
        never: never(&fields, faults),
    })
}

fn backoff(retry: &Fields<'_>, faults: &mut Faults) -> Option<Backoff> {
    let text = retry.present("backoff")?;
    if retry.present("max_attempts").is_none() && retry.present("max_elapsed").is_none() {
        let detail = "`backoff` does nothing without `max_attempts` or `max_elapsed` beside it";
        faults.add(retry.place("backoff"), detail);
    }
    let fields = Fields::read(text, &retry.place("backoff"), &BACKOFF, faults)?;
    let unsaid = Backoff::default();
    let initial = fields.duration("initial", faults).unwrap_or(unsaid.initial);
    Some(Backoff {
        initial,
        factor: fields.number("factor", "a number", faults).unwrap_or(unsaid.factor),
        // A first wait beyond the usual longest one is meant to be waited.
        max: fields.duration("max", faults).unwrap_or(unsaid.max.max(initial)),
        jitter: fields.number("jitter", "a number", faults).unwrap_or(unsaid.jitter),
    })
}

fn never(retry: &Fields<'_>, faults: &mut Faults) -> Vec<Box<str>> {
    if retry.present("never").is_none() {
        return Vec::new();
    }
    let texts = retry.list("never", faults).unwrap_or_default();
    let place = retry.place("never");
    let codes = texts
        .into_iter()
        .enumerate()
        .filter_map(|(index, text)| string(text, &json::join(&place, &index.to_string()), faults));
    codes.map(Into::into).collect()
}
