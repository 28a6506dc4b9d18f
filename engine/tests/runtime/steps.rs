//! Steps of tasks: recorded once, durable before they return, given back on every later attempt.

use std::sync::{Arc, Mutex};

use annals_engine::job::{Command, Event, Job, JobStatus, PauseMode, TaskNumber};
use annals_engine::log::{EventLog, Fault, Options, RedbLog};
use annals_engine::runtime::{Builder, Engine, Fork, Forked, JobHandle};
use annals_engine::{Ask, job::ForkFrom};
use annals_tasks_sdk::plan::{Limits, TaskPatch};
use annals_tasks_sdk::{Payload, Task, TaskContext, TaskError, TaskId, TaskResult};

use super::durability::many_turns;
use super::support::{
    Gate, Store, Tally, World, codes, execute, kill, laws, outcomes, pause, plan, resume, submit,
    task, until, within,
};

/// What the code of steps has done, which no crash makes undone.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<String>>>);

impl Runs {
    fn note(&self, cx: &TaskContext, step: &str) {
        self.0.lock().unwrap().push(format!("{step}#{}", cx.attempt().attempt));
    }

    fn all(&self) -> String {
        self.0.lock().unwrap().join(" ")
    }

    /// A task of two steps. In its first attempt it does between them what its input says.
    fn task(&self) -> impl Task<Payload, Payload> + use<> {
        let runs = self.clone();
        move |cx: TaskContext, input: Payload| {
            let runs = runs.clone();
            async move {
                let step = async |name: &str| {
                    let code = || async {
                        runs.note(&cx, name);
                        Ok(cx.attempt().attempt)
                    };
                    cx.step(name, code).await
                };
                let first = step("first").await?;
                if cx.attempt().attempt == 1 {
                    match input.to::<String>()?.as_str() {
                        "fails" => return Err(TaskError::new("not_yet", "it is to run again")),
                        "gives up" => return Err(TaskError::new("no", "no").give_up()),
                        "stops" => cx.or_cancelled(std::future::pending::<()>()).await?,
                        _ => {}
                    }
                }
                Ok(Payload::of(&[first, step("second").await?])?)
            }
        }
    }
}

