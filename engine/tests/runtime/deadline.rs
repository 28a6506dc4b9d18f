//! Deadlines: a run is over when its time is, whatever the job does or waits for then, whether it
//! is loaded or not, and whether an engine was there at that moment or not.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{Deadline, Event, Intent, Job, JobStatus, PauseMode};
use annals_engine::runtime::{Builder, Engine, JobHandle, Snapshot};
use annals_engine::{Ask, Mode};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError, TaskResult};

use super::support::{
    Gate, HandClock, Store, Tally, World, almost, cancel, counting, execute, kill, laws, loops,
    nothing, outcomes, pause, plan, plan_of, resume, status_of, submit, task, until,
    until_listed_as_ended, until_viewed, within,
};

const MINUTE: Duration = Duration::from_mins(1);
const LIMIT: Duration = Duration::from_mins(10);
const TICK: Duration = Duration::from_millis(1);

const HELD: &str = r#"{"id": "a", "kind": "held"}, {"id": "b", "kind": "ok"}"#;
const SLEEP: &str =
    r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}, {"id": "b", "kind": "ok"}"#;
const RETRIED: &str = r#"{"id": "a", "kind": "fails", "retry":
    {"max_attempts": 2, "backoff": {"initial": "1h", "max": "1h", "jitter": 0}}},
    {"id": "b", "kind": "ok"}"#;

