//! What is different between two JSON values, by the places in them.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Level, compact, level};

/// One place at which two values are different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Where, as an RFC 6901 pointer; elements of arrays go by their `id`, `number` or `name` where
    /// all of them have one.
    pub(crate) path: String,
    /// The JSON that stands there in the first value; none where there is nothing.
    pub(crate) from: Option<String>,
    /// The JSON that stands there in the second.
    pub(crate) to: Option<String>,
}

/// What names the elements of an array.
const NAMES: [&str; 3] = ["id", "number", "name"];

/// The places at which two JSON values are different, in the order in which they stand there.
///
/// # Errors
///
/// Where one of them is no JSON.
pub(crate) fn changes(from: &str, to: &str) -> Result<Vec<Change>, serde_json::Error> {
    let mut found = Vec::new();
    compare(String::new(), from, to, &mut found)?;
    Ok(found)
}

fn compare(
    path: String,
    from: &str,
    to: &str,
    found: &mut Vec<Change>,
) -> Result<(), serde_json::Error> {
    if from == to {
        return Ok(());
    }
    let parts = Parts::of(from)?.zip(Parts::of(to)?).filter(|(a, b)| a.is_array == b.is_array);
    let Some((before, after)) = parts else {
        let (from, to) = (Some(compact(from)), Some(compact(to)));
        if from != to {
            found.push(Change { path, from, to });
        }
        return Ok(());
    };
    for (name, value) in &before.all {
        let path = format!("{path}/{}", escaped(name));
        match after.by_name.get(&**name) {
            Some(other) => compare(path, value, other, found)?,
            None => found.push(Change { path, from: Some(compact(value)), to: None }),
        }
    }
    for (name, value) in after.beyond(&before) {
        let path = format!("{path}/{}", escaped(name));
        found.push(Change { path, from: None, to: Some(compact(value)) });
    }
    if before.is_array && !before.common(&after).eq(after.common(&before)) {
        let text = |order: Vec<&str>| Some(serde_json::Value::from(order).to_string());
        let (from, to) = (before.common(&after).collect(), after.common(&before).collect());
        found.push(Change { path, from: text(from), to: text(to) });
    }
    Ok(())
}

/// Values with their names, in their order.
type Named<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// The members of an object, or the elements of an array that have names.
struct Parts<'a> {
    is_array: bool,
    all: Named<'a>,
    by_name: HashMap<String, &'a str>,
}

impl<'a> Parts<'a> {
    /// None where the value has no parts that could be told apart by name.
    fn of(text: &'a str) -> Result<Option<Self>, serde_json::Error> {
        let (is_array, all) = match level(text)? {
            Level::Object(members) => (false, members),
            Level::Array(elements) => match named(&elements)? {
                Some(named) => (true, named),
                None => return Ok(None),
            },
            Level::Scalar(_) | Level::Text(_) => return Ok(None),
        };
        let by_name: HashMap<_, _> =
            all.iter().map(|(name, value)| (name.clone().into_owned(), *value)).collect();
        let are_unique = by_name.len() == all.len();
        Ok(are_unique.then_some(Self { is_array, all, by_name }))
    }

    /// The names that others have as well.
    fn common(&self, others: &'a Self) -> impl Iterator<Item = &str> {
        let names = self.all.iter().map(|(name, _)| &**name);
        names.filter(|name| others.by_name.contains_key(*name))
    }

    /// What others do not have.
    fn beyond(&self, others: &'a Self) -> impl Iterator<Item = &(Cow<'a, str>, &'a str)> {
        self.all.iter().filter(|(name, _)| !others.by_name.contains_key(&**name))
    }
}

/// The elements of an array by what names them, where something names all of them.
fn named<'a>(elements: &[&'a str]) -> Result<Option<Named<'a>>, serde_json::Error> {
    let mut all = Named::with_capacity(elements.len());
    for &element in elements {
        let Level::Object(members) = level(element)? else { return Ok(None) };
        let names = NAMES.iter().filter_map(|name| members.iter().find(|(key, _)| key == name));
        let Some((_, name)) = names.into_iter().next() else { return Ok(None) };
        let name = match level(name)? {
            Level::Text(text) => Cow::Owned(text),
            Level::Scalar(number) => Cow::Borrowed(number),
            Level::Array(_) | Level::Object(_) => return Ok(None),
        };
        all.push((name, element));
    }
    Ok(Some(all))
}

/// A step of a pointer.
fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        return name.replace('~', "~0").replace('/', "~1").into();
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: &str, to: &str) -> Vec<String> {
        let changes = changes(from, to).unwrap().into_iter();
        let none = || "-".to_owned();
        let line = |change: Change| {
            let (from, to) = (change.from.unwrap_or_else(none), change.to.unwrap_or_else(none));
            format!("{}: {from} > {to}", change.path)
        };
        changes.map(line).collect()
    }

    #[test]
    fn what_is_the_same_is_not_told() {
        assert!(told(r#"{"a": [1, {"b": null}]}"#, r#"{"a":[1,{"b":null}]}"#).is_empty());
        assert!(told("[]", "[ ]").is_empty());
    }

    #[test]
    fn each_place_is_told_with_both_values() {
        let from = r#"{"a": 1, "b": {"c": "x", "d": [1, 2]}, "e/~": true}"#;
        let to = r#"{"a": 1.0, "b": {"c": "x", "d": [1, 2, 3]}, "f": {"g": 1}}"#;
        assert_eq!(
            told(from, to),
            ["/a: 1 > 1.0", "/b/d: [1,2] > [1,2,3]", "/e~1~0: true > -", r#"/f: - > {"g":1}"#]
        );
        assert_eq!(told("1", "[1]"), [": 1 > [1]"]);
        assert_eq!(told("{}", "[]"), [": {} > []"]);
        assert_eq!(told("12345678901234567890123", "12345678901234567890124").len(), 1);
    }

    #[test]
    fn elements_that_have_names_go_by_them() {
        let from = r#"[{"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "c"}]"#;
        let to = r#"[{"id": "c"}, {"id": "a", "n": 2}, {"id": "d"}]"#;
        assert_eq!(
            told(from, to),
            [
                "/a/n: 1 > 2",
                r#"/b: {"id":"b","n":1} > -"#,
                r#"/d: - > {"id":"d"}"#,
                r#": ["a","c"] > ["c","a"]"#
            ]
        );
        let numbers = told(r#"[{"number": 1, "x": 0}]"#, r#"[{"number": 1, "x": 1}]"#);
        assert_eq!(numbers, ["/1/x: 0 > 1"]);
        // Two of one name cannot be told apart.
        assert_eq!(told(r#"[{"id": 1}, {"id": 1}]"#, r#"[{"id": 1}]"#).len(), 1);
    }

    #[test]
    fn ten_thousand_elements_are_not_searched_one_by_one() {
        let list = |n: usize| {
            let all = (0..10_000).map(|at| format!(r#"{{"id":"{at}","n":{}}}"#, at / n));
            format!("[{}]", all.collect::<Vec<_>>().join(","))
        };
        assert_eq!(told(&list(10_000), &list(9_999)).len(), 1);
    }
}
