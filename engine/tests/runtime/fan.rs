//! Fan-out on the running engine: how many run at a time, what fails, is skipped, stopped or
//! killed, and what does not run again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use annals_engine::job::{CancelMode, Command, Items, Job, JobStatus, Origin, PauseMode, Task};
use annals_engine::log::Fault;
use annals_engine::runtime::{Engine, JobHandle, Snapshot, Submission};
use annals_engine::{Ask, runtime::CommandError};
use annals_tasks_sdk::prelude::*;
use annals_tasks_sdk::{Payload, TaskId};

use super::support::{
    Gate, Store, Tally, World, cancel, execute, kill, laws, loops, nothing, outcomes, pause, plan,
    plan_of, resume, status_of, submit, task, until, within,
};

/// Six of them, two at a time, and one that takes what they give.
const SIX: &str = r#"{"id": "b", "kind": "work", "for_each": [0, 1, 2, 3, 4, 5], "concurrency": 2,
        "input": {"$item": ""}},
    {"id": "c", "kind": "echo", "input": {"$output": "b"}}"#;

/// What the instances of a test do: they count, and those from `held` on wait at the gate.
#[derive(Clone)]
struct Work {
    held: u64,
    tally: Tally,
    gate: Gate,
    /// How often the work on each element has begun.
    begun: Arc<Mutex<BTreeMap<u64, u32>>>,
    /// Whether the work on the element 1 fails.
    is_broken: Arc<AtomicBool>,
}

impl Work {
    fn new(held: u64) -> Self {
        let is_broken = Arc::default();
        Self { held, tally: Tally::new(), gate: Gate::new(), begun: Arc::default(), is_broken }
    }

    /// One that works for as long as the element 1 is not mended.
    fn broken() -> Self {
        let work = Self::new(u64::MAX);
        work.is_broken.store(true, Ordering::SeqCst);
        work
    }

    async fn run(self, cx: TaskContext, input: Payload) -> TaskResult<Payload> {
        let element: u64 = input.to()?;
        assert_eq!(cx.attempt().task.as_str(), format!("b~{element}"));
        let _inside = self.tally.enter();
        *self.begun.lock().unwrap().entry(element).or_default() += 1;
        if element == 1 && self.is_broken.load(Ordering::SeqCst) {
            return Err(TaskError::new("odd", "no work on 1")).fatal();
        }
        if element >= self.held {
            cx.or_cancelled(self.gate.pass()).await?;
        }
        Ok(input)
    }

    async fn start(&self, world: &World, loops: usize) -> Engine {
        let work = self.clone();
        let engine = world.engine().loops(loops).task(task("echo"), nothing);
        let run = move |cx: TaskContext, input: Payload| work.clone().run(cx, input);
        within(engine.task(task("work"), run).start()).await.unwrap()
    }

    /// How often the work on each element has begun, by element.
    fn begun(&self) -> Vec<u32> {
        self.begun.lock().unwrap().values().copied().collect()
    }
}

fn find<'a>(job: &'a Job, name: &str) -> &'a Task {
    job.find(name).and_then(|number| job.task(number)).expect("there is such a task")
}

fn items(job: &Job) -> Items {
    find(job, "b").items().unwrap_or_default()
}

async fn ended(job: &JobHandle) -> Snapshot {
    within(job.ended()).await.unwrap()
}

/// The job's output, once it has ended and all laws are seen to hold.
async fn output(job: &JobHandle) -> String {
    assert_eq!(ended(job).await.job.status(), JobStatus::Completed);
    laws(job).await.output().unwrap().unwrap().as_str().to_owned()
}

async fn ask(job: &JobHandle, command: Command) {
    within(job.command(command, Ask::default())).await.expect("it can be done");
}

async fn skip(job: &JobHandle, name: &str) {
    let task = Some(TaskId::known(name).unwrap());
    ask(job, Command::Skip { task, output: None, cascade: true }).await;
}

const SQUARE: TaskKind<u64, u64> = TaskKind::new("square");
const SUM: TaskKind<Vec<u64>, Vec<u64>> = TaskKind::new("sum");
const SQUARES: Workflow<Vec<u64>, Vec<u64>> = Workflow::new("squares");

fn squares(flow: &Flow, list: Wire<Vec<u64>>) -> Wire<Vec<u64>> {
    let backoff = Backoff { initial: millis(1), ..Backoff::default() };
    let retry = Retry { max_attempts: 3, backoff, ..Retry::default() };
    let squares = flow.each(SQUARE, list).concurrency(3).retry(retry);
    flow.task(SUM, squares).wire()
}

