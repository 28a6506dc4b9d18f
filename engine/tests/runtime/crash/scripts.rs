//! The jobs, what their clients do with them, and how they must end.

use annals_engine::job::{Command, Intent, Job, JobStatus, PauseMode};
use annals_tasks_sdk::TaskId;

use super::super::support::{codes, outcomes, status_of};
use JobStatus::{Cancelled, Completed, Failed, Paused, Pending};

/// A job and what is done with it.
pub(super) struct Script {
    /// Unique, so that a client finds its job again when it does not know whether it was accepted.
    pub(super) name: &'static str,
    pub(super) plan: &'static str,
    pub(super) steps: Vec<Step>,
    /// What must hold in the end.
    pub(super) ends: fn(&Job),
}

/// What a client does once: when it can be done, and how to tell that it was.
pub(super) struct Step {
    pub(super) when: fn(&Job) -> bool,
    pub(super) done: fn(&Job) -> bool,
    pub(super) act: Act,
}

pub(super) enum Act {
    Ask(fn() -> Command),
    /// The tasks that hold may go on.
    Release,
}

fn runs(job: &Job) -> bool {
    job.is_live() && job.intent().is_none()
}

fn ask(command: fn() -> Command, when: fn(&Job) -> bool, done: fn(&Job) -> bool) -> Step {
    Step { when, done, act: Act::Ask(command) }
}

fn release(when: fn(&Job) -> bool) -> Step {
    Step { when, done: |_| false, act: Act::Release }
}

fn execute() -> Command {
    Command::Execute { paused: false }
}

fn skip(task: &str) -> Command {
    Command::Skip { task: TaskId::new(task).ok(), output: None, cascade: false }
}

fn completes(job: &Job) {
    assert_eq!(job.status(), Completed, "{job:?}");
}

fn pausing(job: &Job) -> bool {
    job.intent() == Some(Intent::Pause) || job.status() == Paused
}

pub(super) fn all() -> Vec<Script> {
    let mut all = vec![chain(), waits(), odd(), failed()];
    all.extend([cancelled(), edited(), drained(), interrupted(), manual(), forgiving()]);
    all.extend(lost());
    all
}

/// Fails and is tried again, times out, sleeps, saves.
fn chain() -> Script {
    let plan = r#"
        {"id": "fails", "kind": "work", "input": {"fails": 1},
         "retry": {"max_attempts": 3, "backoff": {"initial": "1ms", "jitter": 0}}},
        {"id": "hangs", "kind": "work", "input": {"hangs": true}, "timeout": "20ms",
         "retry": {"max_attempts": 2, "backoff": {"initial": "1ms"}}},
        {"id": "sleeps", "kind": "sleep", "input": {"for": "5ms"}},
        {"id": "saves", "kind": "save"}"#;
    let ends = |job: &Job| {
        completes(job);
        assert_eq!(job.output().unwrap().unwrap().as_str(), "\"saved\"");
        assert_eq!(outcomes(job, "sleeps").len(), 0);
    };
    Script { name: "chain", plan, steps: Vec::new(), ends }
}

/// Its kind is not there until the last engine.
fn waits() -> Script {
    let plan = r#"{"id": "a", "kind": "late"}, {"id": "b", "kind": "work"}"#;
    Script { name: "waits", plan, steps: Vec::new(), ends: completes }
}

/// A sleep cannot start for want of a proper input.
fn odd() -> Script {
    let plan = r#"{"id": "a", "kind": "work", "input": {"gives": "soon"}},
        {"id": "s", "kind": "sleep", "input": {"for": {"$output": "a"}}}"#;
    let ends = |job: &Job| assert_eq!((job.status(), status_of(job, "s")), (Failed, "failed"));
    Script { name: "odd", plan, steps: Vec::new(), ends }
}

fn failed() -> Script {
    let plan =
        r#"{"id": "a", "kind": "work", "input": {"fails": 99}}, {"id": "b", "kind": "work"}"#;
    let steps = vec![ask(
        || Command::CANCEL,
        |job| job.status() == Failed,
        |job| job.status() == Cancelled,
    )];
    let ends = |job: &Job| {
        assert_eq!((job.status(), status_of(job, "b")), (Cancelled, "pending"));
        assert_eq!(codes(job, "a"), ["broken"]);
    };
    Script { name: "failed", plan, steps, ends }
}

fn cancelled() -> Script {
    let plan = r#"{"id": "a", "kind": "hold"}, {"id": "b", "kind": "work"}"#;
    let steps = vec![
        ask(
            || Command::CANCEL,
            runs,
            |job| job.intent() == Some(Intent::Cancel) || job.status() == Cancelled,
        ),
        ask(
            execute,
            |job| job.status() == Cancelled,
            |job| job.status() != Cancelled && job.intent().is_none(),
        ),
        release(runs),
    ];
    Script { name: "cancelled", plan, steps, ends: completes }
}

