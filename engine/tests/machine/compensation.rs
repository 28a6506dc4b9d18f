//! What a job has done is undone before it ends: the last first, one at a time.

use annals_engine::job::{ForkFrom, Intent, JobStatus, Undoing};

use crate::dsl::{World, check, command, id};
use crate::forks::made;

/// Two tasks in a chain that can be undone, and one that cannot between them.
const PLAN: &str = "a~ b c~ d";
const DONE: &str = "start a; done a; start b; done b; start c; done c; start d";

fn given(more: &str) -> String {
    format!("{DONE}; {more}")
}

#[test]
fn a_cancel_undoes_the_last_that_has_completed_first() {
    check(PLAN, DONE, "cancel", "CancelRequested");
    let then = "AttemptInterrupted d#1; JobCompensating cancelled c,a";
    let world = check(PLAN, &given("cancel"), "stopped d", then);
    assert_eq!(
        (world.job.status(), world.job.intent()),
        (JobStatus::Running, Some(Intent::Cancel))
    );
    let tasks = "a=completed b=completed c=completed d=interrupted c~undo=pending a~undo=pending";
    assert_eq!(world.tasks(), tasks);
    assert_eq!(world.effects(), "want c~undo", "one at a time");
    let undoing = given("cancel; stopped d; start c~undo");
    let world = check(PLAN, &undoing, "done c~undo", "TaskCompleted c~undo#1");
    assert_eq!(world.effects(), "want a~undo");
    let undoing = given("cancel; stopped d; start c~undo; done c~undo; start a~undo");
    let world = check(PLAN, &undoing, "done a~undo", "TaskCompleted a~undo#1; JobCancelled");
    assert_eq!(world.job.status(), JobStatus::Cancelled);
    assert_eq!(world.job.counts().completed, 5);
    // What it takes is the output of the task that it undoes.
    let undo = world.job.task(world.job.find("c~undo").unwrap()).unwrap();
    assert_eq!(world.job.input_of(undo).unwrap().as_str(), "1");
}

#[test]
fn the_order_is_that_of_the_completions_not_of_the_plan() {
    let plan = "a<~ b<~ c<~";
    let given = "start a; start b; start c; done b; done c; cancel";
    let world = check(plan, given, "done a", "TaskCompleted a#1; JobCompensating cancelled a,c,b");
    assert_eq!(world.effects(), "want a~undo");
}

#[test]
fn a_failure_undoes_where_the_plan_says_so() {
    check(PLAN, DONE, "fail d", "AttemptFailed d#1; TaskFailed d error; JobFailed error");
    let plan = "@undo:failed a~ b? c";
    let given = "start a; done a; start b; fail b; start c";
    let then = "AttemptFailed c#1; TaskFailed c error; JobCompensating failed error a";
    check(plan, given, "fail c", then);
    let given = &format!("{given}; fail c; start a~undo");
    let world = check(plan, given, "done a~undo", "TaskCompleted a~undo#1; JobFailed error");
    assert_eq!(
        world.job.error().map(|(error, task)| (&*error.code, task)),
        Some(("error", world.job.find("c")))
    );
    check(plan, "start a; done a", "cancel", "CancelRequested; JobCancelled");
    let plan = "@undo:failed,cancelled @in30 a~ b";
    let given = "start a; done a; start b; +40; tick";
    let then = "AttemptInterrupted b#1; JobCompensating failed deadline_exceeded a";
    let world = check(plan, given, "stopped b", then);
    assert_eq!(world.job.deadline_at(), None);
    check(plan, "start a; done a", "cancel", "CancelRequested; JobCompensating cancelled a");
    let given = "start a; start b; done a; fail b";
    check("@fast @undo:failed a<~ b< c<", given, "start a~undo", "AttemptStarted a~undo#1");
}

