//! The members of a body's object, taken by name: unknown ones and wrong ones are all listed, each
//! with its place.

use std::borrow::Cow;

use annals_tasks_sdk::near::hint;
use annals_tasks_sdk::{Payload, TaskId};

use super::problem::{Code, FieldError, Problem};
use crate::json::{self, Level};

/// Longer texts of a client are cut in messages.
const SHOWN_MAX: usize = 64;

/// The members of an object, which is read field by field.
pub(super) struct Fields<'a> {
    members: Vec<(Cow<'a, str>, &'a str)>,
    faults: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    /// Reads an object that may have the fields `known`; `what` it is stands in messages.
    pub(super) fn read(
        object: &'a Payload,
        what: &str,
        known: &[&'static str],
    ) -> Result<Self, Problem> {
        // A payload is JSON, so that only its shape may be wrong.
        let Ok(Level::Object(members)) = json::level(object.as_str()) else {
            return Err(invalid(vec![fault("", format!("{what} is an object"))]));
        };
        let strangers = members.iter().filter(|(name, _)| !known.contains(&&**name));
        let faults = strangers.take(100).map(|(name, _)| stranger(name, what, known)).collect();
        Ok(Self { members, faults })
    }

    /// The JSON of a field, `null` included.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, text)| *text)
    }

    /// A field for which `null` means that it is left out, read by `take`.
    fn take<T>(
        &mut self,
        name: &str,
        rule: &str,
        take: impl FnOnce(Level<'a>) -> Option<T>,
    ) -> Option<T> {
        let level = json::level(self.raw(name).filter(|text| *text != "null")?).ok();
        let taken = level.and_then(take);
        if taken.is_none() {
            self.fault(name, format!("`{name}` is {rule}"));
        }
        taken
    }

    /// A string.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.take(name, "a string", |level| match level {
            Level::Text(text) => Some(text),
            _ => None,
        })
    }

    /// `true` or `false`; false where it is left out.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let flag = self.take(name, "true or false", |level| match level {
            Level::Scalar(text) => text.parse().ok(),
            _ => None,
        });
        flag.unwrap_or_default()
    }

    /// A whole number.
    pub(super) fn number(&mut self, name: &str) -> Option<u64> {
        self.take(name, "a whole number, not negative", |level| match level {
            Level::Scalar(text) => text.parse().ok(),
            _ => None,
        })
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let word = self.text(name)?;
        let found = words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
        if found.is_none() {
            let list: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            let near = hint(&word, list.iter().copied());
            let (list, shown) = (list.join(" or "), shown(&word));
            self.fault(name, format!("`{name}` is {list}, not {shown:?}{near}"));
        }
        found
    }

    /// The id of a task.
    pub(super) fn task(&mut self, name: &str) -> Option<TaskId> {
        let id = self.text(name)?;
        TaskId::known(&id).map_err(|bad| self.fault(name, bad.to_string())).ok()
    }

    /// The ids of tasks; none where they are left out.
    pub(super) fn tasks(&mut self, name: &str) -> Vec<TaskId> {
        let rule = "a list of the ids of tasks";
        let list = self.take(name, rule, |level| match level {
            Level::Array(elements) => Some(elements),
            _ => None,
        });
        let mut ids = Vec::new();
        for text in list.unwrap_or_default() {
            let id = match json::level(text) {
                Ok(Level::Text(text)) => TaskId::known(&text).map_err(|bad| bad.to_string()),
                _ => Err(format!("`{name}` is {rule}")),
            };
            match id {
                Ok(id) => ids.push(id),
                Err(detail) => {
                    self.fault(name, detail);
                    break;
                }
            }
        }
        ids
    }

    /// Any value, `null` included.
    pub(super) fn payload(&self, name: &str) -> Option<Payload> {
        self.raw(name).map(Payload::trusted)
    }

    /// The elements of a list that must be there.
    pub(super) fn list(&mut self, name: &str) -> Vec<&'a str> {
        if self.raw(name).is_none() {
            self.fault("", format!("`{name}` is missing"));
        }
        let list = self.take(name, "a list", |level| match level {
            Level::Array(elements) => Some(elements),
            _ => None,
        });
        list.unwrap_or_default()
    }

    /// Notes what is wrong with a field; with the whole, where `name` is empty.
    pub(super) fn fault(&mut self, name: &str, detail: impl Into<String>) {
        self.faults.push(fault(name, detail));
    }

    /// An error, if anything was wrong.
    pub(super) fn finish(self) -> Result<(), Problem> {
        if self.faults.is_empty() { Ok(()) } else { Err(invalid(self.faults)) }
    }
}

fn fault(name: &str, detail: impl Into<String>) -> FieldError {
    let pointer = match name {
        "" => String::new(),
        name => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
    };
    FieldError { pointer, detail: detail.into() }
}

fn stranger(name: &str, what: &str, known: &[&'static str]) -> FieldError {
    let near = hint(name, known.iter().copied());
    let known = match known {
        [] => "it has none".into(),
        known => format!("it has {}", known.join(", ")),
    };
    fault(name, format!("`{}` is no field of {what}{near} ({known})", shown(name)))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

fn invalid(faults: Vec<FieldError>) -> Problem {
    let detail = match &*faults {
        [one] => format!("the body is not valid: {}", one.detail),
        all => format!("the body is not valid: {} faults, listed in `errors`", all.len()),
    };
    Problem::new(Code::INVALID_BODY, detail).with_errors(faults)
}
