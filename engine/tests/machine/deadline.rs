//! Deadlines: when a run is over whatever it was doing, and when its clock stands still.

use annals_engine::job::{Deadline, Job, JobStatus};
use annals_tasks_sdk::Timestamp;
use std::time::Duration;

use crate::dsl::{World, check, plan, replay};

const PASSED: &str = "DeadlinePassed deadline_exceeded";
const FAILED: &str = "DeadlinePassed deadline_exceeded; JobFailed deadline_exceeded";

fn code(job: &Job) -> Option<&str> {
    job.error().map(|(error, _)| &*error.code)
}

/// When the deadline passes, in seconds.
fn at(world: &World) -> Option<i64> {
    world.job.deadline_at().map(|at| at.as_millis() / 1_000)
}

#[test]
fn a_live_attempt_is_stopped_and_the_job_fails_when_it_is_over() {
    let world = World::new("@in30 a b").given("start a");
    assert_eq!((at(&world), world.effects().as_str()), (Some(30), "run a#1, wake 30"));
    check("@in30 a b", "start a; +29", "tick", "");
    let world = check("@in30 a b", "start a; +30", "tick", PASSED);
    assert_eq!(world.effects(), "run a#1, stop a#1 Deadline");
    assert_eq!((code(&world.job), at(&world)), (Some("deadline_exceeded"), None));
    let given = "start a; +30; tick";
    let then = "AttemptInterrupted a#1; JobFailed deadline_exceeded";
    for end in ["stopped a", "fail a", "fail a busy+90"] {
        let world = check("@in30 a*9 b", given, end, then);
        assert_eq!(world.tasks(), "a=interrupted b=pending");
        assert_eq!((world.effects(), code(&world.job)), (String::new(), Some("deadline_exceeded")));
    }
    let then = "AttemptTimedOut a#1; JobFailed deadline_exceeded";
    check("@in30 a*9 b", given, "timeout a", then);
    check("@in30 a b", given, "tick", "");
    check("@in30 a b x<", "start a; start x; +30; tick", "stopped a", "AttemptInterrupted a#1");
}

#[test]
fn a_success_within_the_grace_counts_and_the_job_fails_all_the_same() {
    let given = "start a; +30; tick";
    for plan in ["@in30 a", "@in30 a b"] {
        let then = "TaskCompleted a#1; JobFailed deadline_exceeded";
        let world = check(plan, given, "done a", then);
        assert!(world.tasks().starts_with("a=completed"));
    }
    // What is left to run is nothing.
    check("@in30 a", "start a; +30; tick; done a", "execute", "JobReopened; JobCompleted");
    // What ended before anybody noticed was in time.
    check("@in30 a", "start a; +30", "done a", "TaskCompleted a#1; JobCompleted");
    let then = "AttemptFailed a#1; TaskFailed a error; JobFailed error";
    check("@in30 a", "start a; +30", "fail a", then);
    let world = check("@in30 a b", "start a; +30", "done a", "TaskCompleted a#1");
    assert_eq!(world.effects(), "wake 30", "and b is not wanted");
}

#[test]
fn nothing_starts_once_it_has_passed() {
    for report in ["start a", "sleep a 60", "kindless a", "refuse a"] {
        check("@in30 a b", "+30", report, "");
        check("@in30 a b x<", "start x; +30; tick", report, "");
    }
    assert_eq!(World::new("@in30 a x<").given("+29").effects(), "wake 30, want a, want x");
    assert_eq!(World::new("@in30 a x<").given("+30").effects(), "wake 30");
    // It goes before what is due at the same time.
    check("@in30 a b", "sleep a 30; +30", "tick", FAILED);
    check("@in30 a b", "sleep a 29; +30", "tick", FAILED);
    check("@in30 a*2 b", "start a; fail a; +30", "start a", "");
    let lost = World::new("@in30 a b").given("kindless a; +30");
    assert!(lost.job.is_active());
    assert_eq!(lost.effects(), "wake 30");
}

#[test]
fn a_back_off_and_a_sleep_end_with_it() {
    for waits in ["start a; fail a busy+90", "sleep a 90", "kindless a"] {
        let world = World::new("@in30 a*3 b").given(waits);
        assert_eq!(world.job.due(), Some(Timestamp::from_millis(30_000)), "{waits}");
        let world = check("@in30 a*3 b", &format!("{waits}; +30"), "tick", FAILED);
        assert_eq!(world.tasks(), "a=interrupted b=pending");
        assert_eq!((world.effects(), world.job.due()), (String::new(), None));
        // It goes on in a new run, at once.
        let world = world.given("execute");
        assert_eq!(world.effects(), "wake 60, want a");
    }
    let earlier = World::new("@in30 a*3 b").given("start a; fail a");
    assert_eq!(earlier.effects(), "wake 10");
    assert_eq!(earlier.given("+10").effects(), "wake 30, want a");
}

