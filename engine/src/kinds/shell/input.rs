//! The input of a shell task.

use std::collections::BTreeMap;

use annals_tasks_sdk::{Payload, PayloadError};
use serde_json::value::RawValue;

use super::super::fields::{Fields, References};

const KNOWN: [&str; 10] = [
    "script",
    "argv",
    "shell",
    "env",
    "inherit_env",
    "cwd",
    "user",
    "unless",
    "output",
    "term_is_success",
];

/// Variables that the engine sets itself.
pub(super) const OWN: [&str; 6] = [
    "ANNALS_JOB",
    "ANNALS_TASK",
    "ANNALS_ATTEMPT",
    "ANNALS_OUTPUT",
    "ANNALS_WORK",
    "ANNALS_IDEMPOTENCY_KEY",
];

/// What to run, and how.
#[derive(Debug, PartialEq)]
pub(super) struct Input {
    pub(super) run: Run,
    /// The interpreter of scripts and its arguments.
    pub(super) shell: Vec<String>,
    /// Variables in their order; `None` leaves one out.
    pub(super) env: Vec<(String, Option<String>)>,
    pub(super) inherit_env: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) user: Option<String>,
    pub(super) unless: Option<String>,
    pub(super) output: OutputFrom,
    /// Whether a script that exits with 0 when it is told to stop has succeeded.
    pub(super) term_is_success: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Run {
    Script(String),
    Argv(Vec<String>),
}

/// Where the output of the task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFrom {
    File,
    Stdout,
}

/// Reads an input. `None` where a pending reference stands for the whole, or for what to run.
pub(super) fn parse(
    input: &Payload,
    references: References,
) -> Result<Option<Input>, Vec<PayloadError>> {
    let Some(mut fields) = Fields::open(input, &KNOWN, references)? else { return Ok(None) };
    let run = run(&mut fields);
    let shell = strings(&mut fields, "shell");
    if shell.as_ref().is_some_and(Vec::is_empty) {
        fields.problem(&["shell"], "shell must name an interpreter");
    }
    let default_shell = || vec!["/bin/sh".to_owned(), "-e".to_owned()];
    let parsed = Input {
        shell: shell.unwrap_or_else(default_shell),
        env: env(&mut fields),
        inherit_env: inherited(&mut fields),
        cwd: text(&mut fields, "cwd"),
        user: user(&mut fields),
        unless: text(&mut fields, "unless"),
        output: output(&mut fields),
        term_is_success: fields.take("term_is_success", "true or false").unwrap_or(false),
        run: run.unwrap_or_else(|| Run::Argv(Vec::new())),
    };
    fields.finish()?;
    let pending = matches!(&parsed.run, Run::Argv(argv) if argv.is_empty());
    Ok((!pending).then_some(parsed))
}

fn run(fields: &mut Fields<'_>) -> Option<Run> {
    match (fields.has("script"), fields.has("argv")) {
        (true, true) => fields.problem(&[], "a shell task has either script or argv, not both"),
        (false, false) => fields.problem(&[], "a shell task needs a script, or an argv"),
        _ => {}
    }
    if let Some(script) = text(fields, "script") {
        return Some(Run::Script(script));
    }
    let argv = strings(fields, "argv")?;
    if argv.first().is_none_or(String::is_empty) {
        fields.problem(&["argv"], "argv must begin with the program to run");
    }
    Some(Run::Argv(argv))
}

/// No process can be given a NUL, so one is refused here, where it can still be explained.
fn without_nul(fields: &mut Fields<'_>, path: &[&str], text: String) -> Option<String> {
    if text.contains('\0') {
        let name = path.join("/");
        fields.problem(path, format!("{name} holds a NUL character, which no process can take"));
        return None;
    }
    Some(text)
}

fn text(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    let text = fields.take::<String>(name, "a text")?;
    without_nul(fields, &[name], text)
}

/// Numbers and truth values among the words are taken as their text: YAML writes `sleep, 5`.
fn strings(fields: &mut Fields<'_>, name: &str) -> Option<Vec<String>> {
    let raw = fields.raw(name)?;
    let Ok(words) = serde_json::from_str::<Vec<&RawValue>>(raw) else {
        fields.problem(&[name], format!("{name} must be a list of texts"));
        return None;
    };
    let mut texts = Vec::with_capacity(words.len());
    for (index, word) in words.into_iter().enumerate() {
        let index = index.to_string();
        match word.get() {
            // Something will stand here, so that the list is not taken for an empty one.
            text if fields.is_pending(text) => texts.push("pending".to_owned()),
            text if text.starts_with(['{', '[']) || text == "null" => {
                fields.problem(&[name, &index], format!("{name}/{index} must be a text"));
            }
            text => {
                let value = as_variable(text).unwrap_or_default();
                texts.extend(without_nul(fields, &[name, &index], value));
            }
        }
    }
    Some(texts)
}

/// How a JSON value stands in a variable: a string as it is, null not at all, anything else as
/// its JSON text.
fn as_variable(text: &str) -> Option<String> {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).ok(),
        Some(b'n') => None,
        _ => Some(text.to_owned()),
    }
}

