//! References: the places in a template where data is to be put in.
//!
//! They are found and replaced in the template's text, so everything around them stays as it was
//! sent. Nothing here knows where values come from.

use std::collections::HashMap;

use super::sites::{Site, Special, sites};
use crate::json::Tree;
use crate::{Payload, PayloadError, TaskId};

/// What stands in a template in place of a value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reference {
    /// `{"$output": TASK, "pointer": POINTER, "default": VALUE}`: a task's output or a part of it.
    Output {
        /// Whose output.
        task: TaskId,
        /// JSON Pointer into it; empty for the whole.
        pointer: Box<str>,
        /// What to take where there is none.
        default: Option<Payload>,
    },
    /// `{"$input": POINTER, "default": VALUE}`: the job's input or a part of it.
    Input {
        /// JSON Pointer into it; empty for the whole.
        pointer: Box<str>,
        /// What to take where there is none.
        default: Option<Payload>,
    },
    /// `{"$item": POINTER, "default": VALUE}`, in the input of a task that is done for each element
    /// of a list: that element or a part of it.
    Item {
        /// JSON Pointer into it; empty for the whole.
        pointer: Box<str>,
        /// What to take where there is none.
        default: Option<Payload>,
    },
}

impl Reference {
    /// JSON Pointer into the output, input or element; empty for the whole.
    pub fn pointer(&self) -> &str {
        match self {
            Self::Output { pointer, .. }
            | Self::Input { pointer, .. }
            | Self::Item { pointer, .. } => pointer,
        }
    }

    /// What to take where there is none.
    pub fn default(&self) -> Option<&Payload> {
        match self {
            Self::Output { default, .. }
            | Self::Input { default, .. }
            | Self::Item { default, .. } => default.as_ref(),
        }
    }

    /// The task whose output it takes; `None` where it takes something else.
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Output { task, .. } => Some(task),
            Self::Input { .. } | Self::Item { .. } => None,
        }
    }
}

/// A reference and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// JSON Pointer of the reference in its template.
    pub pointer: String,
    /// The reference.
    pub reference: Reference,
}

/// Why [`resolve_within`] could not put values in the places of references.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unresolved {
    /// There is no value for this reference, and it gives no default.
    #[error("{}", missing(.0))]
    Missing(Box<Found>),
    /// The result would be larger than it may be.
    #[error("the template with its references replaced has {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// How large it would be.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
}

fn missing(found: &Found) -> String {
    let (pointer, place) = (found.reference.pointer(), &found.pointer);
    match &found.reference {
        Reference::Output { task, .. } => {
            format!("task `{task}` has no output at {pointer:?} (for {place})")
        }
        Reference::Input { .. } => {
            format!("the job's input has nothing at {pointer:?} (for {place})")
        }
        Reference::Item { .. } => format!("the item has nothing at {pointer:?} (for {place})"),
    }
}

/// Lists the references of a template, and every object that looks like one and is none.
///
/// An object with a key that begins with `$` is a reference or an error;
/// `{"$literal": VALUE}` stands for `VALUE` as it is. A reference's default is a value as it is,
/// too.
///
/// ```
/// use annals_tasks_sdk::{Payload, plan::references};
/// let template = Payload::parse(r#"{"host": {"$input": "/host", "default": "web"}}"#)?;
/// let found = references(&template).unwrap();
/// assert_eq!(found[0].pointer, "/host");
/// let mistyped = Payload::parse(r#"[{"$inptu": ""}]"#)?;
/// assert_eq!(references(&mistyped).unwrap_err()[0].pointer, "/0");
/// # Ok::<(), annals_tasks_sdk::PayloadError>(())
/// ```
pub fn references(template: &Payload) -> Result<Vec<Found>, Vec<PayloadError>> {
    let (mut references, mut faults) = (Vec::new(), Vec::new());
    for Site { pointer, special, .. } in sites(template) {
        match special {
            Ok(Special::Reference(reference)) => references.push(Found { pointer, reference }),
            Ok(Special::Literal(_)) => {}
            Err(detail) => faults.push(PayloadError { pointer, detail }),
        }
    }
    if faults.is_empty() { Ok(references) } else { Err(faults) }
}

/// Puts values in the places of references.
///
/// `find` gives the whole output, input or element that a reference names, if there is one; it is
/// asked once for each task, once for the input and once for the element. Where it, or the part
/// that the pointer names, is missing, the reference's default is taken; without one the reference
/// is given back as the error. What [`references`] refuses is left as it stands.
pub fn resolve(
    template: &Payload,
    find: impl Fn(&Reference) -> Option<Payload>,
) -> Result<Payload, Box<Found>> {
    match resolve_within(template, usize::MAX, find) {
        Ok(resolved) => Ok(resolved),
        Err(Unresolved::Missing(found)) => Err(found),
        Err(Unresolved::TooLarge { .. }) => unreachable!("no text has more bytes than usize::MAX"),
    }
}

