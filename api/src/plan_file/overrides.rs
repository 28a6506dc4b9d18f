//! What the command line says in place of a file: the plan's input, or parts of it.

use std::path::Path;

use annals_tasks_sdk::Payload;

use super::PlanFile;
use crate::json::{self, SetError};

/// What is put into a plan before it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    input: Option<Payload>,
    sets: Vec<(String, Payload)>,
}

/// An argument that cannot be put into a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOverride {
    /// `--input` is no JSON.
    #[error("--input must be JSON, or @FILE: {0}")]
    Input(String),
    /// `--set` has no `=`.
    #[error("--set takes POINTER=VALUE, as in --set /host=web-42, not {0:?}")]
    NoValue(String),
    /// `--set` cannot be done.
    #[error("--set: {0}")]
    Set(#[from] SetError),
}

impl Overrides {
    /// Reads the arguments of `--input` and `--set`.
    pub fn read(input: Option<&str>, sets: &[String]) -> Result<Self, BadOverride> {
        let input = input.map(read_input).transpose()?;
        let sets = sets.iter().map(|set| read_set(set)).collect::<Result<_, _>>()?;
        Ok(Self { input, sets })
    }

    /// An input that is made of this alone.
    pub fn input(&self) -> Result<Payload, BadOverride> {
        let mut text = self.input.as_ref().map_or("null", Payload::as_str).to_owned();
        for (pointer, value) in &self.sets {
            text = json::set(&text, pointer, value.as_str())?;
        }
        Ok(Payload::trusted(&text))
    }

    /// Whether nothing is put in.
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.sets.is_empty()
    }

    /// Whether the value at `pointer` may come from here.
    pub(super) fn touch(&self, pointer: &str) -> bool {
        let Some(inner) = pointer.strip_prefix("/input") else { return false };
        let within = |set: &str| inner == set || inner.starts_with(&format!("{set}/"));
        self.input.is_some() || self.sets.iter().any(|(set, _)| within(set))
    }

    /// Puts everything into the JSON text of a plan.
    pub(super) fn apply(&self, plan: &str) -> Result<String, BadOverride> {
        let mut text = plan.to_owned();
        // What is no object is left to those who can say why it is no plan.
        if self.is_empty() || !text.trim_start().starts_with('{') {
            return Ok(text);
        }
        if let Some(input) = &self.input {
            text = json::set(&text, "/input", input.as_str())?;
        }
        for (pointer, value) in &self.sets {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(SetError::Pointer(pointer.clone()).into());
            }
            text = json::set(&text, &format!("/input{pointer}"), value.as_str())?;
        }
        Ok(text)
    }
}

fn read_input(argument: &str) -> Result<Payload, BadOverride> {
    let bad = |error: &dyn std::fmt::Display| BadOverride::Input(error.to_string());
    let text = match argument.strip_prefix('@') {
        Some(path) => PlanFile::read(Path::new(path)).map_err(|faults| bad(&faults))?.json().into(),
        None => argument.to_owned(),
    };
    Payload::parse(&text).map_err(|error| bad(&error))
}

fn read_set(argument: &str) -> Result<(String, Payload), BadOverride> {
    let (pointer, value) =
        argument.split_once('=').ok_or_else(|| BadOverride::NoValue(argument.into()))?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(SetError::Pointer(pointer.into()).into());
    }
    // What is no JSON is meant as a text, so that a host name needs no quotes.
    let value = Payload::parse(value).unwrap_or_else(|_| Payload::trusted(&json::quoted(value)));
    Ok((pointer.into(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(input: Option<&str>, sets: &[&str]) -> Result<String, BadOverride> {
        let sets: Vec<String> = sets.iter().map(|&set| set.into()).collect();
        Overrides::read(input, &sets)?.apply(r#"{"name":"n","input":{"host":"a","n":1.0}}"#)
    }

    #[test]
    fn input_is_replaced_first_and_parts_are_set_then() {
        let plan = |input| Ok(format!(r#"{{"name":"n","input":{input}}}"#));
        assert_eq!(applied(Some("7"), &[]), plan("7"));
        assert_eq!(applied(None, &["/host=web-42"]), plan(r#"{"host":"web-42","n":1.0}"#));
        assert_eq!(
            applied(Some(r#"{"a": 1}"#), &["/b/c=true", "/d=x=y"]),
            plan(r#"{"a":1,"b":{"c":true},"d":"x=y"}"#)
        );
        assert_eq!(applied(None, &["=[]"]), plan("[]"));
    }

    #[test]
    fn an_input_is_made_where_there_is_no_plan() {
        let made = |input, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|&set| set.into()).collect();
            Overrides::read(input, &sets).unwrap().input().unwrap().as_str().to_owned()
        };
        assert_eq!(made(None, &[]), "null");
        assert_eq!(made(Some("[1.0]"), &["/-=2"]), "[1.0,2]");
        assert_eq!(made(None, &["/a/b=x"]), r#"{"a":{"b":"x"}}"#);
        assert!(Overrides::read(Some("7"), &["/a=1".into()]).unwrap().input().is_err());
    }

    #[test]
    fn what_cannot_be_put_in_is_refused_with_what_to_write() {
        for (input, set, words) in [
            (Some("{"), None, "--input must be JSON"),
            (Some("@/nowhere.json"), None, "cannot be read"),
            (None, Some("host"), "POINTER=VALUE"),
            (None, Some("host=a"), "begins with /"),
            (None, Some("/host/x=1"), "neither an object nor a list"),
        ] {
            let error = applied(input, set.as_slice()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn faults_of_what_was_put_in_have_no_place_in_the_file() {
        let overrides = Overrides::read(None, &["/host=1".into()]).unwrap();
        assert!(overrides.touch("/input/host") && overrides.touch("/input/host/x"));
        assert!(!overrides.touch("/input/hosts") && !overrides.touch("/name"));
    }
}
