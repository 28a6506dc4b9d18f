//! Requests against what happens at the same moment: whoever is first, the answer is true.
//!
//! A race that one side always wins shows nothing. So each is kept even: the side that has won
//! begins later the next time, however fast the machine is, and each must win its share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use annals::http::{AppState, Settings, router};
use annals::prelude::*;
use annals_engine::Mode;
use annals_engine::log::MemoryDisk;
use axum::body::Body;
use axum::http::Request;
use tokio::sync::watch;

use crate::face::{Answer, Face, answer, ask, plan, send};

const JOBS: &str = "/api/v1/jobs";

/// Waits until its round is over, or until it is told to stop.
const ROUND: TaskKind<u32, u32> = TaskKind::new("round");

/// How many times each race is run: `ANNALS_RACE_ROUNDS`, or few.
fn rounds() -> u32 {
    let rounds = std::env::var("ANNALS_RACE_ROUNDS").ok().and_then(|text| text.parse().ok());
    rounds.unwrap_or(100)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    One,
    Other,
}

/// Lets two sides loose on each other, and gives whoever has lost a start.
#[derive(Debug)]
struct Race {
    /// How much later `One` begins than `Other`, in microseconds.
    lag: i64,
    /// What that changes by next: twice as much each time that the same side wins again.
    step: i64,
    winner: Option<Side>,
    wins: [u32; 2],
}

impl Race {
    fn new() -> Self {
        Self { lag: 0, step: 1, winner: None, wins: [0; 2] }
    }

    /// Runs both, each on a thread of its own where there are two.
    async fn run<A, B>(
        &self,
        one: impl Future<Output = A> + Send + 'static,
        other: impl Future<Output = B> + Send + 'static,
    ) -> (A, B)
    where
        A: Send + 'static,
        B: Send + 'static,
    {
        let ready = Arc::new(AtomicUsize::new(0));
        let one = tokio::spawn(late(self.lag, Arc::clone(&ready), one));
        let other = tokio::spawn(late(-self.lag, ready, other));
        (one.await.expect("it does not panic"), other.await.expect("it does not panic"))
    }

    fn won(&mut self, side: Side) {
        self.wins[side as usize] += 1;
        let again = self.winner.replace(side) == Some(side);
        self.step = if again { self.step * 2 } else { self.step / 4 };
        // A round in which the machine was busy with something else is not to tip the balance.
        self.step = self.step.clamp(1, 20_000);
        self.lag += if side == Side::One { self.step } else { -self.step };
    }

    /// Makes sure that both sides have won, and not once in a blue moon.
    fn was_even(&self, name: &str) {
        let [one, other] = self.wins;
        println!("{name}: {one} to {other}");
        assert!(one.min(other) > (one + other) / 20, "{name} is no race: {self:?}");
    }
}

/// Does something once both sides are ready, and so many microseconds later.
async fn late<T>(lag: i64, ready: Arc<AtomicUsize>, side: impl Future<Output = T>) -> T {
    ready.fetch_add(1, Ordering::SeqCst);
    while ready.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let until = Instant::now() + Duration::from_micros(u64::try_from(lag).unwrap_or(0));
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
    side.await
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
