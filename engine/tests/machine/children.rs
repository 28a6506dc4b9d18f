//! Tasks that wait for child jobs, and jobs that are children.

use crate::dsl::{World, check};

#[test]
fn the_end_of_a_child_ends_its_task() {
    check("a b", "child a", "gives a 5", "TaskCompleted a#0");
    check("a", "child a", "gives a", "TaskCompleted a#0; JobCompleted");
    let failed = "ChildEnded a; TaskFailed a child_failed; JobFailed child_failed";
    check("a b", "child a", "child_fails a", failed);
    let cancelled = "ChildEnded a; TaskFailed a child_cancelled; JobFailed child_cancelled";
    check("a b", "child a", "child_cancelled a", cancelled);
    check("a? b", "child a", "child_fails a", "ChildEnded a; TaskFailed a child_failed");
    let pauses = "ChildEnded a; TaskFailed a child_failed; PauseRequested; JobPaused";
    check("a! b", "child a", "child_fails a", pauses);
    // What is gone is followed by another one.
    let world = check("a b", "child a", "child_gone a", "ChildEnded a");
    assert_eq!(world.effects(), "want a");
    let child = world.job.tasks().next().unwrap().1.child();
    assert!(child.is_some(), "which it was is known");
}

#[test]
fn an_old_end_is_no_news() {
    // The task goes on with a child that had ended with its event 9.
    check("a", "child a 9", "gives a", "TaskCompleted a#0; JobCompleted");
    let mut world = World::new("a").given("child a 9; child_fails a; retry a; child a 10");
    assert_eq!(
        world.when("child_fails a"),
        "ChildEnded a; TaskFailed a child_failed; JobFailed child_failed"
    );
    // And when it waits for none, what one says is dropped.
    check("a b", "child a; gives a", "child_fails a", "");
    check("a", "", "gives a", "");
    check("a b", "start a", "gives a", "");
}

#[test]
fn a_job_is_paused_when_its_children_are_quiet() {
    let world = check("a b<", "child a", "pause", "PauseRequested");
    let world = world.given("start b");
    assert_eq!(world.effects(), "", "nothing starts");
    let world = check("a b", "child a; pause", "quiet a", "ChildPaused a; JobPaused");
    assert!(world.job.is_active(), "a start has to ask the child");
    check("a b<", "child a; start b; pause; done b", "quiet a", "ChildPaused a; JobPaused");
    check("a b<", "child a; start b; pause; quiet a", "done b", "TaskCompleted b#1; JobPaused");
    // Each hold is asked for anew.
    let mut world = World::new("a b").given("child a; pause; quiet a; resume; pause");
    assert_eq!(world.when("quiet a"), "ChildPaused a; JobPaused");
    check("a b", "child a; pause; quiet a; resume", "quiet a", "");
    check("a b", "child a", "quiet a", "");
    // It ends meanwhile.
    check("a b", "child a; pause", "gives a", "TaskCompleted a#0; JobPaused");
    check("a", "child a; pause", "gives a", "TaskCompleted a#0; JobCompleted");
    let mut world = World::new("a b").given("child a; pause; quiet a");
    assert_eq!(world.when("child_cancelled a"), "ChildEnded a; TaskFailed a child_cancelled");
    assert_eq!(world.when("resume"), "JobResumed; JobFailed child_cancelled");
}

#[test]
fn a_job_ends_when_its_children_have() {
    check("a b", "child a", "cancel", "CancelRequested");
    check("a b", "child a; cancel", "child_cancelled a", "ChildEnded a; JobCancelled");
    check("a b", "child a; cancel", "child_fails a", "ChildEnded a; JobCancelled");
    check("a b", "child a; cancel", "gives a", "TaskCompleted a#0; JobCancelled");
    // Also an end from before, with which it was to go on.
    check("a b", "child a 9; cancel", "child_cancelled a", "ChildEnded a; JobCancelled");
    let ending = "ChildEnded a; JobEnding cancelled";
    check("a @finally z", "child a; cancel", "child_cancelled a", ending);
    check("a @finally z", "child a; cancel now", "child_cancelled a", "ChildEnded a; JobCancelled");
    check("@in60 a b", "child a; +60", "tick", "DeadlinePassed deadline_exceeded");
    let late = "ChildEnded a; JobFailed deadline_exceeded";
    check("@in60 a b", "child a; +60; tick", "child_cancelled a", late);
    let fast = "AttemptFailed b#1; TaskFailed b error";
    check("@fast a b<", "child a; start b", "fail b", fast);
    let fast = "ChildEnded a; JobFailed error";
    check("@fast a b<", "child a; start b; fail b", "child_cancelled a", fast);
    // What is done at the end has its turn, and the child of that its own.
    let world = World::new("a @finally z").given("start a; fail a; child z");
    assert_eq!(world.tasks(), "a=failed z=waiting");
    let mut world = world;
    assert_eq!(world.when("gives z"), "TaskCompleted z#0; JobFailed error");
}