#[test]
fn nothing_is_undone_that_was_not_done() {
    let plan = "a~ b~ c~? d~ e";
    let given = "skip a; remove b; start c; fail c; start d; done d; start e; cancel";
    let then = "AttemptInterrupted e#1; JobCompensating cancelled d";
    check(plan, given, "stopped e", then);
    check("a~ b", "start a; cancel", "stopped a", "AttemptInterrupted a#1; JobCancelled");
    // An attempt that succeeds although it was told to stop has done something.
    let then = "TaskCompleted a#1; JobCompensating cancelled a";
    check("a~ b", "start a; cancel", "done a", then);
    let then = "TaskCompleted a#1; JobCancelled";
    check("@undo:failed a~ b", "start a; cancel", "done a", then);
    let given = "start a; done a; start b";
    check("a~ b", given, "done b", "TaskCompleted b#1; JobCompleted");
    check("@manual a~ b", "", "cancel", "JobCancelled");
    check("a~ b", "start a; done a; start b; fail b", "cancel", "JobCancelled");
    // One whose condition says no has done nothing.
    let given = "start x; done x false; start b; cancel";
    let then = "AttemptInterrupted b#1; JobCancelled";
    check("x a~%x b", given, "stopped b", then);
}

#[test]
fn a_failure_to_undo_stops_no_other_and_fails_the_job() {
    let undoing = given("cancel; stopped d; start c~undo");
    let then = "AttemptFailed c~undo#1; TaskFailed c~undo broken";
    let world = check(PLAN, &undoing, "fail c~undo broken", then);
    assert_eq!(world.effects(), "want a~undo");
    let undoing = given("cancel; stopped d; start c~undo; fail c~undo; start a~undo");
    let then = "TaskCompleted a~undo#1; JobFailed compensation_failed";
    let world = check(PLAN, &undoing, "done a~undo", then);
    let (error, _) = world.job.error().unwrap();
    let says = "not all that the job did is undone (c~undo: it broke); it was cancelled";
    assert_eq!(&*error.message, says);
    let plan = "@undo:failed a~ b";
    let given = "start a; done a; start b; fail b cause; start a~undo";
    let then = "AttemptFailed a~undo#1; TaskFailed a~undo error; JobFailed compensation_failed";
    let world = check(plan, given, "fail a~undo", then);
    let (error, _) = world.job.error().unwrap();
    assert!(error.message.ends_with("it was about to fail: it broke [cause]"), "{error:?}");
}

#[test]
fn what_undoes_is_tried_again_like_any_task() {
    let plan = "a~2 b";
    let given = "start a; done a; start b; cancel; stopped b; start a~undo";
    let then = "AttemptFailed a~undo#1; RetryScheduled a~undo 10";
    let world = check(plan, given, "fail a~undo", then);
    assert_eq!(world.effects(), "wake 10");
    let again = &format!("{given}; fail a~undo; +10; start a~undo");
    check(plan, again, "done a~undo", "TaskCompleted a~undo#2; JobCancelled");
    let then = "AttemptFailed a~undo#2; TaskFailed a~undo error; JobFailed compensation_failed";
    check(plan, again, "fail a~undo", then);
    check(plan, &format!("{given}; fail a~undo"), "retry a~undo", "refused: not_in_this_status");
    // A crash, or a shutdown, uses up nothing.
    let world = check(plan, given, "recover", "AttemptLost a~undo#1");
    assert_eq!(world.effects(), "want a~undo");
    let world = check(plan, given, "stopped a~undo", "AttemptInterrupted a~undo#1");
    assert_eq!(world.effects(), "want a~undo");
    let again = &format!("{given}; recover; start a~undo; step a~undo s; recover; start a~undo");
    let world = World::new(plan).given(again);
    let undo = world.job.task(world.job.find("a~undo").unwrap()).unwrap();
    assert!(undo.steps().get("s").is_some());
    let lost = "recover; start a~undo; ".repeat(5);
    let then = "AttemptLost a~undo#6; TaskFailed a~undo crash_loop; JobFailed compensation_failed";
    check(plan, &format!("{given}; {lost}"), "recover", then);
    let then = "TaskWaiting a~undo";
    check("a~ b", "start a; done a; cancel", "kindless a~undo", then);
}

