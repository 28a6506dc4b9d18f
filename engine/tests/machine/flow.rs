//! What is settled, what is ready, and what a skip or a removal does to those that come after.

use annals_engine::job::{Command, StepError, decide, step};
use annals_tasks_sdk::Payload;

use crate::dsl::{World, at, check, id, plan};

#[test]
fn a_chain_closes_up_over_what_is_skipped_or_removed() {
    for verb in ["skip", "remove"] {
        // Before its turn, at its turn, and two neighbours.
        let world = World::new("a b c").given(&format!("{verb} b; start a"));
        assert_eq!(world.effects(), "run a#1");
        assert_eq!(world.given("done a").effects(), "want c");
        let world = World::new("a b c").given(&format!("start a; done a; {verb} b"));
        assert_eq!(world.effects(), "want c");
        let world = World::new("a b c d").given(&format!("{verb} c; {verb} b; start a"));
        assert_eq!(world.effects(), "run a#1");
        assert_eq!(world.given("done a").effects(), "want d");
        // The first one, and all but the last.
        assert_eq!(World::new("a b").given(&format!("{verb} a")).effects(), "want b");
        let world = World::new("a b c").given(&format!("{verb} b; {verb} a"));
        assert_eq!(world.effects(), "want c");
    }
}

/// Skipping or removing any set of tasks before their turn starts exactly the others, in order.
#[test]
fn every_subset_of_a_chain_can_be_skipped_or_removed_ahead() {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    for (len, removes) in (1..=6).flat_map(|len| [(len, false), (len, true)]) {
        for subset in 0..(1u32 << len) - 1 {
            let mut world = World::new(&NAMES[..len].join(" ")).given("pause");
            let gone = |at: usize| subset & (1 << at) != 0;
            for name in (0..len).rev().filter(|&at| gone(at)).map(|at| NAMES[at]) {
                // Where both are mixed, every other one is removed.
                let verb = if removes && name.as_bytes()[0] % 2 == 0 { "remove" } else { "skip" };
                world = world.given(&format!("{verb} {name}"));
            }
            world = world.given("resume");
            for name in (0..len).filter(|&at| !gone(at)).map(|at| NAMES[at]) {
                assert_eq!(world.effects(), format!("want {name}"), "{subset:b}");
                world = world.given(&format!("start {name}; done {name}"));
            }
            assert_eq!(world.job.status().as_str(), "completed", "{subset:b}");
        }
    }
}

#[test]
fn needs_are_resolved_anew_and_order_holds() {
    let world = World::new("a b c d<b e").given("remove c");
    let needs = |name| {
        let task = world.job.task(world.job.find(name).unwrap()).unwrap();
        world.job.needs_of(task).join(",")
    };
    assert_eq!([needs("b"), needs("d"), needs("e")], ["a", "b", "d"]);
    let world = World::new("a b c d").given("remove c; remove b");
    let d = world.job.task(world.job.find("d").unwrap()).unwrap();
    assert_eq!(world.job.needs_of(d), ["a"]);
    // A removed task that is named as a need stands for what it needed itself.
    let world = World::new("a b c<b").given("remove b; start a");
    assert_eq!(world.effects(), "run a#1");
    assert_eq!(world.given("done a").effects(), "want c");
    // Joins, and a need of one further down.
    let world = World::new("a< b< c<a,b").given("start a; done a");
    assert_eq!(world.effects(), "want b");
    assert_eq!(World::new("a<b b<").effects(), "want b");
    let world = World::new("a<b b<").given("start b; done b");
    assert_eq!(world.effects(), "want a");
}

#[test]
fn a_removal_that_would_tie_a_knot_or_lose_the_order_is_refused() {
    check("p<c r< c", "", "remove r", "refused: would_be_a_circle");
    check("p<c r< c", "", "skip r", "TaskSkipped r");
    // Only together do these two removals make c need p.
    check("p<c r<  s<r$r c", "", "remove r cascade", "refused: would_be_a_circle");
    // c takes the output of a, and would come to need x alone.
    check("a x< b<a c$a", "", "remove b", "refused: would_lose_order");
    check("a x< b<a c$a=", "", "remove b", "refused: would_lose_order");
    check("a x< b<a c$a", "start a; done a", "remove b", "TaskRemoved b");
    check("a x< b<a c", "", "remove b", "TaskRemoved b");
    check("a b c$a", "", "remove b", "TaskRemoved b");
}

#[test]
fn the_data_flow_is_checked_and_every_dependant_listed() {
    let mut world = World::new("a b$a c$a= d$a e @out$a");
    let skip = Command::Skip { task: Some(id("a")), output: None, cascade: false };
    let Err(StepError::Rejected(refusal)) = step(&mut world.job, skip, &at(0)) else { panic!() };
    let listed: Vec<_> = refusal.dependants.iter().map(|one| one.task.as_deref()).collect();
    assert_eq!(listed, [Some("b"), Some("d"), None]);
    assert_eq!(refusal.dependants[0].reference, "/0");

    check("a b$a c$b d", "", "skip a", "refused: output_is_taken");
    check("a b$a c$b d", "", "remove a", "refused: output_is_taken");
    let all = "TaskSkipped a; TaskSkipped b; TaskSkipped c";
    check("a b$a c$b d", "", "skip a cascade", all);
    let all = "TaskRemoved a; TaskRemoved b; TaskRemoved c";
    check("a b$a c$b d", "", "remove a cascade", all);
    check("a b$a", "", "skip a x =5", "TaskSkipped a");
    check("a b$a=", "", "skip a", "TaskSkipped a");
    // That it is settled, or runs, is said before who takes its output.
    check("a b$a", "start a; done a; start b", "remove a cascade", "refused: task_is_settled");
    check("a b$a", "start a", "remove a", "refused: task_is_live");
    // What took it is settled or gone, so nobody loses anything.
    check("a b$a c", "skip b", "skip a", "TaskSkipped a");
}

