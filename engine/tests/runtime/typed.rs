//! Typed workflows through the engine, and values that must come through byte for byte.

use annals_engine::Ask;
use annals_engine::job::{Command, Event, JobStatus};
use annals_engine::runtime::{JobHandle, OutputError, StartError, SubmitError};
use annals_tasks_sdk::Payload;
use annals_tasks_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use super::support::{Store, World, laws, loops, nothing, plan_of, submit, task, within};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    items: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Reservation {
    order: u64,
    shelf: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    order: u64,
    text: String,
}

const RESERVE: TaskKind<Order, Reservation> = TaskKind::new("reserve");
const CHARGE: TaskKind<(Order, Reservation), Receipt> = TaskKind::new("charge");
const CHECK: TaskKind<Receipt, Receipt> = TaskKind::new("check");
const FULFIL: Workflow<Order, Receipt> = Workflow::new("fulfil");

async fn reserve(_cx: TaskContext, order: Order) -> TaskResult<Reservation> {
    if order.items.is_empty() {
        return Err(TaskError::new("empty", "the order is empty")).fatal();
    }
    Ok(Reservation { order: order.id, shelf: format!("shelf for {}", order.items.join(" and ")) })
}

async fn charge(
    cx: TaskContext,
    (order, reservation): (Order, Reservation),
) -> TaskResult<Receipt> {
    if cx.attempt().attempt == 1 {
        return Err(TaskError::new("busy", "try again"));
    }
    Ok(Receipt { order: order.id, text: reservation.shelf })
}

async fn check(cx: TaskContext, receipt: Receipt) -> TaskResult<Receipt> {
    let reservation: Reservation = cx.output_of("reserve")?;
    assert_eq!((receipt.order, &receipt.text), (reservation.order, &reservation.shelf));
    assert!(cx.output_of::<u8>("reserve").is_err() && cx.output_of::<u8>("nobody").is_err());
    Ok(receipt)
}