#[test]
fn finally_comes_behind_it_and_knows_how_that_went() {
    let plan = "a~ b @finally y%:failed z%:cancelled";
    let given = "start a; done a; start b; cancel; stopped b; start a~undo";
    let then = "TaskCompleted a~undo#1; JobEnding cancelled; TaskSkipped y";
    let world = check(plan, given, "done a~undo", then);
    assert_eq!(world.effects(), "want z");
    let then = "AttemptFailed a~undo#1; TaskFailed a~undo error; \
        JobEnding failed compensation_failed";
    let world = check(plan, given, "fail a~undo", then);
    assert_eq!(world.effects(), "want y");
    let given = &format!("{given}; fail a~undo; start y");
    let then = "TaskCompleted y#1; TaskSkipped z; JobFailed compensation_failed";
    let world = check(plan, given, "done y", then);
    assert_eq!(world.tasks(), "a=completed b=interrupted a~undo=failed y=completed z=skipped");
    check(plan, "start a; done a; cancel", "skip z", "refused: not_in_this_status");
}

#[test]
fn a_cancel_now_stops_it_and_an_execute_finishes_it() {
    let undoing = given("cancel; stopped d; start c~undo");
    let world = check(PLAN, &undoing, "cancel now", "CancelRequested");
    assert_eq!(world.effects(), "run c~undo#1, stop c~undo#1 Cancel");
    let cut = format!("{undoing}; cancel now");
    let then = "AttemptInterrupted c~undo#1; JobCancelled";
    let world = check(PLAN, &cut, "stopped c~undo", then);
    assert!(world.job.undoing().is_some_and(|undoing| !undoing.is_done()));
    check(PLAN, &cut, "done c~undo", "TaskCompleted c~undo#1; JobCancelled");
    check(PLAN, &cut, "skip a~undo", "refused: not_in_this_status");
    let ended = format!("{cut}; stopped c~undo");
    let then = "JobReopened; JobCompensating cancelled c,a";
    let world = check(PLAN, &ended, "execute", then);
    assert_eq!(world.effects(), "want c~undo", "its work does not run");
    let world = World::new(PLAN).given(&format!("{cut}; done c~undo; execute"));
    assert_eq!(world.effects(), "want a~undo");
    // A cancel that is to be at once from the start undoes nothing, and the job goes on later.
    let world =
        check(PLAN, &given("cancel now"), "stopped d", "AttemptInterrupted d#1; JobCancelled");
    assert!(world.job.undoing().is_none());
    let world = World::new(PLAN).given(&given("cancel now; stopped d; execute"));
    assert_eq!(world.effects(), "want d");
    let given = given("cancel now; stopped d; execute; start d; cancel");
    let then = "AttemptInterrupted d#2; JobCompensating cancelled c,a";
    check(PLAN, &given, "stopped d", then);
}

const FAILED: &str = "start a; done a; start b; done b; start c; done c; start d; cancel; \
    stopped d; start c~undo; fail c~undo; start a~undo; fail a~undo";

#[test]
fn an_execute_tries_afresh_what_could_not_be_undone_in_its_order() {
    let plan = "a~2 b c~ d @finally z";
    let given = &FAILED.replace(
        "fail a~undo",
        "fail a~undo; +10; start a~undo; fail a~undo; \
        start z; done z",
    );
    let world = World::new(plan).given(given);
    assert_eq!(world.job.status(), JobStatus::Failed);
    let world = check(plan, given, "execute", "JobReopened; JobCompensating cancelled c,a");
    assert_eq!(world.effects(), "want c~undo");
    let again = &format!("{given}; execute; start c~undo; done c~undo; start a~undo");
    let then = "AttemptFailed a~undo#3; RetryScheduled a~undo 20";
    check(plan, again, "fail a~undo", then);
    let then = "TaskCompleted a~undo#3; JobEnding cancelled";
    check(plan, again, "done a~undo", then);
    let again = &format!("{again}; done a~undo; start z");
    let world = check(plan, again, "done z", "TaskCompleted z#2; JobCancelled");
    assert!(world.job.undoing().is_some_and(Undoing::is_done));
    // One that is undone stands between the others no more.
    let plan = "a~ b~ c~ d";
    let undone = "start c~undo; fail c~undo; start b~undo; done b~undo; start a~undo; fail a~undo";
    let world = World::new(plan).given(&format!("{DONE}; cancel; stopped d; {undone}; execute"));
    assert_eq!(world.effects(), "want c~undo");
}

