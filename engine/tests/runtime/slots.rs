//! Slots: never more than there are, in the order of coming, and none is lost on any way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use annals_engine::Ask;
use annals_engine::job::{Command, Job, JobStatus, LossRule, PauseMode};
use annals_engine::runtime::{Builder, Engine, JobHandle};
use annals_tasks_sdk::plan::{Limits, TaskPatch};
use annals_tasks_sdk::{Payload, TaskContext, TaskError, TaskId, TaskResult};

use super::support::{
    Gate, HandClock, Store, Tally, World, cancel, counting, kill, laws, loops, nothing, outcomes,
    pause, plan, status_of, submit, task, until, within,
};

async fn ended(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

/// Ends in every way that there is, by turns, and counts itself.
fn all_ends(tally: &Tally) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let tally = tally.clone();
    move |cx: TaskContext, input: Payload| {
        let tally = tally.clone();
        async move {
            let _inside = tally.enter();
            tokio::task::yield_now().await;
            match input.to::<u32>()? % 5 {
                0 => Ok(input),
                1 => Err(TaskError::new("broken", "it fails")),
                2 => panic!("it panics"),
                3 => Ok(Payload::of(&cx.output_of::<String>("nobody")?)?),
                _ => std::future::pending().await,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_never_overrun_and_every_end_frees_its_slot() {
    for loops in loops() {
        let (world, tally) = (World::in_memory(), Tally::new());
        let engine = world.engine().loops(loops).slots(3).task(task("any"), all_ends(&tally));
        let engine = within(engine.start()).await.unwrap();
        let mut jobs = Vec::new();
        for n in 0..60 {
            // The last of each five is dropped at the end of its timeout.
            let text = format!(
                r#"{{"id": "a", "kind": "any", "input": {n}, "timeout": "20ms",
                    "cancel_grace": "0s", "on_failure": "continue"}},
                {{"id": "b", "kind": "any", "input": {{"$output": "a"}}, "timeout": "20ms"}},
                {{"id": "c", "kind": "noop", "needs": []}}"#
            );
            jobs.push(submit(&engine, plan(&text)).await);
        }
        for job in &jobs {
            ended(job).await;
        }
        let counts = tally.now();
        assert_eq!((counts.inside, counts.most), (0, 3), "{counts:?}");
        // All three slots are there still.
        assert_eq!(run_together(&engine, 3).await, 3);
    }
}

/// Has so many tasks of an engine run at once; a slot that was lost would make this hang.
async fn run_together(engine: &Engine, count: u32) -> usize {
    let wide: Vec<_> = (0..count)
        .map(|n| format!(r#"{{"id": "t{n}", "kind": "any", "input": 4, "needs": []}}"#))
        .collect();
    let job = submit(engine, plan(&wide.join(","))).await;
    let all = until(&job, |now| now.job.live().count() == count as usize).await;
    cancel(&job).await;
    all.live.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_lacks_its_input_leaves_the_way_free() {
    // A task that fails before it starts must not leave the one after it without a slot.
    let world = World::in_memory();
    let engine = within(world.engine().slots(1).task(task("ok"), nothing).start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "ok", "input": {"x": 1}},
        {"id": "b", "kind": "ok", "input": {"$output": "a", "pointer": "/y"},
         "on_failure": "continue"},
        {"id": "c", "kind": "ok"}"#;
    for _ in 0..3 {
        let end = ended(&submit(&engine, plan(text)).await).await;
        assert_eq!(end.status(), JobStatus::Completed);
        assert_eq!((status_of(&end, "b"), outcomes(&end, "b").len()), ("failed", 0));
        let number = end.find("b").unwrap();
        assert_eq!(&*end.task(number).unwrap().error().unwrap().code, "missing_output");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_parallel_tasks_of_one_job_all_start() {
    // More than a job has in queues at a time, beside a timer: all must come to life, since each
    // waits for all others.
    for loops in loops() {
        let (world, clock, tally) = (World::in_memory(), HandClock::new(), Tally::new());
        let counted = tally.clone();
        let meet = move |_cx: TaskContext, input: Payload| {
            let tally = counted.clone();
            async move {
                let _inside = tally.enter();
                tally.until(|counts| counts.ever == 200).await;
                Ok(input)
            }
        };
        let engine = world.engine_at(&clock).loops(loops).slots(1000).task(task("meet"), meet);
        let engine = within(engine.start()).await.unwrap();
        let one = |n| format!(r#"{{"id": "t{n}", "kind": "meet", "needs": []}}"#);
        let mut tasks: Vec<String> = (0..200).map(one).collect();
        // Nothing looks at the job for the sake of this one while the others wait.
        let sleep = r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}, "needs": []}"#;
        tasks.insert(0, sleep.into());
        let job = submit(&engine, plan(&tasks.join(","))).await;
        // To ask for the job would make its loop look at it.
        within(tally.until(|counts| counts.ever == 200)).await;
        until(&job, |now| now.job.counts().completed == 200).await;
        cancel(&job).await;
        assert_eq!(ended(&job).await.status(), JobStatus::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_queue_in_the_order_of_their_coming() {
    for loops in loops() {
        let (world, gate) = (World::in_memory(), Gate::new());
        let order = Arc::new(Mutex::new(Vec::new()));
        let (held, seen) = (gate.clone(), Arc::clone(&order));
        let note = move |_cx: TaskContext, input: Payload| {
            let (gate, order) = (held.clone(), Arc::clone(&seen));
            async move {
                order.lock().unwrap().push(input.to::<u32>()?);
                gate.pass().await;
                Ok(input)
            }
        };
        let engine = world.engine().loops(loops).slots(1).task(task("note"), note).start();
        let engine = within(engine).await.unwrap();
        let mut jobs = Vec::new();
        for n in 0..50 {
            let text = format!(r#"{{"id": "a", "kind": "note", "input": {n}}}"#);
            // It is in the queue when its submission is answered.
            jobs.push(submit(&engine, plan(&text)).await);
        }
        // Some leave the queue, one by one way or the other.
        cancel(&jobs[10]).await;
        pause(&jobs[20], PauseMode::Drain).await;
        gate.open();
        for (n, job) in jobs.iter().enumerate().filter(|(n, _)| *n != 20) {
            let cancelled = ended(job).await.status() == JobStatus::Cancelled;
            assert_eq!(cancelled, n == 10);
        }
        let due: Vec<u32> = (0..50).filter(|n| ![10, 20].contains(n)).collect();
        assert_eq!(*order.lock().unwrap(), due);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_needs_no_slot_does_not_wait_for_those_who_do() {
    let (world, clock, tally, gate) =
        (World::in_memory(), HandClock::new(), Tally::new(), Gate::new());
    let start = |known: bool| {
        let engine = world.engine_at(&clock).slots(1).allow_unknown_kinds(true);
        let engine = if known { engine.task(task("late"), nothing) } else { engine };
        within(engine.task(task("count"), counting(&tally, &gate)).start())
    };
    let engine = start(false).await.unwrap();
    let sleep = r#"{"id": "s", "kind": "sleep", "needs": [], "input": {"for": "1h"}}"#;
    let late = r#"{"id": "l", "kind": "late", "needs": []}"#;
    let text = format!("{}, {sleep}, {late}", wide("count", 100));
    let job = submit(&engine, plan(&text)).await;
    for id in ["s", "l"] {
        until(&job, |now| status_of(&now.job, id) == "waiting").await;
    }
    within(tally.until(|counts| counts.inside == 1)).await;
    clock.advance(std::time::Duration::from_hours(1));
    engine.look();
    let now = until(&job, |now| status_of(&now.job, "s") == "completed").await;
    assert_eq!(now.job.counts().completed, 1);
    let id = job.id();
    drop(job);
    kill(engine).await;
    gate.open();
    let engine = start(true).await.unwrap();
    assert_eq!(ended(&engine.job(id)).await.status(), JobStatus::Completed);
}

/// So many tasks of a kind that need nothing.
fn wide(kind: &str, count: usize) -> String {
    let one = |n| format!(r#"{{"id": "t{n}", "kind": "{kind}", "needs": []}}"#);
    (0..count).map(one).collect::<Vec<_>>().join(",")
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_oldest_come_first() {
    let world = World::in_memory();
    let order = Arc::new(Mutex::new(Vec::new()));
    let engine =
        within(world.engine().mode(annals_engine::Mode::Hold).allow_unknown_kinds(true).start());
    let engine = engine.await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..50 {
        let text = format!(r#"{{"id": "a", "kind": "note", "input": {n}}}"#);
        jobs.push(submit(&engine, plan(&text)).await.id());
    }
    within(engine.shutdown()).await.unwrap();
    let seen = Arc::clone(&order);
    let note = move |_cx: TaskContext, input: Payload| {
        let order = Arc::clone(&seen);
        async move {
            order.lock().unwrap().push(input.to::<u32>()?);
            Ok(input)
        }
    };
    let engine = within(world.engine().slots(1).task(task("note"), note).start()).await.unwrap();
    for id in jobs {
        ended(&engine.job(id)).await;
    }
    assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<u32>>());
}

/// A place in a queue, and a grant on its way, are those of the kind that the task had.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_edited_while_it_queues_starts_as_what_it_has_become() {
    for loops in loops() {
        let (world, gate, tally) = (World::in_memory(), Gate::new(), Tally::new());
        let (opened, inside) = (gate.clone(), tally.clone());
        let hold = move |_cx: TaskContext, input: Payload| {
            let (opened, inside) = (opened.clone(), inside.clone());
            async move {
                let _inside = inside.enter();
                opened.pass().await;
                Ok(input)
            }
        };
        let wrong = |_cx: TaskContext, _input: Payload| async {
            Err::<Payload, _>(TaskError::new("wrong", "it is the kind from before"))
        };
        let engine = world.engine().loops(loops).slots(1).task(task("hold"), hold);
        let engine = engine.task(task("wrong"), wrong).task(task("right"), nothing).start();
        let engine = within(engine).await.unwrap();
        let holder = submit(&engine, plan(r#"{"id": "a", "kind": "hold"}"#)).await;
        within(tally.until(|counts| counts.inside == 1)).await;
        let mut jobs = Vec::new();
        for _ in 0..10 {
            jobs.push(submit(&engine, plan(r#"{"id": "a", "kind": "wrong"}"#)).await);
        }
        for job in &jobs {
            let patch = TaskPatch::from_json(r#"{"kind": "right"}"#, &Limits::default()).unwrap();
            let edit = Command::Edit { task: TaskId::new("a").unwrap(), patch, reset: false };
            within(job.command(edit, Ask::default())).await.unwrap();
        }
        gate.open();
        for job in jobs.iter().chain([&holder]) {
            assert_eq!(ended(job).await.status(), JobStatus::Completed);
        }
        within(engine.shutdown()).await.unwrap();
    }
}

/// Fifty innocent jobs and poison, on engines that die as soon as the poison runs.
struct Poisoned {
    world: World,
    tally: Tally,
    died: Gate,
    /// Whether innocents get to their end.
    peace: Arc<AtomicBool>,
}

impl Poisoned {
    fn engine(&self, loops: usize) -> Builder {
        let (tally, died) = (self.tally.clone(), self.died.clone());
        let poison = move |_cx: TaskContext, _input: Payload| {
            let (tally, died) = (tally.clone(), died.clone());
            async move {
                let _inside = tally.enter();
                // The test kills the engine when it sees this.
                died.open();
                std::future::pending::<TaskResult<Payload>>().await
            }
        };
        let peace = Arc::clone(&self.peace);
        let innocent = move |_cx: TaskContext, input: Payload| {
            let peace = Arc::clone(&peace);
            async move {
                if !peace.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                Ok(input)
            }
        };
        self.world.engine().loops(loops).task(task("poison"), poison).task(task("ok"), innocent)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_ends_and_its_neighbours_do_not() {
    for (store, loops) in [(Store::Memory, 1), (Store::Memory, 2), (Store::Disk, 2)] {
        let peace = Arc::new(AtomicBool::new(false));
        let (tally, died) = (Tally::new(), Gate::new());
        let mut all = Poisoned { world: World::new(store), tally, died, peace };
        let (mut poison, mut innocents) = (Vec::new(), Vec::new());
        for life in 0.. {
            assert!(life < 40, "it must end");
            // Innocents hang in the first lives, so that they come under suspicion too.
            all.peace.store(life >= 3, Ordering::SeqCst);
            let engine = within(all.engine(loops).start()).await.unwrap();
            if life == 0 {
                for n in 0..50 {
                    let job = submit(&engine, plan(r#"{"id": "a", "kind": "ok"}"#)).await;
                    innocents.push(job.id());
                    if n % 25 == 7 {
                        let job = submit(&engine, plan(r#"{"id": "a", "kind": "poison"}"#));
                        poison.push(job.await.id());
                    }
                }
            }
            let mut done = true;
            for &id in &poison {
                done &= engine.job(id).snapshot().await.unwrap().job.status().is_ended();
            }
            if done {
                kill(engine).await;
                break;
            }
            within(all.died.pass()).await;
            all.died = Gate::new();
            kill(engine).await;
            within(all.tally.until(|counts| counts.inside == 0)).await;
        }
        let engine = within(all.engine(loops).start()).await.unwrap();
        for &id in &poison {
            let end = ended(&engine.job(id)).await;
            assert_eq!(
                (end.status(), &*end.error().unwrap().0.code),
                (JobStatus::Failed, "crash_loop")
            );
            assert!(outcomes(&end, "a").iter().all(|outcome| *outcome == "lost"));
        }
        for &id in &innocents {
            assert_eq!(ended(&engine.job(id)).await.status(), JobStatus::Completed);
        }
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suspects_run_one_at_a_time() {
    for loops in loops() {
        let (world, tally) = (World::in_memory(), Tally::new());
        let rule = LossRule { suspect_after: 1, fail_after: 100 };
        let peace = Arc::new(AtomicBool::new(false));
        let start = || {
            let (tally, peace) = (tally.clone(), Arc::clone(&peace));
            let lone = move |_cx: TaskContext, input: Payload| {
                let (tally, peace) = (tally.clone(), Arc::clone(&peace));
                async move {
                    let _inside = tally.enter();
                    if !peace.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                    tokio::task::yield_now().await;
                    Ok(input)
                }
            };
            world.engine().loops(loops).losses(rule).slots(20).task(task("lone"), lone).start()
        };
        let engine = within(start()).await.unwrap();
        let wide: Vec<_> =
            (0..4).map(|n| format!(r#"{{"id": "t{n}", "kind": "lone", "needs": []}}"#)).collect();
        let mut jobs = Vec::new();
        for _ in 0..5 {
            jobs.push(submit(&engine, plan(&wide.join(","))).await.id());
        }
        within(tally.until(|counts| counts.inside == 20)).await;
        kill(engine).await;
        within(tally.until(|counts| counts.inside == 0)).await;
        let engine = within(start()).await.unwrap();
        within(tally.until(|counts| counts.inside == 1)).await;
        // Some go while they queue for the slot of suspects.
        cancel(&engine.job(jobs[4])).await;
        let live = async |id| engine.job(id).snapshot().await.unwrap().job.live().count();
        let mut alive = 0;
        for &id in &jobs {
            alive += live(id).await;
        }
        assert!(alive <= 1, "{alive} suspects run");
        assert_eq!(tally.now().most, 20);
        kill(engine).await;
        within(tally.until(|counts| counts.inside == 0)).await;
        peace.store(true, Ordering::SeqCst);
        let engine = within(start()).await.unwrap();
        for &id in &jobs[..4] {
            let end = ended(&engine.job(id)).await;
            assert_eq!(end.status(), JobStatus::Completed);
        }
        // Beside suspects others run; and a success clears a task of suspicion.
        let job = submit(&engine, plan(&wide.join(","))).await;
        assert_eq!(ended(&job).await.status(), JobStatus::Completed);
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_gives_no_slot_away_twice() {
    // Cancels and pauses race with grants of slots across loops; at the end all slots are there.
    let (world, tally) = (World::in_memory(), Tally::new());
    let engine = world.engine().loops(3).slots(2).task(task("any"), all_ends(&tally)).start();
    let engine = within(engine).await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..200_u32 {
        let job = submit(&engine, plan(r#"{"id": "a", "kind": "any", "input": 0}"#)).await;
        let command = match n % 3 {
            0 => Command::CANCEL,
            1 => Command::Pause { mode: PauseMode::Interrupt },
            _ => Command::Resume,
        };
        let other = job.clone();
        jobs.push((
            job,
            tokio::spawn(async move {
                drop(other.command(command, Ask::default()).await);
                drop(other.command(Command::Resume, Ask::default()).await);
            }),
        ));
    }
    for (job, asked) in jobs {
        within(asked).await.unwrap();
        ended(&job).await;
    }
    assert!(tally.now().most <= 2);
    assert_eq!(run_together(&engine, 2).await, 2);
}
