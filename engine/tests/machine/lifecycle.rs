//! Start, pause, resume, cancel and execute, with attempts in between.

use annals_tasks_sdk::Timestamp;

use crate::dsl::{World, check};

#[test]
fn a_job_with_a_time_starts_then_unless_somebody_was_faster() {
    let mut world = World::new("@at60 @in30 a b");
    assert_eq!(
        (world.job.due().map(Timestamp::as_millis), world.effects()),
        (Some(60_000), "wake 60".into())
    );
    assert_eq!(world.when("tick"), "");
    world.now = 60;
    assert_eq!(world.when("tick"), "JobStarted");
    assert_eq!(world.effects(), "wake 90, want a", "its deadline counts from its start");
    assert_eq!(World::new("@at60 a").given("execute; start a; done a; +60; tick").when("tick"), "");
    check("@at60 a", "", "execute", "JobStarted");
    check("@at60 a", "", "cancel", "JobCancelled");
    check("@at60 a", "cancel", "execute", "JobReopened");
    check("@at60 a", "", "skip a", "TaskSkipped a");
    // The time stands while the job is held, and acts once when it goes on.
    let mut world = World::new("@at60 a").given("pause; +100; tick");
    assert_eq!((world.job.due(), world.effects()), (None, String::new()));
    world = world.given("resume");
    assert_eq!(world.effects(), "wake 60");
    assert_eq!(world.when("tick"), "JobStarted");
    assert_eq!(world.when("tick"), "");
    // One that has passed is no reason to wait.
    assert_eq!(World::new("@at-60 a").when("tick"), "JobStarted");
}

#[test]
fn a_pause_drains_and_the_rest_waits_for_the_resume() {
    let world = check("a b", "start a", "pause", "PauseRequested");
    assert_eq!(world.effects(), "run a#1");
    let world = check("a b", "start a; pause", "done a", "TaskCompleted a#1; JobPaused");
    assert_eq!(world.effects(), "");
    assert_eq!(world.given("resume").effects(), "want b");
    check("a b", "", "pause", "PauseRequested; JobPaused");
    check("a b", "pause", "pause", "");
    check("a b", "pause", "start a", "");
    // Twice resumed is once resumed.
    check("a b", "pause; resume", "resume", "");
    // Revisions count commands that changed something.
    assert_eq!(World::new("a b").given("pause; pause; resume; start a").job.revision(), 3);
}

#[test]
fn what_drains_may_end_the_job_in_spite_of_the_pause() {
    check("a", "start a; pause", "done a", "TaskCompleted a#1; JobCompleted");
    let then = "AttemptFailed a#1; TaskFailed a error; JobFailed error";
    check("a b", "start a; pause", "fail a", then);
    let then = "AttemptFailed a#1; RetryScheduled a 10; JobPaused";
    check("a*2 b", "start a; pause", "fail a", then);
}

#[test]
fn an_interrupting_pause_hardens_a_draining_one_and_is_withdrawn_by_resume() {
    let world = check("a b", "start a; pause", "interrupt", "PauseRequested");
    assert_eq!(world.effects(), "run a#1, stop a#1 Pause");
    check("a b", "start a; interrupt", "interrupt", "");
    check("a b", "start a; interrupt", "pause", "");
    let then = "AttemptInterrupted a#1; JobPaused";
    let world = check("a b", "start a; interrupt", "stopped a", then);
    assert_eq!(world.given("resume").effects(), "want a");
    // The attempt that was told to stop ends interrupted, and runs again.
    let given = "start a; interrupt; resume";
    let world = check("a b", given, "fail a", "AttemptInterrupted a#1");
    assert_eq!(world.effects(), "want a");
    check("a b", "start a; interrupt; resume", "done a", "TaskCompleted a#1");
}

#[test]
fn a_pause_keeps_due_times_and_a_resume_does_not_drop_them() {
    let paused = "start a; fail a; +3; pause; +2; resume";
    let world = World::new("a*3 b").given(paused);
    assert_eq!(world.due("a"), Some(10));
    assert_eq!(world.effects(), "wake 10");
    check("a*3 b", paused, "start a", "");
    check("a*3 b", &format!("{paused}; +5"), "start a", "AttemptStarted a#2");
    // Later than the due time: at once.
    let late = World::new("a*3 b").given("start a; fail a; pause; +90; resume");
    assert_eq!(late.effects(), "want a");
    // A restart in between changes nothing.
    let world = World::new("a*3 b").given("start a; fail a; pause; recover; +5; resume; recover");
    assert_eq!(world.due("a"), Some(10));
    let world = World::new("a b").given("sleep a 60; pause; +90");
    assert_eq!(world.effects(), "");
    let world = world.given("resume");
    assert_eq!(world.effects(), "wake 60");
    assert_eq!(world.given("tick").tasks(), "a=completed b=pending");
}

