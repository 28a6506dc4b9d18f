//! An engine with an isolated pool, and the tasks of these tests.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{Command, Job, Origin};
use annals_engine::runtime::{Builder, JobHandle, Snapshot};
use annals_engine::{Ask, Engine, Pool, Submission};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Payload, TaskContext, TaskKind, TaskResult};

use crate::{deaths, life, steps, stops};

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The memory that a process may have, in bytes.
pub(crate) const MEMORY: u64 = 256 << 20;

/// The kinds that run in processes of their own where there is a pool for them.
pub(crate) const KINDS: [&str; 16] = [
    "lives", "shows", "again", "null", "segfault", "abort", "overflow", "exhaust", "exit",
    "panics", "spins", "steps", "missteps", "blocks", "obeys", "family",
];

/// Registers all kinds.
pub(crate) fn kinds(engine: Builder) -> Builder {
    let engine = engine
        .task(task("lives"), life::lives)
        .task(task("shows"), life::shows)
        .task(task("again"), life::again)
        .task(task("null"), life::null)
        .task(task("steps"), steps::steps)
        .task(task("missteps"), steps::missteps)
        .task(task("segfault"), deaths::segfault)
        .task(task("abort"), deaths::abort)
        .task(task("overflow"), deaths::overflow)
        .task(task("exhaust"), deaths::exhaust)
        .task(task("exit"), deaths::exit)
        .task(task("panics"), deaths::panics)
        .task(task("spins"), deaths::spins)
        .task(task("family"), deaths::family);
    engine
        .task(task("blocks"), stops::blocks)
        .task(task("obeys"), stops::obeys)
        .task(task("steady"), steady)
}

async fn steady(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    cx.or_cancelled(tokio::time::sleep(Duration::from_millis(100))).await?;
    Ok(input)
}

const fn task(kind: &'static str) -> TaskKind<Payload, Payload> {
    TaskKind::new(kind)
}

/// A pool for all that is to run in processes.
pub(crate) fn pool() -> Pool {
    Pool::new("apart").isolated().slots(16).memory(MEMORY).kinds(KINDS)
}

/// An engine on a folder, whose attempts run in processes.
pub(crate) async fn start(folder: &Path) -> Engine {
    let engine = kinds(Engine::open(folder.join("store"))).pool(pool());
    within(engine.start()).await.expect("it starts")
}

/// Runs something that needs an engine and a folder of its own.
pub(crate) fn in_house<F: Future<Output = ()>>(test: impl FnOnce(std::path::PathBuf) -> F) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(test(folder.path().to_owned()));
}

/// Awaits something that must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it must not hang")
}

pub(crate) async fn submit(engine: &Engine, tasks: &str) -> JobHandle {
    let text = format!(r#"{{"name": "test", "tasks": [{tasks}]}}"#);
    let plan = Plan::from_json(&text, &Limits::default()).expect("the plan of a test is valid");
    let submission = Submission::new(plan, Origin::actor("tester"));
    within(engine.submit_plan(submission)).await.expect("the plan is accepted")
}

pub(crate) async fn cancel(job: &JobHandle) {
    within(job.command(Command::CANCEL, Ask::default())).await.expect("it can be cancelled");
}

pub(crate) async fn ended(job: &JobHandle) -> Arc<Job> {
    within(job.ended()).await.expect("it ends").job
}

/// Waits until the durable state of a job, or what lives of it, is as wanted.
pub(crate) async fn until(job: &JobHandle, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
    within(async {
        loop {
            let snapshot = job.snapshot().await.expect("the job can be read");
            if holds(&snapshot) {
                return snapshot;
            }
            // What lives announces nothing.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// The code and the message of a task's error.
pub(crate) fn error_of(job: &Job, id: &str) -> (String, String) {
    let task = job.find(id).and_then(|number| job.task(number)).expect("the task");
    let failed = task.attempts().iter().rev().find_map(|attempt| attempt.end.as_ref());
    let error = &failed.expect("it has failed").error;
    (error.code.to_string(), error.message.to_string())
}

/// The output of a task, as text.
pub(crate) fn output_of(job: &Job, id: &str) -> String {
    let task = job.find(id).and_then(|number| job.task(number)).expect("the task");
    task.output().expect("it has an output").as_str().to_owned()
}
