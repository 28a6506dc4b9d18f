//! JSON read level by level, so that the digits of numbers and the places of faults are kept.
//!
//! `serde_json::Value` would round numbers that fit no machine type, and its
//! `arbitrary_precision` feature changes the programs of everyone who links this crate.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::payload::PayloadError;

/// Deeper values are refused: readers elsewhere overflow their stacks on them.
const DEPTH_MAX: usize = 128;

/// One level of a JSON value: its parts are still text.
pub(crate) enum Level<'a> {
    /// `null`, `true`, `false` or a number, as its text.
    Scalar(&'a str),
    /// A string, decoded.
    Text(String),
    /// The elements of an array.
    Array(Vec<&'a str>),
    /// The members of an object in their order.
    Object(Vec<(String, &'a str)>),
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

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
                while let Some(member) = map.next_entry()? {
                    members.push(member);
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
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(text)?;
            Level::Object(members.0.into_iter().map(|(key, raw)| (key, raw.get())).collect())
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text)?;
            Level::Array(elements.into_iter().map(RawValue::get).collect())
        }
        Some(b'"') => Level::Text(serde_json::from_str(text)?),
        _ => Level::Scalar(serde_json::from_str::<&RawValue>(text)?.get()),
    })
}

/// Appends one step to a JSON Pointer.
pub(crate) fn join(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

pub(crate) fn check(text: &str) -> Result<(), PayloadError> {
    // The whole is checked first, because what is no JSON has a line and a column there.
    serde_json::from_str::<&RawValue>(text)
        .map_err(|error| PayloadError { pointer: String::new(), detail: error.to_string() })?;
    check_at(text, "", DEPTH_MAX)
}

fn check_at(text: &str, pointer: &str, depth: usize) -> Result<(), PayloadError> {
    let fault = |detail: String| PayloadError { pointer: pointer.into(), detail };
    let inner = depth.checked_sub(1);
    let parts = match level(text).map_err(|error| fault(error.to_string()))? {
        Level::Scalar(_) | Level::Text(_) => return Ok(()),
        Level::Array(elements) => {
            let numbered = elements.into_iter().enumerate();
            numbered.map(|(index, part)| (index.to_string(), part)).collect()
        }
        Level::Object(members) => {
            let mut seen = HashSet::new();
            if let Some((key, _)) = members.iter().find(|(key, _)| !seen.insert(key.as_str())) {
                return Err(fault(format!("the key {key:?} stands twice in one object")));
            }
            members
        }
    };
    let Some(inner) = inner else {
        return Err(fault(format!("the value is nested more than {DEPTH_MAX} levels deep")));
    };
    parts.iter().try_for_each(|(step, part)| check_at(part, &join(pointer, step), inner))
}

pub(crate) fn pointer<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
    Tree::new(text).find(pointer)
}

/// A value whose levels are read when a pointer first goes through them, and only once, so that
/// many pointers into a large value stay cheap.
pub(crate) struct Tree<'a> {
    text: &'a str,
    parts: OnceCell<Parts<'a>>,
}

enum Parts<'a> {
    None,
    Elements(Vec<Tree<'a>>),
    Members(HashMap<String, Tree<'a>>),
}

impl<'a> Tree<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text: text.trim(), parts: OnceCell::new() }
    }

    /// The text of the part that an RFC 6901 pointer names.
    pub(crate) fn find(&self, pointer: &str) -> Option<&'a str> {
        let Some(rest) = pointer.strip_prefix('/') else {
            return pointer.is_empty().then_some(self.text);
        };
        let mut here = self;
        for step in rest.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            here = match here.parts.get_or_init(|| Parts::of(here.text)) {
                Parts::Members(members) => members.get(&step)?,
                Parts::Elements(elements) => elements.get(element_index(&step)?)?,
                Parts::None => return None,
            };
        }
        Some(here.text)
    }
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        match level(text) {
            Ok(Level::Object(members)) => {
                let members = members.into_iter();
                Self::Members(members.map(|(key, part)| (key, Tree::new(part))).collect())
            }
            Ok(Level::Array(elements)) => {
                Self::Elements(elements.into_iter().map(Tree::new).collect())
            }
            Ok(Level::Scalar(_) | Level::Text(_)) | Err(_) => Self::None,
        }
    }
}

fn element_index(step: &str) -> Option<usize> {
    let canonical = step == "0" || !step.starts_with('0');
    let digits = step.bytes().all(|byte| byte.is_ascii_digit());
    // The empty step fails to parse.
    if canonical && digits { step.parse().ok() } else { None }
}