#[test]
fn a_cancel_stops_everything_and_starts_nothing() {
    let world = check("a b< c<", "start a; start b", "cancel", "CancelRequested");
    assert_eq!(world.effects(), "run a#1, stop a#1 Cancel, run b#1, stop b#1 Cancel");
    check("a b<", "start a; cancel", "start b", "");
    check("a b<", "start a; cancel", "cancel", "");
    check("a*5", "start a; cancel", "fail a", "AttemptInterrupted a#1; JobCancelled");
    check("a*5", "start a; cancel", "timeout a", "AttemptTimedOut a#1; JobCancelled");
    check("a", "start a; cancel", "recover", "AttemptLost a#1; JobCancelled");
    check("a b", "", "cancel", "CancelRequested; JobCancelled");
    check("@manual a", "pause", "cancel", "JobCancelled");
    check("a b", "start a; pause", "cancel", "CancelRequested");
    let world = World::new("a b").given("start a; interrupt; cancel");
    assert_eq!(world.effects(), "run a#1, stop a#1 Cancel");
}

#[test]
fn a_cancel_leaves_no_timer_and_an_execute_drops_the_waits() {
    let then = "CancelRequested; JobCancelled";
    let world = check("a*3 b<", "start a; fail a; sleep b 60", "cancel", then);
    assert_eq!(
        (world.effects(), world.tasks()),
        (String::new(), "a=interrupted b=interrupted".into())
    );
    assert_eq!(world.given("+100; tick; execute").effects(), "want a, want b");
}

#[test]
fn a_task_that_succeeds_after_the_cancel_is_completed_and_the_job_cancelled() {
    let world = check("a", "start a; cancel", "done a", "TaskCompleted a#1; JobCancelled");
    assert_eq!(world.tasks(), "a=completed");
    check("a", "start a; cancel; done a", "execute", "JobReopened; JobCompleted");
}

#[test]
fn late_and_doubled_reports_are_dropped() {
    for late in
        ["done a#1", "fail a#1", "stopped a#1", "timeout a#1", "checkpoint a#1", "step a#1 s"]
    {
        check("a b", "start a; done a", late, "");
        check("a b", "start a; cancel; stopped a", late, "");
        check("a*2 b", "start a; fail a; +10; start a", late, "");
        check("a b", "start a; recover; start a", late, "");
    }
    for never in ["done a#1", "done a#0", "done a#7", "done z#1", "start z", "start b", "tick"] {
        check("a b", "", never, "");
    }
    for not_ready in ["sleep b 5", "kindless b", "refuse b"] {
        check("a b", "", not_ready, "");
        check("a b", "start a", &not_ready.replace(" b", " a"), "");
    }
    check("a b", "start a", "start a", "");
    check("a b", "skip b", "start b", "");
}

#[test]
fn an_execute_runs_what_is_not_settled_and_nothing_else() {
    let given = "start a; done a; start b; fail b";
    let world = World::new("a b c").given(given);
    assert_eq!(world.job.error().unwrap().0.code.as_ref(), "error");
    assert_eq!(world.tasks(), "a=completed b=failed c=pending");
    let world = world.given("execute");
    assert_eq!(
        (world.effects(), world.tasks()),
        ("want b".into(), "a=completed b=pending c=pending".into())
    );
    let world = world.given("start b; done b; start c; done c");
    assert_eq!(world.job.status().as_str(), "completed");
    let b = world.job.task(world.job.find("b").unwrap()).unwrap();
    assert_eq!(b.attempts().len(), 2);
    check("a", "start a; done a", "execute", "");
    check("a", "start a", "execute", "");
    let world = World::new("a b").given("start a; fail a; execute held");
    assert_eq!((world.job.status().as_str(), world.effects()), ("paused", String::new()));
    assert_eq!(world.given("resume").effects(), "want a");
}

/// A ten-task job that fails at 7, 8, 8 and 10 never repeats what it has done.
#[test]
fn finished_tasks_are_never_run_again() {
    let mut world = World::new("t1 t2 t3 t4 t5 t6 t7 t8 t9 t10");
    let mut failures = vec![10, 8, 8, 7];
    for turn in 1.. {
        let next = world.effects();
        let Some(name) = next.strip_prefix("want ").map(str::to_owned) else { break };
        let fails = failures.last().is_some_and(|at| name == format!("t{at}"));
        if fails {
            failures.pop();
            world = world.given(&format!("start {name}; fail {name}; execute"));
        } else {
            world = world.given(&format!("start {name}; done {name} {turn}"));
        }
    }
    assert_eq!(world.job.status().as_str(), "completed");
    let attempts = world.job.tasks().map(|(_, task)| task.attempts().len());
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 2, 3, 1, 2]);
}