#[test]
fn a_pause_stops_the_clock_and_a_resume_sets_the_rest() {
    let world = World::new("@in30 a b").given("start a; +10; done a; pause");
    assert_eq!(world.job.deadline(), Some(Deadline::Left(Duration::from_secs(20))));
    assert_eq!((world.effects(), world.job.due()), (String::new(), None));
    let mut world = world.given("+1000");
    assert_eq!(world.when("tick"), "", "it ends no pause");
    assert_eq!(world.when("recover"), "");
    let world = world.given("resume");
    assert_eq!((at(&world), world.effects().as_str()), (Some(1_030), "wake 1030, want b"));
    let mut world = world.given("+5; pause; +7; resume");
    assert_eq!(at(&world), Some(1_037));
    assert_eq!((world.now, world.when("tick")), (1_022, String::new()));
    // What waits for a time meanwhile keeps that time.
    let world = World::new("@in30 a b").given("sleep a 60; +10; pause; +40; resume");
    assert_eq!(world.effects(), "wake 60");
    assert_eq!(at(&world), Some(70));
    check("@in30 a b", "sleep a 60; +10; pause; +60; resume", "tick", "TaskCompleted a#0");
}

#[test]
fn a_pause_that_drains_counts() {
    let world = World::new("@in30 a b").given("start a; +10; pause");
    assert_eq!(world.effects(), "run a#1, wake 30");
    assert!(world.job.deadline_at().is_some());
    let given = "start a; +10; pause; +5";
    let world = check("@in30 a b", given, "done a", "TaskCompleted a#1; JobPaused");
    assert_eq!(world.job.deadline(), Some(Deadline::Left(Duration::from_secs(15))));
    // It passes while the job drains, or is told to stop: the job fails instead.
    let given = "start a; +10; pause; +20";
    let world = check("@in30 a b", given, "tick", PASSED);
    assert_eq!(world.effects(), "run a#1, stop a#1 Deadline");
    let given = "start a; +10; interrupt; +20";
    let world = check("@in30 a b", given, "tick", PASSED);
    assert_eq!(world.effects(), "run a#1, stop a#1 Deadline");
    // The last of it ends before anybody noticed.
    let given = "start a; +10; pause; +20";
    check("@in30 a b", given, "done a", &format!("TaskCompleted a#1; {FAILED}"));
    check("@in30 a!", given, "fail a", &format!("AttemptFailed a#1; TaskFailed a error; {FAILED}"));
    check("@in30 a b", "+30", "pause", &format!("PauseRequested; {FAILED}"));
    // A pause that is withdrawn never stood still.
    let world = World::new("@in30 a b").given("start a; +10; pause; +5; resume");
    assert_eq!(at(&world), Some(30));
}

#[test]
fn a_run_begins_with_all_of_it() {
    let world = World::new("@manual @in30 a").given("+100");
    assert_eq!((at(&world), world.job.deadline()), (None, None));
    let world = world.given("pause; +5; resume; execute");
    assert_eq!(at(&world), Some(135));
    // Held, it has not begun to count.
    for held in ["execute held", "cancel; execute held"] {
        let world = World::new("@manual @in30 a").given(&format!("+7; {held}; +50"));
        assert_eq!(world.job.deadline(), Some(Deadline::Left(Duration::from_secs(30))), "{held}");
        assert_eq!(at(&world.given("resume")), Some(87));
    }
    for end in ["+30; tick", "start a; +20; fail a", "+20; cancel"] {
        let world = World::new("@in30 a b").given(&format!("{end}; +100"));
        assert_eq!((world.job.deadline(), world.job.due()), (None, None), "{end}");
        let started = world.now;
        assert_eq!(at(&world.given("execute")), Some(started + 30), "{end}");
    }
    // A retry of a task of a job that has failed is an execute.
    let given = "start a; +30; tick; stopped a; +10";
    let world = check("@in30 a b", given, "retry a", "JobReopened");
    assert_eq!((at(&world), world.effects().as_str()), (Some(70), "wake 70, want a"));
}