#[test]
fn a_substitute_output_is_what_those_that_take_it_get() {
    let world = World::new("a b$a").given("skip a x =42; start b");
    let b = world.job.task(world.job.find("b").unwrap()).unwrap();
    assert_eq!(world.job.input_of(b).unwrap().as_str(), "[42]");
    check("a b", "skip a x =1", "skip a", "");
    check("a b", "skip a x =1", "skip a x =1", "");
    check("a b", "skip a x =1", "skip a x =2", "refused: task_is_settled");
    check("a b", "start a; skip a", "skip a x =2", "refused: task_is_settled");
}

#[test]
fn the_plans_output_goes_along_with_what_it_takes() {
    check("a b @out$a", "", "skip a", "refused: output_is_taken");
    let given = "skip a cascade; start b";
    let world = check("a b @out$a", given, "done b", "TaskCompleted b#1; JobCompleted");
    assert_eq!(world.job.output().unwrap(), None);
    let world = World::new("a b").given("start a; done a 7; remove b");
    assert_eq!(world.job.output().unwrap(), Some(Payload::parse("7").unwrap()));
}

#[test]
fn a_missing_output_fails_the_task_that_takes_it_and_is_not_retried() {
    let given = "start a; fail a";
    let then = "TaskFailed b missing_output; JobFailed missing_output";
    check("a? b*3$a", given, "start b", then);
    check(
        "a? @out$a",
        "start a",
        "fail a",
        &format!(
            "{}; {}; {}",
            "AttemptFailed a#1", "TaskFailed a error", "JobFailed missing_output"
        ),
    );
}

#[test]
fn a_skip_waits_for_the_attempt_that_it_stops() {
    let world = check("a b", "start a", "skip", "SkipRequested a");
    assert_eq!(world.effects(), "run a#1, stop a#1 Skip");
    check("a b", "start a; skip", "skip", "");
    let then = "AttemptInterrupted a#1; TaskSkipped a";
    let world = check("a b", "start a; skip", "stopped a", then);
    assert_eq!(world.effects(), "want b");
    check("a*3 b", "start a; skip", "fail a", then);
    check("a b", "start a; skip", "recover", "AttemptLost a#1; TaskSkipped a");
    check("a b", "start a; skip", "timeout a", "AttemptTimedOut a#1; TaskSkipped a");
    // Success within the grace counts.
    let world = check("a b", "start a; skip a x =9", "done a 1", "TaskCompleted a#1");
    let a = world.job.task(world.job.find("a").unwrap()).unwrap();
    assert_eq!(a.output().unwrap().as_str(), "1");
    assert!(!a.is_being_skipped());
}

#[test]
fn skip_takes_what_waits_has_failed_or_was_stopped() {
    check("a*2 b", "start a; fail a", "skip", "TaskSkipped a");
    check("a b", "sleep a 100", "skip", "TaskSkipped a");
    check("a b", "start a; fail a", "skip", "TaskSkipped a");
    check("a b", "start a; interrupt; stopped a", "skip", "TaskSkipped a");
    check("a b", "", "skip", "refused: which_task");
    check("a< b<", "start a; start b", "skip", "refused: which_task");
    check("a", "start a; skip; stopped a", "skip", "refused: not_in_this_status");
}

#[test]
fn a_job_with_nothing_left_ends_at_its_next_chance() {
    check("a b", "skip a", "skip b", "TaskSkipped b; JobCompleted");
    check("a b", "remove a", "remove b", "TaskRemoved b; JobCompleted");
    check("@manual a", "skip a", "execute", "JobStarted; JobCompleted");
    check("@manual a", "remove a", "execute held", "JobStarted; PauseRequested; JobCompleted");
    check("a", "pause; skip a", "resume", "JobResumed; JobCompleted");
    check("a b", "start a; fail a; skip a; skip b", "execute", "JobReopened; JobCompleted");
    check("a", "cancel; remove a", "execute", "JobReopened; JobCompleted");
}

#[test]
fn removing_a_skipped_task_that_is_not_settled_keeps_the_counts() {
    let world = World::new("a b c").given("skip b; remove b");
    assert_eq!((world.job.counts().skipped, world.job.counts().removed), (0, 1));
    assert_eq!(world.job.total_tasks(), 2);
    check("a b c", "remove b", "skip b", "refused: task_is_settled");
    check("a b c", "remove b", "remove b", "");
    check("a b", "start a; done a; skip b", "remove b", "refused: not_in_this_status");
    check("a b c", "skip a", "remove a", "refused: task_is_settled");
}

#[test]
fn a_decision_changes_nothing() {
    let world = World::new("a b").given("start a");
    let before = world.job.clone();
    let events = decide(&world.job, Command::CANCEL, &at(0)).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(world.job, before);
    assert_eq!(plan("a b").tasks.len(), 2);
}
