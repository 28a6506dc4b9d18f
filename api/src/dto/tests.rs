//! The shapes, from jobs that the machine itself has made.

use annals_engine::job::{
    self, Context, Input, LogSize, LossRule, Origin, Outcome, Recorded, Report, Submitted,
    TaskNumber, begin, step, submit,
};
use annals_engine::log::Position;
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Done, Exit, JobId, Payload, TaskError, Timestamp};

use super::*;

const PLAN: &str = r#"{
    "name": "odd \u0000 name", "labels": {"env": "prod"},
    "input": {"big": 3544790567247868102, "long": 1234567890123456789012345678901234567890,
        "limits": [9007199254740993, -0, 1e400, 1.0]},
    "tasks": [
        {"id": "first", "kind": "shell", "input": {"script": "true"}, "title": "One"},
        {"id": "second", "kind": "shell", "input": {"script": "false"},
            "retry": {"max_attempts": 2, "backoff": {"initial": "2s", "jitter": 0}}},
        {"id": "third", "kind": "noop"}
    ]
}"#;

struct Story {
    job: job::Job,
    events: Vec<Recorded>,
    now: i64,
}

impl Story {
    fn new() -> Self {
        let plan = Plan::from_json(PLAN, &Limits::default()).unwrap();
        let submitted = Submitted { plan, workflow: None, source: Some("/etc/init.yaml".into()) };
        let events = submit(submitted, &Limits::default()).unwrap();
        let (job, events) = begin(JobId::from_u128(7), events, &context(1_000)).unwrap();
        Self { job, events, now: 1_000 }
    }

    fn step(&mut self, input: impl Into<Input>) {
        self.now += 1_000;
        let events = step(&mut self.job, input, &context(self.now)).unwrap();
        self.events.extend(events);
    }

    fn ends(&mut self, task: u32, attempt: u32, outcome: Outcome) {
        let task = TaskNumber(task);
        self.step(Report::Start { task });
        let log = LogSize { bytes: 12, lines: 2 };
        self.step(Report::Ended { task, attempt, outcome, log });
    }

