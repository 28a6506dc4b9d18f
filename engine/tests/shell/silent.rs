//! Shell tasks of which something must be heard, on a whole engine with a clock in hand.

use std::time::Duration;

use annals_engine::job::{AttemptOutcome, JobStatus, Origin};
use annals_engine::log::MemoryDisk;
use annals_engine::runtime::{Engine, JobHandle, Submission};
use annals_engine::steplog::{Filter, LogName};
use annals_tasks_sdk::plan::{Limits, Plan};
use serde_json::json;

use crate::clock::{HandClock, almost};
use crate::house::{PATIENCE, Test, block_on, until};

pub(crate) const TESTS: &[Test] =
    &[("a_script_that_prints_lives_and_a_silent_one_is_stopped", prints_and_falls_silent)];

const LIMIT: Duration = Duration::from_mins(5);
const TICK: Duration = Duration::from_millis(1);
/// So often something is printed, which altogether takes far longer than the limit.
const LINES: usize = 4;

/// Prints a line whenever it is told to, and has a child that is as silent as itself otherwise.
const SCRIPT: &str = "
    sleep 1000 &
    line=0
    while :; do
        while [ ! -e $DIR/$line ]; do sleep 0.01; done
        echo line $line
        line=$((line + 1))
    done";

fn plan(folder: &str) -> Plan {
    let input = json!({"script": SCRIPT, "env": {"DIR": folder}});
    let task = json!({"id": "a", "kind": "shell", "input": input, "heartbeat_timeout": "5m"});
    let text = json!({"name": "silent", "tasks": [task]}).to_string();
    Plan::from_json(&text, &Limits::default()).unwrap()
}

fn lines(engine: &Engine, job: &JobHandle) -> usize {
    let name = LogName { job: job.id(), number: 1, attempt: 1 };
    engine.step_logs().entries(name, Filter::default()).unwrap().count()
}

fn prints_and_falls_silent() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let says = tempfile::tempdir().unwrap();
        let clock = HandClock::new();
        let log = Box::new(MemoryDisk::new().open());
        let engine = Engine::open(folder.path()).log(log).clock(clock.clone()).start().await;
        let engine = engine.unwrap();
        let plan = plan(says.path().to_str().unwrap());
        let job = engine.submit_plan(Submission::new(plan, Origin::actor("tester"))).await.unwrap();
        clock.until_slept_on(LIMIT).await;
        let mut silent = LIMIT;
        for line in 0..LINES {
            clock.advance(almost(silent));
            std::fs::write(says.path().join(line.to_string()), "").unwrap();
            until("the line", || lines(&engine, &job) > line).await;
            clock.advance(TICK);
            silent = almost(LIMIT);
            tokio::time::timeout(PATIENCE, clock.until_slept_on(silent)).await.unwrap();
        }
        assert!(job.snapshot().await.unwrap().job.is_live());
        clock.advance(silent);
        let end = tokio::time::timeout(PATIENCE, job.ended()).await.unwrap().unwrap().job;
        assert_eq!(end.status(), JobStatus::Failed);
        assert_eq!(&*end.error().unwrap().0.code, "heartbeat_timeout");
        let (_, task) = end.tasks().next().unwrap();
        assert_eq!(task.attempts()[0].outcome, Some(AttemptOutcome::TimedOut));
        assert_eq!(task.attempts()[0].log.lines, LINES as u64);
    });
}
