//! Jobs as files: what is in them, that any change to them is found, and what a replay finds.

use std::sync::OnceLock;

use annals::bundle::{Bundle, Difference};
use annals::http::{AppState, Settings, router};
use annals::prelude::*;
use axum::Router;
use serde_json::{Value, json};

use crate::face::{Face, answer, ask, send};
use crate::live::within;

const PAY: TaskKind<Value, u32> = TaskKind::new("pay");

/// Takes a step, keeps a checkpoint, writes to its log, and fails in its first attempt.
async fn pay(cx: TaskContext, _input: Value) -> TaskResult<u32> {
    let charged = cx.step("charge", async { Ok(cx.attempt().attempt) }).await?;
    cx.checkpoint(&json!({"sheet": 7})).await?;
    cx.log(annals_tasks_sdk::Stream::Stdout, b"a line\n");
    if cx.attempt().attempt == 1 {
        return Err(TaskError::new("no_paper", "it cannot print")).fatal();
    }
    Ok(charged)
}

/// A job that has failed, as a file, and what the server says of it.
struct Exported {
    file: String,
    job: Value,
    audit: Value,
}

async fn export() -> Exported {
    let folder = tempfile::tempdir().unwrap();
    let engine = within(Engine::open(folder.path()).task(PAY, pay).start()).await.unwrap();
    let router = router(AppState::ready(engine.clone(), Settings::default()));
    let plan = json!({"name": "order", "tasks": [
        {"id": "first", "kind": "noop"}, {"id": "pay", "kind": "pay", "input": {"n": 1}},
    ]});
    let posted = answer(router.clone(), send("POST", "/api/v1/jobs", plan.to_string())).await;
    let id = posted.with_status(202)["id"].as_str().unwrap().to_owned();
    let get = |router: Router, path: String| async move {
        answer(router, ask("GET", &format!("/api/v1/jobs/{path}"))).await
    };
    let job = get(router.clone(), format!("{id}?wait=1m")).await.with_status(200);
    assert_eq!(job["status"], "failed");
    let audit = get(router.clone(), format!("{id}/verify")).await.with_status(200);
    let file = get(router.clone(), format!("{id}/export")).await;
    assert_eq!(file.status, 200);
    assert_eq!(file.header("content-type"), Some("application/x-ndjson"));
    let name = format!("attachment; filename=\"{id}.bundle.jsonl\"");
    assert_eq!(file.header("content-disposition"), Some(&*name));
    within(engine.shutdown()).await.unwrap();
    Exported { file: file.text, job, audit }
}

/// The same one for all tests.
fn exported() -> &'static Exported {
    static EXPORTED: OnceLock<Exported> = OnceLock::new();
    EXPORTED.get_or_init(|| {
        std::thread::scope(|scope| {
            let runtime = || tokio::runtime::Runtime::new().unwrap().block_on(export());
            scope.spawn(runtime).join().unwrap()
        })
    })
}

fn read(file: &str) -> Bundle {
    Bundle::read(file.as_bytes()).unwrap()
}

/// Whether anybody who reads it finds that something is wrong.
fn is_refused(file: &[u8]) -> bool {
    Bundle::read(file).map_or(true, |bundle| !bundle.faults().is_empty())
}

/// The file with other lines, and an end that fits them: what somebody would make who wants that
/// nobody sees it.
fn sealed(lines: &[String]) -> String {
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    let (count, hash) = (lines.len(), blake3::hash(text.as_bytes()).to_hex());
    format!("{text}{{\"end\":{{\"lines\":{count},\"hash\":\"{hash}\"}}}}\n")
}

fn lines() -> Vec<String> {
    let mut lines: Vec<String> = exported().file.lines().map(str::to_owned).collect();
    lines.pop();
    lines
}