fn env(fields: &mut Fields<'_>) -> Vec<(String, Option<String>)> {
    let Some(raw) = fields.raw("env") else { return Vec::new() };
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw) else {
        fields.problem(&["env"], "env must be an object of variables");
        return Vec::new();
    };
    let mut variables = Vec::with_capacity(members.len());
    for (name, value) in members {
        check_name(fields, &["env", &name], &name);
        if fields.is_pending(value.get()) {
            continue;
        }
        let value = match as_variable(value.get()) {
            Some(value) => without_nul(fields, &["env", &name], value),
            None => None,
        };
        variables.push((name, value));
    }
    variables
}

fn inherited(fields: &mut Fields<'_>) -> Vec<String> {
    let names = strings(fields, "inherit_env").unwrap_or_default();
    for (index, name) in names.iter().enumerate() {
        check_name(fields, &["inherit_env", &index.to_string()], name);
    }
    names
}

fn check_name(fields: &mut Fields<'_>, path: &[&str], name: &str) {
    if name.is_empty() || name.contains(['=', '\0']) {
        fields.problem(path, format!("{name:?} cannot be the name of a variable"));
    } else if OWN.contains(&name) {
        fields.problem(path, format!("the variable {name} is set by the engine"));
    }
}

fn user(fields: &mut Fields<'_>) -> Option<String> {
    let raw = fields.raw("user")?;
    let number = raw.bytes().all(|byte| byte.is_ascii_digit());
    if number {
        return Some(raw.to_owned());
    }
    let name = fields.take::<String>("user", "the name or the number of a user")?;
    without_nul(fields, &["user"], name)
}

fn output(fields: &mut Fields<'_>) -> OutputFrom {
    match fields.take::<String>("output", "\"stdout\", or left out").as_deref() {
        Some("stdout") => OutputFrom::Stdout,
        Some(_) => {
            fields.problem(&["output"], "output must be \"stdout\", or left out");
            OutputFrom::File
        }
        None => OutputFrom::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(input: &str, references: References) -> Vec<String> {
        let input = Payload::parse(input).unwrap();
        let problems = parse(&input, references).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (input, word) in [
            ("null", "must be an object"),
            ("{}", "needs a script"),
            (r#"{"script": "a", "argv": ["b"]}"#, "not both"),
            (r#"{"scirpt": "a"}"#, "did you mean \"script\"? (at /scirpt)"),
            (r#"{"script": 5}"#, "script must be a text"),
            (r#"{"argv": []}"#, "begin with the program"),
            (r#"{"argv": ["a", {"b": 1}]}"#, "(at /argv/1)"),
            (r#"{"argv": ["a\u0000"]}"#, "NUL"),
            (r#"{"script": "a\u0000"}"#, "NUL"),
            (r#"{"script": "a", "env": {"A": "\u0000"}}"#, "(at /env/A)"),
            (r#"{"script": "a", "env": {"A=B": "x"}}"#, "cannot be the name"),
            (r#"{"script": "a", "env": {"ANNALS_OUTPUT": "x"}}"#, "set by the engine"),
            (r#"{"script": "a", "output": "stderr"}"#, "output must be"),
            (r#"{"script": "a", "term_is_success": "yes"}"#, "true or false"),
            (r#"{"script": "a", "user": {}}"#, "the name or the number"),
            (r#"{"script": {"$input": "/s"}, "argv": ["b"]}"#, "not both"),
        ] {
            let found = problems(input, References::Pending);
            assert!(found.iter().any(|one| one.contains(word)), "{input}: {found:?}");
        }
    }

    #[test]
    fn references_are_passed_over_until_they_are_resolved() {
        for input in [
            r#"{"$output": "a"}"#,
            r#"{"script": {"$output": "a"}}"#,
            r#"{"argv": {"$input": "/argv"}}"#,
            r#"{"argv": [{"$input": "/program"}]}"#,
            r#"{"script": "a", "env": {"A": {"$input": "/a"}}, "cwd": {"$input": "/c"}}"#,
            r#"{"script": "a", "env": {"$input": "/env"}, "user": {"$input": "/u"}}"#,
        ] {
            assert_eq!(problems(input, References::Pending), Vec::<String>::new(), "{input}");
        }
        assert!(!problems(r#"{"script": {"$output": "a"}}"#, References::Resolved).is_empty());
    }

    #[test]
    fn variables_keep_the_text_of_values() {
        let input = Payload::parse(
            r#"{"argv": ["sleep", 5, true], "user": 33,
                "env": {"A": "a b", "B": null, "C": 1.50, "D": {"$x": [1, 2]}}}"#,
        );
        let input = parse(&input.unwrap(), References::Resolved).unwrap().unwrap();
        let words = ["sleep", "5", "true"].map(str::to_owned).to_vec();
        assert_eq!(input.run, Run::Argv(words));
        assert_eq!(input.user.as_deref(), Some("33"));
        let env = |name: &str| {
            let mut found = input.env.iter().filter(|(its, _)| its == name);
            found.next().unwrap().1.clone()
        };
        assert_eq!(env("A").as_deref(), Some("a b"));
        assert_eq!(env("B"), None);
        assert_eq!(env("C").as_deref(), Some("1.50"));
        assert_eq!(env("D").as_deref(), Some(r#"{"$x": [1, 2]}"#));
    }
}