/// A plan whose runs may take ten minutes.
fn limited(tasks: &str) -> annals_tasks_sdk::plan::Plan {
    plan_of(&format!(r#"{{"name": "test", "deadline": "10m", "tasks": [{tasks}]}}"#))
}

/// A store, a clock that is set by hand, and a task that is held at a gate.
struct Timed {
    world: World,
    clock: Arc<HandClock>,
    tally: Tally,
    gate: Gate,
}

async fn fails(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    Err(TaskError::new("broken", "the disk is full"))
}

/// Gives its result when it is told to stop.
async fn late(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    cx.cancelled().await;
    Ok(input)
}

impl Timed {
    fn new(store: Store) -> Self {
        let (clock, tally, gate) = (HandClock::new(), Tally::new(), Gate::new());
        Self { world: World::new(store), clock, tally, gate }
    }

    fn builder(&self) -> Builder {
        let engine = self.world.engine_at(&self.clock);
        let held = counting(&self.tally, &self.gate);
        let engine = engine.task(task("held"), held).task(task("late"), late);
        engine.task(task("fails"), fails).task(task("ok"), nothing)
    }

    async fn start(&self) -> Engine {
        within(self.builder().start()).await.expect("it starts")
    }

    fn advance(&self, engine: &Engine, by: Duration) {
        self.clock.advance(by);
        engine.look();
    }

    /// Waits until nothing of it is alive in the process that the test has killed.
    async fn until_dead(&self) {
        within(self.tally.until(|counts| counts.inside == 0)).await;
    }
}

/// The job after its loop has looked at the clock: the second question is asked in a later turn.
async fn now(engine: &Engine, id: JobId) -> Snapshot {
    within(engine.job(id).snapshot()).await.unwrap();
    within(engine.job(id).snapshot()).await.unwrap()
}

/// The job, which has run out of time: no attempt was started after that in its last run.
async fn ran_out(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    let end = laws(job).await;
    assert_eq!(end.status(), JobStatus::Failed);
    let error = end.error().expect("it failed").0;
    assert_eq!(&*error.code, "deadline_exceeded");
    assert_eq!(&*error.message, "the run took longer than its deadline of 10m");
    let history = within(job.history(0, usize::MAX)).await.unwrap();
    let events = history.iter().map(|logged| &logged.recorded.event);
    let rest = events.rev().take_while(|event| !matches!(event, Event::DeadlinePassed { .. }));
    let starts = |event: &&Event| matches!(event, Event::AttemptStarted { .. });
    assert_eq!(rest.filter(starts).count(), 0, "it starts something past its deadline");
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_attempt_is_stopped_and_an_execute_has_all_the_time_again() {
    for loops in loops() {
        let timed = Timed::new(Store::Memory);
        let engine = within(timed.builder().loops(loops).start()).await.unwrap();
        let job = submit(&engine, limited(HELD)).await;
        within(timed.tally.until(|counts| counts.inside == 1)).await;
        timed.advance(&engine, almost(LIMIT));
        let before = now(&engine, job.id()).await.job;
        assert_eq!((before.status(), before.intent()), (JobStatus::Running, None));
        assert_eq!(before.deadline_at(), before.started().map(|at| at.plus(LIMIT)));
        timed.advance(&engine, TICK);
        let end = ran_out(&job).await;
        assert_eq!(outcomes(&end, "a"), ["interrupted"]);
        assert_eq!((status_of(&end, "a"), status_of(&end, "b")), ("interrupted", "pending"));
        assert_eq!(timed.tally.now().inside, 0);

        timed.clock.advance(MINUTE);
        execute(&job).await;
        within(timed.tally.until(|counts| counts.inside == 1)).await;
        timed.advance(&engine, almost(LIMIT));
        assert_eq!(now(&engine, job.id()).await.job.status(), JobStatus::Running);
        timed.gate.open();
        assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Completed);
        timed.advance(&engine, 2 * LIMIT);
        assert_eq!(laws(&job).await.status(), JobStatus::Completed, "the end ends its clock");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_within_the_grace_counts_and_the_job_fails_all_the_same() {
    let timed = Timed::new(Store::Memory);
    let engine = timed.start().await;
    let job = submit(&engine, limited(r#"{"id": "a", "kind": "late"}"#)).await;
    until(&job, |now| now.job.is_live()).await;
    timed.advance(&engine, LIMIT);
    let end = ran_out(&job).await;
    assert_eq!((status_of(&end, "a"), outcomes(&end, "a")), ("completed", vec!["completed"]));
    execute(&job).await;
    assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_back_offs_and_sleeps_also_of_jobs_that_are_not_loaded() {
    for (store, resident) in [(Store::Memory, 1_000), (Store::Memory, 0), (Store::Disk, 0)] {
        let timed = Timed::new(store);
        let start = || within(timed.builder().resident(resident).views_every(1).start());
        let engine = start().await.unwrap();
        let mut ids = Vec::new();
        for tasks in [SLEEP, RETRIED] {
            let job = submit(&engine, limited(tasks)).await;
            until(&job, |now| status_of(&now.job, "a") == "waiting").await;
            ids.push(job.id());
        }
        // After a start nothing is known of them but where their histories stand, and their time.
        let engine = if resident == 0 {
            until_viewed(&engine).await;
            kill(engine).await;
            start().await.unwrap()
        } else {
            engine
        };
        assert!(engine.jobs(None, 9).await.unwrap().iter().any(|row| row.job == ids[0]));
        let reads: Vec<usize> = ids.iter().map(|id| timed.world.reads.count(*id)).collect();
        timed.advance(&engine, LIMIT);
        for (id, before) in ids.iter().zip(reads) {
            until_listed_as_ended(&engine, *id).await;
            let read = timed.world.reads.count(*id) - before;
            assert_eq!(read, usize::from(resident == 0), "to end it");
            let end = ran_out(&engine.job(*id)).await;
            assert_eq!((status_of(&end, "a"), status_of(&end, "b")), ("interrupted", "pending"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_without_an_engine_counts() {
    for store in Store::BOTH {
        for lost_views in [false, true] {
            let timed = Timed::new(store);
            let start = || within(timed.builder().views_every(1).resident(0).start());
            let engine = start().await.unwrap();
            let live = submit(&engine, limited(HELD)).await.id();
            within(timed.tally.until(|counts| counts.inside == 1)).await;
            let mut ids = vec![live];
            for tasks in [SLEEP, RETRIED] {
                let job = submit(&engine, limited(tasks)).await;
                until(&job, |now| status_of(&now.job, "a") == "waiting").await;
                ids.push(job.id());
            }
            until_viewed(&engine).await;
            kill(engine).await;
            timed.until_dead().await;
            if lost_views {
                timed.world.lose_views();
            }
            timed.clock.advance(LIMIT);
            let engine = start().await.unwrap();
            for id in ids {
                let end = ran_out(&engine.job(id)).await;
                assert_eq!(status_of(&end, "a"), "interrupted");
            }
            let end = now(&engine, live).await.job;
            assert_eq!(outcomes(&end, "a"), ["lost"]);
            assert_eq!(timed.tally.now().ever, 1, "it does not run again");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_clock_through_restarts() {
    for store in Store::BOTH {
        let timed = Timed::new(store);
        let engine = timed.start().await;
        let job = submit(&engine, limited(HELD)).await;
        within(timed.tally.until(|counts| counts.inside == 1)).await;
        timed.clock.advance(4 * MINUTE);
        pause(&job, PauseMode::Interrupt).await;
        let paused = until(&job, |now| now.job.status() == JobStatus::Paused).await.job;
        assert_eq!(paused.deadline(), Some(Deadline::Left(6 * MINUTE)));
        assert_eq!((paused.deadline_at(), paused.due()), (None, None));
        timed.advance(&engine, 100 * LIMIT);
        assert_eq!(now(&engine, job.id()).await.job.status(), JobStatus::Paused);
        drop(job);
        kill(engine).await;
        timed.clock.advance(100 * LIMIT);
        let engine = timed.start().await;
        let job = engine.job(paused.id());
        assert_eq!(*now(&engine, job.id()).await.job, *paused);
        resume(&job).await;
        within(timed.tally.until(|counts| counts.inside == 1)).await;
        timed.advance(&engine, almost(6 * MINUTE));
        assert_eq!(now(&engine, job.id()).await.job.intent(), None);
        timed.advance(&engine, TICK);
        ran_out(&job).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_passes_while_a_pause_drains_but_not_under_a_cancel() {
    let timed = Timed::new(Store::Memory);
    let engine = timed.start().await;
    let draining = submit(&engine, limited(HELD)).await;
    let cancelled = submit(&engine, limited(HELD)).await;
    within(timed.tally.until(|counts| counts.inside == 2)).await;
    cancel(&cancelled).await;
    pause(&draining, PauseMode::Drain).await;
    assert_eq!(now(&engine, draining.id()).await.job.intent(), Some(Intent::Pause));
    timed.advance(&engine, LIMIT);
    ran_out(&draining).await;
    assert_eq!(within(cancelled.ended()).await.unwrap().job.status(), JobStatus::Cancelled);
    timed.advance(&engine, LIMIT);
    assert_eq!(laws(&cancelled).await.status(), JobStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_queues_for_a_slot_leaves_the_queue() {
    let timed = Timed::new(Store::Memory);
    let engine = within(timed.builder().slots(1).start()).await.unwrap();
    let holder = submit(&engine, plan(r#"{"id": "a", "kind": "held"}"#)).await;
    within(timed.tally.until(|counts| counts.inside == 1)).await;
    let queues = submit(&engine, limited(r#"{"id": "a", "kind": "ok"}"#)).await;
    let behind = submit(&engine, plan(r#"{"id": "a", "kind": "ok"}"#)).await;
    timed.advance(&engine, LIMIT);
    let end = ran_out(&queues).await;
    assert_eq!((status_of(&end, "a"), outcomes(&end, "a").len()), ("pending", 0));
    timed.gate.open();
    for job in [holder, behind] {
        assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Completed);
    }
    let slots = within(async {
        while engine.stats().pools.iter().any(|pool| pool.in_use + pool.waiting > 0) {
            tokio::task::yield_now().await;
        }
    });
    slots.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_an_exclusive_key_leaves_the_line_and_who_holds_it_gives_it_back() {
    let timed = Timed::new(Store::Memory);
    let engine = timed.start().await;
    let with = |deadline: &str| {
        let tasks = r#"{"id": "a", "kind": "held"}"#;
        let text = format!(r#"{{"name": "t", "exclusive": "k"{deadline}, "tasks": [{tasks}]}}"#);
        plan_of(&text)
    };
    let holder = submit(&engine, with(r#", "deadline": "20m""#)).await;
    within(timed.tally.until(|counts| counts.inside == 1)).await;
    let waits = submit(&engine, with(r#", "deadline": "10m""#)).await;
    let behind = submit(&engine, with("")).await;
    timed.advance(&engine, LIMIT);
    assert_eq!(outcomes(&ran_out(&waits).await, "a").len(), 0);
    assert_eq!(now(&engine, holder.id()).await.job.intent(), None);
    timed.advance(&engine, LIMIT);
    assert_eq!(within(holder.ended()).await.unwrap().job.status(), JobStatus::Failed);
    within(timed.tally.until(|counts| counts.ever == 2)).await;
    timed.gate.open();
    assert_eq!(within(behind.ended()).await.unwrap().job.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_by_hand_begins_the_clock() {
    let timed = Timed::new(Store::Memory);
    let engine = timed.start().await;
    let text = r#"{"name": "test", "start": "manual", "deadline": "10m",
        "tasks": [{"id": "a", "kind": "held"}]}"#;
    let job = submit(&engine, plan_of(text)).await;
    timed.advance(&engine, 2 * LIMIT);
    let waits = now(&engine, job.id()).await.job;
    assert_eq!((waits.status(), waits.deadline()), (JobStatus::Pending, None));
    execute(&job).await;
    within(timed.tally.until(|counts| counts.inside == 1)).await;
    timed.advance(&engine, LIMIT);
    ran_out(&job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_runs_nothing_tells_of_it_when_it_is_asked_for_something() {
    let timed = Timed::new(Store::Disk);
    let engine = timed.start().await;
    let job = submit(&engine, limited(HELD)).await.id();
    within(timed.tally.until(|counts| counts.inside == 1)).await;
    kill(engine).await;
    timed.until_dead().await;
    timed.clock.advance(LIMIT);
    let engine = within(timed.builder().mode(Mode::Hold).start()).await.unwrap();
    assert_eq!(now(&engine, job).await.job.status(), JobStatus::Running);
    let pause = annals_engine::job::Command::Pause { mode: PauseMode::Drain };
    within(engine.job(job).command(pause, Ask::default())).await.expect_err("it has failed");
    ran_out(&engine.job(job)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_says_what_is_left_and_then_why_the_job_fails() {
    let timed = Timed::new(Store::Memory);
    let engine = timed.start().await;
    let job = submit(&engine, limited(SLEEP)).await;
    until(&job, |now| status_of(&now.job, "a") == "waiting").await;
    timed.advance(&engine, 4 * MINUTE);
    let why = within(job.explain()).await.unwrap();
    let told = "task a waits for a time, which comes in 56m (and 1 more reason); the deadline of \
        the run passes in 6m";
    assert_eq!(why.summary(), told);
    pause(&job, PauseMode::Drain).await;
    assert_eq!(within(job.explain()).await.unwrap().deadline, None);
    resume(&job).await;
    timed.advance(&engine, 6 * MINUTE);
    ran_out(&job).await;
    let why = within(job.explain()).await.unwrap();
    let told = "the job has failed: the run took longer than its deadline of 10m \
        [deadline_exceeded]";
    assert_eq!(why.summary(), told);
    assert_eq!(why.reasons[0].remedies[0].verb(), "execute");
}

/// Before the start, between tasks and while one runs: for a day each time, and once through a
/// restart. An attempt has its own timeout, which begins with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_paused_runs_out_of_no_time_wherever_it_stands() {
    const DAY: Duration = Duration::from_hours(24);
    let (timed, last) = (Timed::new(Store::Disk), (Tally::new(), Gate::new()));
    let builder = || timed.builder().task(task("last"), counting(&last.0, &last.1));
    let engine = within(builder().start()).await.unwrap();
    let text = r#"{"name": "test", "deadline": "10m", "start": "manual", "tasks": [
        {"id": "a", "kind": "held", "timeout": "1m"}, {"id": "b", "kind": "last",
        "timeout": "1m"}]}"#;
    let job = submit(&engine, plan_of(text)).await;
    pause(&job, PauseMode::Drain).await;
    timed.advance(&engine, DAY);
    let waits = now(&engine, job.id()).await.job;
    assert_eq!((waits.status(), waits.deadline()), (JobStatus::Paused, None));
    resume(&job).await;
    execute(&job).await;
    within(timed.tally.until(|counts| counts.inside == 1)).await;

    timed.advance(&engine, MINUTE / 2);
    pause(&job, PauseMode::Interrupt).await;
    until(&job, |now| now.job.status() == JobStatus::Paused).await;
    timed.advance(&engine, DAY);
    let id = job.id();
    drop(job);
    kill(engine).await;
    timed.clock.advance(DAY);
    let engine = within(builder().start()).await.unwrap();
    let job = engine.job(id);
    let left = Deadline::Left(LIMIT.saturating_sub(MINUTE / 2));
    assert_eq!(now(&engine, id).await.job.deadline(), Some(left));
    resume(&job).await;
    within(timed.tally.until(|counts| counts.ever == 2 && counts.inside == 1)).await;

    // Its timeout begins behind its first look at the task.
    within(timed.clock.until_slept_on(MINUTE)).await;
    timed.advance(&engine, almost(MINUTE));
    pause(&job, PauseMode::Drain).await;
    timed.gate.open();
    let between = until(&job, |now| now.job.status() == JobStatus::Paused).await.job;
    assert_eq!(outcomes(&between, "a"), ["interrupted", "completed"]);
    timed.advance(&engine, DAY);
    assert_eq!(now(&engine, id).await.job.status(), JobStatus::Paused);
    resume(&job).await;
    within(last.0.until(|counts| counts.inside == 1)).await;
    within(timed.clock.until_slept_on(MINUTE)).await;
    timed.advance(&engine, almost(MINUTE));
    assert_eq!(outcomes(&now(&engine, id).await.job, "b"), ["alive"]);
    timed.advance(&engine, TICK);
    within(job.ended()).await.unwrap();
    let end = laws(&job).await;
    assert_eq!(outcomes(&end, "b"), ["timed_out"]);
    assert_eq!(&*end.error().unwrap().0.code, "timed_out", "the task's time, not the job's");
}
