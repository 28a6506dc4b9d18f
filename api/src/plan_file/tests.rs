//! Plan files: what is read, and where the faults of what is refused are said to be.

use std::fmt::Write;

use super::*;

fn yaml(text: &str) -> Result<String, Faults> {
    read("plan.yaml", text).map(|file| file.json().to_owned())
}

fn read(name: &str, text: &str) -> Result<PlanFile, Faults> {
    let path = Path::new(name);
    PlanFile::parse(path, text.to_owned())
        .map_err(|fault| Faults { path: path.to_owned(), list: vec![fault] })
}

fn faults(name: &str, text: &str) -> String {
    let plan = read(name, text)
        .and_then(|file| file.plan(&Overrides::default(), &Limits::default()).map(drop));
    plan.expect_err("the plan is refused").to_string()
}

#[test]
fn yaml_becomes_json_with_its_digits() {
    let table = [
        ("a: 1\nb: [x, 2.50]\n", r#"{"a":1,"b":["x",2.50]}"#),
        (
            "a: &x {k: 1e400}\nb: *x\nc: *x\n",
            r#"{"a":{"k":1e400},"b":{"k":1e400},"c":{"k":1e400}}"#,
        ),
        ("- &k key\n- *k : v\n", r#"["key",{"key":"v"}]"#),
        ("a: |\n  one\n  two\n", r#"{"a":"one\ntwo\n"}"#),
        ("a: 'yes'\nb: yes\nc:\n", r#"{"a":"yes","b":"yes","c":null}"#),
        ("8080: x\n", r#"{"8080":"x"}"#),
        ("a: \"nul \\0 and \\u00e9\"\n", "{\"a\":\"nul \\u0000 and é\"}"),
        ("# comment\n---\na: 1 # more\n...\n", r#"{"a":1}"#),
        ("{\"json\": [true, null, -0]}", r#"{"json":[true,null,-0]}"#),
    ];
    for (text, json) in table {
        assert_eq!(yaml(text).as_deref(), Ok(json), "{text}");
    }
}

#[test]
fn what_yaml_may_not_say_here_is_refused_with_its_place() {
    let table = [
        ("a: 1\nb: 2\na: 3\n", "plan.yaml:3:1: the key \"a\" stands twice"),
        ("a: !!str 1\n", "plan.yaml:1:4: tags are not supported"),
        ("a: !x {}\n", "plan.yaml:1:4: tags"),
        ("a: 1\n---\nb: 2\n", "plan.yaml:2:1: a second document"),
        ("a: &x [*x]\n", "plan.yaml:1:8: the alias stands inside"),
        ("a: *none\n", "plan.yaml:1:4: no valid YAML"),
        ("a: 0755\n", "plan.yaml:1:4: 0755 is ambiguous"),
        ("a: .nan\n", "plan.yaml:1:4: JSON has no number"),
        ("? [a]\n: 1\n", "plan.yaml:1:3: a key must be a text"),
        ("x: &b {k: 1}\ny:\n  <<: *b\n", "plan.yaml:3:3: merge keys"),
        ("%YAML 1.1\n---\na: 1\n", "leave the %YAML line out"),
        ("a: [1, 2\n", "no valid YAML"),
        ("a:\n\t- b\n", "plan.yaml:2:"),
        ("", "plan.yaml:1:1: the file holds nothing"),
        ("# nothing\n", "plan.yaml:1:1: the file holds nothing"),
    ];
    for (text, words) in table {
        let shown = yaml(text).expect_err(text).to_string();
        assert!(shown.contains(words), "{text}: {shown}");
    }
}

#[test]
fn hostile_yaml_is_refused_and_costs_little() {
    let deep = "[".repeat(100_000);
    assert!(yaml(&deep).is_err());
    let nested: Vec<String> =
        (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(yaml(&nested.concat()).is_err());
    let mut laughs = String::from("a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for level in 1..30 {
        let before = format!("*a{}", level - 1);
        let ten = vec![before; 10].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{ten}]").unwrap();
    }
    let shown = yaml(&laughs).expect_err("it would be huge").to_string();
    assert!(shown.contains("16 MiB once its aliases are written out"), "{shown}");
}

/// A generator of its own, so that every run takes the same way.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 40).unwrap()
}

#[test]
fn files_with_changed_characters_are_read_or_refused() {
    let odd: Vec<char> = "&*!|>{}[],:?-#%@`'\"\\ \t\n\0~<.019é\u{feff}\u{2028}".chars().collect();
    let original: Vec<char> =
        format!("{PLAN}x: &a {{k: [1, 'b']}}\ny: *a\nz: |\n  t\n").chars().collect();
    let mut state = 7;
    let mut read = 0;
    for _ in 0..4_000 {
        let mut text = original.clone();
        for _ in 0..=random(&mut state) % 3 {
            let at = random(&mut state) % text.len();
            match random(&mut state) % 3 {
                0 => text[at] = odd[random(&mut state) % odd.len()],
                1 => text.insert(at, odd[random(&mut state) % odd.len()]),
                _ => drop(text.remove(at)),
            }
        }
        let text: String = text.into_iter().collect();
        let Ok(file) = self::read("plan.yaml", &text) else { continue };
        read += 1;
        // What is read is JSON, and all its faults have places in the file.
        serde_json::from_str::<&RawValue>(file.json()).expect("JSON");
        if let Err(faults) = file.plan(&Overrides::default(), &Limits::default()) {
            let lines = text.lines().count();
            assert!(faults.list.iter().all(|fault| fault.place.unwrap().line <= lines), "{faults}");
        }
    }
    assert!(read > 400, "too few of them say anything: {read}");
}

const PLAN: &str = "\
name: init
tasks:
  - id: first
    kind: shell
    input: {script: 'true'}
  - id: second
    knid: shell
    needs:
      - nowhere
";

#[test]
fn faults_of_the_plan_have_the_lines_of_the_file() {
    let shown = faults("plan.yaml", PLAN);
    assert!(shown.contains("plan.yaml:7:5: /tasks/1/knid: "), "{shown}");
    assert!(shown.contains("did you mean `kind`?"), "{shown}");
    assert!(shown.contains("plan.yaml:9:9: /tasks/1/needs/0: "), "{shown}");
    assert!(shown.contains("plan.yaml:6:5: /tasks/1: `kind` is missing"), "{shown}");
}

#[test]
fn faults_of_json_files_have_lines_too() {
    let text =
        "{\"name\": \"x\",\n \"tasks\": [\n  {\"id\": \"a\", \"kind\": \"shell\", \"é\": 1}]}";
    let shown = faults("plan.json", text);
    assert!(shown.contains("plan.json:3:32: /tasks/0/é: "), "{shown}");
    let shown = faults("plan.json", "{\"name\": \"x\",\n \"tasks\": oops}");
    assert!(shown.starts_with("plan.json:2:11: no valid JSON: "), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_says_so() {
    let faults = PlanFile::read(Path::new("/nowhere/plan.yaml")).unwrap_err();
    assert!(faults.to_string().starts_with("/nowhere/plan.yaml: cannot be read: "));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.yaml");
    std::fs::write(&path, b"name: x\ninput: \xff\n").unwrap();
    assert!(PlanFile::read(&path).unwrap_err().to_string().ends_with(": line 2 is not UTF-8"));
}
