//! What attempts have written: as bytes, in parts, and as it is written.

use std::fs;
use std::path::Path;

use annals_engine::JobHandle;
use annals_engine::steplog::StepLogs;
use annals_tasks_sdk::{AttemptId, Stream, TaskId};
use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::face::{ask, with};
use crate::live::{Frame, Live, numbers, stream_of, within};

/// A task of kind `shell`.
fn shell(id: &str, script: &str) -> String {
    json!({"id": id, "kind": "shell", "input": {"script": script}}).to_string()
}

fn path(job: &JobHandle, task: &str) -> String {
    format!("/api/v1/jobs/{}/tasks/{task}/log", job.id())
}

/// A log as it was sent: bytes, and what the headers say.
#[derive(Debug)]
struct Log {
    bytes: Vec<u8>,
    attempt: u64,
    next: u64,
    complete: bool,
    missing: Option<String>,
    /// Whether the answer was broken off.
    broken: bool,
}

async fn read(live: &Live, request: Request<Body>) -> Log {
    let response = live.open(request).await;
    assert_eq!(response.status(), 200);
    let header =
        |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"));
    let number = |name: &str| header(name).unwrap().parse().unwrap();
    let (attempt, next) = (number("x-annals-log-attempt"), number("x-annals-log-next"));
    let complete = header("x-annals-log-complete").unwrap() == "true";
    let missing = header("x-annals-log-missing");
    let mut body = response.into_body().into_data_stream();
    let (mut bytes, mut broken) = (Vec::new(), false);
    while let Some(chunk) = within(body.next()).await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(_) => broken = true,
        }
    }
    Log { bytes, attempt, next, complete, missing, broken }
}

async fn log(live: &Live, job: &JobHandle, query: &str) -> Log {
    read(live, ask("GET", &format!("{}?{query}", path(job, "t")))).await
}

