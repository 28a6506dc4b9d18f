//! Children that workflows make, by name and typed.

use annals_engine::job::JobStatus;
use annals_engine::runtime::SubmitError;
use annals_tasks_sdk::prelude::*;

use super::support::{World, plan_of, submit, until, within};

const DOUBLE_ONE: TaskKind<u64, u64> = TaskKind::new("double-one");
const DOUBLE: Workflow<u64, u64> = Workflow::new("double");
const TWICE: Workflow<u64, u64> = Workflow::new("twice");
const HEIR: Workflow<u64, u64> = Workflow::new("heir");

async fn double_one(_cx: TaskContext, number: u64) -> TaskResult<u64> {
    Ok(2 * number)
}

fn double(flow: &Flow, number: Wire<u64>) -> Wire<u64> {
    flow.task(DOUBLE_ONE, number).wire()
}

fn twice(flow: &Flow, number: Wire<u64>) -> Wire<u64> {
    let once = flow.job(DOUBLE, number);
    flow.job(DOUBLE, once).id("again").wire()
}

/// Has itself for a child, and so on.
fn heir(flow: &Flow, number: Wire<u64>) -> Wire<u64> {
    flow.job(HEIR, number).wire()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_has_others_for_children() {
    let world = World::in_memory();
    let engine = world.engine().loops(2).task(DOUBLE_ONE, double_one);
    let engine = engine.workflow(DOUBLE, double).workflow(TWICE, twice);
    let engine = within(engine.start()).await.unwrap();
    let job = within(engine.submit(TWICE, &5)).await.unwrap();
    assert_eq!(within(job.output()).await.unwrap(), 20);
    let rows = within(engine.jobs(None, 100)).await.unwrap();
    let mut children: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.parent.is_some()) {
        assert_eq!(row.workflow.as_deref(), Some("double"));
        children.extend(row.parent.as_ref().map(|parent| parent.task_id.as_str()));
    }
    children.sort_unstable();
    assert_eq!(children, ["again", "double"]);
    within(engine.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_has_itself_for_a_child_ends_all_the_same() {
    let world = World::in_memory();
    let engine = within(world.engine().workflow(HEIR, heir).start()).await.unwrap();
    let job = within(engine.submit(HEIR, &0)).await.unwrap();
    let job = engine.job(job.id());
    let failed = until(&job, |now| now.job.status() == JobStatus::Failed).await;
    let (error, _) = failed.job.error().unwrap();
    assert!(error.message.contains("too_deep"), "{error:?}");
    assert_eq!(within(engine.jobs(None, 100)).await.unwrap().len(), 17);
    within(engine.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_nobody_has_is_refused_with_the_nearest() {
    let world = World::in_memory();
    let engine = world.engine().task(DOUBLE_ONE, double_one).workflow(DOUBLE, double);
    let engine = within(engine.start()).await.unwrap();
    let text = |name: &str, kind: &str| {
        format!(
            r#"{{"name": "p", "tasks": [{{"id": "a", "kind": "job", "input": {{"name": "c",
                "tasks": [{{"id": "b", "kind": "{kind}",
                    "input": {{"workflow": "{name}"}}}}]}}}}]}}"#
        )
    };
    for (plan, place, words) in [
        (text("doubel", "job"), "/tasks/0/input/tasks/0/input/workflow", "did you mean `double`"),
        (text("double", "nop"), "/tasks/0/input/tasks/0/kind", "did you mean `noop`"),
    ] {
        let submission = annals_engine::Submission::new(plan_of(&plan), <_>::default());
        let refused = within(engine.submit_plan(submission)).await.err().unwrap();
        let SubmitError::Plan(errors) = refused else { panic!("{refused}") };
        assert_eq!(errors.0[0].pointer, place);
        assert!(errors.0[0].detail.contains(words), "{errors}");
    }
    let sound = submit(&engine, plan_of(&text("double", "noop"))).await;
    until(&sound, |now| now.job.status() == JobStatus::Completed).await;
    within(engine.shutdown()).await.unwrap();
}
