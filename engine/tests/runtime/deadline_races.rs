//! Deadlines that pass at the moment at which something else happens: the order of the events says
//! what became of the job, and nothing of the other side is half done.

use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, Event, Job, JobStatus, PauseMode};
use annals_engine::runtime::{CommandError, Engine, JobHandle};
use annals_tasks_sdk::{Payload, TaskContext, TaskResult};
use tokio::sync::watch;

use super::support::race::{Race, Side, rounds};
use super::support::{
    HandClock, World, laws, nothing, outcomes, plan_of, resume, submit, task, until, within,
};

const LIMIT: Duration = Duration::from_mins(10);

/// An engine with a task that waits for the end of its round.
async fn engine(clock: &std::sync::Arc<HandClock>, over: &watch::Sender<u32>) -> Engine {
    let over = over.subscribe();
    let round = move |cx: TaskContext, input: Payload| {
        let mut over = over.clone();
        async move {
            let round: u32 = input.to()?;
            let ended = async { over.wait_for(|over| *over >= round).await.is_ok() };
            cx.or_cancelled(ended).await?;
            TaskResult::Ok(input)
        }
    };
    let engine = World::in_memory().engine_at(clock).task(task("round"), round);
    within(engine.task(task("ok"), nothing).start()).await.expect("it starts")
}

/// What became of a job, and what of its events says how.
struct Ended {
    job: Job,
    names: Vec<&'static str>,
}

impl Ended {
    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// It failed since its deadline had passed, and started nothing after that.
    fn ran_out(&self) -> bool {
        let Some(at) = self.names.iter().position(|name| *name == "DeadlinePassed") else {
            return false;
        };
        assert!(!self.names[at..].contains(&"AttemptStarted"), "{:?}", self.names);
        assert!(self.names[at..].contains(&"JobFailed"), "{:?}", self.names);
        true
    }
}

/// Lets the job go on until it has ended.
async fn settle(job: &JobHandle, over: &watch::Sender<u32>, round: u32) -> Ended {
    let quiet = |status: JobStatus| status.is_ended() || status == JobStatus::Paused;
    if until(job, |now| quiet(now.job.status())).await.job.status() == JobStatus::Paused {
        // What paused it has kept its time.
        resume(job).await;
        over.send_replace(round);
        within(job.ended()).await.expect("it ends");
    }
    let ended = laws(job).await;
    let history = within(job.history(0, usize::MAX)).await.expect("it can be read");
    let events = history.iter().map(|logged| &logged.recorded.event);
    Ended { job: ended, names: events.map(Event::type_name).collect() }
}

/// Has deadlines pass again and again while the other side does what it does.
async fn race<F: Future<Output = Result<(), &'static str>> + Send + 'static>(
    name: &str,
    other: impl Fn(&JobHandle, &watch::Sender<u32>, u32) -> F,
    judge: impl Fn(Result<(), &'static str>, &Ended) -> Side,
) {
    let (clock, over) = (HandClock::new(), watch::Sender::new(0));
    let engine = engine(&clock, &over).await;
    let mut race = Race::new();
    for round in 1..=rounds() {
        let text = format!(
            r#"{{"name": "test", "deadline": "10m", "tasks": [
                {{"id": "a", "kind": "round", "input": {round}}}, {{"id": "b", "kind": "ok"}}]}}"#
        );
        let job = submit(&engine, plan_of(&text)).await;
        until(&job, |now| now.job.is_live()).await;
        let (time, late) = (clock.clone(), engine.clone());
        let passes = async move {
            time.advance(LIMIT);
            late.look();
        };
        let ((), answer) = race.run(passes, other(&job, &over, round)).await;
        race.won(judge(answer, &settle(&job, &over, round).await));
    }
    race.was_even(name);
    within(engine.shutdown()).await.expect("it ends");
}

async fn ask(job: JobHandle, command: Command) -> Result<(), &'static str> {
    match within(job.command(command, Ask::default())).await {
        Ok(_) => Ok(()),
        Err(CommandError::Rejected(refusal)) => Err(refusal.code),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_against_a_completion() {
    let ends = |_: &JobHandle, over: &watch::Sender<u32>, round| {
        let over = over.clone();
        async move {
            over.send_replace(round);
            Ok(())
        }
    };
    race("deadline against completion", ends, |_, ended| {
        if !ended.ran_out() {
            assert_eq!(ended.job.status(), JobStatus::Completed);
            return Side::Other;
        }
        assert_eq!(ended.job.status(), JobStatus::Failed);
        // Whatever the attempt came to, it is told.
        assert_eq!(outcomes(&ended.job, "a").len(), 1);
        Side::One
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_against_a_pause() {
    let pause = |job: &JobHandle, _: &watch::Sender<u32>, _| {
        ask(job.clone(), Command::Pause { mode: PauseMode::Interrupt })
    };
    race("deadline against pause", pause, |answer, ended| {
        assert!(matches!(answer, Ok(()) | Err("not_in_this_status")), "{answer:?}");
        if ended.has("JobPaused") {
            assert!(answer.is_ok() && !ended.ran_out(), "{:?}", ended.names);
            assert_eq!(ended.job.status(), JobStatus::Completed);
            return Side::Other;
        }
        assert!(ended.ran_out(), "{:?}", ended.names);
        Side::One
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_against_a_cancel() {
    let cancel = |job: &JobHandle, _: &watch::Sender<u32>, _| ask(job.clone(), Command::CANCEL);
    race("deadline against cancel", cancel, |answer, ended| {
        // Of a job that fails already it is nothing to do, and one that has failed takes it.
        assert_eq!(answer, Ok(()));
        if ended.has("CancelRequested") {
            assert!(!ended.ran_out(), "{:?}", ended.names);
            assert_eq!(ended.job.status(), JobStatus::Cancelled);
            return Side::Other;
        }
        assert!(ended.ran_out(), "{:?}", ended.names);
        Side::One
    })
    .await;
}
