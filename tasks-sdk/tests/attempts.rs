//! The fake host: what a task's own tests see.

use annals_tasks_sdk::testing::{self, Call};
use annals_tasks_sdk::{Stream, prelude::*};
use std::time::Duration;

async fn copy(cx: TaskContext, total: u64) -> TaskResult<String> {
    let from: String = cx.output_of("source")?;
    for done in cx.restore()?.unwrap_or(0)..total {
        cx.ensure_live()?;
        cx.message(format!("block {done}"));
        cx.progress(Progress { done: done + 1, total });
        cx.log(Stream::Stdout, format!("copied {done}\n").as_bytes());
        cx.checkpoint(&(done + 1)).await?;
    }
    Ok(format!("{from}#{}", cx.attempt().attempt))
}

#[tokio::test]
async fn an_attempt_sees_what_it_was_given_and_shows_what_it_did() {
    let run = testing::attempt().checkpoint(&1).output_of("source", "disk").run(copy, 3).await;
    assert_eq!(run.output(), "disk#1");
    assert_eq!(run.checkpoints::<u64>(), [2, 3]);
    assert_eq!(run.progress(), [Progress { done: 2, total: 3 }, Progress { done: 3, total: 3 }]);
    assert_eq!(run.messages(), ["block 1", "block 2"]);
    assert_eq!(run.log(), "copied 1\ncopied 2\n");
    assert_eq!(run.result.unwrap(), "disk#1");
}

#[tokio::test]
async fn a_stop_comes_at_the_same_place_each_time_and_the_next_attempt_goes_on() {
    let second = |call: &Call| matches!(call, Call::Message(text) if text == "block 2");
    let attempt = testing::attempt().output_of("source", "disk").cancel_when(second);
    let run = attempt.run(copy, 9).await;
    assert!(run.error().is_cancelled());
    assert_eq!(run.checkpoints::<u64>(), [1, 2, 3]);
    let next = run.next_attempt().run(copy, 4).await;
    assert_eq!(next.checkpoints::<u64>(), [4]);
    assert_eq!(next.output(), "disk#2");
    let idle = next.next_attempt().run(copy, 4).await;
    assert_eq!(idle.output(), "disk#3", "the checkpoint outlives an attempt that made none");
}

#[tokio::test]
async fn a_heartbeat_is_a_call_of_its_own() {
    async fn work(cx: TaskContext, beats: usize) -> TaskResult<()> {
        for _ in 0..beats {
            cx.heartbeat();
            cx.ensure_live()?;
        }
        Ok(())
    }
    let run = testing::attempt().run(work, 2).await;
    assert_eq!(run.calls(), [Call::Heartbeat, Call::Heartbeat]);
    let heard = |call: &Call| *call == Call::Heartbeat;
    let stopped = testing::attempt().cancel_when(heard).run(work, 2).await;
    assert!(stopped.error().is_cancelled() && stopped.calls().len() == 1);
}

#[tokio::test]
async fn waiting_ends_when_the_token_fires() {
    async fn wait(cx: TaskContext, (): ()) -> TaskResult<()> {
        cx.or_cancelled(tokio::time::sleep(Duration::from_hours(1))).await
    }
    assert!(testing::attempt().cancelled().run(wait, ()).await.error().is_cancelled());
    let attempt = testing::attempt();
    let token = attempt.token();
    let (run, ()) = tokio::join!(attempt.run(wait, ()), async { token.cancel() });
    assert!(run.error().is_cancelled());
}

#[tokio::test]
async fn a_missing_output_is_told_as_by_the_engine() {
    let run = testing::attempt().run(copy, 1).await;
    assert_eq!(run.error().code(), "missing_output");
    assert!(!run.error().is_retryable());
}