/// The text of lines and pieces, put together.
fn text(frames: &[Frame]) -> String {
    let part = |frame: &Frame| {
        let line = frame.json();
        let end = if line["partial"] == true { "" } else { "\n" };
        format!("{}{end}", line["text"].as_str().unwrap())
    };
    frames.iter().filter(|frame| frame.event == "line").map(part).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_come_back_as_they_were_written() {
    let live = Live::new().await;
    let script = r"printf 'one\r\ntwo \377\000\n'; printf 'caf\303\251\nend' >&2; printf 'no feed'";
    let job = live.done(&shell("t", script)).await;
    let (out, err) = (b"one\r\ntwo \xff\x00\nno feed".as_slice(), b"caf\xc3\xa9\nend".as_slice());
    let only = log(&live, &job, "stream=stdout").await;
    assert_eq!((only.bytes.as_slice(), only.next), (out, out.len() as u64));
    let only = log(&live, &job, "stream=stderr").await;
    assert_eq!((only.bytes.as_slice(), only.next, only.complete), (err, err.len() as u64, true));
    let both = log(&live, &job, "").await;
    let all = (out.len() + err.len()) as u64;
    assert_eq!((both.bytes.len() as u64, both.next, both.attempt), (all, all, 1));
    assert!(both.missing.is_none() && !both.broken);
    for after in 0..all + 3 {
        let rest = log(&live, &job, &format!("after={after}")).await;
        let from = usize::try_from(after.min(all)).unwrap();
        assert_eq!((rest.bytes.as_slice(), rest.next), (&both.bytes[from..], all.max(after)));
    }
    // Who asks for a part in another way is given the whole.
    let ranged = read(&live, with(ask("GET", &path(&job, "t")), "range", "bytes=3-5")).await;
    assert_eq!(ranged.bytes, both.bytes);
    let head = live.answer(ask("HEAD", &path(&job, "t"))).await;
    assert_eq!(
        (head.text.as_str(), head.header("x-annals-log-next")),
        ("", Some(&*all.to_string()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_lines_are_whole_lines() {
    let live = Live::new().await;
    let job = live.done(&shell("t", "seq 1 2000; printf unended")).await;
    let size = log(&live, &job, "").await.next;
    for (tail, expected) in
        [(0, ""), (1, "unended"), (2, "2000\nunended"), (4, "1998\n1999\n2000\nunended")]
    {
        let last = log(&live, &job, &format!("tail={tail}")).await;
        assert_eq!((String::from_utf8(last.bytes).unwrap().as_str(), last.next), (expected, size));
    }
    let all = log(&live, &job, "tail=1000000").await;
    assert_eq!(all.bytes.len() as u64, size);
}

/// Waits until a task runs.
async fn until_runs(job: &JobHandle, id: &str) {
    loop {
        let now = within(job.snapshot()).await.unwrap().job;
        if now.live().any(|(_, task)| task.spec.id.as_str() == id) {
            return;
        }
        within(job.changed(now.seq())).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_a_log_of_its_own() {
    let live = Live::new().await;
    let script = "echo attempt $ANNALS_ATTEMPT; [ $ANNALS_ATTEMPT = 2 ]";
    let tasks = json!([
        {"id": "t", "kind": "shell", "input": {"script": script},
            "retry": {"max_attempts": 3, "backoff": {"initial": "1ms"}}},
        {"id": "quiet", "kind": "noop"},
        {"id": "g", "kind": "gate"}, {"id": "later", "kind": "noop"}
    ]);
    let job = live.submit(tasks.to_string().trim_matches(['[', ']'])).await;
    until_runs(&job, "g").await;
    for (query, attempt) in [("", 2), ("attempt=1", 1), ("attempt=2", 2)] {
        let found = log(&live, &job, query).await;
        assert_eq!((found.attempt, found.complete), (attempt, true));
        assert_eq!(found.bytes, format!("attempt {attempt}\n").into_bytes());
    }
    let get =
        async |task: &str, query: &str| live.get(&format!("{}?{query}", path(&job, task))).await;
    for query in ["attempt=0", "attempt=3"] {
        let problem = get("t", query).await.problem(404, "no_such_attempt");
        assert!(problem["detail"].as_str().unwrap().contains("its last is 2"), "{problem}");
    }
    get("later", "").await.problem(404, "no_such_attempt");
    get("later", "attempt=1").await.problem(404, "no_such_attempt");
    get("tt", "").await.problem(404, "no_such_task");
    for query in ["attempt=x", "attempt=-1", "tail=x", "after=x", "stream=out", "lines=3"] {
        get("t", query).await.problem(400, "bad_query");
    }
    let quiet = get("quiet", "").await;
    assert_eq!(
        (quiet.status.as_u16(), &*quiet.text, quiet.header("x-annals-log-complete")),
        (200, "", Some("true"))
    );
    let running = get("g", "").await;
    assert_eq!(running.header("x-annals-log-complete"), Some("false"));
    live.open_gate();
}

/// A script that goes on when its test has made a file.
fn in_steps(folder: &Path, parts: &[&str]) -> String {
    let wait = |(part, number): (&&str, usize)| {
        let file = folder.join(format!("go{number}"));
        format!("{part}\nwhile [ ! -e '{}' ]; do sleep 0.01; done\n", file.display())
    };
    parts.iter().zip(0..).map(wait).collect()
}

fn go(folder: &Path, number: usize) {
    fs::write(folder.join(format!("go{number}")), "").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_come_as_they_are_written_and_the_end_comes_last() {
    let live = Live::new().await;
    let folder = tempfile::tempdir().unwrap();
    let script = in_steps(
        folder.path(),
        &["echo one; echo two >&2", r"printf 'a \303'", r"printf '\244\n\377\n'"],
    );
    let job = live.submit(&shell("t", &script)).await;
    // It begins before the attempt does.
    let mut follower = live.follow(&path(&job, "t"), None).await;
    let mut errors = live.follow(&format!("{}?stream=stderr", path(&job, "t")), None).await;
    let mut frames = vec![follower.next().await.unwrap(), follower.next().await.unwrap()];
    // Which of two streams comes first is the matter of who reads them.
    let mut texts: Vec<Value> = frames.iter().map(|frame| frame.json()["text"].clone()).collect();
    texts.sort_by_key(ToString::to_string);
    assert_eq!(texts, ["one", "two"]);
    let so_far = log(&live, &job, "").await;
    assert_eq!((so_far.bytes, so_far.complete), (text(&frames).into_bytes(), false));
    go(folder.path(), 0);
    frames.push(follower.next().await.unwrap());
    let piece = frames[2].json();
    assert_eq!((&piece["text"], &piece["partial"]), (&json!("a "), &json!(true)));
    go(folder.path(), 1);
    frames.push(follower.next().await.unwrap());
    frames.push(follower.next().await.unwrap());
    // A character whose bytes came apart is whole; what is none is replaced.
    assert!(text(&frames).ends_with("a ä\n\u{fffd}\n"), "{}", text(&frames));
    go(folder.path(), 2);
    let rest = follower.rest().await;
    let [end] = &rest[..] else { panic!("{rest:?}") };
    assert_eq!((end.event.as_str(), &end.id), ("end", &None));
    assert_eq!(end.json(), json!({"attempt": 1, "outcome": "completed"}));
    assert!(frames.iter().all(|frame| frame.id.is_some()));
    let only = errors.rest().await;
    assert_eq!(text(&only), "two\n");
    // Who has the last line is told that there is nothing more; who begins anew gets all of it.
    let last = follower.reader.last.clone().unwrap();
    let again = live.answer(stream_of(&path(&job, "t"), Some(&last))).await;
    assert_eq!(again.status, 204);
    let anew = live.follow(&path(&job, "t"), None).await.rest().await;
    assert_eq!(text(&anew), text(&frames));
    let tail = live.follow(&format!("{}?tail=1", path(&job, "t")), None).await.rest().await;
    assert_eq!((text(&tail).as_str(), tail.len()), ("\u{fffd}\n", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_anywhere_goes_on_without_gap_or_repeat() {
    let live = Live::new().await;
    let script =
        "i=0; while [ $i -lt 400 ]; do echo line $i; printf 'é%s' $i >&2; i=$((i+1)); done";
    let job = live.submit(&shell("t", script)).await;
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut frames, mut last, mut cuts) = (Vec::<Frame>::new(), None::<String>, 0);
        loop {
            let mut follower = live.follow(&path(&job, "t"), last.as_deref()).await;
            follower.take_bytes(random.usize(1..12_000)).await;
            while let Some(frame) = follower.reader.next() {
                frames.push(frame);
            }
            last = follower.reader.last.or(last);
            if frames.last().is_some_and(|frame| frame.event == "end") {
                break;
            }
            cuts += 1;
        }
        let of = |stream: &str| -> Vec<Frame> {
            let lines = frames.iter().filter(|frame| frame.event == "line");
            lines.filter(|frame| frame.json()["stream"] == *stream).cloned().collect()
        };
        let (out, err) =
            (log(&live, &job, "stream=stdout").await, log(&live, &job, "stream=stderr").await);
        assert!(text(&of("stdout")).into_bytes() == out.bytes, "seed {seed}");
        assert!(text(&of("stderr")).into_bytes() == err.bytes, "seed {seed}");
        assert!(cuts > 2, "{cuts} cuts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_names_its_attempt_also_when_there_is_a_later_one() {
    let live = Live::new().await;
    let script = "echo a$ANNALS_ATTEMPT; echo b$ANNALS_ATTEMPT; [ $ANNALS_ATTEMPT = 2 ]";
    let task = json!({"id": "t", "kind": "shell", "input": {"script": script},
        "retry": {"max_attempts": 2, "backoff": {"initial": "1ms"}}});
    let job = live.done(&task.to_string()).await;
    let rest = live.follow(&path(&job, "t"), Some("1.3")).await.rest().await;
    assert_eq!(text(&rest), "b1\n");
    assert_eq!(rest[1].json(), json!({"attempt": 1, "outcome": "failed"}));
    let newest = live.follow(&path(&job, "t"), None).await.rest().await;
    assert_eq!((text(&newest).as_str(), newest[0].id.as_deref()), ("a2\nb2\n", Some("2.3")));
    for id in ["3", "x.1", "1.x", "1.2.3", "-1.0", "1.18446744073709551616"] {
        live.answer(stream_of(&path(&job, "t"), Some(id))).await.problem(400, "bad_header");
    }
    let other = format!("{}?attempt=2", path(&job, "t"));
    live.answer(stream_of(&other, Some("1.0"))).await.problem(400, "bad_query");
    live.answer(stream_of(&path(&job, "t"), Some("7.0"))).await.problem(404, "no_such_attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_a_task_that_never_begins_is_told_the_end() {
    use annals_engine::job::Command;
    let live = Live::new().await;
    let job = live.submit(r#"{"id": "g", "kind": "gate"}, {"id": "t", "kind": "noop"}"#).await;
    let mut follower = live.follow(&path(&job, "t"), None).await;
    let task = Some(TaskId::new("t").unwrap());
    let skip = Command::Skip { task, output: None, cascade: false };
    within(job.command(skip, annals_engine::Ask::default())).await.unwrap();
    let told = follower.rest().await;
    assert_eq!((told.len(), told[0].event.as_str(), told[0].json()), (1, "end", json!({})));
    let told = live.follow(&path(&job, "t"), None).await.rest().await;
    assert_eq!(told.len(), 1);
    live.open_gate();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_dropped_is_told_as_a_gap() {
    let live = Live::new().await;
    let job = live.done(r#"{"id": "t", "kind": "noop"}"#).await;
    // A log with a small budget in the place of the one that the attempt did not need.
    let logs = StepLogs::new(live.folder.path().join("steps"), 8 << 10);
    let task = TaskId::new("t").unwrap();
    let writer = logs.open(&AttemptId { job: job.id(), task, number: 1, attempt: 1 });
    for number in 0..5_000 {
        writer.write(Stream::Stdout, format!("line {number}\n").as_bytes());
    }
    let size = writer.finish();
    let all = log(&live, &job, "").await;
    let shown = String::from_utf8(all.bytes).unwrap();
    assert!(shown.starts_with("line 0\n") && shown.ends_with("line 4999\n"));
    assert!(shown.contains(" bytes were dropped here]\n"));
    assert_eq!((all.next, all.missing), (size.bytes, None));
    let frames = live.follow(&path(&job, "t"), None).await.rest().await;
    let gaps: Vec<u64> =
        frames.iter().filter_map(|frame| frame.json()["gap_bytes"].as_u64()).collect();
    assert_eq!(gaps.len(), 1);
    assert_eq!(text(&frames).len() as u64 + gaps[0], size.bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_is_sent_as_it_is_read() {
    let live = Live::new().await;
    let job = live.done(&shell("t", "seq 1 6000; head -c 300000 /dev/zero | tr '\\0' x")).await;
    let all = log(&live, &job, "").await;
    let numbers = numbers(6_000);
    assert!(all.bytes == format!("{numbers}{}", "x".repeat(300_000)).into_bytes());
    let frames = live.follow(&path(&job, "t"), None).await.rest().await;
    assert!(text(&frames).into_bytes() == all.bytes);
    // Answers and streams that are not read on keep nobody else from reading.
    let (mut answers, mut followers) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        answers.push(live.open(ask("GET", &path(&job, "t"))).await);
        let mut follower = live.follow(&path(&job, "t"), None).await;
        let first = follower.next().await.unwrap();
        followers.push((follower, first));
    }
    assert_eq!(log(&live, &job, "tail=1").await.bytes.len(), 300_000);
    for (mut follower, first) in followers {
        let rest: Vec<Frame> = [first].into_iter().chain(follower.rest().await).collect();
        assert!(text(&rest).into_bytes() == all.bytes);
    }
}