#[test]
fn a_bundle_has_all_of_a_job() {
    let Exported { file, job, audit } = exported();
    let bundle = read(file);
    assert_eq!(bundle.faults(), [""; 0]);
    assert_eq!(
        (bundle.job().to_string().as_str(), bundle.name()),
        (job["id"].as_str().unwrap(), "order")
    );
    assert_eq!(bundle.head().seq, audit["head_seq"].as_u64().unwrap());
    assert_eq!(
        bundle.head().hash.map(|byte| format!("{byte:02x}")).concat(),
        audit["head_hash"].as_str().unwrap()
    );
    assert_eq!(bundle.events().len() as u64, bundle.head().seq);
    // A step and a checkpoint, and a line.
    assert_eq!((bundle.values(), bundle.log_entries(), bundle.unknown_events()), (2, 1, 0));
    assert_eq!(bundle.replay(), []);
    assert_eq!(sealed(&lines()), *file, "it is deterministic to its last byte");
    let state = lines().pop().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&state).unwrap()["state"], *job);
}

#[test]
fn any_flipped_bit_is_found() {
    let file = exported().file.as_bytes();
    for place in (0..file.len()).step_by(7).chain(file.len() - 90..file.len()) {
        let mut flipped = file.to_vec();
        flipped[place] ^= 1 << (place % 8);
        assert!(is_refused(&flipped), "bit {} of byte {place}", place % 8);
    }
}

#[test]
fn what_is_cut_off_left_out_doubled_or_put_elsewhere_is_found() {
    let file = exported().file.as_bytes();
    for end in (0..file.len()).step_by(97).chain(file.len() - 100..file.len() - 1) {
        assert!(is_refused(&file[..end]), "cut off at byte {end}");
    }
    assert!(is_refused(&[file, file].concat()));
    assert!(is_refused(&[file, b"\n"].concat()));
    let all = lines();
    let rows = all.iter().filter(|line| line.starts_with("{\"row\"")).count();
    assert!(rows > 4);
    // Even if the end was made to fit: the events prove each other.
    for row in 1..=rows {
        let mut without = all.clone();
        without.remove(row);
        assert!(is_refused(sealed(&without).as_bytes()), "without row {row}");
        let mut doubled = all.clone();
        doubled.insert(row, all[row].clone());
        assert!(is_refused(sealed(&doubled).as_bytes()), "row {row} twice");
        if row < rows {
            let mut swapped = all.clone();
            swapped.swap(row, row + 1);
            assert!(is_refused(sealed(&swapped).as_bytes()), "rows {row} and {} swapped", row + 1);
        }
    }
    for value in all.iter().filter(|line| line.starts_with("{\"value\"")) {
        let without: Vec<String> = all.iter().filter(|line| *line != value).cloned().collect();
        let bundle = read(&sealed(&without));
        assert!(bundle.faults()[0].ends_with("is missing"), "{:?}", bundle.faults());
    }
}

#[test]
fn a_replay_tells_what_is_different() {
    let all = lines();
    let (last, others) = all.split_last().unwrap();
    let changed = last.replacen(r#""status":"failed""#, r#""status":"completed""#, 1);
    let bundle = read(&sealed(&[others, &[changed]].concat()));
    assert_eq!(bundle.faults(), [""; 0], "the state is no part of the proof");
    let (path, quoted) = ("/status".to_owned(), |word: &str| Some(format!("\"{word}\"")));
    let difference = Difference::State { path, from: quoted("completed"), to: quoted("failed") };
    assert_eq!(difference.to_string(), r#"/status was "completed", and is "failed""#);
    assert_eq!(bundle.replay(), [difference]);
}

#[test]
fn what_is_no_bundle_says_so() {
    let newer = exported().file.replacen("\"version\":1", "\"version\":2", 1);
    for (file, why) in [
        ("", "this is no bundle"),
        ("hello\n", "this is no bundle"),
        ("{\"end\":{\"lines\":0,\"hash\":\"\"}}\n", "this is no bundle"),
        (&*newer, "has version 2"),
    ] {
        let error = Bundle::read(file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_job_that_is_not_there_is_not_exported() {
    let face = Face::new().await;
    let nobody = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968/export";
    face.get(nobody).await.problem(404, "no_such_job");
    let job = face.submit(r#"{"id": "a", "kind": "echo"}"#).await;
    face.ended(&job).await;
    let purge = face.answer(ask("DELETE", &job)).await;
    assert!(purge.status.is_success(), "{}", purge.text);
    face.get(&format!("{job}/export")).await.problem(410, "purged");
}