#[test]
fn what_is_undone_is_not_executed_again() {
    let done = given("cancel; stopped d; start c~undo; done c~undo; start a~undo; done a~undo");
    for line in [
        "execute",
        "execute held",
        "retry d",
        "retry a~undo",
        "skip d",
        "remove d",
        "insert x",
        "move d before b",
        r#"edit d {"title":"D"}"#,
        "skip a~undo",
    ] {
        check(PLAN, &done, line, "refused: compensated");
    }
    check(PLAN, &done, "cancel", "");
    check(PLAN, &done, "purge", "JobPurged");
    let plan = "@undo:failed a~ b";
    let given = "start a; done a; start b; fail b; start a~undo; done a~undo";
    check(plan, given, "execute", "refused: compensated");
    check(plan, given, "cancel", "JobCancelled");
    check(plan, &format!("{given}; cancel"), "execute", "refused: compensated");
}

#[test]
fn its_work_is_over_once_it_has_begun() {
    let world = World::new(PLAN).given(FAILED);
    assert_eq!(world.job.status(), JobStatus::Failed);
    for line in [
        "retry d",
        "skip d",
        "remove d",
        "insert x",
        "insert x after d",
        r#"edit d {"title":"D"}"#,
        "move d before b",
    ] {
        check(PLAN, FAILED, line, "refused: compensated");
    }
    let held = &format!("{FAILED}; execute held");
    let world = check(PLAN, FAILED, "execute held", "JobReopened");
    assert_eq!(world.job.status(), JobStatus::Paused);
    assert_eq!(world.effects(), "");
    check(PLAN, held, "execute", "refused: not_in_this_status");
    check(PLAN, held, "skip d", "refused: compensated");
    let world = check(PLAN, held, "resume", "JobResumed; JobCompensating cancelled c,a");
    assert_eq!(world.effects(), "want c~undo");
    check(PLAN, held, "cancel", "CancelRequested; JobCompensating cancelled c,a");
    check(PLAN, held, "cancel now", "CancelRequested; JobCancelled");
    // Whoever cancels it decides its end anew.
    let plan = "@undo:failed a~ b";
    let given = "start a; done a; start b; fail b; start a~undo; fail a~undo";
    check(plan, given, "execute", "JobReopened; JobCompensating failed error a");
    let given = &format!("{given}; execute held");
    check(plan, given, "cancel", "CancelRequested; JobCompensating cancelled a");
}

