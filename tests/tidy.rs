//! The rules of style that matter, as tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest line, in characters.
const LINE_MAX: usize = 100;
/// The longest function, in lines.
const FUNCTION_MAX: usize = 70;
/// The longest file, in lines.
const FILE_MAX: usize = 500;

const LIBRARIES: [&str; 3] = ["tasks-sdk", "engine", "api"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files of the project, by their path below its root. What looks at no file finds no
/// fault, so it is made sure that the list is the project's.
fn sources() -> BTreeMap<String, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root())
        .output();
    let names: Vec<String> = match listed {
        Ok(listed) if listed.status.success() => {
            String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()
        }
        // Outside a checkout, such as in an unpacked archive.
        _ => walk(&root()),
    };
    let read = |name: String| fs::read_to_string(root().join(&name)).ok().map(|text| (name, text));
    let sources: BTreeMap<String, String> = names.into_iter().filter_map(read).collect();
    for library in LIBRARIES {
        let name = format!("{library}/src/lib.rs");
        assert!(sources.contains_key(&name), "{name} is not among the files");
    }
    assert!(sources.contains_key("tests/tidy.rs"), "this file is not among the files");
    sources
}

/// Those below a folder, of which there must be some.
fn below<'s>(sources: &'s BTreeMap<String, String>, folder: &str) -> Vec<(&'s str, &'s str)> {
    let files = sources.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let found: Vec<_> = files.filter(|(name, _)| name.starts_with(folder)).collect();
    assert!(!found.is_empty(), "no file begins with {folder}");
    found
}

/// Whether a line is the first one of a function, whatever stands before its `fn`.
fn begins_function(code: &str) -> bool {
    let Some((before, _)) = code.split_once("fn ") else { return false };
    let qualifies = |word: &str| {
        let keyword = ["async", "const", "unsafe", "extern", "\"C\""].contains(&word);
        // The second half is the end of a visibility with a path.
        keyword || word == "pub" || word.starts_with("pub(") || word.ends_with(')')
    };
    (before.is_empty() || before.ends_with(' ')) && before.split_whitespace().all(qualifies)
}

fn walk(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            found.extend(walk(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let below = path.strip_prefix(root()).unwrap_or(&path);
            found.push(below.to_string_lossy().into_owned());
        }
    }
    found
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn lines_and_files_are_short() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_MAX {
            faults.push(format!("{name} has {lines} lines, more than {FILE_MAX}"));
        }
        for (line, number) in text.lines().zip(1..) {
            let length = line.chars().count();
            if length > LINE_MAX {
                faults.push(format!("{name}:{number} has {length} characters"));
            }
        }
    }
    none(&faults);
}

#[test]
fn functions_are_known_by_their_first_line() {
    let begins = [
        "fn a() {",
        "pub fn a() {",
        "const fn a() {",
        "async fn a() {",
        "pub const fn a() {",
        "pub(crate) fn a() {",
        "pub(super) async fn a() {",
        "pub(crate) async fn a() {",
        "pub(in crate::job) fn a() {",
    ];
    for line in begins {
        assert!(begins_function(line), "{line}");
    }
    for line in ["// a fn b", "let a: fn (u8) = b;", "impl Fn for A {", "const A: fn () = b;"] {
        assert!(!begins_function(line), "{line}");
    }
}

#[test]
fn functions_are_short() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            if !begins_function(code) {
                continue;
            }
            // rustfmt puts the closing brace in the column in which the function begins.
            let closes = |line: &&str| **line == format!("{}}}", " ".repeat(indent));
            if let Some(length) = lines[start..].iter().position(closes)
                && length + 1 > FUNCTION_MAX
            {
                faults.push(format!(
                    "{name}:{} begins {} lines of function",
                    start + 1,
                    length + 1
                ));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_machine_is_pure() {
    let impure = [
        "std::fs",
        "std::io",
        "std::net",
        "std::process",
        "std::thread",
        "std::env",
        "SystemTime",
        "Instant",
        "async ",
        ".await",
        "tokio",
        "tracing",
        "redb",
        "bincode",
        "fastrand",
        "uuid",
        "crate::log",
        "crate::runtime",
        "crate::kinds",
        "crate::views",
        "crate::steplog",
        "Mutex",
    ];
    let mut faults = Vec::new();
    for (name, text) in below(&sources(), "engine/src/job/") {
        let code = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//"));
        for (line, number) in code {
            for word in impure.iter().filter(|word| names(line, word)) {
                faults.push(format!("{name}:{number} names {word}"));
            }
        }
    }
    none(&faults);
}

/// Whether a line has a word that no longer one begins with.
fn names(line: &str, word: &str) -> bool {
    line.split(word).skip(1).any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

#[test]
fn bytes_and_disks_have_their_places() {
    let places = [("bincode", "engine/src/log/codec"), ("redb", "engine/src/log/redb")];
    let (mut faults, sources) = (Vec::new(), sources());
    for (word, place) in places {
        let named = |(_, text): &(&str, &str)| text.contains(&format!("{word}::"));
        assert!(below(&sources, place).iter().any(named), "{place} does not name {word}");
    }
    for (name, text) in &sources {
        let library = name.starts_with("engine/src") || name.starts_with("api/src");
        if !library || name.starts_with("engine/src/log/tests/") {
            continue;
        }
        for (word, place) in places.iter().filter(|(_, place)| !name.starts_with(place)) {
            // The log's own module of that name is not the crate.
            let named = |line: &str| {
                let line = line.trim_start();
                line.starts_with(&format!("use {word}::"))
                    || line.contains(&format!(" {word}::")) && !line.starts_with("//")
            };
            let own = |line: &str| line.contains(&format!("pub use {word}::"));
            if text.lines().any(|line| named(line) && !own(line)) {
                faults.push(format!("{name} names {word}, whose place is {place}"));
            }
        }
    }
    none(&faults);
}

#[test]
fn there_is_no_unsafe_code_and_nothing_half_done() {
    for library in LIBRARIES {
        let text = fs::read_to_string(root().join(library).join("src/lib.rs")).expect("a library");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{library}");
    }
    let unfinished = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME")];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for word in unfinished.iter().filter(|word| text.contains(**word)) {
            faults.push(format!("{name} contains {word}"));
        }
    }
    none(&faults);
}

/// tasks-sdk <- engine <- api, and what a task author links stays small.
#[test]
fn dependencies_point_one_way() {
    let forbidden: [(&str, &[&str]); 2] = [
        ("annals-tasks-sdk", &["annals-engine", "annals", "redb", "bincode", "axum", "clap"]),
        ("annals-engine", &["annals", "axum", "clap", "utoipa"]),
    ];
    for (package, others) in forbidden {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let tree = Command::new(cargo)
            .args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none"])
            .args(["--format", "{p}", "--package", package])
            .current_dir(root())
            .output()
            .expect("cargo tree runs");
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let text = String::from_utf8_lossy(&tree.stdout);
        let names = text.lines().filter_map(|line| line.split(' ').next());
        let found: Vec<&str> = names.filter(|name| others.contains(name)).collect();
        assert!(found.is_empty(), "{package} depends on {found:?}");
    }
}
