//! Attempts that are told to stop: when they count as over, and what becomes of them.

use std::time::Duration;

use annals_engine::job::{Command, Intent, JobStatus, Origin, PauseMode};
use annals_engine::runtime::{CommandError, Engine, JobHandle};
use annals_engine::views::Reason;
use annals_engine::{Ask, Mode};
use annals_tasks_sdk::{Payload, TaskContext, TaskError};

use super::support::{
    Gate, HandClock, Tally, World, almost, cancel, codes, execute, laws, loops, nothing, outcomes,
    pause, plan, resume, skip, status_of, submit, task, until, within,
};

const GRACE: Duration = Duration::from_secs(10);

fn is_live(job: &annals_engine::job::Job) -> bool {
    job.is_live()
}

async fn ended(job: &JobHandle) -> annals_engine::job::Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_never_looks_is_dropped_after_its_grace() {
    for loops in loops() {
        let (world, clock, inside) = (World::in_memory(), HandClock::new(), Tally::new());
        let counted = inside.clone();
        let deaf = move |_cx: TaskContext, _input: Payload| {
            let inside = counted.enter();
            async move {
                let _inside = inside;
                std::future::pending().await
            }
        };
        let engine = world.engine_at(&clock).loops(loops).task(task("deaf"), deaf);
        let engine = within(engine.start()).await.unwrap();
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "deaf"}"#)).await;
        within(inside.until(|counts| counts.inside == 1)).await;
        cancel(&job).await;
        let told = until(&job, |now| now.live.values().all(|live| live.stopping_since.is_some()));
        let told = told.await;
        assert_eq!(
            (told.job.status(), told.job.intent()),
            (JobStatus::Running, Some(Intent::Cancel))
        );
        within(clock.until_slept_on(GRACE)).await;
        clock.advance(almost(GRACE));
        assert!(is_live(&job.snapshot().await.unwrap().job), "the grace is not over");
        clock.advance(Duration::from_millis(1));
        let end = ended(&job).await;
        assert_eq!(inside.now().inside, 0, "the end is recorded when the task is really gone");
        assert_eq!(end.status(), JobStatus::Cancelled);
        assert_eq!(outcomes(&end, "a"), ["interrupted"]);
        assert_eq!(codes(&end, "a"), ["grace_over"]);
        within(engine.shutdown()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_within_the_grace_counts() {
    let (world, clock, begun) = (World::in_memory(), HandClock::new(), Tally::new());
    let inside = begun.clone();
    let late = move |cx: TaskContext, _input: Payload| {
        let inside = inside.enter();
        async move {
            cx.cancelled().await;
            drop(inside);
            Ok(Payload::of("in time")?)
        }
    };
    let engine = world.engine_at(&clock).task(task("late"), late).start();
    let engine = within(engine).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "late"}, {"id": "b", "kind": "noop"}"#));
    let job = job.await;
    // What has not begun when it is told to stop does not begin.
    within(begun.until(|now| now.ever == 1)).await;
    cancel(&job).await;
    let end = ended(&job).await;
    assert_eq!(end.status(), JobStatus::Cancelled);
    assert_eq!((status_of(&end, "a"), status_of(&end, "b")), ("completed", "pending"));
    // What ran to its end does not run again.
    execute(&job).await;
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Completed, vec!["completed"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_blocks_its_thread_is_waited_for() {
    for loops in loops() {
        let (world, clock, gate) = (World::in_memory(), HandClock::new(), Gate::new());
        let (inside, held) = (Tally::new(), gate.clone());
        let counted = inside.clone();
        let blocking = move |_cx: TaskContext, input: Payload| {
            let (inside, gate) = (counted.clone(), held.clone());
            async move {
                let _inside = inside.enter();
                gate.block();
                Ok(input)
            }
        };
        let engine = world.engine_at(&clock).loops(loops).task(task("block"), blocking);
        let engine = within(engine.task(task("ok"), nothing).start()).await.unwrap();
        let mut stuck = Vec::new();
        for _ in 0..8 {
            stuck.push(submit(&engine, plan(r#"{"id": "a", "kind": "block"}"#)).await);
        }
        within(inside.until(|counts| counts.inside == 8)).await;
        for job in &stuck {
            cancel(job).await;
        }
        for job in &stuck {
            until(job, |now| now.live.values().all(|at| at.stopping_since.is_some())).await;
            let why = within(job.explain()).await.unwrap();
            let stops = &why.reasons[1].reason;
            let Reason::Stops { attempt: 1, told, grace, .. } = stops else { panic!("{why:?}") };
            assert_eq!((told.ago, grace.left), (Duration::ZERO, GRACE));
        }
        clock.advance(GRACE * 3);
        // The others run on.
        for _ in 0..20 {
            let job = submit(&engine, plan(r#"{"id": "a", "kind": "ok"}"#)).await;
            assert_eq!(ended(&job).await.status(), JobStatus::Completed);
        }
        for job in &stuck {
            let now = job.snapshot().await.unwrap();
            let why = within(job.explain()).await.unwrap();
            let blocks = &why.reasons[1].reason;
            let Reason::Blocks { attempt: 1, told, grace, .. } = blocks else { panic!("{why:?}") };
            assert_eq!((told.ago, grace.ago), (GRACE * 3, GRACE * 2));
            let sentence = blocks.to_string();
            let attempt = "attempt 1 of task a was told to stop 30s ago and has not ended, its \
                 grace is over since 20s: it blocks its thread ";
            assert!(sentence.starts_with(attempt), "{sentence}");
            assert_eq!(
                (now.job.status(), now.job.intent()),
                (JobStatus::Running, Some(Intent::Cancel))
            );
            assert_eq!((now.live.len(), outcomes(&now.job, "a")), (1, vec!["alive"]));
        }
        gate.open();
        for job in &stuck {
            assert_eq!(ended(job).await.status(), JobStatus::Cancelled);
        }
        assert_eq!(inside.now().inside, 0);
    }
}

/// A task that ends with its order to stop, from its checkpoint where it has one.
async fn counting(cx: TaskContext, _input: Payload) -> Result<Payload, TaskError> {
    let seen: u32 = cx.restore()?.unwrap_or(0);
    cx.checkpoint(&(seen + 1)).await?;
    if seen == 0 {
        cx.cancelled().await;
        return Err(TaskError::cancelled());
    }
    Ok(Payload::of(&seen)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_task_goes_on_from_its_checkpoint() {
    for loops in loops() {
        let world = World::in_memory();
        let engine = world.engine().loops(loops).task(task("count"), counting).start();
        let engine = within(engine).await.unwrap();
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "count"}"#)).await;
        until(&job, |now| now.job.live().any(|(_, task)| task.checkpoint().is_some())).await;
        pause(&job, PauseMode::Interrupt).await;
        let paused = until(&job, |now| now.job.status() == JobStatus::Paused).await;
        assert_eq!(status_of(&paused.job, "a"), "interrupted");
        resume(&job).await;
        let end = ended(&job).await;
        assert_eq!(outcomes(&end, "a"), ["interrupted", "completed"]);
        assert_eq!(end.output().unwrap().unwrap().as_str(), "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_drains_lets_tasks_end_and_starts_none() {
    let (world, gate) = (World::in_memory(), Gate::new());
    let held = gate.clone();
    let wait = move |_cx: TaskContext, input: Payload| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            Ok(input)
        }
    };
    let engine = within(world.engine().task(task("hold"), wait).start()).await.unwrap();
    let two = plan(r#"{"id": "a", "kind": "hold"}, {"id": "b", "kind": "noop"}"#);
    let job = submit(&engine, two).await;
    until(&job, |now| now.job.is_live()).await;
    pause(&job, PauseMode::Drain).await;
    assert_eq!(job.snapshot().await.unwrap().job.intent(), Some(Intent::Pause));
    gate.open();
    let paused = until(&job, |now| now.job.status() == JobStatus::Paused).await;
    assert_eq!(
        (status_of(&paused.job, "a"), status_of(&paused.job, "b")),
        ("completed", "pending")
    );
    resume(&job).await;
    assert_eq!(ended(&job).await.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_can_be_skipped() {
    let world = World::in_memory();
    let engine = within(world.engine().task(task("count"), counting).start()).await.unwrap();
    let three = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "count"},
        {"id": "c", "kind": "noop"}, {"id": "d", "kind": "noop"}"#;
    let job = submit(&engine, plan(three)).await;
    until(&job, |now| now.job.is_live() && status_of(&now.job, "b") == "running").await;
    // One that is not reached yet goes as well, and the task after it is not forgotten.
    skip(&job, "c").await;
    skip(&job, "b").await;
    let end = ended(&job).await;
    assert_eq!(end.status(), JobStatus::Completed);
    let all = ["a", "b", "c", "d"].map(|id| status_of(&end, id));
    assert_eq!(all, ["completed", "skipped", "skipped", "completed"]);
    assert_eq!(outcomes(&end, "b"), ["interrupted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_a_failure_and_no_cancel() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let first_is_late = async |cx: TaskContext, input: Payload| {
        if cx.attempt().attempt == 1 {
            cx.cancelled().await;
        }
        Ok(input)
    };
    let engine = world.engine_at(&clock).task(task("late"), first_is_late).start();
    let engine = within(engine).await.unwrap();
    let late = r#"{"id": "a", "kind": "late", "timeout": "30s",
        "retry": {"max_attempts": 2, "backoff": {"initial": "0s", "jitter": 0}}}"#;
    let job = submit(&engine, plan(late)).await;
    within(clock.until_slept_on(Duration::from_secs(30))).await;
    clock.advance(Duration::from_secs(30));
    engine.look();
    let end = ended(&job).await;
    // It answered Ok, but too late: that does not count.
    assert_eq!(outcomes(&end, "a"), ["timed_out", "completed"]);
    assert_eq!(codes(&end, "a"), ["timed_out"]);

    let never = r#"{"id": "a", "kind": "late", "timeout": "30s",
        "retry": {"max_attempts": 2, "never": ["timed_out"]}}"#;
    let job = submit(&engine, plan(never)).await;
    within(clock.until_slept_on(Duration::from_secs(30))).await;
    clock.advance(Duration::from_secs(30));
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Failed, vec!["timed_out"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_during_the_grace_of_a_timeout_ends_the_retries() {
    let (world, clock, gate) = (World::in_memory(), HandClock::new(), Gate::new());
    let held = gate.clone();
    let slow = move |cx: TaskContext, _input: Payload| {
        let gate = held.clone();
        async move {
            cx.cancelled().await;
            gate.pass().await;
            Err::<Payload, _>(TaskError::new("broken", "it fails"))
        }
    };
    let engine = within(world.engine_at(&clock).task(task("slow"), slow).start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "slow", "timeout": "1s", "retry": {"max_attempts": 5}}"#;
    let job = submit(&engine, plan(text)).await;
    within(clock.until_slept_on(Duration::from_secs(1))).await;
    clock.advance(Duration::from_secs(1));
    within(clock.until_slept_on(GRACE)).await;
    let now = job.snapshot().await.unwrap();
    assert!(now.live.values().all(|live| live.stopping_since.is_some()), "the stop is shown");
    cancel(&job).await;
    gate.open();
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Cancelled, vec!["timed_out"]));
    assert_eq!(end.due(), None, "no timer is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_after_a_cancel_is_not_retried() {
    let (world, gate, begun) = (World::in_memory(), Gate::new(), Tally::new());
    let (held, inside) = (gate.clone(), begun.clone());
    let stubborn = move |_cx: TaskContext, _input: Payload| {
        let (gate, inside) = (held.clone(), inside.enter());
        async move {
            gate.pass().await;
            drop(inside);
            Err::<Payload, _>(TaskError::new("broken", "it fails"))
        }
    };
    let engine = within(world.engine().task(task("stubborn"), stubborn).start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "stubborn", "retry": {"max_attempts": 5}}"#;
    let job = submit(&engine, plan(text)).await;
    within(begun.until(|now| now.ever == 1)).await;
    cancel(&job).await;
    gate.open();
    let end = ended(&job).await;
    assert_eq!((end.status(), outcomes(&end, "a")), (JobStatus::Cancelled, vec!["interrupted"]));
    assert_eq!(codes(&end, "a"), ["broken"], "its error is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_events_decides_between_a_cancel_and_an_end() {
    let world = World::in_memory();
    let engine = within(world.engine().task(task("ok"), nothing).start()).await.unwrap();
    let two = r#"{"id": "a", "kind": "ok"}, {"id": "b", "kind": "ok"}"#;
    for round in 0..300 {
        let job = submit(&engine, plan(two)).await;
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        let cancelled = job.command(Command::CANCEL, Ask::default()).await;
        let end = ended(&job).await;
        match cancelled {
            Ok(_) => assert_eq!(end.status(), JobStatus::Cancelled),
            Err(CommandError::Rejected(refused)) => {
                assert_eq!(refused.status, JobStatus::Completed);
                assert_eq!(end.status(), JobStatus::Completed);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_an_attempt_that_is_over_is_refused() {
    let (world, clock, gate) = (World::in_memory(), HandClock::new(), Gate::new());
    let (told, mut said) = tokio::sync::mpsc::unbounded_channel();
    let held = gate.clone();
    let begun = Tally::new();
    let inside = begun.clone();
    let ghost = move |cx: TaskContext, input: Payload| {
        let (told, gate, inside) = (told.clone(), held.clone(), inside.clone());
        async move {
            if cx.attempt().attempt > 1 {
                gate.pass().await;
                return Ok(input);
            }
            // What the task leaves behind lives on when the attempt is dropped.
            let late = cx.clone();
            tokio::spawn(async move {
                late.cancelled().await;
                gate.pass().await;
                let refused = late.checkpoint("from beyond").await;
                told.send(refused.is_err_and(|error| error.is_cancelled())).unwrap();
            });
            let _inside = inside.enter();
            cx.cancelled().await;
            Err(TaskError::cancelled())
        }
    };
    let engine = within(world.engine_at(&clock).task(task("ghost"), ghost).start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "ghost"}"#)).await;
    within(begun.until(|now| now.ever == 1)).await;
    pause(&job, PauseMode::Interrupt).await;
    until(&job, |now| now.job.status() == JobStatus::Paused).await;
    resume(&job).await;
    until(&job, |now| now.job.is_live()).await;
    gate.open();
    assert!(within(said.recv()).await.unwrap(), "the checkpoint is refused");
    let end = ended(&job).await;
    let number = end.find("a").unwrap();
    assert!(end.task(number).unwrap().checkpoint().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_a_queue_is_cancelled_at_once() {
    let (world, gate) = (World::in_memory(), Gate::new());
    let held = gate.clone();
    let wait = move |_cx: TaskContext, input: Payload| {
        let gate = held.clone();
        async move {
            gate.pass().await;
            Ok(input)
        }
    };
    let engine = world.engine().slots(1).task(task("hold"), wait).mode(Mode::Run).start();
    let engine: Engine = within(engine).await.unwrap();
    let first = submit(&engine, plan(r#"{"id": "a", "kind": "hold"}"#)).await;
    until(&first, |now| now.job.is_live()).await;
    let queued = submit(&engine, plan(r#"{"id": "a", "kind": "hold"}"#)).await;
    let ask = Ask { origin: Origin::actor("tester"), ..Ask::default() };
    let answer = within(queued.command(Command::CANCEL, ask)).await.unwrap();
    assert_eq!(answer.snapshot.job.status(), JobStatus::Cancelled);
    gate.open();
    assert_eq!(ended(&first).await.status(), JobStatus::Completed);
    assert_eq!(outcomes(&laws(&queued).await, "a"), Vec::<&str>::new());
    // Its place in the queue is free again.
    let third = submit(&engine, plan(r#"{"id": "a", "kind": "hold"}"#)).await;
    assert_eq!(ended(&third).await.status(), JobStatus::Completed);
}
