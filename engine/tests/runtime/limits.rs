//! What is refused before anything of it exists.

use annals_engine::job::Origin;
use annals_engine::runtime::{Submission, SubmitError};

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
