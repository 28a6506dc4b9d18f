//! Attempts of which something must be heard.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{Event, Job, JobStatus};
use annals_engine::runtime::{Engine, GRACE, JobHandle};
use annals_tasks_sdk::{Payload, Progress, Stream, Task, TaskContext, TaskError, TaskResult};
use tokio::sync::watch;

use super::support::{
    HandClock, World, almost, codes, laws, outcomes, plan, status_of, submit, task, within,
};

const LIMIT: Duration = Duration::from_mins(5);
const TICK: Duration = Duration::from_millis(1);

/// Has a task give signs of life, one at a time.
#[derive(Clone)]
struct Signs {
    wanted: watch::Sender<u32>,
    given: watch::Sender<u32>,
}

impl Signs {
    fn new() -> Self {
        Self { wanted: watch::Sender::new(0), given: watch::Sender::new(0) }
    }

    /// Has the next sign given, and waits until it is.
    async fn next(&self) {
        self.wanted.send_modify(|count| *count += 1);
        let wanted = *self.wanted.borrow();
        let mut given = self.given.subscribe();
        within(given.wait_for(|count| *count == wanted)).await.expect("the sender is in self");
    }

    /// A task that gives signs of the sort that its input names until it is told to stop.
    fn task(&self) -> impl Task<Payload, Payload> + use<> {
        let signs = self.clone();
        move |cx: TaskContext, sort: Payload| {
            let signs = signs.clone();
            async move {
                let sort: String = sort.to()?;
                let mut wanted = signs.wanted.subscribe();
                loop {
                    let given = *signs.given.borrow();
                    let next = wanted.wait_for(|count| *count > given);
                    drop(cx.or_cancelled(next).await?);
                    give(&cx, &sort, given).await?;
                    signs.given.send_modify(|count| *count += 1);
                }
            }
        }
    }
}

async fn give(cx: &TaskContext, sort: &str, given: u32) -> TaskResult<()> {
    match sort {
        "heartbeat" => cx.heartbeat(),
        "progress" => cx.progress(Progress { done: 1, total: 2 }),
        "message" => cx.message("still here"),
        "checkpoint" => cx.checkpoint(&1).await?,
        "step" => cx.step(&given.to_string(), async { Ok(()) }).await?,
        "output" => cx.log(Stream::Stdout, b"still here\n"),
        other => return Err(TaskError::new("sort", other)),
    }
    Ok(())
}

fn quiet(more: &str) -> String {
    format!(r#"{{"id": "a", "kind": "signs", "heartbeat_timeout": "5m"{more}}}"#)
}

async fn start(world: &World, clock: &Arc<HandClock>, signs: &Signs) -> Engine {
    within(world.engine_at(clock).task(task("signs"), signs.task()).start()).await.unwrap()
}

async fn ended(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn any_sign_of_life_counts_and_silence_ends_the_attempt() {
    for sort in ["heartbeat", "progress", "message", "checkpoint", "step", "output"] {
        let (world, clock, signs) = (World::in_memory(), HandClock::new(), Signs::new());
        let engine = start(&world, &clock, &signs).await;
        let job = submit(&engine, plan(&quiet(&format!(r#", "input": "{sort}""#)))).await;
        within(clock.until_slept_on(LIMIT)).await;
        let mut silent = LIMIT;
        for _ in 0..3 {
            clock.advance(almost(silent));
            signs.next().await;
            // What would have been the end of it is not: it was heard of a moment ago.
            clock.advance(TICK);
            silent = almost(LIMIT);
            within(clock.until_slept_on(silent)).await;
        }
        assert_eq!(outcomes(&job.snapshot().await.unwrap().job, "a"), ["alive"], "{sort}");
        clock.advance(silent);
        let end = ended(&job).await;
        assert_eq!(outcomes(&end, "a"), ["timed_out"], "{sort}");
        assert_eq!(codes(&end, "a"), ["heartbeat_timeout"]);
        let (error, _) = end.error().unwrap();
        assert!(error.message.starts_with("nothing was heard of the attempt for 5m"), "{error:?}");
        assert_eq!(end.status(), JobStatus::Failed);
        // While all is well nothing of it is in the log.
        let history = within(job.history(0, usize::MAX)).await.unwrap();
        let events = history.iter().map(|logged| &logged.recorded.event);
        let told = events.map(Event::type_name);
        let told: Vec<&str> =
            told.filter(|name| !["CheckpointSaved", "StepRecorded"].contains(name)).collect();
        assert_eq!(told[..3], ["JobSubmitted", "JobStarted", "AttemptStarted"]);
        assert_eq!(told[3..], ["AttemptTimedOut", "TaskFailed", "JobFailed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_a_failure_that_is_retried_unless_it_is_never_to_be() {
    let (world, clock, signs) = (World::in_memory(), HandClock::new(), Signs::new());
    let engine = start(&world, &clock, &signs).await;
    let retry = r#""max_attempts": 2, "backoff": {"initial": "0s", "jitter": 0}"#;
    for (never, attempts) in [("", 2), (r#", "never": ["timed_out"]"#, 2)] {
        let more = format!(r#", "input": "heartbeat", "retry": {{{retry}{never}}}"#);
        let job = submit(&engine, plan(&quiet(&more))).await;
        for _ in 0..attempts {
            within(clock.until_slept_on(LIMIT)).await;
            clock.advance(LIMIT);
            engine.look();
        }
        let end = ended(&job).await;
        assert_eq!(codes(&end, "a"), vec!["heartbeat_timeout"; attempts]);
    }
    let more =
        format!(r#", "input": "heartbeat", "retry": {{{retry}, "never": ["heartbeat_timeout"]}}"#);
    let job = submit(&engine, plan(&quiet(&more))).await;
    within(clock.until_slept_on(LIMIT)).await;
    clock.advance(LIMIT);
    assert_eq!(outcomes(&ended(&job).await, "a"), ["timed_out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_beside_it_counts_whatever_is_heard() {
    let (world, clock, signs) = (World::in_memory(), HandClock::new(), Signs::new());
    let engine = start(&world, &clock, &signs).await;
    let more = r#", "input": "heartbeat", "timeout": "7m""#;
    let job = submit(&engine, plan(&quiet(more))).await;
    within(clock.until_slept_on(Duration::from_mins(7))).await;
    within(clock.until_slept_on(LIMIT)).await;
    clock.advance(Duration::from_mins(4));
    signs.next().await;
    clock.advance(Duration::from_mins(3));
    assert_eq!(codes(&ended(&job).await, "a"), ["timed_out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_hear_that_it_is_to_stop_is_dropped_after_its_grace() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let deaf = async |_cx: TaskContext, _input: Payload| -> TaskResult<Payload> {
        std::future::pending().await
    };
    let engine = within(world.engine_at(&clock).task(task("signs"), deaf).start()).await.unwrap();
    let job = submit(&engine, plan(&quiet(""))).await;
    within(clock.until_slept_on(LIMIT)).await;
    clock.advance(LIMIT);
    within(clock.until_slept_on(GRACE)).await;
    let now = job.snapshot().await.unwrap();
    assert_eq!(status_of(&now.job, "a"), "running", "its end is recorded when it is over");
    assert!(now.live.values().all(|live| live.stopping_since.is_some()), "the stop is shown");
    clock.advance(GRACE);
    let end = ended(&job).await;
    assert_eq!(
        (outcomes(&end, "a"), codes(&end, "a")),
        (vec!["timed_out"], vec!["heartbeat_timeout".to_owned()])
    );
}