/// Odd ones fail twice, and all wait at the gate in the end.
async fn square(cx: TaskContext, n: u64, tally: Tally, gate: Gate) -> TaskResult<u64> {
    let _inside = tally.enter();
    if n % 2 == 1 && cx.attempt().attempt < 3 {
        return Err(TaskError::new("odd", "try again"));
    }
    cx.or_cancelled(gate.pass()).await?;
    Ok(n * n)
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_run_at_a_time_and_what_they_give_stands_in_order() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
        let (count, held) = (tally.clone(), gate.clone());
        let run = move |cx: TaskContext, n: u64| square(cx, n, count.clone(), held.clone());
        let engine = world.engine().loops(loops).workflow(SQUARES, squares).task(SQUARE, run);
        let engine = engine.task(SUM, async |_cx: TaskContext, all: Vec<u64>| Ok(all)).start();
        let engine = within(engine).await.unwrap();
        let list: Vec<u64> = (0..20).rev().collect();
        let job = within(engine.submit(SQUARES, &list)).await.unwrap();
        within(tally.until(|counts| counts.inside == 3)).await;
        gate.open();
        let expected: Vec<u64> = list.iter().map(|n| n * n).collect();
        assert_eq!(within(job.output()).await.unwrap(), expected);
        let counts = tally.now();
        assert_eq!((counts.most, counts.ever), (3, 10 + 10 * 3));
        let end = laws(&job).await;
        assert_eq!(outcomes(&end, "square~0"), ["failed", "failed", "completed"]);
        assert_eq!(outcomes(&end, "square~1"), ["completed"]);
        assert!(outcomes(&end, "square").is_empty(), "the task itself has no attempts");
        assert_eq!((end.total_tasks(), end.counts().completed), (2, 2));
        within(engine.shutdown()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_in_which_they_end_is_not_that_of_what_they_give() {
    let (world, over) = (World::in_memory(), Tally::new());
    // Each waits for all that come after it.
    let last_first = move |_cx: TaskContext, input: Payload| {
        let over = over.clone();
        async move {
            let after = 9 - input.to::<usize>()?;
            over.until(move |counts| counts.ever == after).await;
            drop(over.enter());
            Ok(input)
        }
    };
    let engine = within(world.engine().task(task("work"), last_first).start()).await.unwrap();
    let text = r#"{"id": "b", "kind": "work", "for_each": {"$input": ""}, "input": {"$item": ""}}"#;
    let mut plan = plan(text);
    plan.input = Payload::of(&(0..10).collect::<Vec<u64>>()).unwrap();
    let job = submit(&engine, plan).await;
    assert_eq!(output(&job).await, "[0,1,2,3,4,5,6,7,8,9]");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_lets_the_others_run_and_is_all_that_runs_again() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, work) = (World::new(store), Work::broken());
        let engine = work.start(&world, loops).await;
        let job = submit(&engine, plan(SIX)).await;
        assert_eq!(ended(&job).await.job.status(), JobStatus::Failed);
        let failed = laws(&job).await;
        let error = find(&failed, "b").error().expect("it says why");
        assert_eq!(&*error.code, "instances_failed");
        assert_eq!(&*error.message, "1 of 6 instances failed: b~1: no work on 1");
        assert_eq!((items(&failed).completed, items(&failed).failed), (5, 1));
        assert_eq!(work.begun(), [1; 6]);
        work.is_broken.store(false, Ordering::SeqCst);
        execute(&job).await;
        assert_eq!(output(&job).await, "[0,1,2,3,4,5]");
        assert_eq!(work.begun(), [1, 2, 1, 1, 1, 1]);
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_without_a_failed_one_has_null_in_its_place() {
    let (world, work) = (World::in_memory(), Work::broken());
    let engine = work.start(&world, 1).await;
    let tolerant =
        SIX.replacen(r#""concurrency""#, r#""on_failure": "continue", "concurrency""#, 1);
    let job = submit(&engine, plan(&tolerant)).await;
    assert_eq!(output(&job).await, "[0,null,2,3,4,5]");
    // A skip makes good what has failed.
    let job = submit(&engine, plan(SIX)).await;
    assert_eq!(ended(&job).await.job.status(), JobStatus::Failed);
    let (task, output_of_it) = (TaskId::known("b~1").unwrap(), Payload::of("one").unwrap());
    let output_of_it = Some(output_of_it);
    ask(&job, Command::Skip { task: Some(task), output: output_of_it, cascade: false }).await;
    execute(&job).await;
    assert_eq!(output(&job).await, r#"[0,"one",2,3,4,5]"#);
    assert_eq!(work.begun(), [2; 6], "once in each job");
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_fast_stops_what_runs_and_starts_nothing_more() {
    let (world, work) = (World::in_memory(), Work { held: 0, ..Work::broken() });
    let engine = work.start(&world, 3).await;
    let fast = format!(r#"{{"name": "test", "fail_fast": true, "tasks": [{SIX}]}}"#);
    let job = submit(&engine, plan_of(&fast)).await;
    assert_eq!(ended(&job).await.job.status(), JobStatus::Failed);
    let failed = laws(&job).await;
    assert_eq!(items(&failed).failed, 1);
    assert_eq!(work.tally.now().inside, 0, "nothing runs behind the engine's back");
    let began = |at: u32| !find(&failed, &format!("b~{at}")).attempts().is_empty();
    assert!((2..6).all(|at| !began(at)), "{:?}", work.begun());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_runs_is_skipped_and_the_others_go_on() {
    for loops in loops() {
        let (world, work) = (World::in_memory(), Work::new(0));
        let engine = work.start(&world, loops).await;
        let job = submit(&engine, plan(SIX)).await;
        within(work.tally.until(|counts| counts.inside == 2)).await;
        skip(&job, "b~1").await;
        let skipped = until(&job, |now| status_of(&now.job, "b~1") == "skipped").await;
        assert_eq!(outcomes(&skipped.job, "b~1"), ["interrupted"]);
        // Its place is taken by the next one.
        within(work.tally.until(|counts| counts.ever == 3)).await;
        work.gate.open();
        assert_eq!(output(&job).await, "[0,null,2,3,4,5]");
        assert_eq!((work.tally.now().most, work.begun()), (2, vec![1; 6]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skip_of_the_task_stops_all_of_it() {
    for loops in loops() {
        let (world, work) = (World::in_memory(), Work::new(1));
        let engine = work.start(&world, loops).await;
        let job = submit(&engine, plan(SIX)).await;
        within(work.tally.until(|counts| counts.ever == 3 && counts.inside == 2)).await;
        skip(&job, "b").await;
        assert_eq!(ended(&job).await.job.status(), JobStatus::Completed);
        let end = laws(&job).await;
        assert_eq!((status_of(&end, "b"), status_of(&end, "c")), ("skipped", "skipped"));
        let Items { total, completed, skipped, .. } = items(&end);
        assert_eq!((total, completed, skipped), (6, 1, 5));
        assert_eq!(find(&end, "b").output(), None);
        assert_eq!(work.tally.now().ever, 3, "the others never began");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_engine_goes_on_with_those_that_are_not_completed() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, work) = (World::new(store), Work::new(2));
        let engine = work.start(&world, loops).await;
        let job = submit(&engine, plan(SIX)).await;
        until(&job, |now| items(&now.job).completed == 2 && items(&now.job).running == 2).await;
        within(work.tally.until(|counts| counts.ever == 4)).await;
        let id = job.id();
        drop(job);
        kill(engine).await;
        let engine = work.start(&world, loops).await;
        let job = engine.job(id);
        within(work.tally.until(|counts| counts.ever == 6 && counts.inside == 2)).await;
        let again = within(job.snapshot()).await.unwrap();
        assert_eq!((items(&again.job).completed, items(&again.job).running), (2, 2));
        work.gate.open();
        assert_eq!(output(&job).await, "[0,1,2,3,4,5]");
        assert_eq!(work.begun(), [1, 1, 2, 2, 1, 1]);
        assert_eq!(work.tally.now().most, 2, "the limit holds across a restart");
        let end = ended(&job).await.job;
        assert_eq!(outcomes(&end, "b~2"), ["lost", "completed"]);
        assert_eq!(outcomes(&end, "b~0"), ["completed"]);
        kill(engine).await;
    }
}

/// With the n-th commit from the submission on, the disk dies. One runs at a time, so that each
/// end, with the next start, is a commit.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_done_twice_where_the_disk_dies_between_any_two_commits() {
    let one = SIX.replacen(r#""concurrency": 2"#, r#""concurrency": 1"#, 1);
    let (mut died, mut amid) = (0, 0);
    for (at, fault) in (1..12).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let (mut world, work) = (World::in_memory(), Work::new(u64::MAX));
        let engine = work.start(&world, 1).await;
        world.gate.fail(at, fault);
        let submission = Submission::new(plan(&one), Origin::actor("tester"));
        if let Ok(job) = within(engine.submit_plan(submission)).await {
            died += usize::from(within(job.ended()).await.is_err());
        }
        kill(engine).await;
        world.bury();
        let again = Work::new(0);
        let engine = again.start(&world, 1).await;
        for row in within(engine.jobs(None, usize::MAX)).await.unwrap() {
            let job = engine.job(row.job);
            let done = items(&within(job.snapshot()).await.unwrap().job).completed;
            amid += usize::from((1..6).contains(&done));
            again.gate.open();
            assert_eq!(output(&job).await, "[0,1,2,3,4,5]", "commit {at}, {fault:?}");
            let left = usize::try_from(6 - done).unwrap();
            assert_eq!(again.begun(), vec![1; left], "commit {at}, {fault:?}");
        }
        kill(engine).await;
    }
    assert!(died >= 12 && amid >= 6, "{died} died, {amid} amid it");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_instances_go_through_a_restart() {
    const ALL: u64 = 2_000;
    const HALF: u64 = 1_000;
    let (world, work) = (World::new(Store::Disk), Work::new(HALF));
    let engine = work.start(&world, 3).await;
    let text = r#"{"id": "b", "kind": "work", "for_each": {"$input": ""}, "input": {"$item": ""}}"#;
    let mut many = plan(text);
    let list = Payload::of(&(0..ALL).collect::<Vec<u64>>()).unwrap();
    many.input = list.clone();
    let job = submit(&engine, many).await;
    let half = u32::try_from(HALF).unwrap();
    until(&job, |now| items(&now.job).completed == half && items(&now.job).running > 0).await;
    let id = job.id();
    drop(job);
    kill(engine).await;
    work.gate.open();
    let engine = work.start(&world, 3).await;
    let job = engine.job(id);
    assert_eq!(output(&job).await, list.as_str());
    let begun = work.begun();
    assert!(begun[..1_000].iter().all(|&times| times == 1), "what is completed stays so");
    assert!(begun[1_000..].iter().all(|times| (1..=2).contains(times)));
    let end = ended(&job).await.job;
    let twice = end.numbered_tasks().filter(|(_, task)| task.attempts().len() == 2).count();
    assert!((1..=64).contains(&twice), "{twice}: as many as there are slots");
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_what_has_not_begun() {
    for (mode, word) in [(PauseMode::Drain, "completed"), (PauseMode::Interrupt, "interrupted")] {
        let (world, work) = (World::in_memory(), Work::new(0));
        let engine = work.start(&world, 3).await;
        let job = submit(&engine, plan(SIX)).await;
        within(work.tally.until(|counts| counts.inside == 2)).await;
        pause(&job, mode).await;
        if mode == PauseMode::Drain {
            work.gate.open();
        }
        let paused = until(&job, |now| now.job.status() == JobStatus::Paused).await;
        let names = ["b~0", "b~1", "b~2"].map(|name| status_of(&paused.job, name));
        assert_eq!(names, [word, word, "pending"]);
        assert_eq!(work.tally.now().ever, 2, "nothing has begun since");
        work.gate.open();
        resume(&job).await;
        assert_eq!(output(&job).await, "[0,1,2,3,4,5]");
        assert_eq!(work.tally.now().most, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_one_goes_on_with_what_is_not_completed() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, work) = (World::new(store), Work::new(2));
        let engine = work.start(&world, loops).await;
        let job = submit(&engine, plan(SIX)).await;
        within(work.tally.until(|counts| counts.ever == 4 && counts.inside == 2)).await;
        cancel(&job).await;
        let cancelled = until(&job, |now| now.job.status() == JobStatus::Cancelled).await;
        assert_eq!((items(&cancelled.job).completed, items(&cancelled.job).running), (2, 0));
        assert_eq!(work.tally.now().ever, 4);
        work.gate.open();
        execute(&job).await;
        assert_eq!(output(&job).await, "[0,1,2,3,4,5]");
        assert_eq!(work.begun(), [1, 1, 2, 2, 1, 1]);
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_for_an_instance_that_there_is_not_is_refused() {
    let (world, work) = (World::in_memory(), Work::new(0));
    let engine = work.start(&world, 1).await;
    let job = submit(&engine, plan(SIX)).await;
    within(work.tally.until(|counts| counts.inside == 2)).await;
    let retry = Command::Retry { task: TaskId::known("b~6").unwrap() };
    let refused = within(job.command(retry, Ask::default())).await;
    assert!(matches!(refused, Err(CommandError::Rejected(_))), "{refused:?}");
    ask(&job, Command::Cancel { mode: CancelMode::Now }).await;
    until(&job, |now| now.job.status() == JobStatus::Cancelled).await;
    laws(&job).await;
}