    /// The first task succeeds, the second fails once and waits.
    fn to_the_wait() -> Self {
        let mut story = Self::new();
        let output = Payload::parse(r#"{"n": 18446744073709551616, "t": "a\u0000b"}"#).unwrap();
        let exit = Exit { code: Some(0), signal: None };
        story.ends(1, 1, Outcome::Completed(Done { output, exit }));
        story.ends(2, 1, Outcome::Failed(failure()));
        story
    }

    fn json(&self) -> String {
        Job::of(&self.job, &Live::new()).to_json()
    }
}

fn failure() -> TaskError {
    let exit = Exit { code: None, signal: Some("SIGKILL".into()) };
    TaskError::new("signal", "killed \u{1b}[31m by SIGKILL").with_exit(exit)
}

fn context(now: i64) -> Context {
    let origin = Origin { reason: Some("because".into()), ..Origin::actor("ada") };
    let (now, losses) = (Timestamp::from_millis(now), LossRule::default());
    Context { origin, key: None, now, random: 0.0, losses, instances: 10_000 }
}

/// Reads JSON with a reader that has no number for 1e400.
fn read(json: &str) -> serde_json::Value {
    serde_json::from_str(&json.replace("1e400", "1e40")).unwrap()
}

#[test]
fn a_snapshot_says_what_a_task_waits_for_and_how_its_attempts_ended() {
    let value = read(&Story::to_the_wait().json());
    assert_eq!(value["id"], "00000000-0000-0000-0000-000000000007");
    assert_eq!(value["status"], "running");
    assert_eq!(value["created_at"], "1970-01-01T00:00:01.000Z");
    assert_eq!(value["source"], "/etc/init.yaml");
    assert_eq!(value["queue"], "default");
    assert_eq!(value["labels"]["env"], "prod");
    assert_eq!(value["progress"]["total_tasks"], 3);
    assert_eq!(value["progress"]["completed_tasks"], 1);
    assert_eq!(value["progress"]["fraction"], 0.3333);
    assert!(value.get("intent").is_none() && value.get("finished_at").is_none());
    assert!(value.get("error").is_none() && value.get("output").is_none());
    let second = &value["tasks"][1];
    assert_eq!(second["status"], "waiting");
    assert_eq!(second["number"], 2);
    assert_eq!(second["needs"], serde_json::json!(["first"]));
    assert_eq!(second["waiting_for"]["retry"]["until"], "1970-01-01T00:00:07.000Z");
    let attempt = &second["attempts"][0];
    assert_eq!(attempt["outcome"], "failed");
    assert_eq!(attempt["signal"], "SIGKILL");
    assert_eq!(attempt["error"]["retryable"], true);
    assert_eq!(attempt["log"]["lines"], 2);
    assert!(attempt.get("exit_code").is_none());
    assert_eq!(value["tasks"][0]["attempts"][0]["exit_code"], 0);
    assert_eq!(value["tasks"][0]["title"], "One");
}

#[test]
fn digits_survive_and_nul_is_rendered() {
    let json = Story::to_the_wait().json();
    for text in [
        "3544790567247868102",
        "1234567890123456789012345678901234567890",
        "[9007199254740993,-0,1e400,1.0]",
        "18446744073709551616",
        r"odd \u0000 name",
        r"a\u0000b",
        r"killed \u001b[31m",
    ] {
        assert!(json.contains(text), "{text}: {json}");
    }
    assert!(!json.contains('\n'), "a document is one line, whatever its payloads were");
}

#[test]
fn a_failed_job_names_the_task_and_the_attempt() {
    let mut story = Story::to_the_wait();
    story.now += 10_000;
    story.ends(2, 2, Outcome::Failed(failure()));
    let value = read(&story.json());
    assert_eq!(value["status"], "failed");
    assert_eq!(value["error"]["code"], "signal");
    assert_eq!(value["error"]["task"], "second");
    assert_eq!(value["error"]["attempt"], 2);
    assert_eq!(value["tasks"][2]["status"], "pending");
}

#[test]
fn progress_of_live_attempts_is_shown_beside_the_state() {
    let mut story = Story::new();
    story.step(Report::Start { task: TaskNumber(1) });
    let half =
        TaskProgress { fraction: Some(0.5), message: Some("unpacking"), ..TaskProgress::default() };
    let live = Live::from([(TaskNumber(1), half)]);
    let shape = Job::of(&story.job, &live);
    assert!((shape.progress.fraction - 0.1667).abs() < f64::EPSILON);
    assert_eq!(shape.progress.current, ["first"]);
    assert_eq!(shape.progress.message, Some("unpacking"));
    let value = read(&shape.to_json());
    assert_eq!(value["tasks"][0]["progress"]["fraction"], 0.5);
}

#[test]
fn events_name_their_tasks_and_carry_who_and_why() {
    let story = Story::to_the_wait();
    let shown = |at: usize| read(&Event::of(&story.job, &story.events[at]).to_json());
    let types: Vec<_> = story.events.iter().map(|event| event.event.type_name()).collect();
    assert_eq!(types[..2], ["JobSubmitted", "JobStarted"]);
    let first = shown(0);
    assert_eq!((&first["seq"], &first["type"]), (&1.into(), &"JobSubmitted".into()));
    assert_eq!((&first["actor"], &first["reason"]), (&"ada".into(), &"because".into()));
    assert_eq!(first["data"]["plan"]["tasks"][0]["id"], "first");
    assert_eq!(first["data"]["source"], "/etc/init.yaml");
    assert!(first.get("position").is_none() && first.get("hash").is_none());
    let failed = types.iter().position(|word| *word == "AttemptFailed").unwrap();
    let failed = shown(failed);
    assert_eq!(failed["data"]["task"], "second");
    assert_eq!(failed["data"]["error"]["code"], "signal");
    assert_eq!(shown(1)["data"], serde_json::json!({}));
    let logged = Event::of(&story.job, &story.events[1]).at(Position(9), [0xab; 32]).to_json();
    assert!(logged.contains(r#""position":9"#) && logged.contains(&"ab".repeat(32)), "{logged}");
}
