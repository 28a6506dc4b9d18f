//! Fan-out over HTTP: a task with its instances, one of them, what is asked of one, and the job as
//! it was before, amid and after it.

use annals::bundle::Bundle;
use annals::http::Settings;
use annals::prelude::*;
use annals_tasks_sdk::Stream;
use serde_json::{Value, json};

use crate::face::{Face, ask, at, send};
use crate::live::{stream_of, within};
use crate::past::states;

const WORK: TaskKind<Value, Value> = TaskKind::new("work");

/// Fails with the element `bad` in its first attempt, and gives back any other.
async fn work(cx: TaskContext, element: Value) -> TaskResult<Value> {
    cx.log(Stream::Stdout, format!("work on {element}\n").as_bytes());
    if element == "bad" && cx.attempt().attempt == 1 {
        return Err(TaskError::new("bad", "no work on it")).fatal();
    }
    Ok(element)
}

async fn face() -> Face {
    Face::with(Settings::default(), |builder| builder.task(WORK, work)).await
}

/// Work on each of these, and something that takes what it gives.
fn each(kind: &str, list: &Value) -> String {
    let fan = json!({"id": "b", "kind": kind, "for_each": list, "concurrency": 2,
        "input": {"$item": ""}});
    let taker = json!({"id": "c", "kind": "echo", "input": {"$output": "b"}});
    format!("{fan}, {taker}")
}

/// The job once so many instances of its first task run.
async fn run(face: &Face, job: &str, count: u64) -> Value {
    let mut seq = 0;
    loop {
        let path = format!("{job}?wait=5m&after={seq}");
        let shown = within(face.get(&path)).await.json();
        if shown["tasks"][0]["items"]["running"] == count {
            return shown;
        }
        seq = shown["seq"].as_u64().expect("it has a seq");
    }
}

#[tokio::test]
async fn a_task_is_listed_as_one_and_read_with_its_instances() {
    let face = face().await;
    let list = json!(["zero", {"n": 1.50}, [2], null]);
    let job = face.submit(&each("gate", &list)).await;
    run(&face, &job, 2).await;
    let tasks = face.get(&format!("{job}/tasks")).await.with_status(200);
    let ids: Vec<_> = tasks["items"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, ["b", "c"], "instances are no tasks of the list");
    let of = json!({"total": 4, "pending": 2, "running": 2, "waiting": 0, "interrupted": 0,
        "completed": 0, "failed": 0, "skipped": 0});
    let task = &tasks["items"][0];
    assert_eq!((&task["items"], &task["status"]), (&of, &json!("running")));
    assert_eq!((&task["for_each"], task.get("instances")), (&list, None));
    let whole = face.get(&format!("{job}/tasks/b")).await.with_status(200);
    let instances = whole["instances"].as_array().unwrap();
    let shown: Vec<_> = instances.iter().map(|one| at(one, ["/id", "/status", "/item"])).collect();
    let word = |place: usize| if place < 2 { "running" } else { "pending" };
    let expected: Vec<_> =
        (0..4).map(|place| json!([format!("b~{place}"), word(place), list[place]])).collect();
    assert_eq!(shown, expected);
    for (place, instance) in instances.iter().enumerate() {
        let one = face.get(&format!("{job}/tasks/b~{place}")).await.with_status(200);
        assert_eq!((&one, &one["instance_of"]), (instance, &json!("b")));
    }
    for none in ["b~4", "b~00", "c~0", "b~0~0", "b~"] {
        let answer = face.get(&format!("{job}/tasks/{none}")).await;
        assert!(answer.status == 404 || answer.status == 400, "{none}: {}", answer.text);
        assert!(answer.json()["detail"].as_str().unwrap().contains(none), "{}", answer.text);
    }
    face.open_gate();
    let ended = face.ended(&job).await;
    assert_eq!(ended["output"], json!(["opened", "opened", "opened", "opened"]));
    assert_eq!(at(&ended["progress"], ["/total_tasks", "/completed_tasks"]), json!([2, 2]));
}