#[test]
fn a_job_that_never_started_goes_back_to_pending_and_one_executed_held_runs() {
    assert_eq!(World::new("@manual a").given("pause; resume").job.status().as_str(), "pending");
    let world = World::new("@manual a").given("execute held; resume");
    assert_eq!(world.effects(), "want a");
    let world = World::new("@manual a").given("cancel; execute held; resume");
    assert_eq!(world.effects(), "want a");
}

#[test]
fn a_missing_kind_waits_and_is_not_told_twice() {
    let world = check("a b", "", "kindless a", "TaskWaiting a");
    assert!(world.job.is_active(), "the next start must look for the kind again");
    assert_eq!(world.effects(), "want a");
    check("a b", "kindless a", "kindless a", "");
    check("a b", "kindless a", "start a", "AttemptStarted a#1");
    let world = check("a b", "kindless a", "cancel", "CancelRequested; JobCancelled");
    assert!(!world.job.is_active());
}

#[test]
fn a_sleep_completes_without_an_attempt_when_its_time_comes() {
    check("a b", "sleep a 5; +4", "tick", "");
    check("a b", "sleep a 5; +5", "tick", "TaskCompleted a#0");
    check("a b", "sleep a 5; +5; pause", "tick", "");
    check("a b", "sleep a 5; +5", "start a", "");
    check(
        "a< b<",
        "sleep a 5; sleep b 5; +9",
        "tick",
        "TaskCompleted a#0; TaskCompleted b#0; JobCompleted",
    );
}

#[test]
fn a_checkpoint_outlives_its_attempt_and_an_execute() {
    let given = "start a; checkpoint a; fail a; execute";
    let world = World::new("a").given(given);
    let a = world.job.task(world.job.find("a").unwrap()).unwrap();
    assert_eq!(a.checkpoint().unwrap().attempt, 1);
}

fn steps(world: &World, task: &str) -> String {
    let task = world.job.task(world.job.find(task).unwrap()).unwrap();
    let steps = task.steps().as_slice().iter();
    let words = steps.map(|step| format!("{}#{}@{}", step.name, step.attempt, step.seq));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn steps_outlive_their_attempts() {
    let mut world = World::new("a*2 b").given("start a; step a first; step a second; fail a; +99");
    assert_eq!(steps(&world, "a"), "first#1@4 second#1@5");
    let mut again = world.given("start a");
    assert_eq!(again.when("step a second"), "", "it is recorded");
    assert_eq!(again.when("step a third"), "StepRecorded a#2 third");
    world = again.given("fail a; execute; start a; interrupt; stopped a; resume; start a; recover");
    assert_eq!(steps(&world, "a"), "first#1@4 second#1@5 third#2@9");
}

#[test]
fn what_never_runs_again_has_no_steps() {
    let settles = [
        "done a",
        "skip a; stopped a",
        "interrupt; stopped a; skip a",
        r#"edit b {"title":"B"}; cancel; stopped a; skip a"#,
    ];
    for settles in settles {
        let world = World::new("a b").given("start a; step a first").given(settles);
        assert_eq!(steps(&world, "a"), "", "{settles}");
    }
    let world = World::new("a? b").given("start a; step a first; give_up a");
    assert_eq!(steps(&world, "a"), "");
    let held = World::new("a b").given("start a; step a first; cancel; stopped a");
    assert_eq!(steps(&held, "a"), "first#1@4");
}

#[test]
fn a_key_is_taken_by_who_begins_and_given_back_by_who_ends() {
    // Since when it is a job's turn, in seconds, and whether the key is its own.
    let key = |given: &str| {
        let job = World::new("@key$host @manual a*2 b").given(given).job;
        let own = job.exclusive().unwrap();
        assert_eq!(&*own.key, "host");
        (own.since.map(|since| since.as_millis() / 1_000), own.taken)
    };
    assert_eq!(key(""), (None, false));
    assert_eq!(key("+5; execute"), (Some(5), false));
    assert_eq!(key("+5; execute; pause; +5; resume"), (Some(5), false));
    for taken in
        ["start a", "sleep a 60", "kindless a", "start a; fail a", "start a; interrupt; stopped a"]
    {
        assert_eq!(key(&format!("+5; execute; +1; {taken}")), (Some(5), true), "{taken}");
    }
    for ended in ["cancel", "start a; cancel; stopped a", "start a; give_up a", "skip a; skip b"] {
        assert_eq!(key(&format!("execute; {ended}")), (None, false), "{ended}");
    }
    assert_eq!(key("execute; start a; give_up a; +9; execute"), (Some(9), false));
    assert_eq!(key("execute; start a; give_up a; +9; execute held"), (Some(9), false));
    assert!(World::new("a").job.exclusive().is_none());
}