fn steps(input: &str) -> String {
    let retry = r#"{"max_attempts": 2, "backoff": {"initial": "0s", "jitter": 0}}"#;
    format!(r#"{{"id": "a", "kind": "steps", "input": "{input}", "retry": {retry}}}"#)
}

async fn start(world: &World, runs: &Runs) -> Engine {
    within(world.engine().task(task("steps"), runs.task()).start()).await.unwrap()
}

async fn until_recorded(job: &JobHandle, count: usize) {
    until(job, |now| recorded(&now.job).len() == count).await;
}

/// The names of the steps of task `a` that would be given back.
fn recorded(job: &Job) -> Vec<String> {
    let task = job.task(TaskNumber(1)).unwrap();
    task.steps().as_slice().iter().map(|step| step.name.to_string()).collect()
}

async fn ended(job: &JobHandle) -> Job {
    within(job.ended()).await.expect("it ends");
    laws(job).await
}

async fn output(job: &JobHandle) -> String {
    let end = ended(job).await;
    assert_eq!(end.status(), JobStatus::Completed, "{:?}", end.error());
    end.output().unwrap().unwrap().as_str().to_owned()
}

/// The job ends with one run of each step: the first in its first attempt.
async fn ends_well(job: &JobHandle, runs: &Runs, second: u32) {
    assert_eq!(output(job).await, format!("[1,{second}]"));
    assert_eq!(runs.all(), format!("first#1 second#{second}"));
    let history = within(job.history(0, usize::MAX)).await.unwrap();
    let recorded =
        history.iter().filter(|logged| matches!(logged.recorded.event, Event::StepRecorded { .. }));
    assert_eq!(recorded.count(), 2);
    let end = job.snapshot().await.unwrap().job;
    assert!(self::recorded(&end).is_empty(), "what never runs again keeps none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_given_back_after_a_failure_and_after_an_execute() {
    for store in Store::BOTH {
        let (world, runs) = (World::new(store), Runs::default());
        let engine = start(&world, &runs).await;
        let job = submit(&engine, plan(&steps("fails"))).await;
        ends_well(&job, &runs, 2).await;

        let (world, runs) = (World::new(store), Runs::default());
        let engine = start(&world, &runs).await;
        let job = submit(&engine, plan(&steps("gives up"))).await;
        let failed = ended(&job).await;
        assert_eq!((failed.status(), recorded(&failed).len()), (JobStatus::Failed, 1));
        execute(&job).await;
        ends_well(&job, &runs, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_given_back_after_a_pause() {
    let (world, runs) = (World::in_memory(), Runs::default());
    let engine = start(&world, &runs).await;
    let job = submit(&engine, plan(&steps("stops"))).await;
    until_recorded(&job, 1).await;
    pause(&job, PauseMode::Interrupt).await;
    until(&job, |now| now.job.status() == JobStatus::Paused).await;
    resume(&job).await;
    ends_well(&job, &runs, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_given_back_by_the_next_engine() {
    for store in Store::BOTH {
        for killed in [true, false] {
            let (world, runs) = (World::new(store), Runs::default());
            let engine = start(&world, &runs).await;
            let job = submit(&engine, plan(&steps("stops"))).await;
            until_recorded(&job, 1).await;
            let id = job.id();
            drop(job);
            if killed {
                kill(engine).await;
            } else {
                within(engine.shutdown_now()).await.unwrap();
            }
            let engine = start(&world, &runs).await;
            ends_well(&engine.job(id), &runs, 2).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_returns_when_its_result_is_durable() {
    let (world, go, disk, back) = (World::in_memory(), Gate::new(), Gate::new(), Tally::new());
    let (held, returned, runs) = (go.clone(), back.clone(), Runs::default());
    let ran = runs.clone();
    let once = move |cx: TaskContext, input: Payload| {
        let (gate, returned, runs) = (held.clone(), returned.clone(), ran.clone());
        async move {
            let code = async {
                gate.pass().await;
                runs.note(&cx, "only");
                Ok(())
            };
            cx.step("only", code).await?;
            drop(returned.enter());
            Ok(input)
        }
    };
    let engine = within(world.engine().task(task("once"), once).start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "once"}"#)).await;
    until(&job, |now| now.job.is_live()).await;
    let mut closed = world.gate.close(&disk);
    go.open();
    within(closed.arrival()).await;
    many_turns(&engine).await;
    assert_eq!((runs.all().as_str(), back.now().ever), ("only#1", 0));
    disk.open();
    within(back.until(|counts| counts.ever == 1)).await;
    ended(&job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_a_step_and_its_record_runs_it_again_and_no_later_one_does() {
    for store in Store::BOTH {
        for fault in [Fault::Before, Fault::After] {
            let (mut world, go, runs) = (World::new(store), Gate::new(), Runs::default());
            let (held, ran) = (go.clone(), runs.clone());
            let gated = move |cx: TaskContext, input: Payload| {
                let (gate, task) = (held.clone(), ran.task());
                async move {
                    gate.pass().await;
                    task.run(cx, input).await
                }
            };
            let engine = world.engine().task(task("steps"), gated).start();
            let engine = within(engine).await.unwrap();
            let job = submit(&engine, plan(&steps("goes on"))).await;
            until(&job, |now| now.job.is_live()).await;
            world.gate.fail(1, fault);
            go.open();
            assert!(within(job.ended()).await.is_err(), "the engine has stopped");
            let id = job.id();
            drop(job);
            kill(engine).await;
            world.bury();
            let engine = start(&world, &runs).await;
            let job = engine.job(id);
            let (output, runs) = (output(&job).await, runs.all());
            let seen = (output.as_str(), runs.as_str());
            match fault {
                Fault::Before => assert_eq!(seen, ("[2,2]", "first#1 first#2 second#2")),
                Fault::After => assert_eq!(seen, ("[1,2]", "first#1 second#2")),
            }
            assert_eq!(outcomes(&job.snapshot().await.unwrap().job, "a"), ["lost", "completed"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_an_attempt_that_is_over_is_not_recorded() {
    let (world, gate) = (World::in_memory(), Gate::new());
    let (told, mut said) = tokio::sync::mpsc::unbounded_channel();
    let held = gate.clone();
    let ghost = move |cx: TaskContext, input: Payload| {
        let (told, gate) = (told.clone(), held.clone());
        async move {
            if cx.attempt().attempt > 1 {
                gate.pass().await;
                return Ok(input);
            }
            // What the task leaves behind lives on when the attempt is over.
            let late = cx.clone();
            let (begun, begins) = tokio::sync::oneshot::channel();
            tokio::spawn(async move {
                let code = async {
                    begun.send(()).unwrap();
                    gate.pass().await;
                    Ok("from beyond".to_owned())
                };
                told.send(late.step("late", code).await).unwrap();
            });
            begins.await?;
            cx.or_cancelled(std::future::pending()).await
        }
    };
    let engine = within(world.engine().task(task("ghost"), ghost).start()).await.unwrap();
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "ghost"}"#)).await;
    until(&job, |now| now.job.is_live()).await;
    pause(&job, PauseMode::Interrupt).await;
    until(&job, |now| now.job.status() == JobStatus::Paused).await;
    resume(&job).await;
    until(&job, |now| now.job.is_live()).await;
    gate.open();
    let refused = within(said.recv()).await.unwrap().unwrap_err();
    assert!(refused.is_cancelled(), "{refused:?}");
    ended(&job).await;
    let history = within(job.history(0, usize::MAX)).await.unwrap();
    let steps = |event: &Event| matches!(event, Event::StepRecorded { .. });
    assert!(!history.iter().any(|logged| steps(&logged.recorded.event)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_and_a_fork_run_steps_anew() {
    let (world, runs) = (World::in_memory(), Runs::default());
    let engine = start(&world, &runs).await;
    let job = submit(&engine, plan(&steps("stops"))).await;
    until_recorded(&job, 1).await;
    pause(&job, PauseMode::Interrupt).await;
    until(&job, |now| now.job.status() == JobStatus::Paused).await;
    let fork = Fork::new(ForkFrom::Task(TaskId::new("a").unwrap()));
    let Forked::Accepted(forked) = within(job.fork(fork, Ask::default())).await.unwrap() else {
        panic!("it was no dry run")
    };
    until(&forked.job, |now| recorded(&now.job).len() == 1).await;
    assert_eq!(runs.all(), "first#1 first#1");
    let (task, patch) = (TaskId::new("a").unwrap(), patch(r#"{"title": "anew"}"#));
    let edit = Command::Edit { task, patch, reset: true };
    within(job.command(edit, Ask::default())).await.unwrap();
    assert!(recorded(&job.snapshot().await.unwrap().job).is_empty());
    resume(&job).await;
    assert_eq!(output(&job).await, "[2,2]");
    assert_eq!(runs.all(), "first#1 first#1 first#2 second#2");
}

fn patch(text: &str) -> TaskPatch {
    TaskPatch::from_json(text, &Limits::default()).unwrap()
}

/// Runs a task of one attempt to its end, and gives why it failed.
async fn failure(engine: Builder, code: impl Task<Payload, Payload>) -> (String, String, Job) {
    let engine = within(engine.task(task("steps"), code).start()).await.unwrap();
    let job = submit(&engine, plan(&steps("goes on"))).await;
    let end = ended(&job).await;
    let (error, _) = end.error().expect("it fails");
    let told = (error.code.to_string(), error.message.to_string());
    (told.0, told.1, end)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_step_fails_the_task_for_good() {
    let world = World::in_memory();
    let limits = Limits { payload_bytes: 1_000, ..Limits::default() };
    let large = async |cx: TaskContext, _input: Payload| {
        cx.step("fits", async { Ok("x".repeat(998)) }).await?;
        cx.step("does not", async { Ok("x".repeat(999)) }).await?;
        Ok(Payload::NULL)
    };
    let (code, message, end) = failure(world.engine().limits(limits), large).await;
    let detail = "the result of step \"does not\" of task a has 1001 bytes, more than the limit of \
                  1000";
    assert_eq!((code.as_str(), message.as_str()), ("step_too_large", detail));
    assert_eq!((outcomes(&end, "a"), recorded(&end)), (vec!["failed"], vec!["fits".to_owned()]));

    let world = World::in_memory();
    let twice = async |cx: TaskContext, _input: Payload| {
        cx.step("charge", async { Ok(1) }).await?;
        cx.step("charge", async { Ok(2) }).await?;
        Ok(Payload::NULL)
    };
    let (code, message, end) = failure(world.engine(), twice).await;
    assert_eq!((code.as_str(), outcomes(&end, "a")), ("duplicate_step", vec!["failed"]));
    assert!(message.starts_with("step \"charge\" of task a is used a second time"), "{message}");
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Line {
    price: u32,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    lines: Vec<Line>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_does_not_fit_its_type_any_more_is_named() {
    let world = World::in_memory();
    let old = async |cx: TaskContext, _input: Payload| {
        let code = async { Ok(serde_json::json!({"lines": [{"price": "1"}]})) };
        cx.step("read", code).await?;
        cx.or_cancelled(std::future::pending()).await
    };
    let engine = within(world.engine().task(task("steps"), old).start()).await.unwrap();
    let job = submit(&engine, plan(&steps("goes on"))).await;
    until_recorded(&job, 1).await;
    let id = job.id();
    drop(job);
    kill(engine).await;
    let new = async |cx: TaskContext, _input: Payload| {
        let order: Order = cx.step("read", async { Ok(Order { lines: vec![] }) }).await?;
        Ok(Payload::of(&order)?)
    };
    let engine = within(world.engine().task(task("steps"), new).start()).await.unwrap();
    let end = ended(&engine.job(id)).await;
    assert_eq!(
        (codes(&end, "a"), end.status()),
        (vec!["step_unreadable".into()], JobStatus::Failed)
    );
    let (error, _) = end.error().unwrap();
    let begin = "step \"read\" of task a was recorded with a result of another shape";
    assert!(error.message.starts_with(begin), "{error:?}");
    assert!(error.message.ends_with("(at /lines/0/price)"), "{error:?}");
    assert_eq!(recorded(&end), ["read"], "a repaired program finds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_record_the_same_once_more_is_no_fault_and_anything_else_is() {
    let world = World::in_memory();
    let raw = async |cx: TaskContext, _input: Payload| -> TaskResult<Payload> {
        let one = Payload::trusted("1");
        cx.host().record_step("charge", one.clone()).await?;
        cx.host().record_step("charge", one).await?;
        let other = cx.host().record_step("charge", Payload::trusted("2")).await;
        Ok(Payload::of(other.unwrap_err().code())?)
    };
    let engine = within(world.engine().task(task("steps"), raw).start()).await.unwrap();
    let job = submit(&engine, plan(&steps("goes on"))).await;
    assert_eq!(output(&job).await, "\"duplicate_step\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_files_that_are_closed_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let ran = Tally::new();
    let many = {
        let ran = ran.clone();
        move |cx: TaskContext, _input: Payload| {
            let ran = ran.clone();
            async move {
                let mut sum = 0;
                for at in 0..20_u32 {
                    let code = async {
                        drop(ran.enter());
                        Ok(at)
                    };
                    sum += cx.step(&format!("step {at}"), code).await?;
                }
                if cx.attempt().attempt == 1 {
                    cx.or_cancelled(std::future::pending::<()>()).await?;
                }
                Ok(Payload::of(&sum)?)
            }
        }
    };
    let start = || {
        let options = Options { roll_bytes: 1, ..Options::default() };
        let log: Box<dyn EventLog> = Box::new(RedbLog::open(&store, &options).unwrap());
        within(Engine::open(&store).log(log).task(task("steps"), many.clone()).start())
    };
    let engine = start().await.unwrap();
    let job = submit(&engine, plan(&steps("goes on"))).await;
    until_recorded(&job, 20).await;
    let id = job.id();
    drop(job);
    kill(engine).await;
    assert!(std::fs::read_dir(store.join("records")).unwrap().count() > 20);
    let engine = start().await.unwrap();
    assert_eq!(output(&engine.job(id)).await, "190");
    assert_eq!(ran.now().ever, 20, "no step ran twice");
    let audit = annals_engine::log::verify(&*engine.reader()).unwrap();
    assert_eq!((audit.values, audit.damage), (20, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_run_side_by_side_are_each_recorded() {
    for store in Store::BOTH {
        let (world, met) = (World::new(store), Tally::new());
        let inside = met.clone();
        let wide = move |cx: TaskContext, _input: Payload| {
            let inside = inside.clone();
            async move {
                let mut steps = tokio::task::JoinSet::new();
                for at in 0..50_usize {
                    let (cx, inside) = (cx.clone(), inside.clone());
                    steps.spawn(async move {
                        let code = async {
                            let _inside = inside.enter();
                            // All of them are in their code at once.
                            inside.until(|counts| counts.most == 50).await;
                            Ok(at)
                        };
                        cx.step(&at.to_string(), code).await
                    });
                }
                let results: Result<Vec<usize>, TaskError> =
                    steps.join_all().await.into_iter().collect();
                let sum = results?.iter().sum::<usize>();
                if cx.attempt().attempt == 1 {
                    return Err(TaskError::new("not_yet", "it is to run again"));
                }
                Ok(Payload::of(&sum)?)
            }
        };
        let engine = within(world.engine().task(task("steps"), wide).start()).await.unwrap();
        let job = submit(&engine, plan(&steps("goes on"))).await;
        assert_eq!(output(&job).await, "1225");
        assert_eq!(met.now().ever, 50, "no step ran twice");
    }
}
