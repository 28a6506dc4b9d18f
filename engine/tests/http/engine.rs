//! Requests as tasks of jobs.

use annals_engine::Engine;
use annals_engine::job::{Command, Event, JobStatus, Origin};
use annals_engine::kinds::{AllowedTarget, HttpSettings};
use annals_engine::log::MemoryDisk;
use annals_engine::{Ask, JobHandle, Submission};
use annals_tasks_sdk::plan::{Limits, Plan};

use super::house::within;
use super::server::{Server, answer};

async fn engine(folder: &tempfile::TempDir, allowed: Option<AllowedTarget>) -> Engine {
    let settings = HttpSettings::default().allow(allowed);
    let log = Box::new(MemoryDisk::new().open());
    within(Engine::open(folder.path()).log(log).http(settings).start()).await.unwrap()
}

async fn submit(engine: &Engine, tasks: &str) -> JobHandle {
    let plan = format!(r#"{{"name": "requests", "tasks": [{tasks}]}}"#);
    let plan = Plan::from_json(&plan, &Limits::default()).unwrap();
    within(engine.submit_plan(Submission::new(plan, Origin::actor("ada")))).await.unwrap()
}

fn refused(engine: &Engine, input: &str) -> String {
    let task = format!(r#"{{"id": "a", "kind": "http", "input": {input}}}"#);
    let plan = format!(r#"{{"name": "requests", "tasks": [{task}]}}"#);
    let plan = Plan::from_json(&plan, &Limits::default()).unwrap();
    engine.check(&plan).expect_err(input).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_passed_on() {
    let server = Server::answering(|request| match &*request.target {
        "/number" => answer(200, "Content-Type: application/json\r\n", r#"{"n": 1.50}"#),
        _ => answer(200, "", &request.body),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder, Some(AllowedTarget::PRIVATE)).await;
    let tasks = format!(
        r#"{{"id": "a", "kind": "http", "input": {{"url": "{}"}}}},
           {{"id": "b", "kind": "http", "input": {{"url": "{}", "json":
             {{"was": {{"$output": "a", "pointer": "/json/n"}}}}}}}}"#,
        server.url("/number"),
        server.url("/echo"),
    );
    let job = submit(&engine, &tasks).await;
    let end = within(job.ended()).await.unwrap().job;
    assert_eq!(end.status(), JobStatus::Completed);
    let output = end.task(end.find("b").unwrap()).unwrap().output().unwrap().clone();
    assert_eq!(output.pointer("/text").unwrap().as_str(), r#""{\"was\": 1.50}""#);
    let key = server.requests()[1].header("idempotency-key").unwrap();
    assert_eq!(key, format!("\"{}:b\"", job.id()));
    within(engine.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_that_a_server_asks_for_is_in_the_history() {
    let server = Server::saying(503, "Retry-After: 3600\r\n", "").await;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder, Some("127.0.0.1".parse().unwrap())).await;
    let task = |retry: &str| {
        let url = server.url("/");
        format!(r#"{{"id": "a", "kind": "http", "input": {{"url": "{url}"}}, "retry": {retry}}}"#)
    };
    let job = submit(&engine, &task(r#"{"max_attempts": 2}"#)).await;
    let mut seq = 0;
    let (time, due) = loop {
        seq = within(job.changed(seq)).await.unwrap();
        let history = job.history(0, 100).await.unwrap();
        let scheduled = history.iter().find_map(|logged| match logged.recorded.event {
            Event::RetryScheduled { due, .. } => Some((logged.recorded.time, due)),
            _ => None,
        });
        if let Some(scheduled) = scheduled {
            break scheduled;
        }
    };
    assert_eq!(due.since(time).as_secs(), 3_600);
    let ask = Ask { origin: Origin::actor("ada"), ..Ask::default() };
    within(job.command(Command::CANCEL, ask)).await.unwrap();
    let job = submit(&engine, &task(r#"{"max_attempts": 9, "never": ["http_503"]}"#)).await;
    let end = within(job.ended()).await.unwrap().job;
    let (error, ..) = end.error().unwrap();
    assert_eq!((&*error.code, end.status()), ("http_status", JobStatus::Failed));
    within(engine.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_at_submission() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder, None).await;
    for (input, word) in [
        (r#"{"url": "http://a.example/", "jsn": 1}"#, "/tasks/0/input/jsn"),
        (r#"{"url": "http://127.0.0.1/"}"#, "/tasks/0/input/url"),
        (r#"{"url": "http://[::1]/"}"#, "loopback address"),
        (r#"{"url": "http://a.example/", "max_response_bytes": 9999999}"#, "2097152"),
    ] {
        let told = refused(&engine, input);
        assert!(told.contains(word), "{told}");
    }
    within(engine.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_ended_by_the_timeout() {
    let server = Server::wild(|mut stream| async move {
        super::server::until_closed(&mut stream).await;
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder, Some(AllowedTarget::PRIVATE)).await;
    let url = server.url("/");
    let task = format!(
        r#"{{"id": "a", "kind": "http", "timeout": "50ms", "input": {{"url": "{url}"}},
            "cancel_grace": "1h"}}"#
    );
    let job = submit(&engine, &task).await;
    let end = within(job.ended()).await.unwrap().job;
    assert_eq!(&*end.error().unwrap().0.code, "timed_out");
    within(engine.shutdown()).await.unwrap();
}
