//! What the benches share.

// Each bench uses its own part of this.
#![allow(dead_code)]

pub(crate) mod load;

use std::fmt;
use std::time::Duration;

use annals_engine::log::WriterStats;
use annals_tasks_sdk::plan::{Backoff, Plan, Policy, PolicyFields, Retry, TaskSpec};
use annals_tasks_sdk::{KindName, Payload, TaskId, TaskKind};

/// A plan of `tasks` tasks that do nothing, one after the other.
pub(crate) fn chain(tasks: usize) -> Plan {
    let mut plan = Plan::new("chain");
    for number in 0..tasks {
        plan.tasks.push(task(number, "noop"));
    }
    plan
}

/// The same, with a first task that sleeps for an hour.
pub(crate) fn sleeping_chain(tasks: usize) -> Plan {
    let mut plan = chain(tasks);
    plan.tasks[0] = task(0, "sleep");
    plan.tasks[0].input = Payload::parse(r#"{"for": "1h"}"#).expect("an input");
    plan
}

/// The same, with a first task that waits for a signal.
pub(crate) fn waiting_chain(tasks: usize) -> Plan {
    let mut plan = chain(tasks);
    plan.tasks[0] = task(0, "wait");
    plan.tasks[0].input = Payload::parse(r#"{"signal": "go"}"#).expect("an input");
    plan
}

/// A task that fails.
pub(crate) const FAILS: TaskKind<Payload, Payload> = TaskKind::new("fails");

/// The same, with a first task that fails and is tried again in an hour.
pub(crate) fn failing_chain(tasks: usize) -> Plan {
    let mut plan = chain(tasks);
    plan.tasks[0] = task(0, FAILS.name());
    let hour = Duration::from_hours(1);
    let backoff = Backoff { initial: hour, max: hour, jitter: 0.0, ..Backoff::default() };
    let retry = Retry { max_attempts: 3, backoff, ..Retry::default() };
    plan.tasks[0].policy = Policy::new(PolicyFields { retry, ..PolicyFields::default() });
    plan
}

fn task(number: usize, kind: &str) -> TaskSpec {
    let id = TaskId::new(&format!("task-{number}")).expect("an id");
    TaskSpec::new(id, KindName::new(kind).expect("a kind"))
}

/// The processor time that this process has used.
pub(crate) fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// The memory of this process that is resident.
pub(crate) fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * rustix::param::page_size()
}

/// What a run measured.
pub(crate) struct Figures {
    pub(crate) jobs_per_second: f64,
    /// Wall time of a job for whoever waits for it.
    pub(crate) job_millis: f64,
    pub(crate) cpu_micros: f64,
    pub(crate) steps_per_commit: f64,
}

impl Figures {
    pub(crate) fn new(
        jobs: usize,
        in_flight: usize,
        wall: Duration,
        cpu: f64,
        stats: WriterStats,
    ) -> Self {
        let (jobs, wall) = (jobs as f64, wall.as_secs_f64());
        Self {
            jobs_per_second: jobs / wall,
            job_millis: wall * 1e3 * in_flight as f64 / jobs,
            cpu_micros: cpu * 1e6 / jobs,
            steps_per_commit: jobs * 11.0 / stats.commits as f64,
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jobs_per_second, job_millis, cpu_micros, steps_per_commit } = self;
        write!(
            f,
            "{jobs_per_second:8.0} jobs/s  {job_millis:8.2} ms a job  \
             {cpu_micros:6.0} µs CPU a job  {steps_per_commit:7.2} steps a commit"
        )
    }
}
