//! What is done at the end of each run, and `fail_fast`.

use annals_engine::job::{Intent, JobStatus};

use crate::dsl::{World, check};

const PLAN: &str = "a b @finally y z";

#[test]
fn it_runs_when_the_work_is_done() {
    let given = "start a; done a; start b";
    let world = check(PLAN, given, "done b", "TaskCompleted b#1; JobEnding completed");
    assert_eq!(world.job.status(), JobStatus::Running);
    assert_eq!(world.job.intent(), Some(Intent::Complete));
    assert_eq!(world.effects(), "want y");
    let given = "start a; done a; start b; done b; start y; done y; start z";
    check(PLAN, given, "done z", "TaskCompleted z#1; JobCompleted");
}

#[test]
fn it_runs_before_a_failure_and_before_a_cancel() {
    let then = "AttemptFailed a#1; TaskFailed a error; JobEnding failed error";
    let world = check(PLAN, "start a", "fail a", then);
    assert_eq!(world.effects(), "want y");
    let given = "start a; fail a; start y; done y; start z";
    check(PLAN, given, "done z", "TaskCompleted z#1; JobFailed error");
    let world = check(PLAN, "start a", "cancel", "CancelRequested");
    assert_eq!(world.effects(), "run a#1, stop a#1 Cancel");
    let then = "AttemptInterrupted a#1; JobEnding cancelled";
    check(PLAN, "start a; cancel", "stopped a", then);
    check(PLAN, "", "cancel", "CancelRequested; JobEnding cancelled");
    let given = "cancel; start y; done y; start z";
    let world = check(PLAN, given, "done z", "TaskCompleted z#1; JobCancelled");
    assert_eq!(world.tasks(), "a=pending b=pending y=completed z=completed");
    let given = "+40";
    let then = "DeadlinePassed deadline_exceeded; JobEnding failed deadline_exceeded";
    check("@in30 a @finally z", given, "tick", then);
}

#[test]
fn what_never_started_ends_at_once() {
    check("@manual a @finally z", "", "cancel", "JobCancelled");
    check("@manual a @finally z", "pause", "cancel", "JobCancelled");
    check("a @finally z", "start a; fail a; start z; done z", "cancel", "JobCancelled");
    // In line for its key it has not begun either.
    check("@key$k a @finally z", "", "cancel", "CancelRequested; JobCancelled");
    check(
        "@key$k a @finally z",
        "start a; done a; start z",
        "done z",
        "TaskCompleted z#1; JobCompleted",
    );
}

#[test]
fn a_failure_of_it_changes_nothing() {
    let given = "start a; done a; start b; done b; start y";
    let world = check(PLAN, given, "fail y", "AttemptFailed y#1; TaskFailed y error");
    assert_eq!(world.effects(), "want z");
    let given = "start a; done a; start b; done b; start y; fail y; start z";
    let then = "AttemptFailed z#1; TaskFailed z error; JobCompleted";
    let world = check(PLAN, given, "fail z", then);
    assert_eq!(world.job.error(), None);
    let given = "start a; fail a first; start y; fail y; start z";
    check(PLAN, given, "fail z", "AttemptFailed z#1; TaskFailed z error; JobFailed first");
}

#[test]
fn it_is_tried_again_like_any_task() {
    let plan = "a @finally z*2";
    let then = "AttemptFailed z#1; RetryScheduled z 10";
    check(plan, "start a; fail a; start z", "fail z", then);
    let given = "start a; fail a; start z; fail z; +10; start z";
    check(plan, given, "done z", "TaskCompleted z#2; JobFailed error");
    let given = "cancel; start z";
    let world = check(plan, given, "recover", "AttemptLost z#1");
    assert_eq!(world.effects(), "want z");
    let world = check(plan, given, "stopped z", "AttemptInterrupted z#1");
    assert_eq!(world.effects(), "want z");
}

#[test]
fn it_looks_at_the_end_that_is_decided() {
    let plan = "a @finally y%:failed,cancelled z%:completed";
    let then = "TaskCompleted a#1; JobEnding completed; TaskSkipped y";
    let world = check(plan, "start a", "done a", then);
    assert_eq!(world.effects(), "want z");
    let world = check(plan, "", "cancel", "CancelRequested; JobEnding cancelled");
    assert_eq!(world.effects(), "want y");
    let then = "TaskCompleted y#1; TaskSkipped z; JobCancelled";
    check(plan, "cancel; start y", "done y", then);
    // And at whatever has become of the work.
    let plan = "a b @finally y%b:pending z%a:interrupted";
    let given = "start a; cancel";
    check(plan, given, "stopped a", "AttemptInterrupted a#1; JobEnding cancelled");
    let given = "start a; done a; start b; done b";
    let world = World::new(plan).given(given);
    assert_eq!(world.job.status(), JobStatus::Completed);
    assert_eq!(world.tasks(), "a=completed b=completed y=skipped z=skipped");
}

