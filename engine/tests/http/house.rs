//! Attempts of the kind, without an engine.

use std::future::Future;
use std::time::Duration;

use annals_engine::kinds::{AllowedTarget, Http, HttpSettings};
use annals_tasks_sdk::testing::{self, Run};
use annals_tasks_sdk::{Done, Payload, TaskError};
use serde_json::Value;

/// Awaits something that must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_mins(1);
    tokio::time::timeout(limit, future).await.expect("it must not hang")
}

/// The kind, allowed to reach the servers of tests.
pub(crate) fn http() -> Http {
    allowing(&["127.0.0.1"])
}

/// The kind, allowed to reach these targets.
pub(crate) fn allowing(targets: &[&str]) -> Http {
    let targets = targets.iter().map(|text| text.parse::<AllowedTarget>().unwrap());
    Http::new(HttpSettings::default().allow(targets))
}

/// Runs one attempt to its end.
pub(crate) async fn call(http: &Http, input: &str) -> Run<Done> {
    let input = Payload::parse(input).unwrap();
    within(testing::attempt().call(http, input)).await
}

/// The output of an attempt that must succeed.
pub(crate) fn output(run: &Run<Done>) -> Value {
    serde_json::from_str(run.output().output.as_str()).unwrap()
}

/// The output of a request to a URL, with these fields beside it.
pub(crate) async fn get(url: &str, fields: &str) -> Value {
    output(&call(&http(), &input(url, fields)).await)
}

/// The error of a request that must fail.
pub(crate) async fn fail(url: &str, fields: &str) -> TaskError {
    let run = call(&http(), &input(url, fields)).await;
    run.result.map(drop).expect_err(url)
}

/// An input of a URL, with these fields beside it.
pub(crate) fn input(url: &str, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    format!("{{\"url\": \"{url}\"{comma}{fields}}}")
}

/// `code retryable` or `code final`.
pub(crate) fn told(error: &TaskError) -> String {
    format!("{} {}", error.code(), if error.is_retryable() { "retryable" } else { "final" })
}