/// Says what is wrong with a text that is no RFC 6901 pointer.
pub(crate) fn pointer_fault(pointer: &str) -> Option<&'static str> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Some("a JSON pointer is empty or begins with /");
    }
    let escapes = pointer.split('~').skip(1);
    let known = escapes.into_iter().all(|rest| rest.starts_with(['0', '1']));
    (!known).then_some("in a JSON pointer ~ stands only in ~0 (for ~) and ~1 (for /)")
}

/// Whether two texts hold the same value, with this to say of its numbers and words.
pub(crate) fn same_value(one: &str, other: &str, same: fn(&str, &str) -> bool) -> bool {
    match (level(one), level(other)) {
        (Ok(Level::Scalar(one)), Ok(Level::Scalar(other))) => same(one, other),
        (Ok(Level::Text(one)), Ok(Level::Text(other))) => one == other,
        (Ok(Level::Array(one)), Ok(Level::Array(other))) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same_value(one, other, same))
        }
        (Ok(Level::Object(mut one)), Ok(Level::Object(mut other))) => {
            one.sort_unstable();
            other.sort_unstable();
            one.len() == other.len()
                && one.iter().zip(&other).all(|((key, part), (other_key, other_part))| {
                    key == other_key && same_value(part, other_part, same)
                })
        }
        _ => false,
    }
}

pub(crate) fn same_text(one: &str, other: &str) -> bool {
    one == other
}

/// Whether two scalars are the same, numbers by their value: exactly, whatever their size.
pub(crate) fn same_number(one: &str, other: &str) -> bool {
    one == other || decimal(one).is_some_and(|number| decimal(other) == Some(number))
}

/// A number as sign, digits without zeros at either end, and the power of ten of the last one;
/// `None` for words, and where that power is beyond all sense.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let power = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let kept = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - kept.len()).ok()?;
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    Some((is_negative, kept.to_owned(), power.checked_add(zeros)?))
}

#[cfg(test)]
mod tests {
    use crate::Payload;

    #[test]
    fn digits_and_depth_are_kept() {
        for text in ["9007199254740993", "-0", "1e400", "1.0", "[18446744073709551616]"] {
            assert_eq!(Payload::parse(text).unwrap().as_str(), text);
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Payload::parse(&deep(127)).is_ok());
        assert!(Payload::parse(&deep(200)).is_err());
    }

    #[test]
    fn what_readers_would_read_differently_is_refused_with_its_place() {
        let error = Payload::parse(r#"{"a": {"b": 1, "b": 2}}"#).unwrap_err();
        assert_eq!(error.pointer, "/a");
        assert!(error.detail.contains("twice"));
        let error = Payload::parse(r#"["\ud800"]"#).unwrap_err();
        assert_eq!(error.pointer, "/0");
        for text in ["", "NaN", "Infinity", "1 2", "{", "01"] {
            assert!(Payload::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn same_value_looks_through_spelling_but_not_digits() {
        let same =
            |one, other| Payload::parse(one).unwrap().same_value(&Payload::parse(other).unwrap());
        assert!(same(r#"{"a":1,"b":"\u0041"}"#, r#"{ "b": "A", "a": 1 }"#));
        assert!(!same("1", "1.0"));
        assert!(!same("[1]", "[1,2]"));
        assert!(!same("{}", "[]"));
    }

    #[test]
    fn numbers_are_equal_by_their_value() {
        let equal =
            |one, other| Payload::parse(one).unwrap().equals(&Payload::parse(other).unwrap());
        for (one, other) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0", "0.000"),
            ("0.05", "5E-2"),
            ("[{\"a\":10}]", "[{\"a\": 1.0e+1}]"),
            ("12300e-2", "123"),
        ] {
            assert!(equal(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("1", "-1"),
            ("20000000000000000000001", "20000000000000000000002"),
            ("1", "\"1\""),
            ("1", "true"),
            ("1e9999999999999999999999", "1e9999999999999999999998"),
            ("null", "0"),
        ] {
            assert!(!equal(one, other), "{one} {other}");
        }
    }

    #[test]
    fn pointers_follow_rfc_6901() {
        let payload = Payload::parse(r#"{"a/b": {"~": [10, 11]}, "": 7}"#).unwrap();
        let at = |pointer| payload.pointer(pointer).map(|part| part.as_str().to_owned());
        assert_eq!(at("/a~1b/~0/1").as_deref(), Some("11"));
        assert_eq!(at("/").as_deref(), Some("7"));
        assert_eq!(at("/a~1b/~0/01"), None);
        assert_eq!(at("/a~1b/~0/-"), None);
        assert_eq!(at("nonsense"), None);
    }
}