/// The same as [`resolve`] with a limit: a small template with many references to a large output
/// would otherwise take any amount of memory.
pub fn resolve_within(
    template: &Payload,
    limit_bytes: usize,
    find: impl Fn(&Reference) -> Option<Payload>,
) -> Result<Payload, Unresolved> {
    with_pieces(template, limit_bytes, find, |pieces| match pieces {
        [_] => template.clone(),
        pieces => Payload::trusted(&pieces.concat()),
    })
}

/// Whether [`resolve_within`] would give a value, which is not built to know that.
pub fn resolves_within(
    template: &Payload,
    limit_bytes: usize,
    find: impl Fn(&Reference) -> Option<Payload>,
) -> Result<(), Unresolved> {
    with_pieces(template, limit_bytes, find, |_| ())
}

/// What `make` makes of the pieces of the resolved text. One piece is the template as it stands.
fn with_pieces<T>(
    template: &Payload,
    limit_bytes: usize,
    find: impl Fn(&Reference) -> Option<Payload>,
    make: impl FnOnce(&[&str]) -> T,
) -> Result<T, Unresolved> {
    let sites = sites(template);
    if sites.is_empty() {
        return Ok(make(&[template.as_str()]));
    }
    let wholes = wholes(&sites, find);
    let trees: HashMap<From<'_>, Tree<'_>> = wholes
        .iter()
        .filter_map(|(from, whole)| Some((*from, Tree::new(whole.as_ref()?.as_str()))))
        .collect();
    let pieces = pieces(template.as_str(), &sites, &trees)?;
    let bytes = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.len()));
    if bytes > limit_bytes {
        return Err(Unresolved::TooLarge { bytes, limit: limit_bytes });
    }
    Ok(make(&pieces))
}

/// The text cut at its sites, with the values between the cuts. Nothing is copied yet, so that
/// the size is known before any memory is taken for the whole.
fn pieces<'v>(
    text: &'v str,
    sites: &'v [Site<'v>],
    trees: &HashMap<From<'_>, Tree<'v>>,
) -> Result<Vec<&'v str>, Unresolved> {
    let (mut pieces, mut copied) = (Vec::with_capacity(sites.len() * 2 + 1), 0);
    for site in sites {
        let value = match &site.special {
            Ok(Special::Literal(value)) => value,
            Ok(Special::Reference(reference)) => value_of(reference, trees)
                .ok_or_else(|| Unresolved::Missing(Box::new(site.found(reference))))?,
            Err(_) => continue,
        };
        let start = offset(text, site.text);
        pieces.extend([&text[copied..start], value]);
        copied = start + site.text.len();
    }
    pieces.push(&text[copied..]);
    Ok(pieces)
}

/// Of what whole a reference takes a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum From<'s> {
    Task(&'s str),
    Input,
    Item,
}

impl<'s> From<'s> {
    fn of(reference: &'s Reference) -> Self {
        match reference {
            Reference::Output { task, .. } => Self::Task(task.as_str()),
            Reference::Input { .. } => Self::Input,
            Reference::Item { .. } => Self::Item,
        }
    }
}

fn wholes<'s>(
    sites: &'s [Site<'_>],
    find: impl Fn(&Reference) -> Option<Payload>,
) -> HashMap<From<'s>, Option<Payload>> {
    let mut wholes = HashMap::new();
    for site in sites {
        if let Ok(Special::Reference(reference)) = &site.special {
            wholes.entry(From::of(reference)).or_insert_with(|| find(reference));
        }
    }
    wholes
}

fn value_of<'v>(reference: &'v Reference, trees: &HashMap<From<'_>, Tree<'v>>) -> Option<&'v str> {
    let tree = trees.get(&From::of(reference));
    let found = tree.and_then(|tree| tree.find(reference.pointer()));
    found.or_else(|| reference.default().map(Payload::as_str))
}

