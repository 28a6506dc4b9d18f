//! Inputs read strictly: a field that is not known is refused and the nearest known one named.

use std::collections::BTreeMap;

use annals_tasks_sdk::{Payload, PayloadError};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Whether references may still stand where values belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// In a plan: what a reference will give is not known yet.
    Pending,
    /// In an attempt: whatever stands there is the value.
    Resolved,
}

/// The fields of an input, and what is wrong with it so far.
pub(super) struct Fields<'a> {
    members: BTreeMap<String, &'a RawValue>,
    references: References,
    problems: Vec<PayloadError>,
}

impl<'a> Fields<'a> {
    /// Reads `input`, which must be an object with no fields but `known`. `None` where the
    /// whole is a reference.
    pub(super) fn open(
        input: &'a Payload,
        known: &[&str],
        references: References,
    ) -> Result<Option<Self>, Vec<PayloadError>> {
        let text = input.as_str();
        if references == References::Pending && is_reference(text) {
            return Ok(None);
        }
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else {
            let names = known.join(", ");
            let detail = format!("the input must be an object with fields from: {names}");
            return Err(vec![PayloadError { pointer: String::new(), detail }]);
        };
        let mut fields = Self { members, references, problems: Vec::new() };
        let unknown = |name: &&String| !known.contains(&name.as_str());
        let names: Vec<String> = fields.members.keys().filter(unknown).cloned().collect();
        for name in names {
            let hint = match nearest(&name, known) {
                Some(near) => format!("; did you mean {near:?}?"),
                None => format!("; known are: {}", known.join(", ")),
            };
            fields.problem(&[&name], format!("the field {name:?} is not known{hint}"));
        }
        Ok(Some(fields))
    }

    /// Whether the field is there and not null, be it as a reference.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|raw| raw.get() != "null")
    }

    /// The text of a field that is there, be it null or a reference.
    pub(super) fn present(&self, name: &str) -> Option<&'a str> {
        self.members.get(name).map(|raw| raw.get())
    }

    /// The text of a field that is there, is not null and is no pending reference.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        let text = self.members.get(name)?.get();
        (text != "null" && !self.is_pending(text)).then_some(text)
    }

    /// Whether `text` is a reference that will be resolved later.
    pub(super) fn is_pending(&self, text: &str) -> bool {
        self.references == References::Pending && is_reference(text)
    }

    /// Reads a field; `what` says what it must be.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str, what: &str) -> Option<T> {
        let text = self.raw(name)?;
        let value = serde_json::from_str(text).ok();
        if value.is_none() {
            self.problem(&[name], format!("{name} must be {what}"));
        }
        value
    }

    /// Notes a fault; `path` leads to it from the input.
    pub(super) fn problem(&mut self, path: &[&str], detail: impl Into<String>) {
        let step = |step: &&str| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
        let pointer = path.iter().map(step).collect();
        self.problems.push(PayloadError { pointer, detail: detail.into() });
    }

    /// Everything that is wrong, or nothing.
    pub(super) fn finish(self) -> Result<(), Vec<PayloadError>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}

/// Whether `text` is an object with a key that begins with `$`.
pub(super) fn is_reference(text: &str) -> bool {
    let object = text.trim_start().starts_with('{');
    let members = || serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
    object && members().is_ok_and(|members| members.keys().any(|key| key.starts_with('$')))
}

/// The known name that was most likely meant.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let (distance, near) = known.iter().map(|one| (distance(name, one), *one)).min()?;
    (distance <= near.len().div_ceil(3)).then_some(near)
}

/// How many characters must be added, removed or changed (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, from) in one.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in other.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