#[test]
fn an_end_that_is_decided_stands() {
    let given = "start a; done a; start b; done b; start y";
    for command in
        ["execute", "pause", "resume", "interrupt", "remove z", "retry z", "move z first"]
    {
        check(PLAN, given, command, "refused: not_in_this_status");
    }
    check(PLAN, given, "cancel", "");
    check(PLAN, given, "skip a", "refused: not_in_this_status");
    check(PLAN, given, "skip y", "SkipRequested y");
    check(PLAN, given, "skip", "SkipRequested y");
    let world = check(PLAN, given, "skip z", "TaskSkipped z");
    drop(world);
    let given = "start a; done a; start b; done b; start y; skip z";
    check(PLAN, given, "done y", "TaskCompleted y#1; JobCompleted");
    check(PLAN, "start a; cancel", "skip z", "refused: not_in_this_status");
}

#[test]
fn a_cancel_now_cuts_it_short() {
    let world = check(PLAN, "start a", "cancel now", "CancelRequested");
    assert_eq!(world.effects(), "run a#1, stop a#1 Cancel");
    check(PLAN, "start a; cancel now", "stopped a", "AttemptInterrupted a#1; JobCancelled");
    check(PLAN, "start a; cancel", "cancel now", "CancelRequested");
    check(PLAN, "start a; cancel; cancel now", "cancel now", "");
    check(PLAN, "start a; cancel; cancel now", "stopped a", "AttemptInterrupted a#1; JobCancelled");
    // The end stands: a job that has done its work is completed.
    let given = "start a; done a; start b; done b; start y";
    let world = check(PLAN, given, "cancel now", "CancelRequested");
    assert_eq!(world.effects(), "run y#1, stop y#1 Cancel");
    let given = &format!("{given}; cancel now");
    check(PLAN, given, "stopped y", "AttemptInterrupted y#1; JobCompleted");
    check(PLAN, given, "done y", "TaskCompleted y#1; JobCompleted");
    check(PLAN, given, "recover", "AttemptLost y#1; JobCompleted");
    check(PLAN, given, "skip z", "refused: not_in_this_status");
    check(PLAN, "start a; fail a", "cancel now", "CancelRequested; JobFailed error");
    check(PLAN, "", "cancel now", "CancelRequested; JobCancelled");
}

#[test]
fn it_runs_once_for_each_end() {
    let given = "start a; fail a; start y; done y; start z; done z; execute";
    let world = World::new(PLAN).given(given);
    assert_eq!(world.tasks(), "a=pending b=pending y=pending z=pending");
    assert_eq!(world.effects(), "want a");
    let given = &format!("{given}; start a; done a; start b; done b; start y; done y#2; start z");
    let world = check(PLAN, given, "done z#2", "TaskCompleted z#2; JobCompleted");
    assert_eq!(world.job.counts().completed, 4);
    // What an operator took out stays out.
    let given =
        "skip z; start a; fail a; start y; done y; execute; start a; done a; start b; done b";
    let world = check(PLAN, given, "start y", "AttemptStarted y#2");
    assert_eq!(world.tasks(), "a=completed b=completed y=running z=skipped");
    let given = "remove z; start a; fail a; start y; fail y; execute; cancel";
    let world = check(PLAN, given, "start y", "AttemptStarted y#2");
    assert_eq!(world.job.counts().tolerated, 0);
}

#[test]
fn a_pause_holds_it_until_the_resume() {
    let given = "start a; done a; start b; pause";
    check(PLAN, given, "done b", "TaskCompleted b#1; JobPaused");
    let given = &format!("{given}; done b");
    let world = check(PLAN, given, "resume", "JobResumed; JobEnding completed");
    assert_eq!(world.effects(), "want y");
    check(PLAN, given, "insert c", "TaskInserted c");
    let given = &format!("{given}; insert c; resume");
    let world = World::new(PLAN).given(given);
    assert_eq!(world.effects(), "want c");
    check(
        PLAN,
        "start a; done a; start b; pause; done b",
        "cancel",
        "CancelRequested; JobEnding cancelled",
    );
}

