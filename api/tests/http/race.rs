//! Requests against what happens at the same moment: whoever is first, the answer is true.

use annals::http::{AppState, Settings, router};
use annals::prelude::*;
use annals_engine::Mode;
use annals_engine::log::MemoryDisk;
use axum::body::Body;
use axum::http::Request;
use tokio::sync::watch;

use crate::even::{Race, Side, rounds};
use crate::face::{Answer, Face, answer, ask, plan, send};

const JOBS: &str = "/api/v1/jobs";

/// Waits until its round is over, or until it is told to stop.
const ROUND: TaskKind<u32, u32> = TaskKind::new("round");

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

/// An engine whose tasks end when the test ends their round.
struct Stage {
    face: Face,
    over: watch::Sender<u32>,
}

impl Stage {
    async fn new() -> Self {
        let (over, rounds) = watch::channel(0);
        let wait = move |cx: TaskContext, round: u32| {
            let mut rounds = rounds.clone();
            async move {
                let ended = async { rounds.wait_for(|over| *over >= round).await.map(|_| round) };
                cx.or_cancelled(ended).await?.fatal()
            }
        };
        let disk = MemoryDisk::new();
        let build =
            |builder: annals_engine::Builder| builder.log(Box::new(disk.open())).task(ROUND, wait);
        Self { face: Face::with(Settings::default(), build).await, over }
    }

    /// A job whose task runs.
    async fn job(&self, round: u32) -> String {
        let task = format!(r#"{{"id": "a", "kind": "round", "input": {round}}}"#);
        let job = self.face.submit(&task).await;
        self.face.running(&job, "a").await;
        job
    }

    fn ask(&self, request: Request<Body>) -> impl Future<Output = Answer> + Send + use<> {
        answer(router(self.face.state.clone()), request)
    }

    fn end(&self, round: u32) -> impl Future<Output = ()> + Send + use<> {
        let over = self.over.clone();
        async move {
            over.send_replace(round);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_against_the_end_of_the_job() {
    let stage = Stage::new().await;
    let mut race = Race::new();
    for round in 1..=rounds() {
        let job = stage.job(round).await;
        let cancel = stage.ask(ask("POST", &format!("{job}/cancel")));
        let (cancel, ()) = race.run(cancel, stage.end(round)).await;
        let ended = stage.face.ended(&job).await;
        if cancel.status == 202 {
            assert_eq!(ended["status"], "cancelled", "{}", cancel.text);
            race.won(Side::One);
        } else {
            assert_eq!(ended["status"], "completed", "{}", cancel.text);
            cancel.problem(409, "not_in_this_status");
            race.won(Side::Other);
        }
        history(&stage.face.engine, &job).await;
    }
    race.was_even("cancel against completion");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skip_against_the_end_of_the_task() {
    let stage = Stage::new().await;
    let (mut race, mut both) = (Race::new(), 0);
    for round in 1..=rounds() {
        let job = stage.job(round).await;
        let skip = stage.ask(send("POST", &format!("{job}/skip"), r#"{"task": "a"}"#));
        let (skip, ()) = race.run(skip, stage.end(round)).await;
        let ended = stage.face.ended(&job).await;
        assert_eq!(ended["status"], "completed");
        let task = &ended["tasks"][0];
        match (skip.status.as_u16(), task["status"].as_str()) {
            (202, Some("skipped")) => race.won(Side::One),
            // An attempt that succeeds although it was told to stop has succeeded.
            (202, Some("completed")) => both += 1,
            (409, Some("completed")) => race.won(Side::Other),
            _ => panic!("{} {ended}", skip.text),
        }
        let outcome = if task["status"] == "skipped" { "interrupted" } else { "completed" };
        assert_eq!(task["attempts"][0]["outcome"], outcome, "{ended}");
        history(&stage.face.engine, &job).await;
    }
    println!("a skip was accepted {both} times while the attempt completed");
    race.was_even("skip against completion");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execute_against_another() {
    let stage = Stage::new().await;
    let mut race = Race::new();
    let manual = r#"{"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    for _ in 0..rounds() {
        let submitted = stage.face.post(JOBS, manual).await;
        let job = submitted.header("location").expect("a location");
        let execute = || stage.ask(ask("POST", &format!("{job}/execute")));
        let (one, other) = race.run(execute(), execute()).await;
        match [one.status.as_u16(), other.status.as_u16()] {
            [202, 200] => race.won(Side::One),
            [200, 202] => race.won(Side::Other),
            _ => panic!("{} {}", one.text, other.text),
        }
        stage.face.ended(job).await;
        let words = history(&stage.face.engine, job).await;
        assert_eq!(words.iter().filter(|word| **word == "JobStarted").count(), 1, "{words:?}");
    }
    race.was_even("execute against execute");
}

/// What was accepted stands after the next start, and what was not has not happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_against_the_end_of_the_engine() {
    let disk = MemoryDisk::new();
    let folder = tempfile::tempdir().expect("a folder");
    let started = async || {
        let builder = Engine::open(folder.path()).log(Box::new(disk.open())).slots(1);
        builder.mode(Mode::Hold).start().await.expect("it starts")
    };
    let body = plan(r#"{"id": "a", "kind": "sleep", "input": {"for": "1000h"}}"#);
    let (mut race, mut cancels) = (Race::new(), Vec::new());
    for _ in 0..rounds() {
        let engine = started().await;
        let face = router(AppState::ready(engine.clone(), Settings::default()));
        let submitted = answer(face.clone(), send("POST", JOBS, body.clone())).await;
        let job = submitted.header("location").expect("a location").to_owned();
        let cancel = answer(face, ask("POST", &format!("{job}/cancel")));
        let end = async move { engine.shutdown_now().await };
        let (cancel, end) = race.run(cancel, end).await;
        end.expect("it ends in good order");
        race.won(if cancel.status == 202 { Side::One } else { Side::Other });
        cancels.push((job, cancel));
    }
    race.was_even("cancel against the end of the engine");
    let engine = started().await;
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
