//! Conditions: which tasks run when their turn has come, and what becomes of the others.

use annals_engine::job::SkippedBy;

use crate::dsl::{World, check};

#[test]
fn a_value_that_is_true_lets_a_task_run() {
    let world = check("a b%a c", "start a", "done a true", "TaskCompleted a#1");
    assert_eq!(world.effects(), "want b");
}

#[test]
fn a_value_that_is_false_skips_it_and_what_needs_it_goes_on() {
    let then = "TaskCompleted a#1; TaskSkipped b";
    let world = check("a b%a c", "start a", "done a false", then);
    assert_eq!(world.tasks(), "a=completed b=skipped c=pending");
    assert_eq!(world.effects(), "want c");
    let b = world.job.task(world.job.find("b").unwrap()).unwrap();
    assert_eq!(b.skipped_by(), Some(SkippedBy::Condition));
    check("a b%a c", "start a", "done a null", then);
    // The last ones: the job is done.
    let then = "TaskCompleted a#1; TaskSkipped b; TaskSkipped c; JobCompleted";
    check("a b%a c%a", "start a", "done a false", then);
}

#[test]
fn any_other_value_fails_it() {
    let then = "TaskCompleted a#1; TaskFailed b bad_condition; JobFailed bad_condition";
    check("a b%a c", "start a", "done a 1", then);
    check("a b%a c", "start a", r#"done a "true""#, then);
    let then = "TaskCompleted a#1; TaskFailed b bad_condition";
    check("a b?%a c", "start a", "done a 1", then);
}

#[test]
fn a_value_is_compared_by_what_it_is() {
    let runs = "TaskCompleted a#1";
    let skips = "TaskCompleted a#1; TaskSkipped b";
    check("a b%a=5 c", "start a", "done a 5.0", runs);
    check("a b%a=5 c", "start a", "done a 6", skips);
    check("a b%a=\"x\" c", "start a", "done a \"\\u0078\"", runs);
    check("a b%a=null c", "start a", "done a null", runs);
}

#[test]
fn an_end_is_looked_at() {
    let failed = "AttemptFailed a#1; TaskFailed a error";
    check("a? b%a:failed c", "start a", "fail a", failed);
    check("a? b%a:completed c", "start a", "fail a", &format!("{failed}; TaskSkipped b"));
    check("a? b%a:failed c", "start a", "done a", "TaskCompleted a#1; TaskSkipped b");
    let world = check("a b%a:skipped c", "", "skip a", "TaskSkipped a");
    assert_eq!(world.effects(), "want b");
    let world = check("a b<a%a:removed c", "", "remove a", "TaskRemoved a");
    assert_eq!(world.effects(), "want b");
}

#[test]
fn a_missing_value_skips() {
    check("a? b%a c", "start a", "fail a", "AttemptFailed a#1; TaskFailed a error; TaskSkipped b");
    let world = check("a b%a c", "", "skip a", "TaskSkipped a; TaskSkipped b");
    assert_eq!(world.tasks(), "a=skipped b=skipped c=pending");
    check("a b%a c", "", "skip a =true", "TaskSkipped a");
}

#[test]
fn what_is_held_is_not_decided_before_it_goes_on() {
    let given = "start a; pause";
    let world = check("a b%a c", given, "done a false", "TaskCompleted a#1; JobPaused");
    assert_eq!(world.tasks(), "a=completed b=pending c=pending");
    check("a b%a c", "start a; pause; done a false", "resume", "JobResumed; TaskSkipped b");
    // An operator may still have it run.
    let given = r#"start a; pause; done a false; edit b {"when":null}"#;
    let world = check("a b%a c", given, "resume", "JobResumed");
    assert_eq!(world.effects(), "want b");
    let given = "start a; pause; done a false";
    let edit = r#"edit c {"when":{"task":"b","status":["skipped"]}}"#;
    check("a b%a c", given, edit, "TaskEdited c");
}

#[test]
fn a_task_that_has_begun_is_decided_again_only_by_an_edit() {
    let given = "start a; done a true; start b; fail b";
    let world = check("a b*2%a c", given, "+10", "");
    assert_eq!(world.effects(), "want b");
}

#[test]
fn a_bad_condition_pauses_where_a_failure_does() {
    let then = "TaskCompleted a#1; TaskFailed b bad_condition; PauseRequested; JobPaused";
    check("a b!%a c", "start a", "done a 7", then);
    let given = r#"start a; done a 7; edit b {"when":null}; resume"#;
    let world = World::new("a b!%a c").given(given);
    assert_eq!(world.effects(), "want b");
}

#[test]
fn what_it_looks_at_comes_before_it() {
    check("a b c%a", "", "move c before a", "refused: invalid_task");
    check("a b", "", r#"edit a {"when":{"$output":"b"}}"#, "refused: invalid_task");
    check("a b", "", r#"edit b {"when":{"$output":"x"}}"#, "refused: invalid_task");
    check("a b", "", r#"edit b {"when":{"status":["failed"]}}"#, "refused: invalid_task");
    // What is looked at may go: its absence has a meaning.
    check("a b%a c", "", "remove a", "TaskRemoved a; TaskSkipped b");
}

#[test]
fn a_join_waits_for_what_is_skipped_too() {
    let plan = "a b<a%a c<a d<b,c";
    let world = check(plan, "start a", "done a false", "TaskCompleted a#1; TaskSkipped b");
    assert_eq!(world.effects(), "want c");
    check(plan, "start a; done a false; start c", "done c", "TaskCompleted c#1");
}
