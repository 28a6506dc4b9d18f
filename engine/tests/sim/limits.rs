//! Limits: within which time a job must end once the faults have stopped.

use std::collections::BTreeMap;

use annals_engine::job::{Deadline, Job, Part, Task, TaskNumber, TaskStatus, Waiting};
use annals_tasks_sdk::{JobId, Timestamp};

use crate::tasks::WORK_MAX;
use crate::world::World;

/// What a job is given beyond its work and its waits, in milliseconds.
const GRACE: i64 = 30_000;
/// An attempt that is alive when the faults stop ends within this, and its failure is followed by
/// at most this.
const LIVE_MAX: i64 = 12_000;
const BACKOFF_MAX: i64 = 45_000;
const SLEEP_MAX: i64 = 20_000;
/// What children that are not there yet may take, with those that they have in turn.
const CHILDREN_MAX: i64 = 3_600_000;

/// What a task waits that has less time than its work takes.
fn retries(task: &Task) -> i64 {
    let policy = &task.spec.policy;
    // It says nothing while it works.
    let limits = [policy.timeout, policy.heartbeat_timeout];
    let mut limits = limits.into_iter().flatten();
    let fits = limits.all(|limit| limit.as_millis() > u128::from(WORK_MAX));
    if fits { 0 } else { i64::from(policy.retry.max_attempts) * BACKOFF_MAX }
}

/// What it may take to undo what a job has done, or will have.
fn undoing(job: &Job) -> i64 {
    let undone = job.tasks().filter(|(_, task)| task.spec.compensate.is_some());
    i64::try_from(undone.count()).expect("few") * (LIVE_MAX + BACKOFF_MAX)
}

/// Whether a job waits for a child, or may come to.
fn may_have_children(job: &Job) -> bool {
    job.tasks().any(|(_, task)| !task.is_settled() && task.spec.kind.as_str() == "job")
}

/// A job in a line.
pub(crate) fn brief(job: &Job) -> String {
    let task = |task: &Task| format!("{} {:?}", task.spec.id, task.status());
    let tasks: Vec<String> = job.tasks().map(|(_, each)| task(each)).collect();
    format!("{:?} {:?}, {}", job.status(), job.intent(), tasks.join(", "))
}

impl World {
    /// By when each job must have ended that is not held, by the time that has passed.
    pub(crate) fn limits(&self) -> BTreeMap<JobId, i64> {
        let now = self.clock.passed();
        let work = i64::try_from(WORK_MAX).expect("small");
        let jobs = || self.witness.going().map(|(id, known)| (*id, &known.job));
        // Who queues for slots waits for those before it.
        let open = |(_, task): &(TaskNumber, &Task)| !task.is_settled();
        let open = jobs().map(|(_, job)| job.tasks().filter(open).count()).sum::<usize>();
        let tasks = i64::try_from(open).expect("few");
        let alive = jobs().flat_map(|(_, job)| job.tasks());
        let alive = alive.filter(|(_, task)| task.live_attempt().is_some()).count();
        let queue = tasks * work + i64::try_from(alive).expect("few") * LIVE_MAX;
        // Who needs a key waits for all that share it.
        let key = |job: &Job| job.exclusive().map(|own| own.key.clone());
        let shared = |job: &Job| {
            let others = jobs().filter(|(_, other)| key(other) == key(job));
            others.map(|(_, other)| self.rest_of(other)).sum::<i64>()
        };
        // Who has a child waits for it, and for all that it waits for.
        let all = jobs().map(|(_, job)| self.rest_of(job)).sum::<i64>() + CHILDREN_MAX;
        let families = jobs().any(|(_, job)| may_have_children(job));
        let rest = |job: &Job| match key(job) {
            _ if may_have_children(job) => all,
            Some(_) if families => all,
            Some(_) => shared(job),
            None => self.rest_of(job),
        };
        let limit = |job: &Job| {
            let work = rest(job) + queue;
            // Whatever it waits for, its deadline ends it.
            let deadline = job.deadline_at().map(|at| self.deadline_of(job, at));
            now + deadline.map_or(work, |deadline| deadline.min(work)) + GRACE
        };
        jobs().map(|(id, job)| (id, limit(job))).collect()
    }

    /// What a job whose deadline passes then may take until nothing of it is alive.
    fn deadline_of(&self, job: &Job, at: Timestamp) -> i64 {
        let alive = i64::try_from(job.live().count()).expect("few");
        let finally = job.tasks().filter(|(_, task)| task.part() != Part::Tasks);
        let finally = finally.map(|(_, task)| LIVE_MAX + self.rest_of_task(task)).sum::<i64>();
        self.clock.until(at.max(job.time())).max(0)
            + (alive + 1) * LIVE_MAX
            + finally
            + undoing(job)
            + if may_have_children(job) { CHILDREN_MAX } else { 0 }
    }

    fn rest_of_task(&self, task: &Task) -> i64 {
        match task.waiting() {
            Some(Waiting::Retry { until } | Waiting::Timer { until }) => {
                self.clock.until(until).max(0) + retries(task)
            }
            Some(Waiting::Signal { timeout: Some(timeout) }) => match timeout {
                Deadline::At(until) => self.clock.until(until).max(0),
                Deadline::Left(rest) => i64::try_from(rest.as_millis()).expect("small"),
            },
            _ if task.live_attempt().is_some() => LIVE_MAX + retries(task).max(BACKOFF_MAX),
            _ if ["sleep", "wait"].contains(&task.spec.kind.as_str()) => SLEEP_MAX,
            _ => retries(task),
        }
    }

    /// What is left of the waits of a job.
    fn rest_of(&self, job: &Job) -> i64 {
        let open = |task: &Task| !task.is_settled() && task.status() != TaskStatus::Removed;
        let rest: i64 = job
            .tasks()
            .filter(|(_, task)| open(task))
            .map(|(_, task)| self.rest_of_task(task))
            .sum();
        // Where the clock was set back, the job goes by its own time, which never is.
        rest + undoing(job) + self.clock.until(job.time()).max(0)
    }
}
