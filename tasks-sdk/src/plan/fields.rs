//! The members of one JSON object of a plan, taken by name; what nobody took is a fault.

use std::collections::HashSet;
use std::time::Duration;

use super::fault::Faults;
use crate::duration::parse_duration;
use crate::json::{self, Level};
use crate::near::hint;

/// Which fields an object of a plan can have.
pub(super) struct Known {
    /// The object in a sentence: "a task".
    pub(super) what: &'static str,
    /// The fields that are read.
    pub(super) fields: &'static [&'static str],
    /// Fields that plans may have some day, refused by name.
    pub(super) unsupported: &'static [&'static str],
}

/// An object that is being read.
pub(super) struct Fields<'a> {
    pub(super) pointer: String,
    members: Vec<(String, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Reads the outer level of an object; faults for fields that `known` does not name.
    pub(super) fn read(
        text: &'a str,
        pointer: &str,
        known: &Known,
        faults: &mut Faults,
    ) -> Option<Self> {
        let members = match json::level(text) {
            Ok(Level::Object(members)) => members,
            Ok(other) => {
                let found = describe(&other);
                faults.add(pointer, format!("{} must be an object, not {found}", known.what));
                return None;
            }
            Err(error) => {
                faults.add(pointer, error.to_string());
                return None;
            }
        };
        refuse_strangers(&members, pointer, known, faults);
        Some(Self { pointer: pointer.into(), members })
    }

    /// Every field with its text.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().map(|(name, text)| (name.as_str(), *text))
    }

    /// The text of a field as it stands, `null` included.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, text)| *text)
    }

    /// The text of a field, for which `null` means that it is left out.
    pub(super) fn present(&self, name: &str) -> Option<&'a str> {
        self.raw(name).filter(|text| text.trim() != "null")
    }

    pub(super) fn place(&self, name: &str) -> String {
        json::join(&self.pointer, name)
    }

    pub(super) fn string(&self, name: &str, faults: &mut Faults) -> Option<String> {
        string(self.present(name)?, &self.place(name), faults)
    }

    /// A string that must be there.
    pub(super) fn required(&self, name: &str, faults: &mut Faults) -> Option<String> {
        if self.present(name).is_none() {
            faults.add(self.pointer.as_str(), format!("`{name}` is missing"));
        }
        self.string(name, faults)
    }

    /// A duration that is checked later to be longer than zero, which `what` must be.
    pub(super) fn positive(&self, name: &str, what: &str, faults: &mut Faults) -> Option<Duration> {
        if self.present(name).is_some_and(|text| text.trim().parse() == Ok(0_u64)) {
            let detail = format!("{what} must be longer than zero, such as 30s or 2h 30m");
            faults.add(self.place(name), detail);
            return None;
        }
        self.duration(name, faults)
    }

    pub(super) fn duration(&self, name: &str, faults: &mut Faults) -> Option<Duration> {
        let text = self.present(name)?;
        if let Ok(Level::Scalar(scalar)) = json::level(text) {
            let unit = match scalar.parse::<u64>() {
                Ok(number) => format!("write {number}s for {number} seconds"),
                Err(_) => "write it as 30s, 2h 30m, 1500ms or PT1H30M".into(),
            };
            faults.add(self.place(name), format!("a duration is a string with units; {unit}"));
            return None;
        }
        let text = self.string(name, faults)?;
        let duration = parse_duration(&text);
        duration.map_err(|error| faults.add(self.place(name), error.to_string())).ok()
    }

    /// A number of the type asked for; `rule` says which numbers that are.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        name: &str,
        rule: &str,
        faults: &mut Faults,
    ) -> Option<T> {
        let text = self.present(name)?;
        let scalar = match json::level(text) {
            Ok(Level::Scalar(scalar)) => scalar.parse().ok(),
            _ => None,
        };
        if scalar.is_none() {
            faults.add(self.place(name), format!("`{name}` must be {rule}"));
        }
        scalar
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &str, faults: &mut Faults) -> Option<bool> {
        self.number(name, "true or false", faults)
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<T> {
        let word = self.string(name, faults)?;
        one_of(&word, name, self.place(name), words, faults)
    }

    /// A list of some of a few words; `None` where anything of it is at fault.
    pub(super) fn words<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<Box<[T]>> {
        let texts = self.list(name, faults)?;
        let place = self.place(name);
        let all = texts.into_iter().enumerate().map(|(index, text)| {
            let pointer = json::join(&place, &index.to_string());
            let word = string(text, &pointer, faults)?;
            one_of(&word, name, pointer, words, faults)
        });
        // Every fault is told, not the first alone.
        let all: Vec<Option<T>> = all.collect();
        all.into_iter().collect()
    }

    /// The elements of a list.
    pub(super) fn list(&self, name: &str, faults: &mut Faults) -> Option<Vec<&'a str>> {
        match json::level(self.raw(name)?) {
            Ok(Level::Array(elements)) => return Some(elements),
            Ok(other) => {
                let found = describe(&other);
                faults.add(self.place(name), format!("`{name}` must be a list, not {found}"));
            }
            Err(error) => faults.add(self.place(name), error.to_string()),
        }
        None
    }
}

fn one_of<T: Copy>(
    word: &str,
    name: &str,
    place: String,
    words: &[(&str, T)],
    faults: &mut Faults,
) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
    if found.is_none() {
        let list: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        let near = hint(word, list.iter().copied());
        let shown: String = word.chars().take(64).collect();
        let list = list.join(", ");
        faults.add(place, format!("`{name}` is one of {list}, not {shown:?}{near}"));
    }
    found
}

fn refuse_strangers(members: &[(String, &str)], pointer: &str, known: &Known, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (key, _) in members {
        if faults.is_full() {
            break;
        }
        let place = || json::join(pointer, key);
        if !seen.insert(key.as_str()) {
            faults.add(place(), format!("the key {key:?} stands twice in one object"));
        } else if known.unsupported.contains(&key.as_str()) {
            faults.add(place(), format!("`{key}` is not supported by this version"));
        } else if !known.fields.contains(&key.as_str()) {
            let near = hint(key, known.fields.iter().chain(known.unsupported).copied());
            let shown: String = key.chars().take(64).collect();
            faults.add(place(), format!("`{shown}` is no field of {}{near}", known.what));
        }
    }
}

pub(super) fn string(text: &str, pointer: &str, faults: &mut Faults) -> Option<String> {
    match json::level(text) {
        Ok(Level::Text(text)) => return Some(text),
        Ok(other) => {
            faults.add(pointer, format!("this must be a string, not {}", describe(&other)));
        }
        Err(error) => faults.add(pointer, error.to_string()),
    }
    None
}

fn describe(level: &Level<'_>) -> &'static str {
    match level {
        Level::Scalar("null") => "null",
        Level::Scalar("true" | "false") => "a boolean",
        Level::Scalar(_) => "a number",
        Level::Text(_) => "a string",
        Level::Array(_) => "a list",
        Level::Object(_) => "an object",
    }
}
