//! What the end of a script means.

use serde_json::{Value, json};

use crate::house::{House, Test};

pub(crate) const TESTS: &[Test] = &[
    ("exit_codes_and_signals_are_told_apart", exit_codes_and_signals_are_told_apart),
    ("the_output_file_becomes_the_output", the_output_file_becomes_the_output),
    ("standard_output_becomes_the_output", standard_output_becomes_the_output),
    ("a_failed_attempt_keeps_its_output", a_failed_attempt_keeps_its_output),
    ("unless_decides_whether_anything_runs", unless_decides_whether_anything_runs),
    ("bad_inputs_are_not_retried", bad_inputs_are_not_retried),
    ("what_cannot_start_says_why", what_cannot_start_says_why),
    ("bytes_of_any_kind_reach_the_log", bytes_of_any_kind_reach_the_log),
    ("much_output_takes_no_memory", much_output_takes_no_memory),
    ("an_attempt_costs_little", an_attempt_costs_little),
];

fn script(text: &str) -> String {
    json!({ "script": text }).to_string()
}

fn exit_codes_and_signals_are_told_apart() {
    let house = House::new();
    let error = house.error_of(&script("echo so; echo why >&2; exit 3"));
    assert_eq!((error.code(), error.exit().code), ("exit_status", Some(3)));
    assert!(error.is_retryable() && error.message().starts_with("exit code 3:\n"), "{error}");
    assert!(error.message().contains("so") && error.message().contains("why"));
    let error = house.error_of(&script("kill -9 $$"));
    assert_eq!((error.code(), error.exit().signal.as_deref()), ("signal", Some("SIGKILL")));
    assert_eq!((error.exit().code, error.message()), (None, "ended by SIGKILL"));
    let error = house.error_of(&script("sh -c 'kill -SEGV $$'"));
    assert_eq!(error.exit().code, Some(139));
    assert!(error.message().starts_with("exit code 139 (as after SIGSEGV)"));
    // The first command that fails ends the script.
    assert_eq!(house.error_of(&script("false; true")).exit().code, Some(1));
    let done = house.run(&script("echo trouble >&2")).0.unwrap();
    assert_eq!(done.exit.code, Some(0));
    let error = house.error_of(&script(r"printf '\000\033[2J' >&2; exit 1"));
    assert!(error.message().ends_with(r"\u{0}\u{1b}[2J"));
}