fn fulfil(flow: &Flow, order: Wire<Order>) -> Wire<Receipt> {
    let reservation = flow.task(RESERVE, order);
    let retry = Retry {
        max_attempts: 2,
        backoff: Backoff { initial: millis(1), ..Backoff::default() },
        ..Retry::default()
    };
    let receipt = flow.task(CHARGE, (order, reservation)).retry(retry);
    flow.task(CHECK, receipt).wire()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_workflow_gives_its_typed_output() {
    for store in Store::BOTH {
        for loops in loops() {
            let world = World::new(store);
            let start = || {
                let engine = world.engine().loops(loops).task(RESERVE, reserve);
                engine.task(CHARGE, charge).task(CHECK, check).workflow(FULFIL, fulfil).start()
            };
            let engine = within(start()).await.unwrap();
            let order = Order { id: u64::MAX, items: vec!["tea".into(), "é\0\u{1f980}".into()] };
            let job = within(engine.submit(FULFIL, &order)).await.unwrap();
            let expected =
                Receipt { order: u64::MAX, text: "shelf for tea and é\0\u{1f980}".into() };
            assert_eq!(within(job.output()).await.unwrap(), expected);
            let end = laws(&job).await;
            assert_eq!(end.header().workflow.as_deref(), Some("fulfil"));
            // It is as it was after a restart, and completed jobs stay completed.
            let id = job.id();
            drop(job);
            within(engine.shutdown()).await.unwrap();
            drop(engine);
            let engine = within(start()).await.unwrap();
            let again = within(engine.job(id).ended()).await.unwrap();
            assert_eq!(*again.job, end);
            assert_eq!(again.job.output().unwrap().unwrap().to::<Receipt>().unwrap(), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_gives_nothing_says_why() {
    let world = World::in_memory();
    let engine = world.engine().task(RESERVE, reserve).task(CHARGE, charge).task(CHECK, check);
    let engine = within(engine.workflow(FULFIL, fulfil).start()).await.unwrap();
    let empty = Order { id: 1, items: Vec::new() };
    let job = within(engine.submit(FULFIL, &empty)).await.unwrap();
    match within(job.output()).await {
        Err(OutputError::Failed { code, message }) => {
            assert_eq!((&*code, &*message), ("empty", "the order is empty"));
        }
        other => panic!("{other:?}"),
    }
    within(job.command(Command::CANCEL, Ask::default())).await.unwrap();
    assert!(matches!(within(job.output()).await, Err(OutputError::Cancelled)));
    // By name, with an input that does not fit.
    let odd = Payload::of(&7).unwrap();
    let job = within(engine.submit_named("fulfil", &odd)).await;
    match job {
        Ok(job) => {
            let end = within(job.ended()).await.unwrap();
            assert_eq!(&*end.job.error().unwrap().0.code, "bad_input");
        }
        Err(error) => assert!(matches!(error, SubmitError::Plan(_)), "{error}"),
    }
    match within(engine.submit_named("fulfill", &Payload::NULL)).await.map(|job| job.id()) {
        Err(error @ SubmitError::UnknownWorkflow { .. }) => {
            assert!(error.to_string().contains("fulfil"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let twice = World::in_memory();
    let twice = twice.engine().task(RESERVE, reserve).task(RESERVE, reserve).start();
    assert!(matches!(within(twice).await.map(drop), Err(StartError::Twice(_))));
}

/// Values that careless programs change.
const NUMBERS: &str = "[9007199254740991,9007199254740992,9007199254740993,3544790567247868102,\
    -9223372036854775808,9223372036854775807,18446744073709551615,12345678901234567890123,\
    1234567890123456789012345678901234567890,-0,1e400,1.0,1,0.1e-7,1E+2]";

#[tokio::test(flavor = "multi_thread")]
async fn numbers_come_through_digit_by_digit() {
    for store in Store::BOTH {
        let world = World::new(store);
        let start = || world.engine().task(task("pass"), nothing).start();
        let engine = within(start()).await.unwrap();
        let text = format!(
            r#"{{"name": "numbers", "input": {NUMBERS}, "tasks": [
                {{"id": "a", "kind": "pass", "input": {{"$input": ""}}}},
                {{"id": "b", "kind": "pass", "input": {{"$output": "a"}}}}]}}"#
        );
        let job = submit(&engine, plan_of(&text)).await;
        within(job.ended()).await.unwrap();
        come_through(&job).await;
        let id = job.id();
        within(engine.shutdown()).await.unwrap();
        let engine = within(start()).await.unwrap();
        come_through(&engine.job(id)).await;
    }
}

async fn come_through(job: &JobHandle) {
    let snapshot = within(job.snapshot()).await.unwrap();
    assert_eq!(snapshot.job.status(), JobStatus::Completed);
    assert_eq!(snapshot.job.output().unwrap().unwrap().as_str(), NUMBERS);
    let history = within(job.history(0, 100)).await.unwrap();
    let outputs = history.iter().filter_map(|logged| match &logged.recorded.event {
        Event::TaskCompleted { output, .. } => Some(output.as_str()),
        _ => None,
    });
    assert_eq!(outputs.collect::<Vec<_>>(), [NUMBERS, NUMBERS]);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_text_comes_through_everywhere() {
    let odd = "\0 \u{fffe} \u{202e} e\u{301} \u{1f980} \u{7f} \\ \" \u{2028}";
    for store in Store::BOTH {
        let world = World::new(store);
        let shout = async |cx: TaskContext, text: String| -> TaskResult<String> {
            cx.message(text.clone());
            if cx.attempt().attempt == 1 {
                return Err(TaskError::new(&text, &text));
            }
            Ok(text)
        };
        let start = || world.engine().task(TaskKind::<String, String>::new("shout"), shout).start();
        let engine = within(start()).await.unwrap();
        let quoted = serde_json::to_string(odd).unwrap();
        let text = format!(
            r#"{{"name": "odd", "tasks": [{{"id": "a", "kind": "shout",
                "title": "odd", "input": {quoted},
                "retry": {{"max_attempts": 2, "backoff": {{"initial": "0s"}}}}}}]}}"#
        );
        let id = submit(&engine, plan_of(&text)).await.id();
        within(engine.job(id).ended()).await.unwrap();
        within(engine.shutdown()).await.unwrap();
        drop(engine);
        let engine = within(start()).await.unwrap();
        let job = engine.job(id);
        let end = laws(&job).await;
        assert_eq!(end.status(), JobStatus::Completed);
        assert_eq!(end.output().unwrap().unwrap().to::<String>().unwrap(), odd);
        let first = &end.task(end.find("a").unwrap()).unwrap().attempts()[0];
        let error = &first.end.as_ref().unwrap().error;
        assert_eq!((&*error.code, &*error.message), (odd, odd));
        within(engine.shutdown()).await.unwrap();
    }
    assert!(Payload::parse(r#""\ud800""#).is_err(), "half a character is none");
}
