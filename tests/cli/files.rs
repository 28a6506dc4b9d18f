//! Plan files that cannot be accepted, and where their faults are said to be.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Answer, Place};

#[test]
fn every_fault_of_a_file_has_its_place() {
    let task = "tasks: [{id: a, kind: noop}]";
    let table = [
        ("name: x\ntasks:\n  - id: a\n    knid: noop\n", "p.yaml:4:5: /tasks/0/knid: "),
        ("name: x\ntasks:\n  - {id: a, kind: nope}\n", "p.yaml:3:13: /tasks/0/kind: "),
        ("name: x\ntasks:\n  - {id: a b, kind: noop}\n", "p.yaml:3:6: /tasks/0/id: "),
        ("name: x\ntasks: []\n", "p.yaml:2:1: /tasks"),
        ("name: x\n", "p.yaml:1:1: `tasks` is missing"),
        (&format!("name: x\nqueue: fast\n{task}\n"), "p.yaml:2:1: /queue: "),
        (&format!("name: x\nname: y\n{task}\n"), "p.yaml:2:1: the key \"name\" stands twice"),
        (
            "name: x\ntasks: [{id: a, kind: noop}, {id: a, kind: noop}]\n",
            "p.yaml:2:31: /tasks/1/id",
        ),
        ("name: x\ntasks: [{id: a, kind: noop, needs: [b]}]\n", "p.yaml:2:37: /tasks/0/needs/0"),
        (
            "name: x\ntasks: [{id: a, kind: shell, input: {scrip: x}}]\n",
            "p.yaml:2:38: /tasks/0/input/scrip",
        ),
        ("name: x\ntasks: [{id: a, kind: noop, timeout: 5}]\n", "p.yaml:2:29: /tasks/0/timeout: "),
        ("name: [x\n", "p.yaml:"),
        ("\t- x\n", "p.yaml:1:"),
        ("", "p.yaml:1:1: the file holds nothing"),
        ("just text\n", "p.yaml:1:1: a plan must be an object"),
        ("a: &a [*a]\n", "p.yaml:1:8: the alias stands inside"),
    ];
    for (text, words) in table {
        let place = Place::new();
        place.write("p.yaml", text);
        for command in ["validate", "run"] {
            let answer = place.annals(&[command, "p.yaml"]).expect(2);
            assert!(answer.stderr.contains(words), "{text:?}: {}", answer.stderr);
            assert!(answer.stderr.contains("annals: p.yaml holds no valid plan"), "{answer:?}");
        }
        assert!(!place.path("annals-data").exists(), "nothing was begun for {text:?}");
    }
}

#[test]
fn a_request_may_go_where_flag_variable_or_file_allow_it() {
    let place = Place::new();
    let input = "{url: \"http://127.0.0.1:9/\"}";
    place.write("p.yaml", format!("name: x\ntasks: [{{id: a, kind: http, input: {input}}}]\n"));
    for command in ["validate", "run"] {
        let refused = place.annals(&[command, "p.yaml"]).expect(2);
        assert!(refused.stderr.contains("/tasks/0/input/url: \"127.0.0.1\" is a loopback address"));
        let wrong = place.annals(&[command, "p.yaml", "--allow-targets", "10.0.0.0/99"]).expect(2);
        assert!(
            wrong.stderr.contains("--allow-targets: \"10.0.0.0/99\" is no target"),
            "{wrong:?}"
        );
    }
    place.annals(&["validate", "p.yaml", "--allow-targets", "10.0.0.0/8,127.0.0.1"]).expect(0);
    let mut command = place.command(&["validate", "p.yaml"]);
    Answer::from(command.env("ANNALS_ALLOW_TARGETS", "private").output().unwrap()).expect(0);
    place.write("annals.toml", "allow_targets = [\"127.0.0.0/8\"]\n");
    place.annals(&["validate", "p.yaml"]).expect(0);
    // Nobody listens there.
    let failed = place.annals(&["run", "p.yaml"]).expect(1);
    assert!(failed.stdout.contains("[connect_failed]"), "{failed:?}");
}

