//! JSON as text: looked into, changed in one place and laid out for people, while everything
//! else, the digits of numbers above all, stays as it was sent.

mod changes;
mod outline;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

pub(crate) use changes::{Change, changes};
pub use outline::outline;

/// One level of a JSON value: its parts are still text.
pub(crate) enum Level<'a> {
    /// `null`, `true`, `false` or a number.
    Scalar(&'a str),
    /// A string, decoded.
    Text(String),
    /// The elements of an array.
    Array(Vec<&'a str>),
    /// The members of an object in their order.
    Object(Vec<(Cow<'a, str>, &'a str)>),
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

/// A key that is borrowed where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), raw)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, raw.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Reads the outermost level of `text`.
pub(crate) fn level(text: &str) -> Result<Level<'_>, serde_json::Error> {
    Ok(match text.trim_start().as_bytes().first() {
        Some(b'{') => Level::Object(serde_json::from_str::<Members<'_>>(text)?.0),
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text)?;
            Level::Array(elements.into_iter().map(RawValue::get).collect())
        }
        Some(b'"') => Level::Text(serde_json::from_str(text)?),
        _ => Level::Scalar(serde_json::from_str::<&RawValue>(text)?.get()),
    })
}

/// The text of a string in JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The same JSON without the white space between its parts, hence in one line.
pub fn compact(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut kept, mut at) = (String::with_capacity(text.len()), 0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = behind_text(bytes, at),
            b' ' | b'\n' | b'\r' | b'\t' => {
                out.push_str(&text[kept..at]);
                at += 1;
                kept = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(&text[kept..]);
    out
}

/// Where the string that begins at `quote` is over.
fn behind_text(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The steps of an RFC 6901 pointer.
fn steps(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The byte at which the value that `pointer` names begins, or its key where it has one.
///
/// What is not there is sought in the nearest thing around it that is.
pub fn locate(text: &str, pointer: &str) -> usize {
    let mut here = text.trim_start();
    let mut place = offset(text, here);
    for step in steps(pointer) {
        let found = match level(here) {
            Ok(Level::Object(members)) => member(text, here, &members, &step),
            Ok(Level::Array(elements)) => {
                let element = step.parse().ok().and_then(|index: usize| elements.get(index));
                element.map(|part| (offset(text, part), *part))
            }
            _ => None,
        };
        let Some((at, part)) = found else { break };
        (place, here) = (at, part);
    }
    place
}

/// The place of a member's key, and the text of its value.
fn member<'a>(
    text: &str,
    object: &'a str,
    members: &[(Cow<'a, str>, &'a str)],
    name: &str,
) -> Option<(usize, &'a str)> {
    let index = members.iter().position(|(key, _)| key == name)?;
    let after = match index.checked_sub(1) {
        Some(before) => offset(text, members[before].1) + members[before].1.len(),
        None => offset(text, object),
    };
    // Between two members there is nothing but white space and a comma.
    let key = text[after..].find('"').map_or(after, |skipped| after + skipped);
    Some((key, members[index].1))
}

fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// Why a value could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The pointer is none.
    #[error("{0:?} is no JSON pointer: it begins with /, as in /host")]
    Pointer(String),
    /// Something on the way has no parts.
    #[error("{0:?} goes through a value that is neither an object nor a list")]
    NoParts(String),
    /// A list has no such element.
    #[error("{0:?} names no element of its list; /- at the end appends one")]
    NoElement(String),
    /// The text around is no JSON.
    #[error("the value to set {0:?} in is no JSON")]
    NoJson(String),
}

/// Puts `value` at the place that `pointer` names in `text`, and makes objects on the way where
/// there is nothing or `null`.
///
/// ```
/// # use annals::json::set;
/// let text = set(r#"{"port": 80}"#, "/tls/cert", "\"a.pem\"").unwrap();
/// assert_eq!(text, r#"{"port":80,"tls":{"cert":"a.pem"}}"#);
/// ```
pub fn set(text: &str, pointer: &str, value: &str) -> Result<String, SetError> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(SetError::Pointer(pointer.into()));
    }
    let steps: Vec<String> = steps(pointer).collect();
    put(text, &steps, value, pointer)
}

fn put(text: &str, steps: &[String], value: &str, pointer: &str) -> Result<String, SetError> {
    let Some((step, rest)) = steps.split_first() else { return Ok(value.to_owned()) };
    match level(text).map_err(|_| SetError::NoJson(pointer.into()))? {
        Level::Object(members) => {
            let mut parts = Vec::with_capacity(members.len() + 1);
            let mut found = false;
            for (key, part) in &members {
                let changed = key == step;
                found |= changed;
                let part = if changed { &put(part, rest, value, pointer)? } else { *part };
                parts.push(format!("{}:{part}", quoted(key)));
            }
            if !found {
                let part = put("null", rest, value, pointer)?;
                parts.push(format!("{}:{part}", quoted(step)));
            }
            Ok(format!("{{{}}}", parts.join(",")))
        }
        Level::Array(elements) => {
            let mut parts: Vec<String> = elements.into_iter().map(str::to_owned).collect();
            let index = if step == "-" { parts.len() } else { step.parse().unwrap_or(usize::MAX) };
            if index > parts.len() {
                return Err(SetError::NoElement(pointer.into()));
            }
            if index == parts.len() {
                parts.push("null".into());
            }
            parts[index] = put(&parts[index], rest, value, pointer)?;
            Ok(format!("[{}]", parts.join(",")))
        }
        Level::Scalar("null") => put("{}", steps, value, pointer),
        _ => Err(SetError::NoParts(pointer.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_keys_and_elements() {
        let text = r#" {"a\"b": [10, {"c": 1 , "d":2}], "e" : {}}"#;
        let at = |pointer| &text[locate(text, pointer)..];
        assert!(at("").starts_with('{'));
        assert!(at("/a\"b").starts_with(r#""a\"b""#));
        assert!(at("/a\"b/0").starts_with("10"));
        assert!(at("/a\"b/1/d").starts_with(r#""d":2"#));
        assert!(at("/e/none/x").starts_with(r#""e" "#), "the nearest thing around");
    }

    #[test]
    fn white_space_goes_between_parts_and_stays_in_texts() {
        let text = "{ \"a \\\" b\\\\\" : [ 1,\n\t2 ], \"\": \" \" }";
        assert_eq!(compact(text), "{\"a \\\" b\\\\\":[1,2],\"\":\" \"}");
    }

    #[test]
    fn values_are_set_and_nothing_else_changes() {
        let table = [
            (r#"{"a": 1.0}"#, "/b", "2", r#"{"a":1.0,"b":2}"#),
            (r#"{"a": 3544790567247868102, "b": {"c": 1}}"#, "/b/c", "9", {
                r#"{"a":3544790567247868102,"b":{"c":9}}"#
            }),
            ("null", "/a/b", "true", r#"{"a":{"b":true}}"#),
            ("[1, 2]", "/1", "5", "[1,5]"),
            ("[1]", "/-/x", "5", r#"[1,{"x":5}]"#),
            ("7", "", "8", "8"),
            ("{}", "/a~1b/~0", "1", r#"{"a/b":{"~":1}}"#),
        ];
        for (text, pointer, value, result) in table {
            assert_eq!(set(text, pointer, value).as_deref(), Ok(result));
        }
        for (text, pointer) in [("{}", "a"), ("7", "/a"), ("[]", "/1"), ("[]", "/x")] {
            assert!(set(text, pointer, "1").is_err(), "{text} {pointer}");
        }
    }
}