#[test]
fn a_skip_waits_for_the_child() {
    check("a b", "child a", "skip a", "SkipRequested a");
    check("a b", "child a; skip a", "child_cancelled a", "ChildEnded a; TaskSkipped a");
    check("a b", "child a; skip a", "gives a", "TaskCompleted a#0");
    check("a b", "child a; skip a", "skip a", "");
    check("a b", "child a", "remove a", "refused: task_is_live");
    check("a b", "child a", r#"edit a {"title":"A"}"#, "refused: task_is_live");
    check("a b", "child a", "move a last", "refused: task_is_live");
    check("a b", "child a", "retry a", "refused: nothing_to_retry");
    check("a b", "child a", "insert z before a", "refused: task_is_settled");
}

#[test]
fn a_start_takes_no_child_for_lost() {
    let world = check("a b<", "child a; start b", "recover", "AttemptLost b#1");
    assert_eq!(world.tasks(), "a=waiting b=interrupted");
    check("a", "", "child a", "ChildStarted a");
    check("a b", "start a", "child a", "");
    check("a b", "pause", "child a", "");
}

#[test]
fn two_hold_a_child() {
    let child = "@child a b";
    check(child, "", "wish hold", "HoldPlaced; JobPaused");
    check(child, "start a", "wish hold", "HoldPlaced");
    check(child, "start a; wish hold", "done a", "TaskCompleted a#1; JobPaused");
    check(child, "start a; wish hold", "wish interrupt", "HoldPlaced");
    check(child, "wish hold", "wish hold", "");
    check(child, "wish hold", "resume", "refused: held_by_parent");
    check(child, "wish hold", "wish go", "HoldLifted");
    check(child, "", "wish go", "");
    // The one goes, and the other stays.
    check(child, "wish hold", "pause", "PauseRequested");
    let world = check(child, "wish hold; pause", "wish go", "HoldLifted");
    assert_eq!((world.job.status().as_str(), world.effects().as_str()), ("paused", ""));
    check(child, "wish hold; pause; wish go", "resume", "JobResumed");
    let world = check(child, "pause; wish hold", "resume", "JobResumed");
    assert_eq!(world.job.status().as_str(), "paused");
    let world = world.given("wish go");
    assert_eq!((world.job.status().as_str(), world.effects().as_str()), ("running", "want a"));
    let world = check("@child @manual a", "wish hold", "wish go", "HoldLifted");
    assert_eq!(world.job.status().as_str(), "pending");
    // A failure that asks for somebody is not passed over when the parent goes on.
    let fails = "AttemptFailed a#1; TaskFailed a error; PauseRequested; JobPaused";
    let world = check("@child a! b", "start a; wish hold", "fail a", fails);
    assert_eq!(world.given("wish go").job.status().as_str(), "paused");
    let lost = "AttemptLost a#1; PauseRequested; JobPaused";
    check("@child a^pause b", "start a; wish hold", "recover", lost);
}

#[test]
fn a_child_does_what_its_parent_wants_once() {
    let child = "@child a b";
    check(child, "start a", "wish stop", "CancelRequested");
    check(child, "start a; wish stop", "wish stop", "");
    check(child, "start a; wish stop", "wish now", "CancelRequested");
    check(child, "wish hold", "wish stop", "CancelRequested; JobCancelled");
    check("@child @manual a", "", "wish stop", "JobCancelled");
    check(child, "start a; fail a", "wish stop", "");
    check(child, "start a; fail a", "wish hold", "");
    // It goes on from an end that its parent knows, and from no later one.
    check(child, "start a; fail a", "wish go", "");
    check(child, "start a; fail a", "wish go known", "JobReopened");
    let again = "start a; fail a; wish go known; start a; fail a";
    check(child, again, "wish go", "");
    check("@child a", "start a; done a", "wish go known", "");
    check("a b", "start a", "wish stop", "");
}