#[test]
fn a_restart_after_it_ends_the_run() {
    let then = |rest: &str| format!("{PASSED}; {rest}JobFailed deadline_exceeded");
    check("@in30 a b", "start a; +29", "recover", "AttemptLost a#1");
    check("@in30 a b", "start a; +30", "recover", &then("AttemptLost a#1; "));
    check("@in30 a b", "+30", "recover", FAILED);
    check("@in30 a*2 b", "start a; fail a; +30", "recover", FAILED);
    // What a loss would mean otherwise does not matter any more.
    for policy in ["^fail", "^pause", "^fail!", "^fail?"] {
        let plan = format!("@in30 a{policy} b");
        let world = check(&plan, "start a; +30", "recover", &then("AttemptLost a#1; "));
        assert_eq!(world.tasks(), "a=interrupted b=pending");
    }
    check(
        "@in30 a b",
        "start a; skip a; +30",
        "recover",
        &then("AttemptLost a#1; TaskSkipped a; "),
    );
    check("@in30 a b", "start a; pause; +30", "recover", &then("AttemptLost a#1; "));
    let then = "AttemptLost a#1; JobFailed deadline_exceeded";
    check("@in30 a b", "start a; +30; tick", "recover", then);
}

#[test]
fn a_cancel_that_is_under_way_stays_one() {
    let world = World::new("@in30 a b").given("start a; cancel; +30");
    assert_eq!(world.effects(), "run a#1, stop a#1 Cancel");
    assert_eq!(world.job.deadline(), None);
    check("@in30 a b", "start a; cancel; +30", "tick", "");
    check("@in30 a b", "start a; cancel; +30", "recover", "AttemptLost a#1; JobCancelled");
    check("@in30 a b", "start a; +30", "cancel", "CancelRequested");
    // Once it has passed, the cancel has nothing to add; the failed job takes it.
    check("@in30 a b", "start a; +30; tick", "cancel", "");
    check("@in30 a b", "start a; +30; tick; stopped a", "cancel", "JobCancelled");
}

#[test]
fn every_other_command_is_refused_while_it_fails() {
    let given = "start a; +30; tick";
    let commands = [
        "execute",
        "execute held",
        "pause",
        "interrupt",
        "resume",
        "skip a",
        "skip b",
        "remove b",
        "insert z",
        "move b first",
        r#"edit b {"title":"B"}"#,
        "retry a",
    ];
    for command in commands {
        check("@in30 a b c", given, command, "refused: not_in_this_status");
    }
    // Who asks before anybody noticed is answered; then it fails.
    check("@in30 a b c", "+30", "execute", "");
    check("@in30 a b c", "+30", "skip a", "TaskSkipped a");
    check("@in30 a b c", "+30; skip a", "tick", FAILED);
    check("@in30 a", "+30", "skip a", "TaskSkipped a; JobCompleted");
    let world = World::new("@in30 a b").given("start a; skip a; +30; tick");
    assert_eq!(world.effects(), "run a#1, stop a#1 Deadline");
    let then = "AttemptInterrupted a#1; TaskSkipped a; JobFailed deadline_exceeded";
    check("@in30 a b", "start a; skip a; +30; tick", "stopped a", then);
}

#[test]
fn its_failure_is_told_before_that_of_a_task() {
    let given = "start a; start x; fail a; +30; tick";
    let world = World::new("@in30 a b x<").given(given);
    assert_eq!(code(&world.job), Some("deadline_exceeded"));
    let message = &world.job.error().unwrap().0.message;
    assert_eq!(&**message, "the run took longer than its deadline of 30s");
    let then = "AttemptInterrupted x#1; JobFailed deadline_exceeded";
    check("@in30 a b x<", given, "stopped x", then);
}

#[test]
fn a_clock_that_is_set_back_neither_shortens_nor_wakes_it() {
    let world = World::new("@in30 a b").given("start a; +20; +-15; done a; pause; +100; resume");
    assert_eq!(at(&world), Some(130));
    let world = World::new("@in30 a b").given("start a; +20; checkpoint a; +-15; pause; done a");
    assert_eq!(world.job.deadline(), Some(Deadline::Left(Duration::from_secs(10))));
    // Events that are past it say so, whatever the clock says by now.
    let given = "start a; +40; checkpoint a; +-20";
    assert_eq!(World::new("@in30 a b").given(given).effects(), "run a#1, wake 20");
    check("@in30 a b", given, "tick", PASSED);
    check("@in30 a b", &format!("{given}; done a"), "start b", "");
}

#[test]
fn the_longest_deadline_does_not_overflow() {
    let mut plan = plan("a b");
    plan.deadline = Some(annals_tasks_sdk::duration::DURATION_MAX);
    let world = World::of(plan).given("start a; interrupt; stopped a; +9; resume");
    assert_eq!(world.job.status(), JobStatus::Running);
    assert!(at(&world).is_some_and(|at| at > 100 * 365 * 24 * 60 * 60));
    assert_eq!(replay(&world.history), world.job);
}
