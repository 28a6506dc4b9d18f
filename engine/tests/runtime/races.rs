//! Commands against what happens at the same moment, on threads and in real time: whoever is first,
//! the answer is true, and the job is as the winner left it.

use std::sync::atomic::{AtomicU32, Ordering};

use annals_engine::Ask;
use annals_engine::job::{Command, Event, Job, JobStatus, Origin, PauseMode, Place, Recorded};
use annals_engine::runtime::{Answer, CommandError, Engine, JobHandle};
use annals_tasks_sdk::plan::{Limits, TaskPatch, TaskSpec};
use annals_tasks_sdk::{Payload, TaskContext, TaskError, TaskId, TaskResult};
use serde::Deserialize;
use tokio::sync::watch;

use super::support::race::{Race, Side, rounds};
use super::support::{
    World, kill, laws, nothing, outcomes, plan, resume, status_of, submit, task, until, within,
};

/// What the tasks of a race are given: they wait until the test ends their round, and then fail in
/// so many attempts.
#[derive(Deserialize)]
struct Given {
    round: u32,
    fails: u32,
}

/// A task that waits for the end of its round.
fn waits(id: &str, round: u32, fails: u32, more: &str) -> String {
    let input = format!(r#"{{"round": {round}, "fails": {fails}}}"#);
    format!(r#"{{"id": "{id}", "kind": "round", "input": {input}{more}}}"#)
}

async fn engine(world: &World, over: &watch::Sender<u32>) -> Engine {
    let over = over.subscribe();
    let round = move |cx: TaskContext, input: Payload| {
        let mut over = over.clone();
        async move {
            let given: Given = input.to()?;
            let ended = async { over.wait_for(|over| *over >= given.round).await.is_ok() };
            cx.or_cancelled(ended).await?;
            let fails = cx.attempt().attempt <= given.fails;
            if fails { Err(TaskError::new("no", "it fails")) } else { TaskResult::Ok(input) }
        }
    };
    let engine = world.engine().task(task("round"), round).task(task("echo"), nothing);
    within(engine.start()).await.expect("it starts")
}

/// What became of a round.
struct Round {
    /// What the command made happen and the job then, or the code of its refusal.
    answer: Result<Answer, &'static str>,
    /// The job when it has ended.
    job: Job,
    history: Vec<Recorded>,
}

impl Round {
    fn position(&self, is_it: impl Fn(&Event) -> bool) -> Option<usize> {
        self.history.iter().position(|recorded| is_it(&recorded.event))
    }

    /// The command was refused for one of these reasons, and the other side has won; or it was
    /// accepted.
    #[track_caller]
    fn refused(&self, codes: &[&str]) -> bool {
        match &self.answer {
            Ok(_) => false,
            Err(code) => {
                assert!(codes.contains(code), "{code}: {:?}", self.history);
                true
            }
        }
    }
}

async fn ask(job: JobHandle, command: Command) -> Result<Answer, &'static str> {
    let ask = Ask { origin: Origin::actor("racer"), ..Ask::default() };
    match within(job.command(command, ask)).await {
        Ok(answer) => Ok(answer),
        Err(CommandError::Rejected(refusal)) => Err(refusal.code),
        Err(error) => panic!("{error}"),
    }
}

/// What has happened to a job that is let go on until it has ended.
async fn settle(job: &JobHandle) -> (Job, Vec<Recorded>) {
    let quiet = |status: JobStatus| status.is_ended() || status == JobStatus::Paused;
    while until(job, |now| quiet(now.job.status())).await.job.status() == JobStatus::Paused {
        resume(job).await;
    }
    let ended = laws(job).await;
    let history = within(job.history(0, usize::MAX)).await.expect("it can be read");
    (ended, history.into_iter().map(|logged| logged.recorded).collect())
}

/// Gives the command again and again at the moment at which a round ends.
async fn race(
    name: &str,
    tasks: impl Fn(u32) -> String,
    command: impl Fn() -> Command,
    judge: impl Fn(&Round) -> Side,
) {
    let (world, over) = (World::in_memory(), watch::Sender::new(0));
    let engine = engine(&world, &over).await;
    let mut race = Race::new();
    for round in 1..=rounds() {
        let job = submit(&engine, plan(&tasks(round))).await;
        until(&job, |now| now.job.is_live()).await;
        let ends = over.clone();
        let other = async move { ends.send_replace(round) };
        let (answer, _) = race.run(ask(job.clone(), command()), other).await;
        let (job, history) = settle(&job).await;
        race.won(judge(&Round { answer, job, history }));
    }
    race.was_even(name);
    within(engine.shutdown()).await.expect("it ends");
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

/// A task that waits for the round, and one behind it.
fn chain(round: u32) -> String {
    format!(r#"{}, {{"id": "b", "kind": "echo", "input": 1}}"#, waits("a", round, 0, ""))
}

/// Whether the job was cancelled, or had completed before that.
fn cancels(round: &Round) -> bool {
    if round.refused(&["not_in_this_status"]) {
        assert_eq!(round.job.status(), JobStatus::Completed);
        return false;
    }
    assert!(is_cancelled_in_time(round));
    true
}

fn is_cancelled_in_time(round: &Round) -> bool {
    let at = round.position(|event| matches!(event, Event::CancelRequested { .. }));
    let started = |recorded: &Recorded| matches!(recorded.event, Event::AttemptStarted { .. });
    let Some(at) = at else { return false };
    assert!(!round.history[at..].iter().any(started), "{:?}", round.history);
    assert_eq!(round.job.status(), JobStatus::Cancelled);
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_against_completion() {
    let tasks = |round| waits("a", round, 0, "");
    race(
        "cancel against completion",
        tasks,
        || Command::CANCEL,
        |round| {
            if !cancels(round) {
                return Side::Other;
            }
            Side::One
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_against_retry() {
    let retry = r#", "retry": {"max_attempts": 2, "backoff": {"initial": "1ms"}}"#;
    let tasks = |round| waits("a", round, 1, retry);
    race(
        "cancel against retry",
        tasks,
        || Command::CANCEL,
        |round| {
            if round.refused(&["not_in_this_status"]) {
                assert_eq!(outcomes(&round.job, "a"), ["failed", "completed"]);
                return Side::Other;
            }
            assert!(is_cancelled_in_time(round));
            if outcomes(&round.job, "a").len() == 1 { Side::One } else { Side::Other }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_against_start() {
    race(
        "cancel against start",
        chain,
        || Command::CANCEL,
        |round| {
            if !cancels(round) {
                return Side::Other;
            }
            if outcomes(&round.job, "b").is_empty() { Side::One } else { Side::Other }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_against_completion() {
    let skip = || Command::Skip { task: Some(id("a")), output: None, cascade: false };
    race("skip against completion", chain, skip, |round| {
        let codes = ["task_is_settled", "not_in_this_status"];
        let refused = round.refused(&codes);
        assert_eq!(round.job.status(), JobStatus::Completed);
        assert_eq!(status_of(&round.job, "b"), "completed");
        let status = status_of(&round.job, "a");
        // What succeeds before it is stopped has succeeded.
        assert!(status == "completed" || !refused);
        if status == "skipped" { Side::One } else { Side::Other }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_against_failure() {
    let pause = || Command::Pause { mode: PauseMode::Interrupt };
    let tasks = |round| waits("a", round, 9, "");
    race("pause against failure", tasks, pause, |round| {
        assert_eq!(round.job.status(), JobStatus::Failed);
        if round.refused(&["not_in_this_status"]) {
            assert_eq!(outcomes(&round.job, "a"), ["failed"]);
            return Side::Other;
        }
        assert_eq!(outcomes(&round.job, "a"), ["interrupted", "failed"]);
        Side::One
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_against_start() {
    let edit = || {
        let patch = TaskPatch::from_json(r#"{"input": 2}"#, &Limits::default()).unwrap();
        Command::Edit { task: id("b"), patch, reset: false }
    };
    race("edit against start", chain, edit, |round| {
        assert_eq!(round.job.status(), JobStatus::Completed);
        assert_eq!(outcomes(&round.job, "b"), ["completed"]);
        let refused = round.refused(&["task_is_live", "task_is_settled", "not_in_this_status"]);
        let output = round.job.task(round.job.find("b").unwrap()).unwrap().output();
        assert_eq!(output.unwrap().as_str(), if refused { "1" } else { "2" });
        if refused { Side::Other } else { Side::One }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remove_against_start() {
    let remove = || Command::Remove { task: id("b"), cascade: false };
    race("remove against start", chain, remove, |round| {
        assert_eq!(round.job.status(), JobStatus::Completed);
        let ran = outcomes(&round.job, "b");
        if round.refused(&["task_is_live", "task_is_settled", "not_in_this_status"]) {
            assert_eq!(ran, ["completed"]);
            return Side::Other;
        }
        assert_eq!((status_of(&round.job, "b"), ran.len()), ("removed", 0));
        Side::One
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_against_the_last_completion() {
    let insert = || {
        let text = r#"{"id": "z", "kind": "echo", "input": 3}"#;
        let task = TaskSpec::from_json(text, &Limits::default()).unwrap();
        Command::Insert { task: Box::new(task), place: Place::Last, needed_by: Vec::new() }
    };
    let tasks = |round| waits("a", round, 0, "");
    race("insert against the last completion", tasks, insert, |round| {
        assert_eq!(round.job.status(), JobStatus::Completed);
        if round.refused(&["not_in_this_status"]) {
            assert!(round.job.find("z").is_none());
            return Side::Other;
        }
        assert_eq!(outcomes(&round.job, "z"), ["completed"]);
        Side::One
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_against_the_due_time() {
    let retry = || Command::Retry { task: id("a") };
    let policy = r#", "retry": {"max_attempts": 2, "backoff": {"initial": "10ms", "jitter": 0}}"#;
    let tasks = |round| waits("a", round, 1, policy);
    let retried = AtomicU32::new(0);
    race("retry against the due time", tasks, retry, |round| {
        assert_eq!(round.job.status(), JobStatus::Completed);
        assert_eq!(outcomes(&round.job, "a"), ["failed", "completed"]);
        if round.refused(&["task_is_settled", "not_in_this_status"]) {
            return Side::Other;
        }
        let answer = round.answer.as_ref().unwrap();
        let Some(event) = answer.events.first().map(|recorded| &recorded.event) else {
            // It has not failed yet, or runs again.
            let before = outcomes(&answer.snapshot.job, "a").len() == 1;
            return if before { Side::One } else { Side::Other };
        };
        let second = |event: &Event| matches!(event, Event::AttemptStarted { attempt: 2, .. });
        assert!(matches!(event, Event::RetryScheduled { .. }), "{event:?}");
        assert!(round.position(second) > round.position(|other| other == event));
        retried.fetch_add(1, Ordering::Relaxed);
        Side::One
    })
    .await;
    let retried = retried.into_inner();
    println!("retried in time: {retried}");
    assert!(retried > rounds() / 10, "{retried}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_against_shutdown() {
    let mut race = Race::new();
    for round in 1..=rounds() {
        let (world, over) = (World::in_memory(), watch::Sender::new(0));
        let life = engine(&world, &over).await;
        let job = submit(&life, plan(&waits("a", round, 0, ""))).await;
        until(&job, |now| now.job.is_live()).await;
        let (id, asked, ends) = (job.id(), job.clone(), life.clone());
        let cancel = async move { asked.command(Command::CANCEL, Ask::default()).await.is_ok() };
        let shutdown = async move { within(ends.shutdown_now()).await.expect("it ends") };
        let (accepted, ()) = race.run(cancel, shutdown).await;
        drop(job);
        kill(life).await;
        over.send_replace(round);
        let life = engine(&world, &over).await;
        let job = life.job(id);
        let (ended, history) = settle(&job).await;
        let asked = history.iter().any(|one| matches!(one.event, Event::CancelRequested { .. }));
        // What was accepted has happened; what has no answer may have.
        assert!(asked || !accepted, "{history:?}");
        let end = if asked { JobStatus::Cancelled } else { JobStatus::Completed };
        assert_eq!(ended.status(), end, "{history:?}");
        race.won(if accepted { Side::One } else { Side::Other });
        drop(job);
        kill(life).await;
    }
    race.was_even("cancel against shutdown");
}
