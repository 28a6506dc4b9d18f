//! Steps on the fake host: when code runs, what is recorded, and what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::context::{AttemptId, Host};
use annals_tasks_sdk::steps::{STEP_NAME_MAX, StepNames};
use annals_tasks_sdk::testing::{self, Call};
use annals_tasks_sdk::{JobId, Payload, Stream, TaskId, prelude::*};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// Counts how often the code of a step ran.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_recorded_step_is_given_back_and_its_code_does_not_run() {
    let count = Count::default();
    let counted = count.clone();
    let task = move |cx: TaskContext, (): ()| {
        let count = counted.clone();
        async move {
            let first = cx.step("first", || async { Ok(count.up()) }).await?;
            // The question mark works in either form, with whatever error.
            let second = cx.step("second", async { Ok("5".parse::<u32>()? + first) }).await?;
            if cx.attempt().attempt == 1 {
                return Err(TaskError::new("not_yet", "it wants another try"));
            }
            Ok(second)
        }
    };
    let run = testing::attempt().run(task.clone(), ()).await;
    assert_eq!((run.error().code(), run.steps().join(" ").as_str()), ("not_yet", "first second"));
    let again = run.next_attempt().run(task, ()).await;
    assert_eq!((*again.output(), count.get()), (6, 1));
    assert!(again.steps().is_empty(), "nothing is recorded anew");
    assert_eq!((again.step("first"), again.step::<u32>("third")), (Some(1), None));
}

#[tokio::test]
async fn an_error_is_the_tasks_to_handle_and_is_not_recorded() {
    async fn task(cx: TaskContext, (): ()) -> TaskResult<u32> {
        let runs = Count::default();
        loop {
            let tried = cx.step("flaky", || async {
                if runs.up() < 3 { Err(TaskError::new("busy", "try later")) } else { Ok(7) }
            });
            match tried.await {
                Err(error) if error.code() == "busy" => {}
                other => return Ok(other? + runs.get()),
            }
        }
    }
    let run = testing::attempt().run(task, ()).await;
    assert_eq!((*run.output(), run.steps()), (10, vec!["flaky".to_owned()]));
}

#[tokio::test]
async fn a_name_stands_for_one_result() {
    async fn twice(cx: TaskContext, (): ()) -> TaskResult<u32> {
        cx.step("charge", async { Ok(1) }).await?;
        cx.step("charge", async { Ok(2) }).await
    }
    async fn at_once(cx: TaskContext, (): ()) -> TaskResult<u32> {
        let code = || async {
            tokio::task::yield_now().await;
            Ok(1)
        };
        let (first, second) = tokio::join!(cx.step("charge", code), cx.step("charge", code));
        first?;
        second
    }
    let message = "step \"charge\" of task pay is used a second time in one attempt: each step \
                   needs a name of its own";
    for run in [
        testing::attempt().task_id("pay").run(twice, ()).await,
        testing::attempt().task_id("pay").run(at_once, ()).await,
        testing::attempt().task_id("pay").step("charge", &9).run(twice, ()).await,
    ] {
        let error = run.error();
        assert_eq!((error.code(), error.message()), ("duplicate_step", message));
        assert!(!error.is_retryable());
        assert!(run.step::<u32>("charge").is_some_and(|charged| charged != 2));
    }
}