fn edited() -> Script {
    let plan = r#"{"id": "a", "kind": "hold"}, {"id": "b", "kind": "work"},
        {"id": "c", "kind": "work"}, {"id": "d", "kind": "work"},
        {"id": "e", "kind": "work", "input": {"fails": 1},
         "retry": {"max_attempts": 2, "backoff": {"initial": "1h"}}}"#;
    let remove = || Command::Remove { task: TaskId::new("c").unwrap(), cascade: false };
    let steps = vec![
        ask(|| skip("b"), runs, |job| status_of(job, "b") == "skipped"),
        ask(remove, |_| true, |job| status_of(job, "c") == "removed"),
        ask(
            || skip("a"),
            runs,
            |job| {
                let number = job.find("a").unwrap();
                let task = job.task(number).unwrap();
                task.is_being_skipped() || status_of(job, "a") == "skipped"
            },
        ),
        // It waits for an hour, unless a crash spared it the failure.
        ask(|| skip("e"), |job| status_of(job, "e") == "waiting", |job| job.status().is_ended()),
    ];
    let ends = |job: &Job| {
        completes(job);
        let all = ["a", "b", "c", "d"].map(|id| status_of(job, id));
        assert_eq!(all, ["skipped", "skipped", "removed", "completed"]);
    };
    Script { name: "edited", plan, steps, ends }
}

fn drained() -> Script {
    let plan = r#"{"id": "a", "kind": "hold"}, {"id": "b", "kind": "work"}"#;
    let steps = vec![
        ask(|| Command::Pause { mode: PauseMode::Drain }, runs, pausing),
        release(|_| true),
        ask(
            || Command::Resume,
            |job| job.status() == Paused,
            |job| job.status() != Paused && job.intent().is_none(),
        ),
    ];
    Script { name: "drained", plan, steps, ends: completes }
}

fn interrupted() -> Script {
    let plan = r#"{"id": "a", "kind": "hold"}, {"id": "b", "kind": "save"}"#;
    let steps = vec![
        ask(|| Command::Pause { mode: PauseMode::Interrupt }, runs, pausing),
        ask(
            || Command::Resume,
            |job| job.status() == Paused,
            |job| job.status() != Paused && job.intent().is_none(),
        ),
        release(runs),
    ];
    Script { name: "interrupted", plan, steps, ends: completes }
}

fn manual() -> Script {
    let plan = r#"{"id": "a", "kind": "work"}, {"id": "b", "kind": "noop", "needs": []}"#;
    let steps = vec![ask(execute, |job| job.status() == Pending, |job| job.status() != Pending)];
    Script { name: "manual", plan, steps, ends: completes }
}

fn forgiving() -> Script {
    let plan = r#"{"id": "a", "kind": "work", "input": {"fails": 99}, "on_failure": "continue"},
        {"id": "b", "kind": "work", "input": {"fails": 1}, "on_failure": "pause"},
        {"id": "c", "kind": "work"}"#;
    let steps =
        vec![ask(|| Command::Resume, |job| job.status() == Paused, |job| job.status().is_ended())];
    let ends = |job: &Job| {
        completes(job);
        assert_eq!((status_of(job, "a"), job.counts().tolerated), ("failed", 1));
    };
    Script { name: "forgiving", plan, steps, ends }
}

/// What a crash means is in the plan.
fn lost() -> [Script; 2] {
    let fails = r#"{"id": "a", "kind": "hold", "on_lost": "fail"}"#;
    let pauses = r#"{"id": "a", "kind": "hold", "on_lost": "pause"}"#;
    let failed = |job: &Job| job.status() == Failed;
    let completed = |job: &Job| job.status() == Completed;
    let fails = Script {
        name: "fails",
        plan: fails,
        steps: vec![
            release(|job| runs(job) || job.status() == Failed),
            ask(execute, failed, completed),
        ],
        ends: |job| {
            completes(job);
            let losses = outcomes(job, "a").iter().filter(|word| **word == "lost").count();
            assert_eq!(outcomes(job, "a").len(), losses + 1, "each loss failed the job");
        },
    };
    let is_held = |job: &Job| job.status() == Paused;
    let pauses = Script {
        name: "pauses",
        plan: pauses,
        steps: vec![
            release(|job| runs(job) || job.status() == Paused),
            ask(|| Command::Resume, is_held, completed),
        ],
        ends: completes,
    };
    [fails, pauses]
}
