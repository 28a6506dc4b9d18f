//! Signals: tables of what follows from what.

use annals_engine::job::{
    Command, Event, IdempotencyKey, Recorded, SIGNALS_KEPT_MAX, StepError, TaskNumber, TaskStatus,
    Waiting, step,
};
use annals_tasks_sdk::Payload;

use crate::dsl::{World, at, check};
use crate::told::signal;

fn waits_for(world: &World, task: &str) -> Option<Waiting> {
    world.job.task(world.job.find(task).unwrap()).unwrap().waiting()
}

#[test]
fn a_signal_is_the_output_of_the_task_that_waits_for_it() {
    let world = check(
        "a b",
        "await a go",
        "signal go =[1,2]",
        "SignalReceived go; SignalDelivered a go 4; TaskCompleted a#0",
    );
    assert_eq!(world.job.task(TaskNumber(1)).unwrap().output().unwrap().as_str(), "[1,2]");
    assert_eq!(world.effects(), "want b");
    check(
        "a",
        "await a go",
        "signal go",
        "SignalReceived go; SignalDelivered a go 4; TaskCompleted a#0; JobCompleted",
    );
}

#[test]
fn a_signal_that_comes_early_is_kept_and_given_in_order() {
    let mut world = World::new("@manual a b c").given("signal go =1; signal stop =2; signal go =3");
    assert_eq!(world.job.signals_kept(), 3);
    world = world.given("execute");
    assert_eq!(
        world.when("await a go"),
        "TaskWaiting a; SignalDelivered a go 2; TaskCompleted a#0"
    );
    assert_eq!(
        world.when("await b go"),
        "TaskWaiting b; SignalDelivered b go 4; TaskCompleted b#0"
    );
    assert_eq!(world.when("await c go"), "TaskWaiting c");
    assert_eq!(world.effects(), "");
    assert!(world.job.awaits_signals() && !world.job.is_active());
    let kept: Vec<u64> = world.job.kept_signals().map(|(seq, ..)| seq).collect();
    assert_eq!(kept, [3], "what nobody waits for stays");
}

#[test]
fn of_several_that_wait_the_first_in_the_plan_is_given_it_wherever_it_stands_by_then() {
    let given = "await b go; await a go; await c stop";
    let delivered = "SignalReceived go; SignalDelivered a go 6; TaskCompleted a#0";
    check("a< b< c<", given, "signal go", delivered);
    let moved = format!("{given}; move a last");
    let delivered = "SignalReceived go; SignalDelivered b go 7; TaskCompleted b#0";
    let mut world = check("a< b< c<", &moved, "signal go", delivered);
    assert_eq!(
        world.when("signal go"),
        "SignalReceived go; SignalDelivered a go 10; TaskCompleted a#0"
    );
    assert_eq!(world.when("signal go"), "SignalReceived go");
}

#[test]
fn while_a_job_is_held_signals_are_kept() {
    let mut world = World::new("a< b<").given("await a go; start b; pause");
    assert_eq!(world.when("signal go"), "SignalReceived go");
    assert_eq!(world.when("done b"), "TaskCompleted b#1; JobPaused");
    assert_eq!(world.when("signal go"), "SignalReceived go");
    assert_eq!(
        world.when("resume"),
        "JobResumed; SignalDelivered a go 6; TaskCompleted a#0; JobCompleted"
    );
    check("a b", "start a; fail a", "signal go", "SignalReceived go");
    let mut world = World::new("a b").given("start a; fail a; signal go; execute; start a; done a");
    assert_eq!(
        world.when("await b go"),
        "TaskWaiting b; SignalDelivered b go 7; TaskCompleted b#0; JobCompleted"
    );
}

