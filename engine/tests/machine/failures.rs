//! Retries, timeouts, and what a failure means for the rest of the job.

use crate::dsl::{World, check};
use annals_tasks_sdk::plan::{Policy, PolicyFields, Retry};
use std::time::Duration;

#[test]
fn there_are_exactly_as_many_attempts_as_allowed_and_no_wait_after_the_last() {
    check("a*3", "start a", "fail a", "AttemptFailed a#1; RetryScheduled a 10");
    let second = "start a; fail a; +10; start a";
    check("a*3", second, "fail a", "AttemptFailed a#2; RetryScheduled a 30");
    let third = "start a; fail a; +10; start a; fail a; +20; start a";
    let then = "AttemptFailed a#3; TaskFailed a error; JobFailed error";
    check("a*3", third, "fail a", then);
    check("a", "start a", "fail a", "AttemptFailed a#1; TaskFailed a error; JobFailed error");
}

#[test]
fn stops_and_losses_use_up_nothing_and_an_execute_renews() {
    let given = "start a; interrupt; stopped a; resume; start a; recover; start a";
    check("a*2", given, "fail a", "AttemptFailed a#3; RetryScheduled a 10");
    let given = "start a; fail a; +10; start a; fail a; execute; start a";
    check("a*2", given, "fail a", "AttemptFailed a#3; RetryScheduled a 20");
    // A cancel in the middle of a budget, too: execute is a new one.
    let given = "start a; fail a; cancel; execute; start a";
    check("a*2", given, "fail a", "AttemptFailed a#2; RetryScheduled a 10");
    // A pause is none.
    let given = "start a; fail a; pause; +10; resume; start a";
    let then = "AttemptFailed a#2; TaskFailed a error; JobFailed error";
    check("a*2", given, "fail a", then);
}

#[test]
fn what_is_never_retried_fails_at_the_first_try() {
    let fails = |code: &str| format!("AttemptFailed a#1; TaskFailed a {code}; JobFailed {code}");
    check("a*3#exit_2", "start a", "fail a exit_2", &fails("exit_status"));
    let again = "AttemptFailed a#1; RetryScheduled a 10";
    check("a*3#exit_2", "start a", "fail a exit_3", again);
    check("a*3#bad_request", "start a", "fail a bad_request", &fails("bad_request"));
    check("a*3", "start a", "give_up a", &fails("error"));
}

#[test]
fn a_failure_may_be_named_by_its_alias() {
    let fails = "AttemptFailed a#1; TaskFailed a http_status; JobFailed http_status";
    check("a*3#http_503", "start a", "fail a http_status~http_503", fails);
    check("a*3#http_status", "start a", "fail a http_status~http_503", fails);
    let again = "AttemptFailed a#1; RetryScheduled a 10";
    check("a*3#http_503", "start a", "fail a http_status~http_502", again);
}

#[test]
fn a_wait_that_was_asked_for_counts_where_the_back_off_is_shorter() {
    let scheduled = |due: u32| format!("AttemptFailed a#1; RetryScheduled a {due}");
    check("a*3", "start a", "fail a busy+90", &scheduled(90));
    check("a*3", "start a", "fail a busy+9", &scheduled(10));
    check("a*3", "start a", "fail a busy+0", &scheduled(10));
    // A week is more than is waited for; the next attempt is told again.
    check("a*3", "start a", "fail a busy+604800", &scheduled(24 * 60 * 60));
    // The next failure asks for nothing, and has its own back-off.
    let given = "start a; fail a busy+90; +90; start a";
    check("a*3", given, "fail a", "AttemptFailed a#2; RetryScheduled a 110");
    check("a*3", "start a", "timeout a busy+90", "AttemptTimedOut a#1; RetryScheduled a 90");
    // It gives no attempt more than there are, and none to what gives up.
    let fails = "AttemptFailed a#1; TaskFailed a busy; JobFailed busy";
    check("a", "start a", "fail a busy+90", fails);
    check("a*3#busy", "start a", "fail a busy+90", fails);
    // It stands through a pause, and ends with the job.
    let world = World::new("a*3").given("start a; fail a busy+90; pause; +60; resume");
    assert_eq!(world.due("a"), Some(90));
    assert_eq!(world.effects(), "wake 90");
    let world = World::new("a*3").given("start a; fail a busy+90; cancel; execute");
    assert_eq!(world.effects(), "want a");
}

#[test]
fn a_timeout_is_a_failure_of_its_own_name_that_is_retried() {
    check("a*2", "start a", "timeout a", "AttemptTimedOut a#1; RetryScheduled a 10");
    let then = "AttemptTimedOut a#1; TaskFailed a timed_out; JobFailed timed_out";
    check("a", "start a", "timeout a", then);
    check("a*3#timed_out", "start a", "timeout a", then);
}

