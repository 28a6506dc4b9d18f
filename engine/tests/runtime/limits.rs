//! What is refused before anything of it exists.

use annals_engine::Engine;
use annals_engine::job::Origin;
use annals_engine::runtime::{CheckError, StartError, Submission, SubmitError};
use annals_tasks_sdk::plan::{Limits, PlanErrors};

use super::support::{World, nothing, plan, task, within};

fn of_the_plan(error: CheckError) -> PlanErrors {
    match error {
        CheckError::Plan(errors) => errors,
        other => panic!("{other}"),
    }
}

#[test]
fn a_plan_is_checked_where_no_engine_could_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    // No folder can be made below a file.
    let builder = Engine::open(file.join("store")).task(task("work"), nothing);
    let text = r#"{"id": "a", "kind": "work"}, {"id": "b", "kind": "http",
        "input": {"url": "http://127.0.0.1/"}}"#;
    let refused = builder.check(&plan(text)).map_err(of_the_plan).unwrap_err();
    assert_eq!(refused.0[0].pointer, "/tasks/1/input/url");
    builder.check(&plan(r#"{"id": "a", "kind": "work"}"#)).unwrap();
    let limits = Limits { tasks: 1, ..Limits::default() };
    let two = plan(r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}"#);
    assert_eq!(builder.limits(limits).check(&two).map_err(of_the_plan).unwrap_err().0.len(), 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_builder_that_could_not_start_says_so_whenever_it_is_asked() {
    let twice = || World::in_memory().engine().task(task("noop"), nothing);
    let builder = twice();
    let plan = plan(r#"{"id": "a", "kind": "noop"}"#);
    for _ in 0..2 {
        match builder.check(&plan) {
            Err(CheckError::Start(StartError::Twice(name))) => assert_eq!(name, "noop"),
            other => panic!("{other:?}"),
        }
    }
    let (a, b) = (task("a"), task("a"));
    let builder = World::in_memory().engine().task(a, nothing).task(b, nothing);
    let wrong = builder.task(task("no name"), nothing);
    for _ in 0..2 {
        // The first fault is the one that is told.
        match wrong.check(&plan) {
            Err(CheckError::Start(StartError::Twice(name))) => assert_eq!(name, "a"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_and_a_submission_refuse_the_same() {
    let strange = plan(r#"{"id": "a", "kind": "strange"}"#);
    let wrong = plan(r#"{"id": "a", "kind": "strange"}, {"id": "b", "kind": "sleep"}"#);
    for allow in [false, true] {
        let world = World::in_memory();
        let engine = within(world.engine().allow_unknown_kinds(allow).start()).await.unwrap();
        for (plan, fits) in [(&strange, allow), (&wrong, false)] {
            let checked = engine.check(plan);
            let before = world.engine().allow_unknown_kinds(allow).check(plan);
            assert_eq!(before.map_err(of_the_plan), checked);
            assert_eq!(checked.is_ok(), fits, "{checked:?}");
            let submission = Submission::new(plan.clone(), Origin::ENGINE);
            match (within(engine.submit_plan(submission)).await, checked) {
                (Ok(_), Ok(())) => {}
                (Err(SubmitError::Plan(errors)), Err(found)) => assert_eq!(errors, found),
                (other, _) => panic!("{:?}", other.map(|job| job.id())),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_beyond_what_the_log_holds_are_refused() {
    let world = World::in_memory();
    let too_much = [
        ("tasks", Limits { tasks: usize::MAX, ..Limits::default() }),
        ("plan_bytes", Limits { plan_bytes: 65 << 20, ..Limits::default() }),
        ("payload_bytes", Limits { payload_bytes: 65 << 20, ..Limits::default() }),
        ("instances", Limits { instances: 100_001, ..Limits::default() }),
    ];
    for (wrong, limits) in too_much {
        match within(world.engine().limits(limits).start()).await.map(drop) {
            Err(StartError::Limit { name, .. }) => assert_eq!(name, wrong),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_with_a_plan_is_weighed() {
    let world = World::in_memory();
    let limits = Limits { payload_bytes: 100, ..Limits::default() };
    let engine = within(world.engine().limits(limits).start()).await.unwrap();
    let submission = Submission::new(plan(r#"{"id": "a", "kind": "noop"}"#), Origin::actor("me"));
    let large = "x".repeat(99);
    let heavy = [
        Submission { workflow: Some(large.as_str().into()), ..submission.clone() },
        Submission { source: Some(large.as_str().into()), ..submission.clone() },
        Submission {
            origin: Origin { reason: Some(large.as_str().into()), ..Origin::actor("me") },
            ..submission.clone()
        },
    ];
    for submission in heavy {
        match within(engine.submit_plan(submission)).await.map(drop) {
            Err(SubmitError::TooLarge { bytes: 101, limit: 100 }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(within(engine.submit_plan(submission)).await.is_ok());
    assert_eq!(within(engine.jobs(None, 10)).await.unwrap().len(), 1);
}
