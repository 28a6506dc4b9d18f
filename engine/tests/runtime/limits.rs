//! What is refused before anything of it exists.

use annals_engine::job::Origin;
use annals_engine::runtime::{StartError, Submission, SubmitError};
use annals_tasks_sdk::plan::Limits;

use super::support::{World, plan, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_check_and_a_submission_refuse_the_same() {
    let strange = plan(r#"{"id": "a", "kind": "strange"}"#);
    let wrong = plan(r#"{"id": "a", "kind": "strange"}, {"id": "b", "kind": "sleep"}"#);
    for allow in [false, true] {
        let world = World::in_memory();
        let engine = within(world.engine().allow_unknown_kinds(allow).start()).await.unwrap();
        for (plan, fits) in [(&strange, allow), (&wrong, false)] {
            let checked = engine.check(plan);
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
