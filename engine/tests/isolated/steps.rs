//! Steps of an attempt that has a process of its own.

use annals_engine::job::JobStatus;
use annals_tasks_sdk::{Payload, TaskContext, TaskResult};
use serde_json::{Value, json};

use crate::house::{Test, ended, error_of, in_house, output_of, start, submit, within};

pub(crate) const TESTS: &[Test] = &[
    ("steps_outlive_their_process", steps_outlive_their_process),
    ("a_step_is_refused_as_in_the_engines_process", a_step_is_refused_as_in_the_engines_process),
];

/// Dies when its first steps are recorded, and gives what all of them gave when it runs again.
pub(crate) async fn steps(cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    let attempt = || async { Ok(cx.attempt().attempt) };
    let left = cx.step("left", attempt);
    let right = cx.step("right", attempt);
    let null = cx.step("null", async { Ok(()) });
    let (left, right, null) = tokio::join!(left, right, null);
    null?;
    if cx.attempt().attempt == 1 {
        std::process::abort()
    }
    let last = cx.step("last", attempt).await?;
    Ok(Payload::of(&json!({"left": left?, "right": right?, "last": last}))?)
}

/// Takes a step that its input names a fault of.
pub(crate) async fn missteps(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    if input.to::<String>()? == "large" {
        cx.step("large", async { Ok("x".repeat(3 << 20)) }).await?;
    } else {
        cx.step("again", async { Ok(1) }).await?;
        cx.step("again", async { Ok(2) }).await?;
    }
    Ok(Payload::NULL)
}

fn steps_outlive_their_process() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let retry = r#""retry": {"max_attempts": 2, "backoff": {"initial": "0s", "jitter": 0}}"#;
        let job = submit(&engine, &format!(r#"{{"id": "a", "kind": "steps", {retry}}}"#)).await;
        let end = ended(&job).await;
        assert_eq!(end.status(), JobStatus::Completed, "{:?}", end.error());
        let found: Value = serde_json::from_str(&output_of(&end, "a")).unwrap();
        assert_eq!(found, json!({"left": 1, "right": 1, "last": 2}));
        within(engine.shutdown()).await.unwrap();
    });
}

fn a_step_is_refused_as_in_the_engines_process() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        for (fault, code, detail) in [
            ("large", "step_too_large", "the result of step \"large\" of task a has 3145730 bytes"),
            ("again", "duplicate_step", "step \"again\" of task a is used a second time"),
        ] {
            let text = format!(r#"{{"id": "a", "kind": "missteps", "input": "{fault}"}}"#);
            let end = ended(&submit(&engine, &text).await).await;
            let (found, message) = error_of(&end, "a");
            assert_eq!((end.status(), found.as_str()), (JobStatus::Failed, code), "{message}");
            assert!(message.starts_with(detail), "{message}");
        }
        within(engine.shutdown()).await.unwrap();
    });
}
