//! What is printed: bytes that stay, and bytes that must not reach a terminal.

use std::fs::{File, OpenOptions};

use crate::common::{Answer, Place};
use crate::failed;

#[test]
fn logs_come_back_byte_by_byte() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: x\ntasks:\n  - id: a\n    kind: shell\n    input:\n      script: |\n        \
         printf 'one\\n\\377\\376\\0two\\r\\nno end'\n        printf 'aside\\n' >&2\n",
    );
    place.annals(&["run", "plan.yaml"]).expect(0);
    let id = place.newest_id();
    let bytes = |args: &[&str]| place.command(args).output().unwrap().stdout;
    let stdout = bytes(&["logs", &id, "a", "--stream", "stdout"]);
    assert_eq!(stdout, b"one\n\xff\xfe\0two\r\nno end");
    assert_eq!(bytes(&["logs", &id, "a", "--stream", "stderr"]), b"aside\n");
    assert_eq!(bytes(&["logs", &id, "a", "--stream", "stdout", "--tail", "1"]), b"no end");
    assert!(bytes(&["logs", &id, "a"]).len() > stdout.len());
}

#[test]
fn logs_in_json_are_one_object_per_line() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: x\ntasks:\n  - id: a\n    kind: shell\n    input:\n      script: |\n        \
         printf 'one \"\\t\"\\n\\377two\\n'\n        printf 'aside' >&2\n",
    );
    place.annals(&["run", "plan.yaml"]).expect(0);
    let id = place.newest_id();
    let lines = |args: &[&str]| -> Vec<serde_json::Value> {
        let answer = place.annals(&[&["logs", &id, "a", "--json"], args].concat()).expect(0);
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = lines(&[]);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.iter().all(|line| line["time"].as_str().unwrap().ends_with('Z')), "{all:?}");
    let texts = |lines: &[serde_json::Value]| -> Vec<String> {
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&lines(&["--stream", "stdout"])), ["one \"\t\"", "\u{fffd}two"]);
    assert_eq!(texts(&lines(&["--stream", "stderr"])), ["aside"]);
    assert_eq!(lines(&["--stream", "stderr"])[0]["stream"], "stderr");
    assert_eq!(texts(&lines(&["--stream", "stdout", "--tail", "1"])), ["\u{fffd}two"]);
}

#[test]
fn nothing_that_a_task_says_moves_the_cursor() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: \"x \\u202e \\e[31m\"\ntasks:\n  - id: a\n    kind: shell\n    input:\n      \
         script: |\n        \
         printf '\\033[2J bad \\033]0;title\\007\\n' >&2\n        exit 1\n",
    );
    let run = place.annals(&["run", "plan.yaml"]).expect(1);
    let id = place.newest_id();
    let shown = place.annals(&["show", &id]).expect(0);
    let listed = place.annals(&["list"]).expect(0);
    let events = place.annals(&["events", &id]).expect(0);
    for answer in [run, shown, listed, events] {
        let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!answer.stdout.contains(odd), "{:?}", answer.stdout);
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let (place, id) = failed();
    for args in [&["list"][..], &["show", &id], &["events", &id], &["verify"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let unwritable = File::open("/dev/null").unwrap();
        for stdout in [full, unwritable] {
            let answer = place.command(args).stdout(stdout).output().unwrap();
            let answer = Answer::from(answer).expect(7);
            assert!(answer.stderr.contains("cannot be written"), "{args:?}: {}", answer.stderr);
        }
    }
}

#[test]
fn colours_are_for_terminals() {
    let (place, id) = failed();
    for args in [&["list"][..], &["show", &id], &["--help"]] {
        let answer = place.annals(args).expect(0);
        assert!(!answer.stdout.contains('\u{1b}'), "{args:?}: {:?}", answer.stdout);
    }
    let forced = place.command(&["list"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(forced.stdout.contains(&0x1b), "who asks for colours gets them");
    let mut plain = place.command(&["list"]);
    let plain = plain.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!plain.stdout.contains(&0x1b), "NO_COLOR is honoured");
}

#[test]
fn events_are_shown_from_where_one_left_off() {
    let (place, id) = failed();
    let all = place.annals(&["events", &id, "--json"]).expect(0).stdout;
    let seqs = |text: &str| -> Vec<u64> {
        let lines =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let count = u64::try_from(all.lines().count()).unwrap();
    assert_eq!(seqs(&all), (1..=count).collect::<Vec<_>>());
    let rest = place.annals(&["events", &id, "--json", "--after", "3"]).expect(0).stdout;
    assert_eq!(seqs(&rest), (4..=count).collect::<Vec<_>>());
    let shown = place.annals(&["events", &id]).expect(0).stdout;
    assert_eq!(shown.lines().count(), all.lines().count());
    assert!(shown.contains("AttemptFailed"), "{shown}");
}

#[test]
fn a_list_is_newest_first_filtered_and_limited() {
    let (place, id) = failed();
    place.write("noop.yaml", "name: small\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["run", "noop.yaml"]).expect(0);
    let list = place.json(&["list"]);
    assert_eq!(list["items"][0]["name"], "small");
    assert_eq!(list["items"][1]["error"]["code"], "exit_status");
    assert_eq!(list["items"][1]["progress"]["completed_tasks"], 1);
    assert!(list.get("next_cursor").is_none());
    let list = place.json(&["list", "--limit", "1"]);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let cursor = list["next_cursor"].as_str().unwrap();
    let rest = place.json(&["list", "--cursor", cursor]);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(rest["items"][0]["id"], id.as_str());
    place.annals(&["list", "--limit", "0"]).expect(2);
    let list = place.json(&["list", "--status", "failed", "--status", "paused"]);
    assert_eq!(list["items"][0]["id"], id.as_str());
    let shown = place.annals(&["list"]).expect(0).stdout;
    assert!(shown.lines().nth(1).unwrap().contains("exit code 7: it is broken"), "{shown}");
}

#[test]
fn show_says_everything_that_a_person_asks_first() {
    let (place, id) = failed();
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    for words in [
        "two steps",
        "1 of 2 completed",
        "first                  completed",
        "second                 failed",
        "attempt 1: failed: exit code 7",
        "it is broken",
        "3544790567247868102",
        &format!("annals run --job {id}"),
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