fn the_output_file_becomes_the_output() {
    let house = House::new();
    for (text, expected) in [
        ("true", json!({"exit_code": 0})),
        (r#"echo '{"a": 1}' > "$ANNALS_OUTPUT""#, json!({"a": 1, "exit_code": 0})),
        (r#"echo '[1, 2]' > "$ANNALS_OUTPUT""#, json!([1, 2])),
        (r#": > "$ANNALS_OUTPUT""#, json!({"exit_code": 0})),
    ] {
        let done = house.run(&script(text)).0.unwrap();
        assert_eq!(done.output.to::<Value>().unwrap(), expected, "{text}");
    }
    for text in [
        r#"echo '{' > "$ANNALS_OUTPUT""#,
        r#"printf '"\377"' > "$ANNALS_OUTPUT""#,
        r#"mkfifo "$ANNALS_OUTPUT""#,
        r#"mkdir "$ANNALS_OUTPUT""#,
        r#"ln -s /etc/hostname "$ANNALS_OUTPUT""#,
        r#"head -c 3000000 /dev/zero > "$ANNALS_OUTPUT""#,
    ] {
        assert_eq!(house.error_of(&script(text)).code(), "invalid_output", "{text}");
    }
}

fn standard_output_becomes_the_output() {
    let house = House::new();
    let input = |text: &str| json!({ "script": text, "output": "stdout" }).to_string();
    let done = house.run(&input(r#"echo '{"n": 1.50}'; echo note >&2"#)).0.unwrap();
    assert_eq!(done.output.as_str(), r#"{"n": 1.50}"#);
    for text in ["echo hello", "true", "yes 1 | head -c 3000000"] {
        assert_eq!(house.error_of(&input(text)).code(), "invalid_output", "{text}");
    }
}

fn a_failed_attempt_keeps_its_output() {
    let house = House::new();
    let error = house.error_of(&script(r#"echo '{"done": 7}' > "$ANNALS_OUTPUT"; exit 2"#));
    let output: Value = error.output().unwrap().to().unwrap();
    assert_eq!(output, json!({"done": 7, "exit_code": 2}));
    let error = house.error_of(&script(r#"echo '{' > "$ANNALS_OUTPUT"; exit 2"#));
    assert_eq!((error.code(), error.output()), ("exit_status", None));
}

fn unless_decides_whether_anything_runs() {
    let house = House::new();
    let input = json!({"script": "echo ran; touch made", "unless": "test -e made"}).to_string();
    assert_eq!(house.stdout_of(&input), "ran\n");
    let (result, host) = house.run(&input);
    let output: Value = result.unwrap().output.to().unwrap();
    assert_eq!(output, json!({"exit_code": 0, "already_done": true}));
    assert!(host.stdout.lock().unwrap().is_empty());
    let input = json!({"argv": ["echo", "ran"], "unless": "kill -9 $$"}).to_string();
    assert_eq!(house.stdout_of(&input), "ran\n");
}

fn bad_inputs_are_not_retried() {
    let house = House::new();
    for input in [
        r#"{"script": "a\u0000b"}"#,
        r#"{"argv": ["echo", "\u0000"]}"#,
        r#"{"script": "true", "env": {"A": "\u0000"}}"#,
        r#"{"script": "true", "user": "nobody-of-this-name"}"#,
        r#"{"scrip": "true"}"#,
        "null",
    ] {
        let error = house.error_of(input);
        assert_eq!((error.code(), error.is_retryable()), ("bad_input", false), "{input}");
    }
}

fn what_cannot_start_says_why() {
    let house = House::new();
    let long = json!({"argv": ["true", "x".repeat(300_000)]}).to_string();
    for (input, word) in [
        (r#"{"argv": ["/no/such/program"]}"#, "/no/such/program"),
        (r#"{"script": "true", "shell": ["/no/such/shell"]}"#, "/no/such/shell"),
        (r#"{"script": "true", "cwd": "nowhere"}"#, "nowhere to run in does not exist"),
        (long.as_str(), "cannot start"),
    ] {
        let error = house.error_of(input);
        assert_eq!(error.code(), "spawn_failed", "{error}");
        assert!(error.message().contains(word), "{error}");
    }
}

fn bytes_of_any_kind_reach_the_log() {
    let house = House::new();
    let (result, host) = house.run(&script(
        r"printf 'a\303'; sleep 0.05; printf '\244\r\n\000'; head -c 1000000 /dev/zero | tr '\0' '\377'",
    ));
    assert!(result.is_ok());
    let expected = [b"a\xc3\xa4\r\n\0".as_slice(), &vec![0xff; 1_000_000]].concat();
    assert!(*host.stdout.lock().unwrap() == expected);
}

fn much_output_takes_no_memory() {
    // The fake host keeps what it gets, so this goes to a place that keeps nothing.
    let house = House::new();
    let input = script("yes | head -c 50000000 >&2; yes | head -c 1000 | wc -c");
    let (result, host) = house.run(&input);
    assert!(result.is_ok());
    assert_eq!(host.stderr.lock().unwrap().len(), 50_000_000);
}

fn an_attempt_costs_little() {
    const COUNT: u32 = 100;
    let house = House::new();
    crate::house::block_on(async {
        let begun = std::time::Instant::now();
        for _ in 0..COUNT {
            house.attempt().call(&script("true")).await.unwrap();
        }
        println!("one attempt takes {:?}", begun.elapsed() / COUNT);
    });
}
