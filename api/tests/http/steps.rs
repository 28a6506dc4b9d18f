//! Steps of tasks, as the API shows them.

use annals::http::{AppState, Settings, router};
use annals::prelude::*;
use axum::Router;
use serde_json::{Value, json};

use crate::face::{Answer, answer, ask, send};
use crate::live::within;

const PAY: TaskKind<Value, u32> = TaskKind::new("pay");

/// Charges, and fails in its first attempt.
async fn pay(cx: TaskContext, _input: Value) -> TaskResult<u32> {
    let charged = cx.step("charge the card", async { Ok(cx.attempt().attempt) }).await?;
    if cx.attempt().attempt == 1 {
        return Err(TaskError::new("no_paper", "it cannot print")).fatal();
    }
    Ok(charged)
}

async fn get(router: &Router, path: &str) -> Value {
    let answer: Answer = answer(router.clone(), ask("GET", &format!("/api/v1{path}"))).await;
    answer.with_status(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_steps_are_shown_until_their_task_is_settled() {
    let folder = tempfile::tempdir().unwrap();
    let engine = within(Engine::open(folder.path()).task(PAY, pay).start()).await.unwrap();
    let router = router(AppState::ready(engine.clone(), Settings::default()));
    let plan = json!({"name": "order", "tasks": [{"id": "pay", "kind": "pay"}]});
    let posted = answer(router.clone(), send("POST", "/api/v1/jobs", plan.to_string())).await;
    let id = posted.with_status(202)["id"].as_str().unwrap().to_owned();
    let failed = get(&router, &format!("/jobs/{id}?wait=1m")).await;
    let steps = json!([{"name": "charge the card", "attempt": 1}]);
    assert_eq!((&failed["status"], &failed["tasks"][0]["steps"]), (&json!("failed"), &steps));

    let events = get(&router, &format!("/jobs/{id}/events")).await;
    let recorded = &events["items"][3];
    // The hash of `1`.
    let hash = "d63bd9a826af91c1fea371965a64e11ee20f13e46b5f52c59901136605b3a487";
    let data = json!({
        "task": "pay", "attempt": 1, "name": "charge the card",
        "value": {"bytes": 1, "hash": hash},
    });
    assert_eq!((&recorded["type"], &recorded["data"]), (&json!("StepRecorded"), &data));
    assert_eq!(get(&router, &format!("/jobs/{id}/tasks/pay")).await["steps"], steps);

    let execute = send("POST", &format!("/api/v1/jobs/{id}/execute"), "{}");
    answer(router.clone(), execute).await.with_status(202);
    let done = get(&router, &format!("/jobs/{id}?wait=1m")).await;
    assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!(1)));
    assert_eq!(done["tasks"][0].get("steps"), None, "it never runs again");
    within(engine.shutdown()).await.unwrap();
}
