//! Insert, move, edit and retry, in tables that one can read.

use annals_engine::job::TaskStatus;

use crate::dsl::{World, check};

/// What each task needs, as `a< b<a c<a,b`, in the order of the plan.
fn needs(world: &World) -> String {
    let one = |(_, task): (_, &annals_engine::job::Task)| {
        format!("{}<{}", task.spec.id, world.job.needs_of(task).join(","))
    };
    world.job.tasks().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_task_comes_to_stand_where_it_is_put() {
    let table = [
        ("a b", "insert x", "a< b<a x<b"),
        ("a b", "insert x first", "x< a<x b<a"),
        ("a b", "insert x before b", "a< x<a b<x"),
        ("a b", "insert x after a", "a< x<a b<x"),
        ("a b", "insert x<", "a< b<a x<"),
        ("a b c", "insert x<a by c", "a< b<a c<b,x x<a"),
        ("a b<", "insert x<a after a by b", "a< x<a b<x"),
        ("a b c", "move c first", "c< a<c b<a"),
        ("a b c", "move a last", "b< c<b a<c"),
        ("a b c", "move a after b", "b< a<b c<a"),
        ("a b<a c<a", "move c before b", "a< c<a b<a"),
        ("a b c", r#"edit c {"needs":["a"]}"#, "a< b<a c<a"),
        ("a b<a c<a", r#"edit c {"needs":null}"#, "a< b<a c<b"),
        ("a b c", "remove b; insert x before c", "a< b<a x<a c<x"),
        ("a b c", "remove b; move a last", "b<a c< a<c"),
    ];
    for (plan, edits, expected) in table {
        let world = World::new(&format!("@manual {plan}")).given(edits);
        assert_eq!(needs(&world), expected, "{plan} | {edits}");
    }
}

/// What is being skipped gives no output when its attempt is over, unless it ends well.
#[test]
fn nobody_comes_to_take_what_is_being_skipped() {
    let takes = |default: &str| format!(r#"edit b {{"input":{{"$output":"a"{default}}}}}"#);
    let given = "start a; skip a";
    check("a b", given, &takes(""), "refused: invalid_task");
    check("a b", given, &takes(r#","default":0"#), "TaskEdited b");
    check("a b", given, "insert c$a", "refused: invalid_task");
    check("a b", "start a; skip a =7", &takes(""), "TaskEdited b");
    check("a b", "start a; skip a =7", "insert c$a", "TaskInserted c");
    check("a b", "start a; skip a; stopped a", &takes(""), "refused: invalid_task");
    check("a b", "start a; skip a; done a", &takes(""), "TaskEdited b");
}

#[test]
fn what_an_edit_would_break_is_refused() {
    let table = [
        ("a b", "start a; done a", "insert x first", "task_is_settled"),
        ("a b", "start a", "insert x first", "task_is_settled"),
        ("a b", "start a; done a; start b", "insert x before b", "task_is_settled"),
        ("a b", "start a; done a; start b", "insert x< by b", "task_is_settled"),
        ("a b", "remove b", "insert b", "task_exists"),
        ("a b", "remove b", "insert x< by b", "task_is_settled"),
        ("a b", "", "insert x<b before b by a", "would_be_a_circle"),
        ("a b", "", "insert x<x", "would_be_a_circle"),
        ("a b", "", r#"edit a {"needs":["b"]}"#, "would_be_a_circle"),
        ("a b<a", "", r#"edit b {"needs":["x"]}"#, "invalid_task"),
        ("a b", "", "insert x<$a", "invalid_task"),
        ("a b", "skip a", "insert x$a", "invalid_task"),
        ("a b$a", "", "move b first", "invalid_task"),
        ("a b c$b", "", "move b last", "would_lose_order"),
        ("a b$a", "", "insert x< before b", "would_lose_order"),
        ("a b$a", "", r#"edit b {"needs":[]}"#, "invalid_task"),
        ("a b", "skip b", r#"edit b {"title":"B"}"#, "task_is_settled"),
        ("a b", "start a; cancel", "insert x", "not_in_this_status"),
        ("a b", "start a; cancel", "retry a", "not_in_this_status"),
        ("a", "start a; done a", "insert x", "not_in_this_status"),
    ];
    for (plan, given, when, code) in table {
        check(plan, given, when, &format!("refused: {code}"));
    }
}

#[test]
fn what_is_inserted_into_an_ended_job_runs_when_it_is_executed() {
    let mut world = check("a b", "start a; fail a", "insert x first", "TaskInserted x");
    assert_eq!(world.effects(), "", "an ended job does nothing");
    assert_eq!(world.when("execute"), "JobReopened");
    assert_eq!(world.effects(), "want x");
    let mut world = world.given("start x; done x; start a; done a; start b");
    assert_eq!(world.when("done b"), "TaskCompleted b#1; JobCompleted");
}

#[test]
fn a_back_off_stands_and_what_else_waits_begins_anew() {
    let wait = "start a; fail a; +3";
    let world = World::new("a*3 b").given(wait).given(r#"edit a {"title":"A"}"#);
    assert_eq!(world.due("a"), Some(10), "the due time of a back-off stands");
    let world = World::new("a*3 b").given(wait).given("insert x first");
    assert_eq!((world.due("a"), world.effects()), (None, "want x".into()), "it waits for x first");
    let world = World::new("a b").given(r#"sleep a 100; edit a {"kind":"other"}"#);
    assert_eq!((world.due("a"), world.effects()), (None, "want a".into()));
    let world = World::new("a b").given(r#"kindless a; edit a {"kind":"other"}"#);
    assert_eq!(world.tasks(), "a=pending b=pending");
    let world = World::new("a b").given(r#"kindless a; edit a {"title":"A"}"#);
    assert_eq!(world.tasks(), "a=waiting b=pending");
}

#[test]
fn a_new_retry_policy_counts_from_the_next_failure() {
    let retry = r#"edit a {"retry":{"max_attempts":2,"backoff":{"initial":"1s","jitter":0}}}"#;
    let mut world = World::new("a*5").given("start a; fail a; +10; start a; fail a").given(retry);
    assert_eq!(world.due("a"), Some(30), "the wait that was begun stands");
    // Neither a pause nor an edit while it lasts gives the wait up, or begins it anew.
    world = world.given("pause").given(retry).given("+5; resume");
    assert_eq!((world.due("a"), world.effects().as_str()), (Some(30), "wake 30"));
    world = world.given("+15; start a");
    let ends = "AttemptFailed a#3; TaskFailed a error; JobFailed error";
    assert_eq!(world.when("fail a"), ends);
}

#[test]
fn steps_stay_unless_they_are_dropped() {
    let held = "start a; step a s; interrupt; stopped a";
    let world = World::new("a").given(held).given(r#"edit a {"input":1}"#);
    let recorded = |world: &World| !world.job.tasks().next().unwrap().1.steps().is_empty();
    assert!(recorded(&world), "a new input keeps them");
    let mut world = world.given(r#"edit a {"input":1} reset"#);
    assert!(!recorded(&world));
    assert_eq!(world.when(r#"edit a {"input":1} reset"#), "", "it holds already");
    let mut world = world.given("resume; start a");
    assert_eq!(world.when("step a s"), "StepRecorded a#2 s", "its name is free again");
}

#[test]
fn a_checkpoint_stays_unless_it_is_dropped() {
    let held = "start a; checkpoint a; interrupt; stopped a";
    let world = World::new("a").given(held).given(r#"edit a {"input":1}"#);
    let checkpoint = |world: &World| world.job.tasks().next().unwrap().1.checkpoint().is_some();
    assert!(checkpoint(&world), "a new input keeps it");
    let mut world = world.given(r#"edit a {"title":"A"} reset"#);
    assert!(!checkpoint(&world));
    assert_eq!(world.when(r#"edit a {"title":"A"} reset"#), "", "it holds already");
}

#[test]
fn a_failure_that_is_to_be_tolerated_is_and_one_that_is_to_pause_does() {
    let failed = "start a; start c; fail a";
    let plan = "a b c<";
    let mut world = World::new(plan).given(failed);
    assert_eq!(world.when(r#"edit a {"on_failure":"continue"}"#), "TaskEdited a");
    assert_eq!(world.effects(), "run c#1, want b");
    let mut world = World::new(plan).given(failed);
    let pauses = "TaskEdited a; PauseRequested";
    assert_eq!(world.when(r#"edit a {"on_failure":"pause"}"#), pauses);
    assert_eq!(world.when("done c"), "TaskCompleted c#1; JobPaused");
}

#[test]
fn a_task_is_tried_again_at_once_or_afresh() {
    let mut world = World::new("a*2 b").given("start a; fail a; +3");
    assert_eq!(world.when("retry a"), "RetryScheduled a 3");
    assert_eq!(world.when("retry a"), "", "it is due already");
    assert_eq!(world.effects(), "want a");
    let mut world = world.given("start a");
    assert_eq!(world.when("retry a"), "", "it is being tried");
    // It has failed for good; another branch keeps the job going.
    let mut world = World::new("a*2 b c<").given("start c; start a; fail a; +10; start a; fail a");
    assert_eq!(world.tasks(), "a=failed b=pending c=running");
    assert_eq!(world.when("retry a"), "RetryScheduled a 10");
    let mut world = world.given("start a");
    assert_eq!(world.when("fail a"), "AttemptFailed a#3; RetryScheduled a 20", "a new budget");
    // While the job is held it is noted.
    let mut world = World::new("a! b").given("start a; fail a");
    assert_eq!(world.when("retry a"), "RetryScheduled a 0");
    assert_eq!((world.effects(), world.when("resume")), (String::new(), "JobResumed".into()));
    assert_eq!(world.effects(), "want a");
    let task = world.job.tasks().next().unwrap().1;
    assert_eq!((task.status(), task.error()), (TaskStatus::Waiting, None));
}

#[test]
fn a_task_that_was_given_up_begins_with_no_losses() {
    let lost = "start a; recover; ".repeat(6);
    let mut world = World::new("a b<").given(&format!("start b; {lost}"));
    assert!(world.tasks().starts_with("a=failed"), "{}", world.tasks());
    world = world.given("retry a; start a");
    assert_eq!(world.when("recover"), "AttemptLost a#7", "it is no suspect any more");
}
