//! What the end of a script means.

use annals_engine::steplog::StepLogs;
use annals_tasks_sdk::{AttemptId, TaskId};
use serde_json::{Value, json};

use crate::house::{House, Test, block_on};

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
    ("attempts_leave_no_descriptors_and_no_zombies", attempts_leave_no_descriptors_and_no_zombies),
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
    let text = r"printf 'a\303'; printf '\244\r\n\000'
        head -c 1000000 /dev/zero | tr '\0' '\377'";
    let (result, host) = house.run(&script(text));
    assert!(result.is_ok());
    let expected = [b"a\xc3\xa4\r\n\0".as_slice(), &vec![0xff; 1_000_000]].concat();
    assert!(*host.stdout.lock().unwrap() == expected);
}

fn much_output_takes_no_memory() {
    let house = House::new();
    let attempt = house.attempt();
    let logs = StepLogs::new(house.folder.path().join("logs"), 1 << 20);
    let id = AttemptId { job: house.job, task: TaskId::new("try").unwrap(), number: 1, attempt: 1 };
    let log = logs.open(&id);
    attempt.host.log.set(log.clone()).unwrap();
    let before = peak_kilobytes();
    block_on(attempt.call(&script("yes | head -c 30000000; yes $$ | head -c 30000000 >&2")))
        .unwrap();
    let size = log.finish();
    assert_eq!(size.bytes, 60_000_000);
    assert!(peak_kilobytes() < before + 16 * 1024);
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn an_attempt_costs_little() {
    const COUNT: u32 = 100;
    let house = House::new();
    block_on(async {
        let begun = std::time::Instant::now();
        for _ in 0..COUNT {
            house.attempt().call(&script("true")).await.unwrap();
        }
        println!("one attempt takes {:?}", begun.elapsed() / COUNT);
    });
}

fn attempts_leave_no_descriptors_and_no_zombies() {
    let house = House::new();
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let zombies = || {
        let own = std::process::id().to_string();
        let is_child =
            |stat: String| stat.rsplit(')').next()?.split(' ').nth(2).map(|it| it == own);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let stats =
            processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter_map(is_child).filter(|is| *is).count()
    };
    block_on(async {
        house.attempt().call(&script("true")).await.unwrap();
        let before = (count("/proc/self/fd"), zombies());
        let attempts: Vec<_> = (0..32)
            .map(|number| {
                let text = format!("sleep 100 & (setsid sleep 100 &) ; exit {}", number % 2);
                tokio::spawn(house.attempt().call(&script(&text)))
            })
            .collect();
        for attempt in attempts {
            let _ = attempt.await.unwrap();
        }
        assert_eq!((count("/proc/self/fd"), zombies()), before);
    });
}