#[tokio::test]
async fn steps_run_side_by_side() {
    async fn task(cx: TaskContext, (): ()) -> TaskResult<(u32, u32)> {
        let met = Notify::new();
        let first = cx.step("first", async {
            met.notified().await;
            Ok(1)
        });
        let second = cx.step("second", async {
            met.notify_one();
            Ok(2)
        });
        let (first, second) = tokio::join!(first, second);
        Ok((first?, second?))
    }
    let run = testing::attempt().run(task, ()).await;
    assert_eq!((*run.output(), run.steps().join(" ").as_str()), ((1, 2), "second first"));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Item {
    price: u32,
}

#[tokio::test]
async fn a_result_of_another_shape_is_named_with_its_place() {
    async fn task(cx: TaskContext, (): ()) -> TaskResult<Order> {
        cx.step("read", || async { Ok(Order { items: vec![] }) }).await
    }
    let old = serde_json::json!({"items": [{"price": 1}, {"price": "two"}]});
    let run = testing::attempt().task_id("import").step("read", &old).run(task, ()).await;
    let error = run.error();
    assert_eq!(error.code(), "step_unreadable");
    assert!(!error.is_retryable());
    let message = error.message();
    let begin = "step \"read\" of task import was recorded with a result of another shape: ";
    assert!(message.starts_with(begin) && message.ends_with("(at /items/1/price)"), "{message}");
}

/// Reads back something else than it writes.
#[derive(Debug, Serialize, Deserialize)]
struct OneWay {
    #[serde(skip_serializing)]
    _lost: u32,
}

#[tokio::test]
async fn what_cannot_be_read_back_is_not_recorded() {
    async fn lossy(cx: TaskContext, (): ()) -> TaskResult<()> {
        cx.step("lossy", async { Ok(OneWay { _lost: 1 }) }).await.map(drop)
    }
    async fn no_json(cx: TaskContext, (): ()) -> TaskResult<()> {
        let keys = std::collections::HashMap::from([((1, 2), 3)]);
        cx.step("no JSON", async { Ok(keys) }).await.map(drop)
    }
    for run in [testing::attempt().run(lossy, ()).await, testing::attempt().run(no_json, ()).await]
    {
        assert_eq!((run.error().code(), run.steps().len()), ("step_unwritable", 0));
        assert!(!run.error().is_retryable());
    }
}

#[tokio::test]
async fn who_was_told_to_stop_is_given_what_is_recorded_and_begins_no_step() {
    async fn task(cx: TaskContext, (): ()) -> TaskResult<u32> {
        let first = cx.step("first", async { Ok(1) }).await?;
        let second = cx.step("second", async { Ok(2) }).await?;
        Ok(first + second)
    }
    let run = testing::attempt().cancel_when(|call| call.is_step("first")).run(task, ()).await;
    assert!(run.error().is_cancelled());
    assert_eq!(run.calls(), [Call::Step("first".into(), Payload::trusted("1"))]);
    let over = run.next_attempt().step("second", &3).cancelled().run(task, ()).await;
    assert_eq!(*over.output(), 4);
}

#[tokio::test]
async fn a_name_that_is_none_is_refused() {
    let long = "n".repeat(STEP_NAME_MAX + 1);
    for name in ["", "two\nlines", &long] {
        let name = name.to_owned();
        let task =
            |cx: TaskContext, name: String| async move { cx.step(&name, async { Ok(()) }).await };
        let run = testing::attempt().run(task, name).await;
        assert_eq!((run.error().code(), run.steps().len()), ("bad_step_name", 0));
    }
    let task = |cx: TaskContext, (): ()| async move {
        cx.step(&"n".repeat(STEP_NAME_MAX), async { Ok(()) }).await
    };
    testing::attempt().run(task, ()).await.output();
}

/// A host that does not answer the first record, though it takes it in.
struct Slow {
    attempt: AttemptId,
    token: CancellationToken,
    names: StepNames,
    records: std::sync::Mutex<Vec<(String, Payload)>>,
    asked: Notify,
    refuses: AtomicBool,
}

#[async_trait]
impl Host for Slow {
    fn attempt(&self) -> &AttemptId {
        &self.attempt
    }
    fn token(&self) -> &CancellationToken {
        &self.token
    }
    fn step_names(&self) -> &StepNames {
        &self.names
    }
    fn progress(&self, _: Option<Progress>, _: Option<String>) {}
    fn heartbeat(&self) {}
    async fn checkpoint(&self, _: Payload) -> TaskResult<()> {
        Ok(())
    }
    async fn recorded_step(&self, _: &str) -> TaskResult<Option<Payload>> {
        Ok(None)
    }
    async fn record_step(&self, name: &str, value: Payload) -> TaskResult<()> {
        if self.refuses.swap(false, Ordering::Relaxed) {
            return Err(TaskError::new("step_too_large", "it is too large").give_up());
        }
        let first = {
            let mut records = self.records.lock().unwrap();
            records.push((name.to_owned(), value));
            records.len() == 1
        };
        if first {
            self.asked.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
    fn output_of(&self, _: &str) -> Option<Payload> {
        None
    }
    fn log(&self, _: Stream, _: &[u8]) {}
}

fn slow() -> (TaskContext, Arc<Slow>) {
    let task = TaskId::new("a").unwrap();
    let host = Arc::new(Slow {
        attempt: AttemptId { job: JobId::from_u128(1), task, number: 1, attempt: 1 },
        token: CancellationToken::new(),
        names: StepNames::default(),
        records: std::sync::Mutex::default(),
        asked: Notify::new(),
        refuses: AtomicBool::new(false),
    });
    (TaskContext::new(host.clone()), host)
}

#[tokio::test]
async fn a_step_that_is_given_up_while_it_is_recorded_keeps_its_result() {
    let ((cx, host), count) = (slow(), Count::default());
    let given_up = tokio::select! {
        biased;
        _ = cx.step("charge", async { Ok(count.up()) }) => false,
        () = host.asked.notified() => true,
    };
    assert!(given_up);
    let again = cx.step("charge", async { Ok(count.up()) }).await.unwrap();
    assert_eq!((again, count.get()), (1, 1));
    let same = ("charge".to_owned(), Payload::trusted("1"));
    assert_eq!(*host.records.lock().unwrap(), [same.clone(), same]);
    let third = cx.step("charge", async { Ok(count.up()) }).await;
    assert_eq!(third.unwrap_err().code(), "duplicate_step");
}

#[tokio::test]
async fn a_step_that_is_given_up_or_refused_may_be_tried_again() {
    let (cx, host) = slow();
    host.records.lock().unwrap().push((String::new(), Payload::NULL));
    let hanging = cx.step("charge", async { std::future::pending::<TaskResult<u32>>().await });
    let given_up = tokio::select! { biased; _ = hanging => false, () = async {} => true };
    assert!(given_up);
    host.refuses.store(true, Ordering::Relaxed);
    let refused = cx.step("charge", async { Ok("x".repeat(9)) }).await;
    assert_eq!(refused.unwrap_err().code(), "step_too_large");
    assert_eq!(cx.step("charge", async { Ok(2) }).await.unwrap(), 2);
}
