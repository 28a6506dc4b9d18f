//! The engine dies while attempts are alive.

use crate::dsl::{World, check};

#[test]
fn what_was_alive_is_lost_and_runs_again() {
    let world = check("a b x<", "start a; start x", "recover", "AttemptLost a#1; AttemptLost x#1");
    assert_eq!(world.effects(), "want a, want x");
    check("a b", "start a; recover", "recover", "");
    check("a b", "start a; recover", "start a", "AttemptStarted a#2");
    check("a b", "start a; interrupt", "recover", "AttemptLost a#1; JobPaused");
    check("a b", "start a; done a", "recover", "");
    check("@manual a", "", "recover", "");
}

#[test]
fn a_task_that_is_lost_again_and_again_is_a_suspect_and_then_given_up() {
    let loss = "start a; recover;";
    let world = World::new("a b").given(&loss.repeat(2));
    assert_eq!(world.effects(), "want a");
    let world = world.given(loss);
    assert_eq!(world.effects(), "want a alone");
    let world = world.given(&loss.repeat(2));
    assert_eq!(world.effects(), "want a alone");
    let given = format!("{}start a", loss.repeat(5));
    let then = "AttemptLost a#6; TaskFailed a crash_loop; JobFailed crash_loop";
    check("a b", &given, "recover", then);
    let paused = "AttemptLost a#6; TaskFailed a crash_loop; PauseRequested; JobPaused";
    check("a! b", &given, "recover", paused);
    check("a? b", &given, "recover", "AttemptLost a#6; TaskFailed a crash_loop");
}

#[test]
fn any_other_end_and_any_consent_begin_the_count_anew() {
    let loss = "start a; recover;";
    for end in ["start a; fail a; +10", "start a; stopped a", "start a; timeout a; +10"] {
        let given = format!("{}{end};{}start a", loss.repeat(5), loss.repeat(4));
        check("a*9", &given, "recover", "AttemptLost a#11");
    }
    for consent in ["pause; resume", "cancel; execute"] {
        let given = format!("{}{consent};{}start a", loss.repeat(5), loss.repeat(4));
        check("a", &given, "recover", "AttemptLost a#10");
    }
    let world = World::new("a").given(&loss.repeat(6)).given("execute");
    assert_eq!(world.effects(), "want a");
}

#[test]
fn the_plan_says_what_a_loss_means() {
    let then = "AttemptLost a#1; TaskFailed a lost; JobFailed lost";
    check("a^fail b", "start a", "recover", then);
    check("a^fail? b", "start a", "recover", "AttemptLost a#1; TaskFailed a lost");
    let then = "AttemptLost a#1; PauseRequested; JobPaused";
    let world = check("a^pause b", "start a", "recover", then);
    assert_eq!(world.tasks(), "a=interrupted b=pending");
    assert_eq!(world.given("resume").effects(), "want a");
    check("a^pause b", "start a; pause", "recover", "AttemptLost a#1; JobPaused");
    check("a^pause b", "start a; cancel", "recover", "AttemptLost a#1; JobCancelled");
    check("a^fail b", "start a; cancel", "recover", "AttemptLost a#1; JobCancelled");
}

#[test]
fn a_back_off_and_a_sleep_go_on_after_a_restart() {
    let world = World::new("a*3 b<").given("start a; fail a; sleep b 60; +3; recover");
    assert_eq!((world.due("a"), world.due("b")), (Some(10), Some(60)));
    assert_eq!(world.effects(), "wake 10");
}
