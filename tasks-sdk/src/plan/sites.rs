//! Finding the references in a template's text, level by level.

use super::{Found, Reference};
use crate::json::{self, Level};
use crate::near::hint;
use crate::{Payload, TaskId};

/// An object with a key that begins with `$`, outside of others.
pub(super) struct Site<'a> {
    pub(super) pointer: String,
    pub(super) text: &'a str,
    pub(super) special: Result<Special<'a>, String>,
}

impl Site<'_> {
    pub(super) fn found(&self, reference: &Reference) -> Found {
        Found { pointer: self.pointer.clone(), reference: reference.clone() }
    }
}

pub(super) enum Special<'a> {
    Reference(Reference),
    Literal(&'a str),
}

pub(super) fn sites(template: &Payload) -> Vec<Site<'_>> {
    let mut sites = Vec::new();
    collect(template.as_str(), "", &mut sites);
    sites
}

/// The sites of a text in their order.
fn collect<'a>(text: &'a str, pointer: &str, sites: &mut Vec<Site<'a>>) {
    // A `$` in a key may hide as an escape.
    if !text.contains('$') && !text.contains("\\u") {
        return;
    }
    match json::level(text) {
        Ok(Level::Scalar(_) | Level::Text(_)) => {}
        Ok(Level::Array(elements)) => {
            for (index, part) in elements.into_iter().enumerate() {
                collect(part, &json::join(pointer, &index.to_string()), sites);
            }
        }
        Ok(Level::Object(members)) => {
            if let Some(special) = special(&members) {
                sites.push(Site { pointer: pointer.into(), text: text.trim(), special });
                return;
            }
            for (key, part) in members {
                collect(part, &json::join(pointer, &key), sites);
            }
        }
        Err(error) => {
            let special = Err(error.to_string());
            sites.push(Site { pointer: pointer.into(), text, special });
        }
    }
}

/// What an object is that has a key which begins with `$`.
pub(super) fn special<'a>(members: &[(String, &'a str)]) -> Option<Result<Special<'a>, String>> {
    let (key, value) = members.iter().find(|(key, _)| key.starts_with('$'))?;
    Some(match key.as_str() {
        "$output" => output(value, members),
        "$input" => input(value, members),
        "$item" => item(value, members),
        "$literal" => only(members, "$literal", &[]).map(|()| Special::Literal(value.trim())),
        "$secret" => Err(format!("`{key}` is not supported by this version")),
        _ => {
            let near = hint(key, ["$output", "$input", "$item", "$literal"]);
            let near = if near.is_empty() {
                "; `{\"$literal\": …}` lets an object through as it is".into()
            } else {
                near
            };
            Err(format!("`{key}` is no reference{near}"))
        }
    })
}

fn output<'a>(value: &str, members: &[(String, &str)]) -> Result<Special<'a>, String> {
    only(members, "$output", &["pointer", "default"])?;
    let task = TaskId::new(&string("$output", value)?).map_err(|error| error.to_string())?;
    let pointer = match member(members, "pointer") {
        Some(pointer) => valid_pointer(string("pointer", pointer)?)?,
        None => "".into(),
    };
    Ok(Special::Reference(Reference::Output { task, pointer, default: default(members) }))
}

fn input<'a>(value: &str, members: &[(String, &str)]) -> Result<Special<'a>, String> {
    only(members, "$input", &["default"])?;
    let pointer = valid_pointer(string("$input", value)?)?;
    Ok(Special::Reference(Reference::Input { pointer, default: default(members) }))
}

fn item<'a>(value: &str, members: &[(String, &str)]) -> Result<Special<'a>, String> {
    only(members, "$item", &["default"])?;
    let pointer = valid_pointer(string("$item", value)?)?;
    Ok(Special::Reference(Reference::Item { pointer, default: default(members) }))
}

fn only(members: &[(String, &str)], reference: &str, more: &[&str]) -> Result<(), String> {
    let known = |key: &str| key == reference || more.contains(&key);
    let Some((key, _)) = members.iter().find(|(key, _)| !known(key)) else { return Ok(()) };
    let near = hint(key, more.iter().copied());
    Err(format!("`{key}` does not belong beside `{reference}`{near}"))
}

fn member<'a>(members: &[(String, &'a str)], name: &str) -> Option<&'a str> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
}

fn default(members: &[(String, &str)]) -> Option<Payload> {
    member(members, "default").map(|text| Payload::trusted(text.trim()))
}

fn string(key: &str, value: &str) -> Result<String, String> {
    match json::level(value) {
        Ok(Level::Text(text)) => Ok(text),
        _ => Err(format!("`{key}` must be a string")),
    }
}

fn valid_pointer(pointer: String) -> Result<Box<str>, String> {
    match json::pointer_fault(&pointer) {
        Some(fault) => Err(format!("{pointer:?} is no pointer: {fault}")),
        None => Ok(pointer.into()),
    }
}
