//! JSON laid out for people: one thing a line, texts of several lines as lines.

use super::{Level, level, quoted};

/// Lays a JSON value out in lines, much like YAML, so that it can be read and compared.
///
/// ```
/// # use annals::json::outline;
/// let text = outline(r#"{"id": "a", "input": {"script": "one\ntwo", "n": [1, 2]}}"#);
/// assert_eq!(text, "id: \"a\"\ninput:\n  script: |\n    one\n    two\n  n:\n    - 1\n    - 2\n");
/// ```
pub fn outline(json: &str) -> String {
    let mut out = String::new();
    match level(json) {
        Ok(Level::Object(members)) if !members.is_empty() => object(&members, 0, &mut out),
        Ok(Level::Array(elements)) if !elements.is_empty() => array(&elements, 0, &mut out),
        Ok(Level::Text(text)) if text.contains('\n') => {
            out.push_str("|\n");
            lines(&text, 1, &mut out);
        }
        _ => {
            out.push_str(json.trim());
            out.push('\n');
        }
    }
    out
}

fn object<K: AsRef<str>>(members: &[(K, &str)], depth: usize, out: &mut String) {
    for (index, (key, part)) in members.iter().enumerate() {
        // The first line of an object in a list stands behind the dash.
        if index > 0 || !out.ends_with("- ") {
            indent(depth, out);
        }
        out.push_str(&name(key.as_ref()));
        out.push(':');
        value(part, depth, out);
    }
}

fn array(elements: &[&str], depth: usize, out: &mut String) {
    for element in elements {
        indent(depth, out);
        match level(element) {
            Ok(Level::Object(members)) if !members.is_empty() => {
                out.push_str("- ");
                object(&members, depth + 1, out);
            }
            _ => {
                out.push('-');
                value(element, depth, out);
            }
        }
    }
}

/// What stands behind a key or a dash.
fn value(text: &str, depth: usize, out: &mut String) {
    match level(text) {
        Ok(Level::Object(members)) if !members.is_empty() => {
            out.push('\n');
            object(&members, depth + 1, out);
        }
        Ok(Level::Array(elements)) if !elements.is_empty() => {
            out.push('\n');
            array(&elements, depth + 1, out);
        }
        Ok(Level::Text(text)) if text.contains('\n') => {
            out.push_str(" |\n");
            lines(&text, depth + 1, out);
        }
        _ => {
            out.push(' ');
            out.push_str(text.trim());
            out.push('\n');
        }
    }
}

fn lines(text: &str, depth: usize, out: &mut String) {
    for line in text.lines() {
        indent(depth, out);
        out.push_str(line);
        out.push('\n');
    }
}

fn name(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.$/".contains(c);
    if !key.is_empty() && key.chars().all(plain) { key.to_owned() } else { quoted(key) }
}

fn indent(depth: usize, out: &mut String) {
    (0..depth).for_each(|_| out.push_str("  "));
}

#[cfg(test)]
mod tests {
    use super::outline;

    #[test]
    fn objects_in_lists_stand_behind_their_dash_and_digits_stay() {
        let json = r#"{"tasks": [{"id": "a", "needs": []}, [1.0, 1e400]], "a b": {}, "n": -0}"#;
        let lines = "tasks:\n  - id: \"a\"\n    needs: []\n  -\n    - 1.0\n    - 1e400\n\
            \"a b\": {}\nn: -0\n";
        assert_eq!(outline(json), lines);
        assert_eq!(outline(" 7 "), "7\n");
        assert_eq!(outline("\"a\\nb\""), "|\n  a\n  b\n");
    }
}