#[test]
fn a_wait_that_takes_too_long_fails_and_what_came_before_that_counts() {
    let mut world = World::new("a b").given("await a go 60; +59; tick");
    assert_eq!((world.due("a"), world.effects().as_str()), (Some(60), "wake 60"));
    world.now = 60;
    assert_eq!(world.when("tick"), "TaskFailed a timed_out; JobFailed timed_out");
    check("a? b", "await a go 60; +60", "tick", "TaskFailed a timed_out");
    check(
        "a! b",
        "await a go 60; +60",
        "tick",
        "TaskFailed a timed_out; PauseRequested; JobPaused",
    );
    // The order of the events decides.
    let late = "SignalReceived go; SignalDelivered a go 4; TaskCompleted a#0";
    check("a b", "await a go 60; +60", "signal go", late);
    // It is retried by those who want that, and waits anew.
    let mut world = World::new("a! b").given("await a go 60; +60; tick; retry a; resume");
    assert_eq!(world.effects(), "want a");
    assert_eq!(world.when("await a go 120"), "TaskWaiting a");
    assert_eq!(world.effects(), "wake 120");
}

#[test]
fn several_waits_that_are_late_fail_one_after_the_other() {
    let mut world = World::new("a!< b!< c<").given("await a go 60; await b go 60; sleep c 60; +60");
    assert_eq!(world.when("tick"), "TaskCompleted c#0");
    assert_eq!(world.when("tick"), "TaskFailed a timed_out; PauseRequested; JobPaused");
    assert_eq!(world.when("tick"), "");
    assert_eq!(world.when("resume"), "JobResumed");
    assert_eq!(world.when("tick"), "TaskFailed b timed_out; PauseRequested; JobPaused");
}

#[test]
fn the_timeout_of_a_wait_stands_still_while_the_job_is_paused() {
    let mut world = World::new("a< b<").given("await a go 60; start b; +10; pause; +20");
    assert_eq!(world.when("done b"), "TaskCompleted b#1; JobPaused");
    assert_eq!((world.due("a"), world.job.due()), (None, None));
    // It went on while the job was only on its way to be paused.
    let mut world = world.given("+1000; resume");
    assert_eq!((world.due("a"), world.effects().as_str()), (Some(1_060), "wake 1060"));
    world.now = 1_060;
    assert_eq!(world.when("tick"), "TaskFailed a timed_out; JobFailed timed_out");
    // One that has passed by the pause is over as soon as the job goes on.
    let mut world = World::new("a< b<").given("await a go 60; start b; pause; +90; done b; resume");
    assert_eq!(world.effects(), "wake 90");
    assert_eq!(world.when("tick"), "TaskFailed a timed_out; JobFailed timed_out");
}