#[test]
fn what_could_not_be_undone_is_corrected_retried_or_passed_over() {
    let world = check(PLAN, FAILED, r#"edit c~undo {"title":"corrected"}"#, "TaskEdited c~undo");
    assert_eq!(world.tasks().matches("c~undo=failed").count(), 1);
    let then = "JobReopened; JobCompensating cancelled c,a";
    check(PLAN, FAILED, "retry c~undo", then);
    check(PLAN, FAILED, r#"edit c~undo {"needs":[]}"#, "refused: invalid_task");
    check(PLAN, FAILED, r#"edit c~undo {"when":{"$output":"a"}}"#, "refused: invalid_task");
    check(PLAN, FAILED, r#"edit c~undo {"on_lost":"pause"}"#, "refused: invalid_task");
    check(PLAN, FAILED, r#"edit c~undo {"input":{"$output":"a"}}"#, "refused: invalid_task");
    check(
        PLAN,
        FAILED,
        r#"edit c~undo {"input":{"$output":"a","default":0}}"#,
        "TaskEdited c~undo",
    );
    check(PLAN, FAILED, "move c~undo last", "refused: other_part");
    check(PLAN, FAILED, "insert x after c~undo", "refused: other_part");
    check(PLAN, FAILED, "skip", "refused: which_task");
    check(PLAN, FAILED, "skip c~undo", "TaskSkipped c~undo");
    let skipped = &format!("{FAILED}; skip c~undo");
    check(PLAN, skipped, "skip", "TaskSkipped a~undo");
    let world = check(PLAN, skipped, "execute", "JobReopened; JobCompensating cancelled a");
    assert_eq!(world.effects(), "want a~undo");
    // With nothing left the job takes the end that it was to take.
    let skipped = &format!("{FAILED}; skip c~undo; remove a~undo");
    check(PLAN, skipped, "execute", "JobReopened; JobCancelled");
    check(PLAN, &format!("{skipped}; execute"), "execute", "refused: compensated");
    // While it goes on what is still to come may be passed over, too.
    let undoing = given("cancel; stopped d; start c~undo");
    check(PLAN, &undoing, "skip", "SkipRequested c~undo");
    check(PLAN, &undoing, "skip a~undo", "TaskSkipped a~undo");
    check(PLAN, &undoing, "skip d", "refused: compensated");
    for line in ["pause", "interrupt", "resume", "execute", "retry a~undo", "remove a~undo"] {
        check(PLAN, &undoing, line, "refused: not_in_this_status");
    }
    let undoing = &format!("{undoing}; skip a~undo");
    check(PLAN, undoing, "done c~undo", "TaskCompleted c~undo#1; JobCancelled");
}

#[test]
fn a_pause_holds_what_is_to_be_undone() {
    let plan = "@undo:failed a~ b";
    let given = "start a; done a; start b; pause";
    let then = "AttemptFailed b#1; TaskFailed b error; JobPaused";
    check(plan, given, "fail b", then);
    let given = &format!("{given}; fail b");
    check(plan, given, "resume", "JobResumed; JobCompensating failed error a");
    check(plan, given, "cancel", "CancelRequested; JobCancelled");
    // Somebody may mend it instead.
    let world = World::new(plan).given(&format!("{given}; retry b; resume"));
    assert_eq!(world.effects(), "want b");
    let paused = "start a; done a; start b; interrupt; stopped b";
    check("a~ b", paused, "cancel", "CancelRequested; JobCompensating cancelled a");
}

#[test]
fn a_fork_does_anew_what_was_undone_and_does_not_undo_what_it_has_copied() {
    let fork = |world: &World, from: &ForkFrom| {
        let (job, history) = made(&world.job, from, Vec::new()).unwrap();
        World { job, history, now: 1_000_000 }
    };
    let plan = "a~ b c~ d";
    let undone = given("cancel; stopped d; start c~undo; done c~undo; start a~undo; done a~undo");
    let world = World::new(plan).given(&undone);
    let whole = fork(&world, &ForkFrom::Seq(world.job.seq()));
    assert_eq!(whole.tasks(), "a=pending b=pending c=pending d=pending");
    // Of what was only about to be undone when the job ended, nothing is anew.
    let cut = given("cancel; stopped d; start c~undo; done c~undo; start a~undo; cancel now");
    let world = World::new(plan).given(&format!("{cut}; stopped a~undo"));
    let some = fork(&world, &ForkFrom::Seq(world.job.seq()));
    assert_eq!(some.tasks(), "a=pending b=pending c=pending d=pending");
    let cut = given("cancel; stopped d; start c~undo; cancel now; done c~undo");
    let world = World::new(plan).given(&cut);
    let some = fork(&world, &ForkFrom::Seq(world.job.seq()));
    assert_eq!(some.tasks(), "a=completed b=completed c=pending d=pending");
    // But while that goes on, all of it is.
    let world = World::new(plan).given(&given("cancel; stopped d; start c~undo"));
    let open = fork(&world, &ForkFrom::Seq(world.job.seq()));
    assert_eq!(open.tasks(), "a=pending b=pending c=pending d=pending");
    let refused = made(&world.job, &ForkFrom::Task(id("c~undo")), Vec::new());
    assert_eq!(refused.err(), Some("other_part"));
    let of_undo = vec![command("skip a~undo")];
    let refused = made(&world.job, &ForkFrom::Seq(world.job.seq()), of_undo);
    assert_eq!(refused.err(), Some("no_such_task"));
    // What it copies was done by its origin, and is undone there.
    let world = World::new(plan).given(DONE);
    let copied = fork(&world, &ForkFrom::Task(id("c"))).given("start c; done c; start d");
    let mut world = copied.given("cancel");
    assert_eq!(world.when("stopped d"), "AttemptInterrupted d#1; JobCompensating cancelled c");
}

#[test]
fn who_shares_a_key_waits_for_it_to_undo() {
    let given = "start a; done a; start b; fail b; execute";
    let then = "CancelRequested; JobCompensating cancelled a";
    let world = check("@key$k a~ b", given, "cancel", then);
    assert!(world.job.exclusive().is_some_and(|own| own.since.is_some() && !own.taken));
    assert_eq!(world.effects(), "want a~undo");
}
