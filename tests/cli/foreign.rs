//! Jobs of programs with kinds of their own.

use annals_engine::job::Origin;
use annals_engine::{Engine, Submission};
use annals_tasks_sdk::plan::{Plan, TaskSpec};
use annals_tasks_sdk::{KindName, TaskContext, TaskId, TaskKind, TaskResult};

use crate::common::Place;

const PROBE: TaskKind<(), ()> = TaskKind::new("probe");
const RENDER: TaskKind<(), ()> = TaskKind::new("render");

async fn fails(_cx: TaskContext, (): ()) -> TaskResult<()> {
    Err(annals_tasks_sdk::TaskError::new("broken", "it is broken").give_up())
}

/// A job of another program has failed in this place's store; its id.
fn of_another_program(place: &Place) -> String {
    let spec = |id: &str, kind: &str| {
        TaskSpec::new(TaskId::new(id).unwrap(), KindName::new(kind).unwrap())
    };
    let mut plan = Plan::new("theirs");
    plan.tasks = vec![
        spec("before", "noop"),
        spec("probe", PROBE.name()),
        spec("render", RENDER.name()),
        spec("behind", "noop"),
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = Engine::open(place.path("annals-data"));
        let engine = engine.task(PROBE, fails).task(RENDER, fails).start().await.unwrap();
        let job = engine.submit_plan(Submission::new(plan, Origin::actor("test"))).await.unwrap();
        job.ended().await.unwrap();
        engine.shutdown().await.unwrap();
        job.id().to_string()
    })
}

/// Tasks of kinds that this program does not have would wait for ever.
#[test]
fn what_needs_another_program_is_left_to_it() {
    let place = Place::new();
    let id = of_another_program(&place);
    let words = "kinds probe, render are of a program of its own: run that program on this store";
    let before = place.json(&["show", &id]);
    let answer = place.annals(&["run", "--job", &id]).expect(5);
    assert!(answer.stderr.contains(words), "{}", answer.stderr);
    assert_eq!(place.json(&["show", &id]), before);
    let shown = place.annals(&["show", &id]).expect(0).stdout;
    assert!(shown.contains(words), "{shown}");
    assert!(!shown.contains("annals run"), "{shown}");
    for task in ["probe", "render"] {
        place.annals(&["skip", &id, task]).expect(0);
    }
    place.annals(&["run", "--job", &id]).expect(0);
}
