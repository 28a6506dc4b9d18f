//! What cannot be brought about at will: attempts that outlive their end, causes in odd histories,
//! and the words of long lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{JobId, TaskId, Timestamp};

use super::reason::{InLine, Line, Reason};
use super::{Cause, Dispatch, Explanation, Finder, Queued, Seen, Sought, explain};
use crate::job::{
    Command, Context, Job, LossRule, Origin, Recorded, Report, Submitted, TaskNumber, begin, step,
    submit,
};
use crate::runtime::{Live, Snapshot};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const FIRST: TaskNumber = TaskNumber(1);

fn context(origin: Origin) -> Context {
    Context {
        origin,
        key: None,
        now: NOW,
        random: 0.5,
        losses: LossRule::default(),
        instances: 10_000,
    }
}

fn job(tasks: &str) -> (Job, Vec<Recorded>) {
    job_of(&format!(r#"{{"name": "test", "tasks": [{tasks}]}}"#))
}

fn job_of(plan: &str) -> (Job, Vec<Recorded>) {
    let plan = Plan::from_json(plan, &Limits::NONE).unwrap();
    let events = submit(Submitted { plan, workflow: None, source: None }, &Limits::NONE).unwrap();
    begin(JobId::from_u128(1), events, &context(Origin::actor("ada"))).unwrap()
}

fn seen(job: &Job) -> Seen {
    let (job, live) = (Arc::new(job.clone()), BTreeMap::new());
    Seen::at_rest(Snapshot { job, live, lack: None }, NOW, Dispatch::Runs)
}

fn first(explanation: &Explanation) -> String {
    explanation.reasons[0].reason.to_string()
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

/// A job whose only task runs and was told to stop; its explanation so long after that.
fn stopped(outside: bool, after: Duration) -> Explanation {
    let (mut job, _) = job(r#"{"id": "a", "kind": "noop"}"#);
    step(&mut job, Report::Start { task: FIRST }, &context(Origin::ENGINE)).unwrap();
    step(&mut job, Command::CANCEL, &context(Origin::actor("ada"))).unwrap();
    let mut seen = seen(&job);
    let live = Live { stopping_since: Some(NOW), ..Live::default() };
    seen.snapshot.live.insert(FIRST, live);
    seen.now = NOW.plus(after);
    seen.outside.extend(outside.then_some(FIRST));
    explain(seen, None)
}

#[test]
fn an_attempt_that_does_not_end_is_told_by_where_it_is() {
    let within = stopped(true, Duration::from_secs(10));
    assert_eq!(within.reasons[1].reason.code(), "stops");
    let late = Duration::from_secs(25);
    let blocks = stopped(false, late);
    assert_eq!(blocks.reasons[1].reason.code(), "blocks");
    assert!(first(&blocks).contains("on its way to be cancelled: 1 attempt is alive"));
    let outlives = stopped(true, late).reasons.remove(1).reason;
    assert_eq!(outlives.code(), "outlives");
    assert_eq!(
        outlives.to_string(),
        "attempt 1 of task a was told to stop 25s ago, its processes were killed 15s ago, and the \
         kernel has not let go of them. Its slot stays taken, and the job stays as it is, until \
         they are gone"
    );
}

#[test]
fn a_job_past_its_deadline_says_so_while_it_waits_for_its_attempts() {
    let text = r#"{"name": "test", "deadline": "1h", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let (mut job, _) = job_of(text);
    step(&mut job, Report::Start { task: FIRST }, &context(Origin::ENGINE)).unwrap();
    let mut before = seen(&job);
    before.now = NOW.plus(Duration::from_mins(20));
    let told = "attempt 1 of task a runs since 20m; the deadline of the run passes in 40m";
    assert_eq!(explain(before, None).summary(), told);
    let late = Context { now: NOW.plus(Duration::from_hours(1)), ..context(Origin::ENGINE) };
    step(&mut job, Report::Tick, &late).unwrap();
    let mut fails = seen(&job);
    fails.now = late.now;
    let why = explain(fails, None);
    assert_eq!((why.reasons[0].reason.code(), why.deadline), ("failing", None));
    let told = "the run took longer than its deadline of 1h [deadline_exceeded]: the job is on its \
        way to be failed: 1 attempt is alive";
    assert_eq!(first(&why), told);
    let told = why.reasons[1].reason.to_string();
    assert!(told.contains("since the deadline of the run has passed"), "{told}");
}

#[test]
fn a_job_of_which_nothing_is_known_says_so() {
    let (job, _) = job(r#"{"id": "a", "kind": "noop"}"#);
    let mut unready = seen(&job);
    unready.dispatch = Dispatch::NotReady;
    assert_eq!(explain(unready, None).reasons[0].reason, Reason::EngineNotReady);
    // The place of this one is not known.
    assert_eq!(first(&explain(seen(&job), None)), "task a is about to start");
}

#[test]
fn lines_are_told_in_words() {
    let (job, _) = job(r#"{"id": "a", "kind": "noop"}"#);
    let told = |place| {
        let mut seen = seen(&job);
        let line = Line { pool: "shell".into(), slots: 4, waiting: 5_000, place };
        seen.queued.insert(FIRST, Queued::Slot(line));
        first(&explain(seen, None))
    };
    let end = "in line for one of the 4 slots of pool shell, which are all taken";
    for (place, nth) in [(4, "4th"), (11, "11th"), (21, "21st"), (22, "22nd"), (113, "113th")] {
        assert_eq!(told(InLine::At(place)), format!("task a is {nth} of 5000 {end}"));
    }
    let far = format!("task a stands behind more than 1000 others {end}");
    assert_eq!(told(InLine::Behind(1_000)), far);
    let granted = "task a has a slot of pool shell, and is about to start";
    assert_eq!(told(InLine::Granted), granted);
}

/// Folds a history to who paused the job.
fn cause(job: &Job, history: &[Recorded]) -> Option<Cause> {
    let mut finder = Finder::new(job, Sought::Pause, NOW);
    for recorded in history {
        finder.take(recorded);
    }
    finder.found()
}

#[test]
fn the_last_cause_counts() {
    let (mut job, mut history) =
        job(r#"{"id": "a", "kind": "noop", "on_lost": "pause", "needs": []},
           {"id": "b", "kind": "noop", "needs": []},
           {"id": "c", "kind": "noop", "on_lost": "fail", "on_failure": "pause", "needs": []}"#);
    let mut does = |input: crate::job::Input, origin: Origin, job: &mut Job| {
        history.extend(step(job, input, &context(origin)).unwrap());
        cause(job, &history)
    };
    let start = |task| crate::job::Input::from(Report::Start { task: TaskNumber(task) });
    let (ada, engine) = (|| Origin::actor("ada"), || Origin::ENGINE);
    assert_eq!(does(start(1), engine(), &mut job), None);
    does(start(2), engine(), &mut job);
    match does(Report::Recover.into(), engine(), &mut job) {
        Some(Cause::Loss { task, .. }) => assert_eq!(task, id("a")),
        other => panic!("{other:?}"),
    }
    assert_eq!(does(Command::Resume.into(), ada(), &mut job), None);
    does(start(3), engine(), &mut job);
    match does(Report::Recover.into(), engine(), &mut job) {
        Some(Cause::Failure { task, .. }) => assert_eq!(task, id("c")),
        other => panic!("{other:?}"),
    }
    does(Command::Resume.into(), ada(), &mut job);
    does(start(2), engine(), &mut job);
    let mode = crate::job::PauseMode::Drain;
    match does(Command::Pause { mode }.into(), ada(), &mut job) {
        Some(Cause::Asked { by, reason: None, .. }) => assert_eq!(by, "ada"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn long_words_of_others_are_cut() {
    let (mut job, _) = job(r#"{"id": "a", "kind": "noop"}"#);
    let error = annals_tasks_sdk::TaskError::new("code", "ü".repeat(1_000));
    let report = Report::Refuse { task: FIRST, error };
    step(&mut job, report, &context(Origin::ENGINE)).unwrap();
    let told = first(&explain(seen(&job), None));
    assert!(told.len() < 400 && told.contains("ü ... (cut) [code]"), "{told}");
}