#[test]
fn nothing_is_left_of_it_where_all_of_it_is_passed_over() {
    check("a @finally z", "start a; skip z", "done a", "TaskCompleted a#1; JobCompleted");
    check("a @finally z", "start a; remove z", "done a", "TaskCompleted a#1; JobCompleted");
}

#[test]
fn it_can_be_edited_before_its_turn() {
    check(PLAN, "", "insert x after z", "TaskInserted x");
    let given = "insert x before y; insert w; cancel";
    let world = check(PLAN, given, "start x", "AttemptStarted x#1");
    assert_eq!(world.tasks(), "a=pending b=pending w=pending x=running y=pending z=pending");
    check(PLAN, "", "move z before y", "TaskMoved z");
    let world = World::new(PLAN).given("move z before y; cancel");
    assert_eq!(world.effects(), "want z");
    check(PLAN, "", "move z after a", "refused: other_part");
    check(PLAN, "", "move a after z", "refused: other_part");
    check(PLAN, "", r#"edit z {"on_failure":"pause"}"#, "refused: invalid_task");
    check(PLAN, "", r#"edit z {"needs":["a"]}"#, "refused: other_part");
    check(PLAN, "", r#"edit a {"needs":["z"]}"#, "refused: other_part");
    check(PLAN, "", "insert c before b by z", "refused: other_part");
    check(PLAN, "", r#"edit z {"input":{"$output":"a"}}"#, "refused: invalid_task");
    check(PLAN, "", r#"edit z {"input":{"$output":"a","default":0}}"#, "TaskEdited z");
    check(PLAN, "", r#"edit a {"input":{"$output":"z"}}"#, "refused: invalid_task");
    check(PLAN, "", r#"edit z {"when":{"status":["failed"]}}"#, "TaskEdited z");
}

#[test]
fn the_first_failure_of_a_plan_that_fails_fast_stops_the_others() {
    let plan = "@fast a< b< c<";
    let given = "start a; start b";
    let world = check(plan, given, "fail a", "AttemptFailed a#1; TaskFailed a error");
    assert_eq!(world.job.intent(), Some(Intent::Fail));
    assert_eq!(world.effects(), "run b#1, stop b#1 FailFast");
    let given = "start a; start b; fail a";
    check(plan, given, "stopped b", "AttemptInterrupted b#1; JobFailed error");
    check(plan, given, "done b", "TaskCompleted b#1; JobFailed error");
    check(plan, given, "fail b other", "AttemptInterrupted b#1; JobFailed error");
    check(plan, given, "timeout b", "AttemptTimedOut b#1; JobFailed error");
    check(plan, given, "recover", "AttemptLost b#1; JobFailed error");
    check(plan, given, "cancel", "");
    let world = World::new(plan).given("start a; start b; fail a; stopped b; execute");
    assert_eq!(world.effects(), "want a, want b, want c");
}

#[test]
fn what_is_tolerated_or_pauses_does_not_fail_fast() {
    let tolerated = check(
        "@fast a<? b<",
        "start a; start b",
        "fail a",
        "AttemptFailed a#1; TaskFailed a error",
    );
    assert_eq!(tolerated.job.intent(), None);
    let then = "AttemptFailed a#1; TaskFailed a error; PauseRequested";
    let paused = check("@fast a<! b<", "start a; start b", "fail a", then);
    assert_eq!(paused.job.intent(), Some(Intent::Pause));
    // A pause is kept; then it fails.
    let given = "start a; start b; pause; fail a; done b";
    let world = check("@fast a< b< c<", given, "resume", "JobResumed; JobFailed error");
    assert_eq!(world.tasks(), "a=failed b=completed c=pending");
}

#[test]
fn a_loss_that_fails_ends_it_too() {
    let given = "start a; start b; start c";
    let then =
        "AttemptLost a#1; TaskFailed a lost; AttemptLost b#1; AttemptLost c#1; JobFailed lost";
    check("@fast a<^fail b<^fail c<^pause", given, "recover", then);
    let then = "AttemptLost a#1; AttemptLost b#1; TaskFailed b lost; JobEnding failed lost";
    check("@fast a<^pause b<^fail @finally z", "start a; start b", "recover", then);
}