#[test]
fn operators_reach_a_task_that_waits() {
    let given = "await a go 60";
    check("a b", given, "skip a", "TaskSkipped a");
    check("a b", given, "remove a", "TaskRemoved a");
    check("a b", given, "retry a", "refused: nothing_to_retry");
    let world = check("a b", given, r#"edit a {"title":"A"}"#, "TaskEdited a");
    assert!(waits_for(&world, "a").is_some());
    let mut world = check("a b", given, r#"edit a {"input":5}"#, "TaskEdited a");
    assert_eq!((waits_for(&world, "a"), world.effects()), (None, "want a".into()), "it waits anew");
    assert_eq!(world.when("signal go"), "SignalReceived go");
    // What it has come to need comes first.
    let world = check("a b", given, "insert z first", "TaskInserted z");
    assert_eq!((waits_for(&world, "a"), world.effects()), (None, "want z".into()));
    check("a b", given, "cancel", "CancelRequested; JobCancelled");
    let world = World::new("a b").given("await a go 60; cancel; execute");
    assert_eq!((world.due("a"), world.effects()), (None, "want a".into()));
    check("a b", "await a go; pause", "cancel", "CancelRequested; JobCancelled");
}

#[test]
fn at_the_end_signals_are_for_what_is_done_then() {
    let mut world = World::new("a @finally z").given("start a; cancel; signal go; stopped a");
    assert_eq!(
        world.when("await z go"),
        "TaskWaiting z; SignalDelivered z go 5; TaskCompleted z#0; JobCancelled"
    );
    let world = World::new("a @finally z").given("await a go; start a").given("cancel");
    assert!(waits_for(&world, "a").is_none(), "the work waits no more");
    check("a @finally z", "start a; cancel now", "signal go", "refused: not_in_this_status");
    check("a", "start a; cancel", "signal go", "refused: not_in_this_status");
    check("@in30 a", "start a; +30; tick", "signal go", "refused: not_in_this_status");
    let given = "start a; done a; await z go 60; +60";
    check("a @finally z", given, "tick", "TaskFailed z timed_out; JobCompleted");
}

#[test]
fn a_deadline_goes_before_what_waits() {
    let given = "await a go 60; +60";
    check(
        "@in60 a b",
        given,
        "tick",
        "DeadlinePassed deadline_exceeded; JobFailed deadline_exceeded",
    );
    check("@in60 a b", given, "signal go", "SignalReceived go");
}

#[test]
fn a_job_keeps_a_thousand_signals() {
    let mut world = World::new("a< b< c<").given("await a stop");
    for _ in 0..SIGNALS_KEPT_MAX {
        assert_eq!(world.when("signal go"), "SignalReceived go");
    }
    assert_eq!(world.when("signal go"), "refused: too_many_signals");
    assert_eq!(world.when("signal other"), "refused: too_many_signals");
    // What is waited for is not kept, and what was given makes room.
    assert!(world.when("signal stop").starts_with("SignalReceived stop; SignalDelivered a"));
    assert!(world.when("await b go").contains("SignalDelivered b"));
    assert_eq!(world.when("signal go"), "SignalReceived go");
    assert_eq!(world.when("signal go"), "refused: too_many_signals");
}

#[test]
fn a_signal_with_a_key_comes_once_as_long_as_the_job_is_there() {
    let mut world = World::new("a b").given("await a go");
    let send = |world: &mut World, key: &str, body: &str| {
        let key = IdempotencyKey::new("", "/signals/go", key, body.as_bytes());
        let command =
            Command::Signal { name: signal("go"), payload: Payload::parse(body).unwrap() };
        let mut cx = at(world.now);
        cx.key = Some(Box::new(key));
        match step(&mut world.job, command, &cx) {
            Ok(events) => {
                world.history.extend(events.iter().cloned());
                assert_eq!(crate::dsl::replay(&world.history), world.job);
                Ok(events.len())
            }
            Err(StepError::Rejected(rejection)) => Err(rejection.code),
            Err(illegal) => panic!("{illegal}"),
        }
    };
    assert_eq!(send(&mut world, "one", "1"), Ok(3));
    assert_eq!(send(&mut world, "one", "1"), Ok(0));
    assert_eq!(send(&mut world, "one", "2"), Err("idempotency_key_reused"));
    assert_eq!(send(&mut world, "two", "1"), Ok(1));
    world = world.given("pause");
    assert_eq!(send(&mut world, "two", "1"), Ok(0));
    assert_eq!(world.job.signals_kept(), 1);
}

#[test]
fn a_fork_has_no_signals() {
    use crate::forks::made;
    use annals_engine::job::ForkFrom;
    let world = World::new("a b").given("await a stop; signal go");
    let (fork, _) = made(&world.job, &ForkFrom::Seq(world.job.seq()), Vec::new()).unwrap();
    assert_eq!((fork.signals_kept(), fork.awaits_signals()), (0, false));
    assert_eq!(fork.task(TaskNumber(1)).unwrap().status(), TaskStatus::Pending);
}

#[test]
fn events_of_signals_that_cannot_follow_are_refused() {
    let delivered =
        |signal| Event::SignalDelivered { task: TaskNumber(1), name: self::signal("go"), signal };
    let received = || Event::SignalReceived { name: signal("go"), payload: Payload::NULL };
    let refused = |given: &str, event: Event| {
        let mut job = World::new("a b").given(given).job;
        let before = job.clone();
        let next = Recorded {
            seq: job.seq() + 1,
            time: job.time(),
            origin: annals_engine::job::Origin::ENGINE,
            leads: false,
            key: None,
            event,
        };
        assert!(job.evolve(&next).is_err(), "{given}: {next:?}");
        assert_eq!(job, before);
    };
    refused("signal go", delivered(3));
    refused("await a stop; signal go", delivered(5));
    refused("await a go", delivered(3));
    refused("await a go; signal stop", delivered(4));
    refused("await a go; pause; signal go; signal go", delivered(7));
    refused("start a; cancel", received());
    refused("start a; done a; start b; done b", received());
}
