//! Logs that are not as they were left, and requests for what is no log.

use std::fs;
use std::path::PathBuf;

use annals_engine::JobHandle;
use serde_json::json;

use crate::face::{ask, with};
use crate::live::{Live, numbers, stream_of, within};

const SECRET: &str = "2026-01-01T00:00:00.000000000Z stdout F the secret\n";

fn shell(id: &str, script: &str) -> String {
    json!({"id": id, "kind": "shell", "input": {"script": script}}).to_string()
}

fn path(job: &JobHandle, task: &str) -> String {
    format!("/api/v1/jobs/{}/tasks/{task}/log", job.id())
}

fn file(live: &Live, job: &JobHandle) -> PathBuf {
    live.steps_of(job).join("1.1.log")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_gone_is_told_from_one_that_was_empty() {
    let live = Live::new().await;
    let job = live.done(&shell("t", "echo something")).await;
    fs::remove_file(file(&live, &job)).unwrap();
    let gone = live.get(&path(&job, "t")).await.problem(410, "log_missing");
    assert!(gone["detail"].as_str().unwrap().contains("10 bytes"), "{gone}");
    live.get(&format!("{}?tail=3", path(&job, "t"))).await.problem(410, "log_missing");
    let told = live.follow(&path(&job, "t"), None).await.rest().await;
    let end = json!({"attempt": 1, "outcome": "completed", "missing_bytes": 10});
    assert_eq!((told.len(), told[0].json()), (1, end));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_end_says_how_much() {
    let live = Live::new().await;
    let job = live.done(&shell("t", "echo one; echo two; echo three")).await;
    let text = fs::read_to_string(file(&live, &job)).unwrap();
    let cut = text.lines().next().unwrap().len() + 1 + 20;
    fs::write(file(&live, &job), &text[..cut]).unwrap();
    let answer = live.get(&path(&job, "t")).await;
    assert_eq!(
        (answer.status.as_u16(), &*answer.text),
        (200, "one\n\n[10 bytes are missing here]\n")
    );
    assert_eq!(answer.header("x-annals-log-missing"), Some("10"));
    assert_eq!(
        (answer.header("x-annals-log-next"), answer.header("x-annals-log-complete")),
        (Some("4"), Some("true"))
    );
    let told = live.follow(&path(&job, "t"), None).await.rest().await;
    assert_eq!(told[0].json()["text"], "one");
    let end = json!({"attempt": 1, "outcome": "completed", "missing_bytes": 10});
    assert_eq!((told.len(), told[1].json()), (2, end));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_before_the_damage_is_shown_and_the_damage_is_told() {
    let live = Live::new().await;
    let job = live.done(&shell("t", "seq 1 100000")).await;
    let mut bytes = fs::read(file(&live, &job)).unwrap();
    assert_eq!(bytes[..4], [0x04, 0x22, 0x4d, 0x18], "it is packed");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 300].fill(0xff);
    fs::write(file(&live, &job), &bytes).unwrap();
    let answer = live.get(&path(&job, "t")).await;
    let (shown, note) = answer.text.split_once("\n\n[").unwrap();
    let numbers = numbers(100_000);
    assert!(shown.len() > 1_000 && numbers.starts_with(shown), "{} bytes", shown.len());
    let missing = numbers.len() - shown.len() - 1;
    assert!(note.starts_with(&format!("{missing} bytes cannot be read: ")), "{note}");
    assert_eq!(answer.header("x-annals-log-missing"), Some(&*missing.to_string()));
    let told = live.follow(&path(&job, "t"), None).await.rest().await;
    let end = told.last().unwrap().json();
    assert_eq!(
        (&told.last().unwrap().event, &end["missing_bytes"]),
        (&"end".to_owned(), &json!(missing))
    );
    assert!(end["damage"].is_string() && told.len() > 100, "{end}");
    // From the first byte on it is no log at all.
    fs::write(file(&live, &job), "no log\n").unwrap();
    live.get(&path(&job, "t")).await.problem(500, "log_unreadable");
    live.get(&format!("{}?tail=1", path(&job, "t"))).await.problem(500, "log_unreadable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_a_task_has_planted_shows_and_changes_nothing() {
    let live = Live::new().await;
    let secret = live.folder.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    // In the place of its own log, where the log of the next task is to be, and where a long one is
    // packed.
    let steps = live.folder.path().join("steps");
    fs::create_dir(&steps).unwrap();
    let script = format!(
        "echo first; cd '{}'; while [ ! -e $ANNALS_JOB/1.1.log ]; do sleep 0.01; done; \
         cd $ANNALS_JOB; rm 1.1.log; ln -s '{secret}' 1.1.log; \
         ln -s '{secret}' 2.1.log; ln -s '{secret}' 3.1.new",
        steps.display(),
        secret = secret.display(),
    );
    let tasks = [shell("own", &script), shell("next", "echo second"), shell("long", "seq 1 50000")];
    let job = live.done(&tasks.join(",")).await;
    for task in ["own", "next"] {
        let problem = live.get(&path(&job, task)).await.problem(500, "log_unreadable");
        assert!(!problem.to_string().contains("secret"), "{problem}");
        let told = live.follow(&path(&job, task), None).await.rest().await;
        assert_eq!((told.len(), told[0].event.as_str()), (1, "end"));
        assert!(told[0].json()["damage"].is_string());
        live.answer(stream_of(&path(&job, task), Some("1.0"))).await.problem(500, "log_unreadable");
    }
    let long = live.get(&path(&job, "long")).await;
    assert!(long.text.ends_with("49999\n50000\n"));
    assert_eq!(long.header("x-annals-log-missing"), None);
    assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_leads_out_of_the_logs() {
    let live = Live::new().await;
    let job = live.done(&shell("t", "echo here")).await;
    fs::write(live.folder.path().join("secret.log"), SECRET).unwrap();
    let before = listing(&live);
    let long = "a".repeat(4096);
    let odd = [
        "..",
        "%2e%2e",
        "%2E%2E",
        ".%2e",
        "..%2f",
        "..%2fsecret",
        "%2e%2e%2f%2e%2e%2fsecret",
        "%252e%252e%252f",
        "....%2f%2f",
        "..%5c..%5c",
        "C:%5cWindows",
        "%2fetc%2fpasswd",
        "%00",
        "t%00.log",
        "%ff",
        "~",
        "%20",
        &long,
    ];
    let id = job.id();
    for part in odd {
        for path in [
            format!("/api/v1/jobs/{part}/tasks/t/log"),
            format!("/api/v1/jobs/{id}/tasks/{part}/log"),
            format!("/api/v1/jobs/{id}%2f{part}/tasks/t/log"),
        ] {
            for request in [
                ask("GET", &path),
                stream_of(&path, None),
                with(ask("GET", &path), "range", "bytes=0-"),
            ] {
                let answer = live.answer(request).await;
                assert!(matches!(answer.status.as_u16(), 400 | 404), "{path}: {}", answer.status);
                assert!(!answer.text.contains("the secret"), "{path}");
            }
            let refused = live.answer(ask("DELETE", &path)).await.status.as_u16();
            assert!(matches!(refused, 400 | 404 | 405), "{path}: {refused}");
        }
        let attempt = format!("{}?attempt={part}", path(&job, "t"));
        live.get(&attempt).await.problem(400, "bad_query");
        let id = format!("{part}.0");
        live.answer(stream_of(&path(&job, "t"), Some(&id))).await.problem(400, "bad_header");
    }
    live.answer(ask("DELETE", &path(&job, "t"))).await.problem(405, "method_not_allowed");
    assert_eq!(listing(&live), before);
    assert_eq!(within(live.get(&path(&job, "t"))).await.text, "here\n");
}

/// The names of everything below the folder of the store.
fn listing(live: &Live) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![live.folder.path().to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}