/// Where `part`, a slice of `whole`, begins in it.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Payload {
        Payload::parse(text).unwrap()
    }

    fn find(reference: &Reference) -> Option<Payload> {
        match From::of(reference) {
            From::Input => Some(payload(r#"{"host": "web", "n": 20000000000000000000001}"#)),
            From::Item => Some(payload(r#"{"disk": "sda"}"#)),
            From::Task("a") => Some(payload("[1, {\"b\": null}]")),
            From::Task(_) => None,
        }
    }

    #[test]
    fn references_are_replaced_and_all_else_stays_as_it_was() {
        let table = [
            (r#"{"$input": ""}"#, r#"{"host": "web", "n": 20000000000000000000001}"#),
            (
                r#" {"x" : {"$input": "/n"}, "y":1.0 } "#,
                r#"{"x" : 20000000000000000000001, "y":1.0 }"#,
            ),
            (r#"[ {"$output":"a","pointer":"/1/b","default":5} ]"#, "[ null ]"),
            (
                r#"[{"$output": "a", "pointer": "/7", "default": {"$input": ""}}]"#,
                r#"[{"$input": ""}]"#,
            ),
            (r#"[{"$output": "gone", "default": 7}, 1e400]"#, "[7, 1e400]"),
            (r#"{"$literal": {"$output": "x"}}"#, r#"{"$output": "x"}"#),
            (r#"[{"$literal": [{"$nonsense": 1}]}, "$"]"#, r#"[[{"$nonsense": 1}], "$"]"#),
            (r#"{"\u0024input": "/host"}"#, r#""web""#),
            (
                r#"{"cost": "5 $", "deep": [[{"$input": "/host"}]]}"#,
                r#"{"cost": "5 $", "deep": [["web"]]}"#,
            ),
            (r#"{"plain": 1}"#, r#"{"plain": 1}"#),
            (
                r#"[{"$item": "/disk"}, {"$item": "/n", "default": 1}, {"$item": ""}]"#,
                r#"["sda", 1, {"disk": "sda"}]"#,
            ),
        ];
        for (template, resolved) in table {
            assert_eq!(resolve(&payload(template), find).unwrap().as_str(), resolved);
            assert_eq!(resolves_within(&payload(template), 1_000, find), Ok(()));
        }
    }

    #[test]
    fn a_missing_value_without_default_gives_the_reference_and_its_place() {
        let found = resolve(&payload(r#"{"a": [{"$output": "gone"}]}"#), find).unwrap_err();
        assert_eq!(found.pointer, "/a/0");
        assert_eq!(From::of(&found.reference), From::Task("gone"));
        let nope = payload(r#"{"$input": "/nope"}"#);
        let error = resolve_within(&nope, 1_000, find).unwrap_err();
        assert_eq!(resolves_within(&nope, 1_000, find), Err(error));
    }

    #[test]
    fn what_many_references_would_blow_up_is_refused() {
        let template = payload(&format!("[{}0]", r#"{"$input": ""},"#.repeat(100)));
        let error = resolve_within(&template, 1_000, find).unwrap_err();
        assert!(matches!(error, Unresolved::TooLarge { bytes: 4_603, limit: 1_000 }), "{error}");
        assert_eq!(resolves_within(&template, 1_000, find), Err(error));
    }

    #[test]
    fn what_looks_like_a_reference_and_is_none_is_refused() {
        let table = [
            (r#"{"$output": "a", "ponter": ""}"#, "", "did you mean `pointer`?"),
            (r#"{"a/b": {"$outptu": "a"}}"#, "/a~1b", "did you mean `$output`?"),
            (r#"[{"$item": "a"}]"#, "/0", "begins with /"),
            (r#"{"$item": "", "concurrency": 1}"#, "", "does not belong beside `$item`"),
            (r#"{"$secret": "key"}"#, "", "`$secret` is not supported by this version"),
            (r#"{"$anything": 1}"#, "", "$literal"),
            (r#"{"a": 1, "$input": ""}"#, "", "`a` does not belong beside `$input`"),
            (r#"{"$input": "", "$output": "a"}"#, "", "does not belong"),
            (r#"{"$literal": 1, "default": 2}"#, "", "does not belong"),
            (r#"{"$input": "a"}"#, "", "begins with /"),
            (r#"{"$input": "/a~2"}"#, "", "~0"),
            (r#"{"$input": "/a~"}"#, "", "~0"),
            (r#"{"$output": "a", "pointer": "x"}"#, "", "begins with /"),
            (r#"{"$output": "a", "pointer": 7}"#, "", "must be a string"),
            (r#"{"$output": "not an id"}"#, "", "is not a task id"),
            (r#"{"$output": ["a"]}"#, "", "must be a string"),
            (r#"{"$input": null}"#, "", "must be a string"),
        ];
        for (template, pointer, words) in table {
            let faults = references(&payload(template)).expect_err(template);
            assert_eq!(faults[0].pointer, pointer, "{template}");
            assert!(faults[0].detail.contains(words), "{template}: {}", faults[0].detail);
        }
        let two = references(&payload(r#"[{"$a": 1}, {"$b": 1}]"#)).unwrap_err();
        assert_eq!(two.len(), 2);
    }
}