/// Nobody waits for what will never come.
#[tokio::test]
async fn the_log_of_a_task_that_has_become_instances_is_not_followed() {
    let face = face().await;
    let job = face.submit(&each("gate", &json!([1, 2, 3]))).await;
    run(&face, &job, 2).await;
    let followed = within(face.answer(stream_of(&format!("{job}/tasks/b/log"), None))).await;
    followed.problem(404, "no_such_attempt");
    // Who has begun to follow it before is told, though the instances run on.
    let manual = format!(
        r#"{{"name": "p", "start": "manual", "tasks": [{}]}}"#,
        each("gate", &json!([1, 2, 3]))
    );
    let accepted = face.post("/api/v1/jobs", manual).await;
    accepted.with_status(202);
    let job = accepted.header("location").unwrap();
    let path = format!("{job}/tasks/b/log");
    let follow = face.answer(stream_of(&path, None));
    let execute = async {
        face.post(&format!("{job}/execute"), "").await.with_status(202);
        run(&face, job, 2).await
    };
    let (followed, shown) = within(async { tokio::join!(follow, execute) }).await;
    assert_eq!((followed.status.as_u16(), &shown["status"]), (200, &json!("running")));
    assert!(followed.text.contains("event: end\n"), "{}", followed.text);
}

#[tokio::test]
async fn each_instance_has_a_log_of_its_own() {
    let face = face().await;
    let job = face.submit(&each("work", &json!(["x", "bad", 3]))).await;
    assert_eq!(face.ended(&job).await["status"], "failed");
    for (place, element) in ["\"x\"", "\"bad\"", "3"].into_iter().enumerate() {
        let log = face.get(&format!("{job}/tasks/b~{place}/log")).await;
        assert_eq!((log.status.as_u16(), &*log.text), (200, &*format!("work on {element}\n")));
    }
    let whole = face.get(&format!("{job}/tasks/b/log")).await.problem(404, "no_such_attempt");
    let why = whole["detail"].as_str().unwrap();
    assert!(why.contains("its 3 instances have, b~0 to b~2"), "{why}");
    face.get(&format!("{job}/tasks/b~3/log")).await.problem(404, "no_such_task");
    let b = face.get(&format!("{job}/tasks/b")).await.with_status(200);
    assert_eq!(at(&b, ["/status", "/error/code"]), json!(["failed", "instances_failed"]));
    assert_eq!(b["error"]["message"], "1 of 3 instances failed: b~1: no work on it");
    assert_eq!(b["instances"][1]["error"]["code"], "bad");
}

