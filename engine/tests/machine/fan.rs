//! Fan-out: what becomes of a task that is done for each element of a list.

use annals_engine::job::{Command, ForkFrom, Report, TaskStatus, decide};

use crate::dsl::{World, at, check, id};
use crate::forks;

/// Two of three at a time, behind a task that gives something else.
const PLAN: &str = "a b&[1,2,3]/2 c";

#[test]
fn a_task_becomes_its_instances_when_it_has_its_turn() {
    let world = check(PLAN, "start a", "done a", "TaskCompleted a#1; TaskExpanded b 3");
    assert_eq!(world.tasks(), "a=completed b=pending c=pending");
    assert_eq!(world.items("b"), "pending pending pending");
    assert_eq!(world.effects(), "want b~0, want b~1");
    let counts = world.job.counts();
    assert_eq!((world.job.total_tasks(), counts.completed, world.job.unsettled()), (3, 1, 2));
}

#[test]
fn the_list_may_be_what_another_task_gave() {
    let then = "TaskCompleted a#1; TaskExpanded b 2";
    let world = check("a b&a", "start a", "done a [7,{\"n\":1.50}]", then);
    let of = |name: &str| world.job.task(world.job.find(name).unwrap()).unwrap();
    assert_eq!(world.job.input_of(of("b~1")).unwrap().as_str(), r#"{"n":1.50}"#);
    assert_eq!(world.job.input_of(of("b~0")).unwrap().as_str(), "7");
    for none in ["b~2", "b~01", "b~", "b~-1", "a~0", "b~0~0"] {
        assert_eq!(world.job.find(none), None, "{none}");
    }
}

#[test]
fn one_begins_when_another_is_over_and_the_results_stand_in_order() {
    let given = "start a; done a; start b~0; start b~1";
    let mut world = check(PLAN, given, "done b~1 11", "TaskCompleted b~1#1");
    assert_eq!(world.effects(), "run b~0#1, want b~2");
    assert_eq!(world.tasks(), "a=completed b=running c=pending");
    assert_eq!(world.when("start b~2"), "AttemptStarted b~2#1");
    assert_eq!(world.when("done b~2 12"), "TaskCompleted b~2#1");
    assert_eq!(world.output("b"), None, "it is not over");
    assert_eq!(world.when("done b~0 10"), "TaskCompleted b~0#1; TaskCompleted b#0");
    assert_eq!(world.output("b").as_deref(), Some("[10,11,12]"));
    assert_eq!(world.effects(), "want c");
    assert_eq!(world.when("start c"), "AttemptStarted c#1");
    assert_eq!(world.when("done c"), "TaskCompleted c#1; JobCompleted");
    assert_eq!(world.job.counts().completed, 3, "instances count as the task that they are of");
}

#[test]
fn what_takes_the_results_takes_the_list() {
    let given = "start a; done a; start b~0; done b~0 5; start b~1; done b~1 null";
    let world = World::new("a b&[1,2] c$b").given(given);
    let c = world.job.task(world.job.find("c").unwrap()).unwrap();
    assert_eq!(world.job.input_of(c).unwrap().as_str(), "[[5,null]]");
    let last = World::new("b&[1,2]").given("start b~1; done b~1 2; start b~0; done b~0 1");
    assert_eq!(last.job.output().unwrap().unwrap().as_str(), "[1,2]");
}

#[test]
fn an_empty_list_is_done_at_once() {
    let then = "TaskCompleted a#1; TaskExpanded b 0; TaskCompleted b#0";
    let world = check("a b&a c", "start a", "done a []", then);
    assert_eq!((world.output("b").as_deref(), &*world.effects()), (Some("[]"), "want c"));
    check("a b&a", "start a", "done a []", &format!("{then}; JobCompleted"));
}

#[test]
fn what_is_no_list_or_too_long_a_one_fails() {
    let failed = |code: &str| format!("TaskCompleted a#1; TaskFailed b {code}; JobFailed {code}");
    let world = check("a b&a c", "start a", "done a {\"x\":1}", &failed("bad_list"));
    let error = world.job.error().unwrap().0;
    assert_eq!(&*error.message, "`for_each` of task b gives no list, but {\"x\":1}");
    let list = |len: usize| format!("done a [{}0]", "0,".repeat(len - 1));
    check("a b&a c", "start a", &list(10_001), &failed("too_many_instances"));
    check("a b&a c", "start a", &list(10_000), "TaskCompleted a#1; TaskExpanded b 10000");
    let lacks = "a? b&a c";
    let then = "AttemptFailed a#1; TaskFailed a error; TaskFailed b missing_output; \
                JobFailed missing_output";
    check(lacks, "start a", "fail a", then);
    // Another list helps, also one that the plan itself says.
    let edit = r#"edit b {"for_each":[1]}"#;
    check("a b&a c", "start a; done a 1", edit, "TaskEdited b");
    let given = &format!("start a; done a 1; {edit}");
    check("a b&a c", given, "execute", "JobReopened; TaskExpanded b 1");
}

#[test]
fn a_failed_instance_lets_the_others_run_then_the_task_fails() {
    let given = "start a; done a; start b~0; start b~1";
    let mut world = check(PLAN, given, "fail b~0", "AttemptFailed b~0#1; TaskFailed b~0 error");
    assert_eq!(world.effects(), "run b~1#1, want b~2");
    assert_eq!(world.when("done b~1"), "TaskCompleted b~1#1");
    assert_eq!(world.when("start b~2"), "AttemptStarted b~2#1");
    let then = "TaskCompleted b~2#1; TaskFailed b instances_failed; JobFailed instances_failed";
    assert_eq!(world.when("done b~2"), then);
    let message = &*world.job.error().unwrap().0.message;
    assert_eq!(message, "1 of 3 instances failed: b~0: it broke");
    // Execute runs those that are not settled, and no other.
    assert_eq!(world.when("execute"), "JobReopened");
    assert_eq!(
        (&*world.effects(), &*world.items("b")),
        ("want b~0", "pending completed completed")
    );
    assert_eq!(world.when("start b~0"), "AttemptStarted b~0#2");
    assert_eq!(world.when("done b~0 9"), "TaskCompleted b~0#2; TaskCompleted b#0");
    assert_eq!(world.output("b").as_deref(), Some("[9,1,1]"));
}

#[test]
fn the_failure_of_all_names_some() {
    let given = "start b~0; start b~1; start b~2; start b~3; fail b~3; fail b~0; fail b~1";
    let world = World::new("b&[1,2,3,4]").given(given).given("fail b~2");
    let message = &*world.job.error().unwrap().0.message;
    let said = "4 of 4 instances failed: b~0: it broke; b~1: it broke; b~2: it broke; and 1 more";
    assert_eq!(message, said);
}

#[test]
fn on_failure_is_said_of_the_whole_task() {
    let given = "start b~0; start b~1; fail b~1";
    let then = "TaskCompleted b~0#1; TaskFailed b instances_failed";
    let world = check("b?&[1,2] c$b=", given, "done b~0 4", then);
    assert_eq!(world.output("b").as_deref(), Some("[4,null]"), "what there is of it");
    assert_eq!(world.effects(), "want c");
    let paused = format!("{then}; PauseRequested; JobPaused");
    let world = check("b!&[1,2] c", given, "done b~0 4", &paused);
    assert_eq!(world.tasks(), "b=failed c=pending");
    let world = world.given("resume");
    assert_eq!((&*world.items("b"), &*world.effects()), ("completed pending", "want b~1"));
}

#[test]
fn with_fail_fast_the_first_failure_is_enough() {
    let given = "start b~0; start b~1";
    let then = "AttemptFailed b~1#1; TaskFailed b~1 error; TaskFailed b instances_failed";
    let mut world = check("@fast b&[1,2,3]/2 c", given, "fail b~1", then);
    assert_eq!(world.effects(), "run b~0#1, stop b~0#1 FailFast");
    let then = "AttemptInterrupted b~0#1; JobFailed instances_failed";
    assert_eq!(world.when("stopped b~0"), then);
    let world = world.given("execute");
    assert_eq!(world.items("b"), "interrupted pending pending");
    assert_eq!(world.effects(), "want b~0, want b~2", "it had the place that was free");
    // What is tolerated is no such failure.
    let world =
        check("@fast b?&[1,2] c", given, "fail b~1", "AttemptFailed b~1#1; TaskFailed b~1 error");
    assert_eq!(world.effects(), "run b~0#1");
}

#[test]
fn each_instance_has_retries_of_its_own() {
    let given = "start b~0; start b~1";
    let mut world =
        check("b*2&[1,2,3]/2", given, "fail b~0", "AttemptFailed b~0#1; RetryScheduled b~0 10");
    assert_eq!(world.effects(), "run b~1#1, wake 10", "it has begun, and keeps its place");
    assert_eq!(world.when("done b~1"), "TaskCompleted b~1#1");
    assert_eq!(world.effects(), "wake 10, want b~2");
    assert_eq!(world.tasks(), "b=waiting");
    assert_eq!(world.when("retry b~0"), "RetryScheduled b~0 0");
    assert_eq!(world.effects(), "want b~2, want b~0");
    assert_eq!(world.when("start b~0"), "AttemptStarted b~0#2");
    assert_eq!(world.when("fail b~0"), "AttemptFailed b~0#2; TaskFailed b~0 error");
    // A failed one is tried afresh while the others go on.
    assert_eq!(world.when("retry b~0"), "RetryScheduled b~0 0");
    assert_eq!(world.when("start b~0"), "AttemptStarted b~0#3");
    assert_eq!(world.when("retry b~0"), "");
    assert_eq!(world.when("retry b~2"), "refused: nothing_to_retry");
    assert_eq!(world.when("retry b~1"), "refused: task_is_settled");
}

#[test]
fn retry_of_the_task_is_that_of_all_that_failed_or_wait() {
    let given = "start b~0; start b~1; start b~2; give_up b~0; fail b~1";
    let mut world = check("b*2&[1,2,3]", given, "retry b", "RetryScheduled b 0");
    assert_eq!(world.items("b"), "waiting waiting running");
    assert_eq!(world.effects(), "run b~2#1, want b~0, want b~1");
    assert_eq!(world.when("retry b"), "");
    // Also when it had failed for good, with the rest of the job running.
    let given = "start d; start b~0; start b~1; done b~0; fail b~1";
    let mut world = World::new("b&[1,2] d<").given(given);
    assert_eq!(world.tasks(), "b=failed d=running");
    assert_eq!(world.when("retry b"), "RetryScheduled b 0");
    assert_eq!((&*world.tasks(), &*world.items("b")), ("b=waiting d=running", "completed waiting"));
    let mut world = World::new("b&[1,2] d<").given(given);
    assert_eq!(world.when("retry b~1"), "RetryScheduled b~1 0");
    assert_eq!(world.effects(), "run d#1, want b~1");
    assert_eq!(world.when("retry b~0"), "refused: task_is_settled");
}

#[test]
fn skip_of_an_instance_gives_null_or_the_substitute() {
    let given = "start b~0; done b~0 1";
    let mut world = check("b&[1,2,3]/1 c$b", given, "skip b~2 =7", "TaskSkipped b~2");
    assert_eq!(world.items("b"), "completed pending skipped");
    assert_eq!(world.effects(), "want b~1");
    assert_eq!(world.when("start b~1"), "AttemptStarted b~1#1");
    assert_eq!(world.when("skip b~1"), "SkipRequested b~1");
    let then = "AttemptInterrupted b~1#1; TaskSkipped b~1; TaskCompleted b#0";
    assert_eq!(world.when("stopped b~1"), then);
    assert_eq!(world.output("b").as_deref(), Some("[1,null,7]"));
    assert_eq!(world.job.counts().skipped, 0);
    assert_eq!(world.when("skip b~1"), "");
    assert_eq!(world.when("skip b~1 =2"), "refused: task_is_settled");
}

#[test]
fn skip_of_what_failed_lets_the_task_be_done() {
    let given = "start b~0; start b~1; start d; done b~0 4; fail b~1";
    let mut world = World::new("b&[1,2] c d<").given(given);
    assert_eq!(world.when("skip b~1"), "TaskSkipped b~1; TaskCompleted b#0");
    assert_eq!(world.effects(), "run d#1, want c");
    let given = "start b~0; start b~1; done b~0 4; fail b~1";
    check("b&[1,2] c", given, "skip b~1 =5", "TaskSkipped b~1");
    let given = &format!("{given}; skip b~1 =5");
    let world = check("b&[1,2] c", given, "execute", "JobReopened; TaskCompleted b#0");
    assert_eq!(world.output("b").as_deref(), Some("[4,5]"));
    let given = "start b~0; start b~1; done b~0 4; fail b~1";
    check("b!&[1,2] c", given, "skip b~1", "TaskSkipped b~1; TaskCompleted b#0");
}

#[test]
fn skip_of_the_task_stops_all() {
    let given = "start b~0; start b~1; done b~0; fail b~1";
    let mut world = World::new("b*2&[1,2,3,4]/3 c").given(given).given("start b~2");
    assert_eq!(world.when("skip b =0"), "SkipRequested b");
    assert_eq!(world.effects(), "run b~2#1, stop b~2#1 Skip");
    assert_eq!(world.when("skip b =0"), "");
    assert_eq!(world.when("skip b =1"), "refused: task_is_settled");
    assert_eq!(world.when("retry b~1"), "");
    assert_eq!(world.when("stopped b~2"), "AttemptInterrupted b~2#1; TaskSkipped b");
    assert_eq!(world.items("b"), "completed skipped skipped skipped");
    assert_eq!((world.output("b").as_deref(), &*world.effects()), (Some("0"), "want c"));
    assert_eq!(world.when("retry b~1"), "refused: task_is_settled");
    let world = check("b&[1,2] c", "start b~0; done b~0", "skip b", "TaskSkipped b");
    assert_eq!((world.output("b"), &*world.effects()), (None, "want c"));
    // One that fails within its grace is interrupted like the others.
    let given = "start b~0; start b~1; skip b; fail b~0";
    let then = "AttemptInterrupted b~1#1; TaskSkipped b; JobCompleted";
    check("b*2&[1,2]", given, "timeout b~1", &then.replace("Interrupted", "TimedOut"));
    check("b*2&[1,2]", given, "stopped b~1", then);
    // What ends well within it counts.
    let given = "start b~0; start b~1; skip b; done b~0 1";
    let then = "TaskCompleted b~1#1; TaskCompleted b#0; JobCompleted";
    let world = check("b&[1,2]", given, "done b~1 2", then);
    assert_eq!(world.output("b").as_deref(), Some("[1,2]"));
    check("b&[1,2] c$b", "start b~0", "skip b", "refused: output_is_taken");
}

#[test]
fn pause_and_cancel_hold_the_instances() {
    let given = "start b~0; start b~1";
    let world = World::new("b&[1,2,3]/2").given(given).given("pause; done b~0; done b~1");
    assert_eq!((&*world.effects(), &*world.tasks()), ("", "b=pending"));
    let world = check("b&[1,2,3]/2", given, "interrupt", "PauseRequested");
    let world = world.given("stopped b~0; stopped b~1");
    assert_eq!(world.tasks(), "b=interrupted");
    assert_eq!(world.given("resume").effects(), "want b~0, want b~1");
    let cancelled = format!("{given}; cancel; stopped b~1");
    let then = "TaskCompleted b~0#1; JobCancelled";
    let world = check("b&[1,2,3]/2", &cancelled, "done b~0", then);
    assert_eq!(world.items("b"), "completed interrupted pending");
    let world = world.given("execute");
    assert_eq!(world.effects(), "want b~1, want b~2");
    // The last that was wanted is done: so is the task, and the job is cancelled all the same.
    let all = "start b~0; start b~1; done b~0; cancel";
    let then = "TaskCompleted b~1#1; TaskCompleted b#0; JobCancelled";
    check("b&[1,2] c", all, "done b~1", then);
    // What is held does not become its instances; it does when the job goes on.
    check("a b&[1]", "start a; pause", "done a", "TaskCompleted a#1; JobPaused");
    check("a b&[1]", "start a; pause; done a", "resume", "JobResumed; TaskExpanded b 1");
}

#[test]
fn a_failed_job_keeps_what_its_instances_did() {
    let given = "start b~0; start b~1; fail b~0; cancel; stopped b~1";
    let world = World::new("b&[1,2] c").given(given);
    assert_eq!(
        (&*world.tasks(), &*world.items("b")),
        ("b=interrupted c=pending", "failed interrupted")
    );
    let world = world.given("execute");
    assert_eq!(world.items("b"), "pending interrupted");
    assert_eq!(world.effects(), "want b~0, want b~1");
}

#[test]
fn a_deadline_ends_them_all() {
    let given = "start b~0; start b~1; fail b~0; +30";
    let mut world = World::new("@in30 b*2&[1,2,3]/2").given(given);
    assert_eq!(world.when("tick"), "DeadlinePassed deadline_exceeded");
    assert_eq!(world.effects(), "run b~1#1, stop b~1#1 Deadline");
    let then = "AttemptInterrupted b~1#1; JobFailed deadline_exceeded";
    assert_eq!(world.when("stopped b~1"), then);
    assert_eq!(world.items("b"), "interrupted interrupted pending");
}

#[test]
fn losses_are_those_of_each() {
    let given = "start b~0; start b~1";
    let world = check("b&[1,2]", given, "recover", "AttemptLost b~0#1; AttemptLost b~1#1");
    assert_eq!(world.effects(), "want b~0, want b~1");
    let then = "AttemptLost b~0#1; TaskFailed b~0 lost; AttemptLost b~1#1; TaskFailed b~1 lost; \
                TaskFailed b instances_failed; JobFailed instances_failed";
    check("b^fail&[1,2]", given, "recover", then);
    let then = "AttemptLost b~0#1; AttemptLost b~1#1; PauseRequested; JobPaused";
    check("b^pause&[1,2]", given, "recover", then);
    let given = "start b~0; start b~1; skip b";
    let then = "AttemptLost b~0#1; AttemptLost b~1#1; TaskSkipped b; JobCompleted";
    check("b^fail&[1,2]", given, "recover", then);
}

#[test]
fn the_plan_speaks_of_the_task_and_not_of_its_instances() {
    let given = "start b~0; done b~0";
    for edit in [
        "remove b~1",
        r#"edit b~1 {"title":"B"}"#,
        "move b~1 last",
        "insert z after b~1",
        "insert z before b~1",
        "insert z last by b~1",
    ] {
        check("b&[1,2] c", given, edit, "refused: is_instance");
    }
    check("b&[1,2] c", given, r#"edit b {"for_each":[1,2,3]}"#, "refused: task_is_expanded");
    check("b&[1,2] c", given, r#"edit b {"for_each":null}"#, "refused: task_is_expanded");
    check("b&[1,2] c", "start b~0", r#"edit b {"title":"B"}"#, "refused: task_is_live");
    check("b&[1,2] c", "start b~0", "remove b", "refused: task_is_live");
    check("b&[1,2] c", given, "insert z before b", "TaskInserted z");
    let world = check("b&[1,2] c", given, "remove b", "TaskRemoved b");
    assert_eq!((&*world.items("b"), &*world.effects()), ("completed removed", "want c"));
}

#[test]
fn an_edit_is_taken_up_by_what_has_not_settled() {
    let given = "start b~0; done b~0; start b~1; fail b~1; start b~2; fail b~2 x+90";
    let edit = r#"edit b {"input":{"n":{"$item":""}},"concurrency":1}"#;
    let world = check("b*3&[1,2,3,4,5] c", given, edit, "TaskEdited b");
    let of = |name: &str| world.job.task(world.job.find(name).unwrap()).unwrap();
    assert_eq!(world.job.input_of(of("b~3")).unwrap().as_str(), r#"{"n":4}"#);
    assert_eq!(of("b~0").spec.input.as_str(), r#"{"$item":""}"#);
    assert_eq!(world.effects(), "wake 10", "two have begun, which is more than may by now");
    let world = world.given("+10; start b~1; done b~1; retry b~2; start b~2; done b~2");
    assert_eq!(world.effects(), "want b~3");
    let world = world.given(r#"edit b {"concurrency":null}"#);
    assert_eq!(world.effects(), "want b~3, want b~4");
    // What it comes to need comes first, also for those that wait for their next try.
    let given = "start b~0; fail b~0; insert z before b";
    let world = World::new("b*2&[1,2]").given(given);
    assert_eq!((&*world.items("b"), &*world.effects()), ("pending pending", "want z"));
    assert_eq!(world.given("start z; done z").effects(), "want b~0, want b~1");
}

#[test]
fn a_task_may_come_to_be_one_for_each_element_and_back() {
    let each = r#"edit b {"for_each":[1,2],"input":{"$item":""}}"#;
    let world = check("a b c", "start a", each, "TaskEdited b");
    assert_eq!(world.given("done a").effects(), "want b~0, want b~1");
    let world = check("a b c", "start a; done a", each, "TaskEdited b; TaskExpanded b 2");
    assert_eq!(world.effects(), "want b~0, want b~1");
    // A back-off is dropped with the attempt that it would have been before.
    let given = "start a; done a; start b; fail b";
    let world = check("a b*2 c", given, each, "TaskEdited b; TaskExpanded b 2");
    assert_eq!(world.effects(), "want b~0, want b~1");
    let back = r#"edit b {"for_each":null,"input":null}"#;
    let world = check("a b&[1] c", "start a", back, "TaskEdited b").given("done a");
    assert_eq!(world.effects(), "want b");
    let lone = r#"edit b {"for_each":null}"#;
    check("a b&[1] c", "start a", lone, "refused: invalid_task");
}

#[test]
fn a_condition_is_looked_at_once_and_before() {
    let then = "TaskCompleted a#1; TaskSkipped b";
    let world = check("a b%a&[1,2] c", "start a", "done a false", then);
    assert_eq!((&*world.items("b"), &*world.effects()), ("", "want c"));
    check("a b%a&[1,2] c", "start a", "done a true", "TaskCompleted a#1; TaskExpanded b 2");
    let given = "start b~0; start b~1; done b~0; fail b~1";
    let world = World::new("b?&[1,2] c<b%b:failed d<b%b:completed").given(given);
    assert_eq!((&*world.tasks(), &*world.effects()), ("b=failed c=pending d=skipped", "want c"));
}

#[test]
fn what_is_done_at_the_end_is_done_for_each_anew() {
    let plan = "a @finally z&[1,2] y";
    let then = "AttemptFailed a#1; TaskFailed a error; JobEnding failed error; TaskExpanded z 2";
    let world = check(plan, "start a", "fail a", then);
    assert_eq!(world.effects(), "want z~0, want z~1");
    let mut world = world.given("start z~0; start z~1; done z~0 1; fail z~1");
    assert_eq!((&*world.tasks(), &*world.effects()), ("a=failed z=failed y=pending", "want y"));
    assert_eq!(world.output("z").as_deref(), Some("[1,null]"));
    let world_then = world.when("start y");
    assert_eq!(world_then, "AttemptStarted y#1");
    let world = world.given("done y; execute; start a; done a");
    assert_eq!(
        (&*world.tasks(), &*world.items("z")),
        ("a=completed z=pending y=pending", "pending pending")
    );
    let world = world.given("start z~1; done z~1 4; start z~0; done z~0 3");
    assert_eq!(world.output("z").as_deref(), Some("[3,4]"));
    let attempts =
        |name: &str| world.job.task(world.job.find(name).unwrap()).unwrap().attempts().len();
    assert_eq!((attempts("z~0"), attempts("z~1")), (2, 2), "their numbers go on");
}

#[test]
fn a_fork_keeps_what_is_settled() {
    let given = "start a; done a; start b~0; done b~0 5; start b~1; fail b~1; skip b~2 =7; cancel";
    let world = World::new("a b*2&[1,2,3] c").given(given);
    let (job, history) = forks::made(&world.job, &ForkFrom::Seq(world.job.seq()), vec![]).unwrap();
    let fork = World { job, history, now: 1_000_000 };
    assert_eq!(fork.items("b"), "completed pending skipped");
    assert_eq!(fork.effects(), "want b~1");
    let fork = fork.given("start b~1; done b~1 6");
    assert_eq!(fork.output("b").as_deref(), Some("[5,6,7]"));
    // From itself it begins anew; from a later one it stays.
    let made = |from: &str| forks::made(&fork.job, &ForkFrom::Task(id(from)), vec![]);
    let (anew, _) = made("b").unwrap();
    assert!(anew.find("b~0").is_some_and(|at| anew.task(at).unwrap().output().is_none()));
    let (job, history) = made("c").unwrap();
    let later = World { job, history, now: 1_000_000 };
    assert_eq!(later.output("b").as_deref(), Some("[5,6,7]"));
    assert_eq!(later.effects(), "want c");
    assert_eq!(made("b~1").map(drop), Err("is_instance"));
    // A tolerated failure stays with all that it was.
    let given = "start b~0; start b~1; done b~0 4; fail b~1; start c; done c";
    let world = World::new("b?&[1,2] c d").given(given);
    let (kept, _) = forks::made(&world.job, &ForkFrom::Task(id("d")), vec![]).unwrap();
    let b = kept.task(kept.find("b").unwrap()).unwrap();
    assert_eq!((b.status(), kept.output_of(b).unwrap().as_str()), (TaskStatus::Failed, "[4,null]"));
}

#[test]
fn instances_sleep_wait_and_are_refused_like_tasks() {
    let mut world = World::new("b&[1,2,3] c").given("sleep b~0 40; kindless b~1");
    assert_eq!(world.tasks(), "b=waiting c=pending");
    assert_eq!(world.when("refuse b~2"), "TaskFailed b~2 bad_request");
    assert_eq!(world.when("start b"), "", "it has no attempts of its own");
    assert_eq!(world.when("sleep b 4"), "");
    let world = world.given("+40; tick; start b~1");
    assert_eq!(world.items("b"), "completed running failed");
    let job = World::new("@manual b&[1]").job;
    assert!(
        decide(&job, Command::Skip { task: Some(id("b~0")), output: None, cascade: false }, &at(0))
            .is_err()
    );
    assert!(decide(&job, Report::Recover, &at(0)).unwrap().is_empty());
}

#[test]
fn what_instances_gave_may_be_too_much_to_take() {
    let big = format!("\"{}\"", "x".repeat(6 << 20));
    let mut world = World::new("b&[1,2,3] c$b=");
    for one in ["b~0", "b~1", "b~2"] {
        world = world.given(&format!("start {one}; done {one} {big}"));
    }
    assert_eq!(world.output("b"), None);
    let then = "TaskFailed c input_too_large; JobFailed input_too_large";
    assert_eq!(world.when("start c"), then);
}
