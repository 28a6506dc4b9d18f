//! What a script finds around it.

use serde_json::json;

use crate::house::{House, Test};

pub(crate) const TESTS: &[Test] = &[
    ("the_environment_is_clean", the_environment_is_clean),
    ("there_is_nothing_to_read_and_no_terminal", there_is_nothing_to_read_and_no_terminal),
    ("only_three_descriptors_are_inherited", only_three_descriptors_are_inherited),
    ("the_work_folder_lasts", the_work_folder_lasts),
    ("another_user_can_be_had", another_user_can_be_had),
    ("files_of_an_attempt_are_private_and_go", files_of_an_attempt_are_private_and_go),
];

fn the_environment_is_clean() {
    let house = House::new();
    let input = json!({
        "script": "/usr/bin/env | cut -d= -f1 | sort | tr '\\n' ' '",
        "env": {"MINE": "x", "GONE": null, "LANG": null},
        "inherit_env": ["CARGO", "NOT_SET_ANYWHERE"],
    });
    let names = house.stdout_of(&input.to_string());
    let expected = "ANNALS_ATTEMPT ANNALS_IDEMPOTENCY_KEY ANNALS_JOB ANNALS_OUTPUT ANNALS_TASK \
                    ANNALS_WORK CARGO HOME MINE PATH PWD ";
    // Some shells export PWD and more of their own.
    let shell_made = |name: &&str| !["_", "OLDPWD", "SHLVL", "CARGO", "PWD"].contains(name);
    let names: Vec<&str> = names.split(' ').filter(shell_made).collect();
    let expected: Vec<&str> = expected.split(' ').filter(shell_made).collect();
    assert_eq!(names, expected);
    let input = json!({
        "argv": ["printenv", "TEXT", "NUMBER", "OBJECT", "ANNALS_TASK", "ANNALS_ATTEMPT"],
        "env": {"TEXT": "a b", "NUMBER": 5, "OBJECT": {"k": [1]}},
    });
    assert_eq!(house.stdout_of(&input.to_string()), "a b\n5\n{\"k\":[1]}\ntry\n2\n");
}

fn there_is_nothing_to_read_and_no_terminal() {
    let house = House::new();
    let input = r#"{"script": "cat; if read x; then echo read; fi; echo over"}"#;
    assert_eq!(house.stdout_of(input), "over\n");
    let input = r#"{"script": "if (: < /dev/tty) 2>/dev/null; then echo tty; fi; echo over"}"#;
    assert_eq!(house.stdout_of(input), "over\n");
    let input = r#"{"argv": ["readlink", "/proc/self/fd/0"]}"#;
    assert_eq!(house.stdout_of(input), "/dev/null\n");
    // A session of its own: neither the test's nor the engine's.
    let session = house.stdout_of(r#"{"script": "cut -d' ' -f6 /proc/self/stat"}"#);
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    assert_ne!(Some(session.trim()), own.split(' ').nth(5));
}

fn only_three_descriptors_are_inherited() {
    let house = House::new();
    // Descriptors that survive exec, as an engine may have got from who started it.
    let file = std::fs::File::open("/dev/null").unwrap();
    let inherited = rustix::io::dup(&file).unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    let found = house.stdout_of(r#"{"argv": ["ls", "/proc/self/fd"]}"#);
    // The fourth is the one through which `ls` looks.
    assert_eq!(found, "0\n1\n2\n3\n");
}

fn the_work_folder_lasts() {
    let house = House::new();
    house.stdout_of(r#"{"script": "echo kept > file; mkdir sub; test $PWD = $ANNALS_WORK"}"#);
    assert_eq!(house.stdout_of(r#"{"argv": ["cat", "file"]}"#), "kept\n");
    let input = r#"{"argv": ["cat", "../file"], "cwd": "sub"}"#;
    assert_eq!(house.stdout_of(input), "kept\n");
    assert_eq!(house.stdout_of(r#"{"argv": ["pwd"], "cwd": "/"}"#), "/\n");
    let input = r#"{"script": "echo $0 | grep -c /script$", "shell": ["/bin/sh", "-eu"]}"#;
    assert_eq!(house.stdout_of(input), "1\n");
}

fn another_user_can_be_had() {
    if !rustix::process::geteuid().is_root() {
        let house = House::new();
        let error = house.error_of(r#"{"script": "id -un", "user": "nobody"}"#);
        assert!(error.message().contains("as root"), "{error}");
        return;
    }
    let house = House::new();
    open(house.folder.path());
    let script = r#"id -un; echo $HOME; echo '{"a":1}' > "$ANNALS_OUTPUT"; touch mine"#;
    let input = json!({"script": script, "user": "nobody"}).to_string();
    assert_eq!(house.stdout_of(&input), "nobody\n/nonexistent\n");
    let input = json!({"script": "id -u", "user": 65534}).to_string();
    assert_eq!(house.stdout_of(&input), "65534\n");
}

/// Test folders admit no one else.
fn open(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder, mode).unwrap();
}

fn files_of_an_attempt_are_private_and_go() {
    let house = House::new();
    let script = r#"stat -c %a "$(dirname "$ANNALS_OUTPUT")" "$0""#;
    assert_eq!(house.stdout_of(&json!({ "script": script }).to_string()), "700\n600\n");
    let folder = house.shell.folder_of(house.job);
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let live = std::fs::read_dir(house.folder.path().join("live")).unwrap();
    assert_eq!(live.count(), 0);
}