#[tokio::test]
async fn one_is_skipped_and_one_is_tried_again() {
    let face = face().await;
    let job = face.submit(&each("work", &json!([0, "bad", 2, "bad"]))).await;
    assert_eq!(face.ended(&job).await["status"], "failed");
    let skip = r#"{"task": "b~1", "output": 9007199254740993}"#;
    let skipped = face.post(&format!("{job}/skip"), skip).await.with_status(202);
    assert_eq!(at(&skipped["tasks"][0]["items"], ["/skipped", "/failed"]), json!([1, 1]));
    face.post(&format!("{job}/skip"), r#"{"task": "b~9"}"#).await.problem(404, "no_such_task");
    let paused = r#"{"paused": true}"#;
    face.post(&format!("{job}/execute"), paused).await.with_status(202);
    face.post(&format!("{job}/resume"), "").await.with_status(202);
    let ended = face.ended(&job).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let shown = face.get(&job).await;
    assert!(shown.text.contains(r#""output":[0,9007199254740993,2,"bad"]"#), "{}", shown.text);
    let last = face.get(&format!("{job}/tasks/b~3")).await.with_status(200);
    assert_eq!(last["attempts"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_retry_of_one_is_taken_while_the_job_pauses_for_it() {
    let face = face().await;
    let tasks = each("work", &json!(["bad", 1]));
    let tasks = tasks.replacen(r#""kind":"work""#, r#""kind":"work","on_failure":"pause""#, 1);
    let job = face.submit(&tasks).await;
    within(face.until(&job, "/status", "paused")).await;
    face.post(&format!("{job}/tasks/b~1/retry"), "").await.problem(409, "task_is_settled");
    let tried = face.post(&format!("{job}/tasks/b~0/retry"), "").await.with_status(202);
    assert_eq!(tried["tasks"][0]["items"]["failed"], 0, "{tried}");
    face.post(&format!("{job}/resume"), "").await.with_status(202);
    assert_eq!(face.ended(&job).await["output"], json!(["bad", 1]));
}

#[tokio::test]
async fn the_plan_says_nothing_of_one_instance() {
    let face = face().await;
    let job = face.submit(&each("gate", &json!([1, 2, 3]))).await;
    run(&face, &job, 2).await;
    let one = format!("{job}/tasks/b~2");
    let edit = face.answer(send("PATCH", &one, r#"{"title": "x"}"#)).await;
    edit.problem(409, "is_instance");
    face.answer(ask("DELETE", &one)).await.problem(409, "is_instance");
    let first = face.post(&format!("{one}/move"), r#"{"first": true}"#).await;
    first.problem(409, "is_instance");
    let whole = face.answer(send("PATCH", &format!("{job}/tasks/b"), r#"{"for_each": []}"#)).await;
    assert_eq!(whole.status, 409, "{}", whole.text);
    face.open_gate();
    assert_eq!(face.ended(&job).await["status"], "completed");
}

/// With what fails, is skipped, is done again, and is done anew at each end.
async fn lived(face: &Face) -> String {
    let tasks = each("work", &json!([0, "bad", 2, "bad", {"n": 18_446_744_073_709_551_615_u64}]));
    let end = json!({"id": "z", "kind": "work", "for_each": {"$output": "b", "default": [7]},
        "input": {"$item": ""}});
    let plan = format!(r#"{{"name": "p", "tasks": [{tasks}], "finally": [{end}]}}"#);
    let answer = face.post("/api/v1/jobs", plan).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let job = answer.header("location").unwrap().to_owned();
    assert_eq!(face.ended(&job).await["status"], "failed");
    face.post(&format!("{job}/skip"), r#"{"task": "b~1"}"#).await.with_status(202);
    face.post(&format!("{job}/execute"), "").await.with_status(202);
    assert_eq!(face.ended(&job).await["status"], "completed");
    job
}

#[tokio::test]
async fn changes_and_states_of_the_past_show_the_task_with_its_counts() {
    let face = face().await;
    let job = lived(&face).await;
    let states = states(&face, &job).await;
    assert_eq!(states.last(), Some(&face.get(&job).await.with_status(200)));
    let of = |state: &Value| state["tasks"].as_array().unwrap()[0].get("items").cloned();
    assert_eq!(of(&states[0]), None, "before it has become its instances");
    let expanded = states.iter().position(|state| of(state).is_some()).unwrap();
    assert_eq!(at(&of(&states[expanded]).unwrap(), ["/total", "/pending"]), json!([5, 5]));
    let amid = states.iter().filter_map(of).filter(|items| items["running"] == 2);
    assert!(amid.count() > 0, "it is seen amid its work");
    assert!(states.iter().filter_map(of).all(|items| items["running"].as_u64() <= Some(2)));
    let last = of(states.last().unwrap()).unwrap();
    assert_eq!(at(&last, ["/completed", "/skipped", "/failed"]), json!([4, 1, 0]));
    let shown: Vec<_> = states.iter().filter_map(|state| state["tasks"].as_array()).collect();
    assert!(shown.iter().all(|tasks| tasks.len() == 3), "instances are not among the tasks");
}

#[tokio::test]
async fn a_bundle_of_it_is_sound_and_means_what_it_meant() {
    let face = face().await;
    let job = lived(&face).await;
    let open = face.submit(&each("gate", &json!([1, 2, 3]))).await;
    run(&face, &open, 2).await;
    // Also of one that stands amid it.
    for job in [&job, &open] {
        let file = face.get(&format!("{job}/export")).await;
        assert_eq!(file.status, 200);
        let bundle = Bundle::read(file.text.as_bytes()).unwrap();
        assert_eq!(bundle.faults(), [""; 0]);
        assert_eq!(bundle.unknown_events(), 0);
        let mut expanded = 0;
        let differences = bundle.replay_each(|step| {
            let name = step.logged.recorded.event.type_name();
            expanded += usize::from(name == "TaskExpanded");
        });
        assert_eq!(differences, []);
        assert!(expanded > 0);
    }
    face.open_gate();
    face.ended(&open).await;
}