#[test]
fn the_places_are_in_the_json_of_an_error() {
    let place = Place::new();
    place.write("p.json", "{\"name\": \"x\",\n \"tasks\": [{\"id\": \"a\"}]}");
    let answer = place.annals(&["validate", "p.json", "--json"]).expect(2);
    let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(problem["code"], "invalid_plan");
    assert_eq!(problem["file"], "p.json");
    let first = &problem["errors"][0];
    assert_eq!((&first["line"], &first["column"]), (&2.into(), &12.into()), "{problem}");
    assert_eq!(first["pointer"], "/tasks/0");
}

#[test]
fn what_is_wrong_on_the_command_line_is_not_blamed_on_the_file() {
    let place = Place::new();
    let plan = "name: x\ninput: {n: 1}\n\
        tasks: [{id: a, kind: noop, input: {n: {$input: /n}}}]\n";
    place.write("p.yaml", plan);
    place.annals(&["validate", "p.yaml"]).expect(0);
    for (args, words) in [
        (&["--input", "{oops"][..], "--input must be JSON"),
        (&["--input", "@nowhere"], "cannot be read"),
        (&["--set", "n=1"], "begins with /"),
        (&["--set", "n"], "POINTER=VALUE"),
        (&["--set", "/n/x=1"], "neither an object nor a list"),
        (&["--input", "{}"], "/tasks/0/input/n"),
    ] {
        let answer = place.annals(&[&["validate", "p.yaml"], args].concat()).expect(2);
        assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
    }
    place.write("input.yaml", "n: 0x10\n");
    let valid = place.json(&["validate", "p.yaml", "--input", "@input.yaml"]);
    assert_eq!(valid["plan"]["input"]["n"], 16);
}

#[test]
fn hostile_files_are_refused_in_no_time() {
    let place = Place::new();
    place.write("p.yaml", "[".repeat(1_000_000));
    place.annals(&["validate", "p.yaml"]).expect(2);
    place.write("p.json", "[".repeat(1_000_000));
    place.annals(&["validate", "p.json"]).expect(2);
    place.write("p.yaml", vec![b' '; (16 << 20) + 1]);
    let answer = place.annals(&["validate", "p.yaml"]).expect(2);
    assert!(answer.stderr.contains("larger than 16 MiB"), "{}", answer.stderr);
    place.write("p.yaml", b"name: \xff\n");
    let answer = place.annals(&["validate", "p.yaml"]).expect(2);
    assert!(answer.stderr.contains("line 1 is not UTF-8"), "{}", answer.stderr);
    place.annals(&["validate", "."]).expect(2);
}

/// All that is below a folder.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        found.extend(if path.is_dir() { tree(&path) } else { Vec::new() });
        found.push(path);
    }
    found.sort_unstable();
    found
}

#[test]
fn what_is_only_looked_at_leaves_nothing_behind() {
    let place = Place::new();
    place.write("good.yaml", "name: x\ntasks: [{id: a, kind: shell, input: {script: exit 1}}]\n");
    place.write("bad.yaml", "name: x\ntasks: [{id: a, kind: shell, input: {scrip: exit 1}}]\n");
    fs::create_dir(place.path("tmp")).unwrap();
    // A process that is over has written all that it ever will.
    let before = tree(&place.path(""));
    for tmp in ["tmp", "missing"] {
        for (file, code) in [("good.yaml", 0), ("bad.yaml", 2)] {
            let mut command = place.command(&["validate", file]);
            command.env("TMPDIR", place.path(tmp));
            Answer::from(command.output().expect("annals runs")).expect(code);
        }
    }
    assert_eq!(tree(&place.path("")), before);
}

#[test]
fn usage_is_exit_code_2() {
    let place = Place::new();
    for args in [&["run"][..], &["bogus"], &["list", "--status", "x"], &["show"]] {
        place.annals(args).expect(2);
        let answer = place.annals(&[args, &["--json"]].concat()).expect(2);
        let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
        assert_eq!(problem["code"], "usage", "{args:?}");
    }
    place.annals(&["--help"]).expect(0);
    place.annals(&["--version"]).expect(0);
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.annals(&["completions", shell]).expect(0).stdout.contains("annals"));
    }
}
