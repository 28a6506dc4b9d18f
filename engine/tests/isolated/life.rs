//! A task in a process of its own has all that it has in the engine's.

use std::io::Read;
use std::path::Path;

use annals_engine::Engine;
use annals_engine::job::JobStatus;
use annals_engine::steplog::{Filter, LogName};
use annals_tasks_sdk::{Payload, Progress, Stream, TaskContext, TaskError, TaskResult};
use serde_json::json;

use crate::house::{Test, cancel, ended, in_house, kinds, output_of, start, submit, until, within};

pub(crate) const TESTS: &[Test] = &[
    ("it_is_as_in_the_engines_process", it_is_as_in_the_engines_process),
    ("what_it_writes_is_in_its_step_log", what_it_writes_is_in_its_step_log),
    ("its_progress_is_seen_while_it_runs", its_progress_is_seen_while_it_runs),
    ("a_checkpoint_is_durable_when_it_returns", a_checkpoint_is_durable_when_it_returns),
    ("null_is_a_value", null_is_a_value),
];

/// Fails at first, and then tells all that it knows.
pub(crate) async fn lives(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    let id = cx.attempt().clone();
    if id.attempt == 1 {
        cx.checkpoint(&json!({"seen": [1, 2]})).await?;
        return Err(TaskError::new("not_yet", "it wants another try").with_alias("later"));
    }
    let restored: Option<serde_json::Value> = cx.restore()?;
    let before: Payload = cx.output_of("before")?;
    let missing = cx.output_of::<Payload>("nobody").expect_err("there is none");
    let known = format!("{} {} {} {}", id.task, id.number, id.attempt, missing.code());
    let key = cx.idempotency_key().replace(&id.job.to_string(), "JOB");
    println!("it prints");
    eprintln!("it complains");
    cx.log(Stream::Stdout, b"it logs\n");
    tracing::info!(count = 3, "it traces");
    let told = format!("{}, {}, {restored:?}, {known}, {key}", input.as_str(), before.as_str());
    Ok(Payload::of(&told)?)
}

/// Shows how far it is until it is told to stop, and then succeeds.
pub(crate) async fn shows(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    cx.progress(Progress { done: 3, total: 7 });
    cx.message("on its way");
    cx.heartbeat();
    cx.cancelled().await;
    Ok(input)
}

/// Dies right behind its checkpoint, and gives it when it runs again.
pub(crate) async fn again(cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    if let Some(kept) = cx.restore::<Payload>()? {
        return Ok(kept);
    }
    cx.checkpoint(&json!({"kept": cx.attempt().attempt})).await?;
    std::process::abort()
}

/// Keeps `null`, which is something else than nothing.
pub(crate) async fn null(cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    if cx.attempt().attempt == 1 {
        cx.checkpoint(&()).await?;
        return Err(TaskError::new("again", "it is to run again"));
    }
    let kept = cx.restore::<()>()?;
    Ok(Payload::of(
        &json!({"kept": kept.is_some(), "before": cx.output_of::<()>("before").is_ok()}),
    )?)
}

const RETRY: &str = r#""retry": {"max_attempts": 2, "backoff": {"initial": "0s", "jitter": 0}}"#;

fn lively() -> String {
    format!(
        r#"{{"id": "before", "kind": "steady", "input": {{"x": 1.50}}}},
           {{"id": "a", "kind": "lives", "input": {{"digits": 12345678901234567890.10}}, {RETRY}}}"#
    )
}

async fn lives_on(engine: &Engine) -> String {
    let end = ended(&submit(engine, &lively()).await).await;
    assert_eq!(end.status(), JobStatus::Completed, "{:?}", end.error());
    output_of(&end, "a")
}

fn it_is_as_in_the_engines_process() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let apart = lives_on(&engine).await;
        within(engine.shutdown()).await.unwrap();
        let here = kinds(Engine::open(folder.join("other"))).start();
        let engine = within(here).await.unwrap();
        let here = lives_on(&engine).await;
        within(engine.shutdown()).await.unwrap();
        assert_eq!(apart, here);
        let all = ["12345678901234567890.10", "1.50", "seen", "a 2 2 missing_output", "JOB:a"];
        assert!(all.iter().all(|text| apart.contains(text)), "{apart}");
    });
}

/// The step log of an attempt.
fn log_of(engine: &Engine, job: annals_tasks_sdk::JobId, attempt: u32) -> String {
    let name = LogName { job, number: 2, attempt };
    let mut log = String::new();
    let mut raw = engine.step_logs().read(name, Filter::default()).expect("a log");
    raw.read_to_string(&mut log).expect("it can be read");
    log
}

fn what_it_writes_is_in_its_step_log() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let job = submit(&engine, &lively()).await;
        ended(&job).await;
        let log = log_of(&engine, job.id(), 2);
        for line in ["it prints", "it complains", "it logs", "it traces count=3"] {
            assert!(log.contains(line), "{log}");
        }
        within(engine.shutdown()).await.unwrap();
        assert!(is_empty(&folder.join("store/live")), "no record of a process is left");
    });
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("a folder").next().is_none()
}

fn its_progress_is_seen_while_it_runs() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let job = submit(&engine, r#"{"id": "a", "kind": "shows", "input": 7}"#).await;
        let shown = until(&job, |now| {
            now.live.values().any(|live| {
                live.progress == Some(Progress { done: 3, total: 7 })
                    && live.message.as_deref() == Some("on its way")
            })
        });
        shown.await;
        cancel(&job).await;
        let end = ended(&job).await;
        // It succeeded within its grace, which is what happened.
        assert_eq!((end.status(), output_of(&end, "a")), (JobStatus::Cancelled, "7".to_owned()));
        within(engine.shutdown()).await.unwrap();
    });
}

fn a_checkpoint_is_durable_when_it_returns() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let job = submit(&engine, &format!(r#"{{"id": "a", "kind": "again", {RETRY}}}"#)).await;
        let end = ended(&job).await;
        assert_eq!((end.status(), &*output_of(&end, "a")), (JobStatus::Completed, r#"{"kept":1}"#));
        within(engine.shutdown()).await.unwrap();
    });
}

fn null_is_a_value() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let text = format!(
            r#"{{"id": "before", "kind": "noop"}}, {{"id": "a", "kind": "null", {RETRY}}}"#
        );
        let end = ended(&submit(&engine, &text).await).await;
        let found: serde_json::Value = serde_json::from_str(&output_of(&end, "a")).unwrap();
        assert_eq!(found, json!({"kept": true, "before": true}));
        within(engine.shutdown()).await.unwrap();
    });
}