#[test]
fn silence_is_a_timeout_of_its_own_name() {
    let then = "AttemptTimedOut a#1; TaskFailed a heartbeat_timeout; JobFailed heartbeat_timeout";
    check("a", "start a", "timeout a heartbeat_timeout", then);
    check("a*3#heartbeat_timeout", "start a", "timeout a heartbeat_timeout", then);
    let again = "AttemptTimedOut a#1; RetryScheduled a 10";
    check("a*3#timed_out", "start a", "timeout a heartbeat_timeout", again);
}

#[test]
fn no_attempt_starts_after_max_elapsed() {
    let mut plan = crate::dsl::plan("a*9");
    let retry = plan.tasks[0].policy.retry.clone();
    let retry = Retry { max_elapsed: Some(Duration::from_secs(30)), ..retry };
    plan.tasks[0].policy = Policy::new(PolicyFields { retry, ..PolicyFields::default() });
    let mut world = World::of(plan.clone()).given("start a; fail a; +10; start a");
    assert_eq!(world.when("fail a"), "AttemptFailed a#2; RetryScheduled a 30");
    let mut world = World::of(plan.clone()).given("start a; fail a; +10; start a; +1");
    assert_eq!(world.when("fail a"), "AttemptFailed a#2; TaskFailed a error; JobFailed error");
    let mut world = World::of(plan.clone()).given("start a");
    assert_eq!(world.when("fail a busy+30"), "AttemptFailed a#1; RetryScheduled a 30");
    let mut world = World::of(plan).given("start a");
    let then = "AttemptFailed a#1; TaskFailed a busy; JobFailed busy";
    assert_eq!(world.when("fail a busy+31"), then, "there is no use in waiting");
}

#[test]
fn a_wait_can_be_ended_by_cancel_skip_and_remove() {
    let given = "start a; fail a";
    check("a*3 b", given, "cancel", "CancelRequested; JobCancelled");
    check("a*3 b", given, "skip a", "TaskSkipped a");
    let world = check("a*3 b", given, "remove a", "TaskRemoved a");
    assert_eq!(world.effects(), "want b");
    check("a*3 b", "start a; fail a; skip a; +90", "start a", "");
}

#[test]
fn a_failure_blocks_those_that_need_it_and_lets_the_others_run() {
    let world = World::new("a b x< y").given("start a; start x; fail a");
    assert_eq!(world.job.status().as_str(), "running");
    assert_eq!(world.job.error().unwrap().0.code.as_ref(), "error", "shown at once");
    assert_eq!(world.given("done x").effects(), "want y");
    let given = "start a; start x; fail a; done x; start y";
    let world = check("a b x< y", given, "done y", "TaskCompleted y#1; JobFailed error");
    assert_eq!(world.tasks(), "a=failed b=pending x=completed y=completed");
}

#[test]
fn a_tolerated_failure_is_settled() {
    let world = check("a? b", "start a", "fail a", "AttemptFailed a#1; TaskFailed a error");
    assert_eq!(world.effects(), "want b");
    let world = world.given("start b; done b");
    assert_eq!(world.job.status().as_str(), "completed");
    assert_eq!(world.job.counts().tolerated, 1);
    check("a? b", "start a; fail a", "skip a", "refused: task_is_settled");
}

#[test]
fn a_failure_may_pause_the_job_until_an_operator_has_decided() {
    let then = "AttemptFailed a#1; TaskFailed a error; PauseRequested; JobPaused";
    let world = check("a! b", "start a", "fail a", then);
    assert_eq!(world.given("resume").effects(), "want a");
    let given = "start a; fail a; skip a";
    assert_eq!(World::new("a! b").given(given).given("resume").effects(), "want b");
    // What still runs is drained first.
    let then = "AttemptFailed a#1; TaskFailed a error; PauseRequested";
    check("a! b x<", "start a; start x", "fail a", then);
    let given = "start a; start x; fail a";
    check("a! b x<", given, "done x", "TaskCompleted x#1; JobPaused");
    // Withdrawn while it drains, the resume is the consent all the same.
    let world = World::new("a! b x<").given(given).given("resume");
    assert_eq!(world.effects(), "run x#1, want a");
    let then = "TaskFailed a bad_request; PauseRequested; JobPaused";
    check("a! b", "", "refuse a", then);
}

#[test]
fn a_resume_gives_what_paused_the_job_a_new_budget() {
    let given = "start a; fail a; +10; start a; fail a; resume; start a";
    check("a!*2", given, "fail a", "AttemptFailed a#3; RetryScheduled a 20");
}

#[test]
fn a_wrong_input_fails_without_an_attempt() {
    check("a*3 b", "", "refuse a", "TaskFailed a bad_request; JobFailed bad_request");
    check("a? b", "", "refuse a", "TaskFailed a bad_request");
}
