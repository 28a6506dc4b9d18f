//! Requests against what happens at the same moment: whoever is first, the answer is true.

use std::future::Future;
use std::time::{Duration, Instant};

use annals::http::{AppState, Settings, router};
use annals_engine::log::MemoryDisk;
use annals_engine::{Engine, Mode};

use crate::face::{Answer, Face, answer, ask, plan, send};

const JOBS: &str = "/api/v1/jobs";

/// How many times each race is run: `ANNALS_RACE_ROUNDS`, or few.
fn rounds() -> u32 {
    let rounds = std::env::var("ANNALS_RACE_ROUNDS").ok().and_then(|text| text.parse().ok());
    rounds.unwrap_or(100)
}

/// Lets what it races against run on for a while that is another in each round.
async fn after(round: u32, request: impl Future<Output = Answer>) -> Answer {
    let until = Instant::now() + Duration::from_micros(u64::from(round % 40) * 10);
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
    request.await
}

/// The words of a job's history, once it is made sure that this has no gap, one start at most of
/// its only task, and one end, which comes last.
async fn history(engine: &Engine, job: &str) -> Vec<&'static str> {
    let id = job.rsplit('/').next().expect("an id").parse().expect("an id");
    let all = engine.job(id).history(0, 1_000).await.expect("a history");
    assert!(all.iter().zip(1..).all(|(logged, seq)| logged.recorded.seq == seq), "{all:?}");
    let words: Vec<_> = all.iter().map(|logged| logged.recorded.event.type_name()).collect();
    let count = |wanted: &[&str]| words.iter().filter(|word| wanted.contains(word)).count();
    assert!(count(&["AttemptStarted"]) <= 1, "{words:?}");
    let ends = ["JobCompleted", "JobCancelled", "JobFailed"];
    assert_eq!(count(&ends), 1, "{words:?}");
    assert!(words.last().is_some_and(|last| ends.contains(last)), "{words:?}");
    words
}

async fn face() -> Face {
    let disk = MemoryDisk::new();
    Face::with(Settings::default(), |builder| builder.log(Box::new(disk.open()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_against_the_end_of_the_job() {
    let face = face().await;
    for round in 0..rounds() {
        let job = face.submit(r#"{"id": "a", "kind": "noop"}"#).await;
        let cancel = after(round, face.post(&format!("{job}/cancel"), "")).await;
        let ended = face.ended(&job).await;
        let expected = if cancel.status == 202 { "cancelled" } else { "completed" };
        assert_eq!(ended["status"], expected, "{}", cancel.text);
        if expected == "completed" {
            cancel.problem(409, "not_in_this_status");
        }
        history(&face.engine, &job).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skip_against_the_end_of_the_task() {
    let face = face().await;
    for round in 0..rounds() {
        let job = face.submit(r#"{"id": "a", "kind": "noop"}"#).await;
        let skip = after(round, face.post(&format!("{job}/skip"), r#"{"task": "a"}"#)).await;
        let ended = face.ended(&job).await;
        assert_eq!(ended["status"], "completed");
        let task = &ended["tasks"][0]["status"];
        match skip.status.as_u16() {
            // An attempt that succeeds although it was told to stop has succeeded.
            202 => assert!(task == "skipped" || task == "completed", "{ended}"),
            409 => assert_eq!(task, "completed", "{}", skip.text),
            _ => panic!("{}", skip.text),
        }
        history(&face.engine, &job).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execute_against_another() {
    let face = face().await;
    let manual = r#"{"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    for round in 0..rounds() {
        let submitted = face.post(JOBS, manual).await;
        let job = submitted.header("location").expect("a location");
        let execute = format!("{job}/execute");
        let (one, other) =
            tokio::join!(face.post(&execute, ""), after(round, face.post(&execute, "")),);
        let mut statuses = [one.status.as_u16(), other.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 202], "{} {}", one.text, other.text);
        face.ended(job).await;
        let words = history(&face.engine, job).await;
        assert_eq!(words.iter().filter(|word| **word == "JobStarted").count(), 1, "{words:?}");
    }
}

/// What was accepted stands after the next start, and what was not has not happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_against_the_end_of_the_engine() {
    let disk = MemoryDisk::new();
    let folder = tempfile::tempdir().expect("a folder");
    let started = async |mode| {
        let builder = Engine::open(folder.path()).log(Box::new(disk.open())).mode(mode).slots(1);
        builder.start().await.expect("it starts")
    };
    let body = plan(r#"{"id": "a", "kind": "sleep", "input": {"for": "1000h"}}"#);
    let mut cancels = Vec::new();
    for round in 0..rounds() {
        let engine = started(Mode::Hold).await;
        let face = router(AppState::ready(engine.clone(), Settings::default()));
        let submitted = answer(face.clone(), send("POST", JOBS, body.clone())).await;
        let job = submitted.header("location").expect("a location").to_owned();
        let cancel = ask("POST", &format!("{job}/cancel"));
        let (cancel, end) =
            tokio::join!(after(round, answer(face, cancel)), engine.shutdown_now(),);
        end.expect("it ends in good order");
        cancels.push((job, cancel));
    }
    let engine = started(Mode::Hold).await;
    let face = router(AppState::ready(engine, Settings::default()));
    for (job, cancel) in cancels {
        let expected = if cancel.status == 202 { "cancelled" } else { "running" };
        if expected == "running" {
            cancel.problem(503, "stopped");
        }
        let found = answer(face.clone(), ask("GET", &job)).await.with_status(200);
        assert_eq!(found["status"], expected, "{}", cancel.text);
    }
}
