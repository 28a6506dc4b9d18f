//! Real scientific workflows, which nobody who wrote Annals has shaped: as chains and as graphs.
//!
//! Their ids reach 113 bytes with colons and parentheses, several fall into unconnected parts,
//! many run times are zero, and their commands hold newlines, quotes, backslashes and `$`.

#[path = "../common/mod.rs"]
mod common;
mod instance;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use annals_engine::job::{Event, JobStatus, Origin};
use annals_engine::runtime::Logged;
use annals_engine::{Engine, JobHandle, Submission, log};
use annals_tasks_sdk::plan::{Plan, TaskSpec};
use annals_tasks_sdk::{KindName, Payload, TaskId};
use common::Place;
use instance::{Instance, Step, instances};
use serde_json::Value;

/// So long sleep the tasks of one job in all.
const SLEEP: Duration = Duration::from_secs(2);
/// How long a loaded machine may take beyond the sleeping. Whoever hangs is found all the same.
const OVERHEAD: Duration = Duration::from_mins(1);

#[tokio::test]
async fn chains_that_do_nothing_keep_order_and_data() {
    run_each(
        |instance| instance.chain(noop),
        |ran| {
            ran.each_once(1);
            assert_eq!(ran.completed(), ran.instance.linear_ids(), "{}", ran.instance.name);
            ran.data_is_kept();
        },
    )
    .await;
}

#[tokio::test]
async fn chains_that_sleep_end_and_use_no_attempt() {
    run_each(
        |instance| instance.chain(sleep(instance)),
        |ran| {
            ran.each_once(0);
            assert_eq!(ran.completed(), ran.instance.linear_ids(), "{}", ran.instance.name);
            let slept = ran.instance.steps.iter().map(|step| scaled(ran.instance, step)).sum();
            ran.took(slept, slept);
        },
    )
    .await;
}

#[tokio::test]
async fn graphs_that_sleep_keep_order_and_run_side_by_side() {
    run_each(
        |instance| instance.graph(sleep(instance)),
        |ran| {
            ran.each_once(0);
            ran.parents_come_first();
            let path = ran.instance.critical_path(|step| scaled(ran.instance, step));
            // Sleeping takes no slot, so nothing but the longest path counts.
            ran.took(path, path);
            ran.sleeps_overlap();
        },
    )
    .await;
    let wide = |instance: &Instance| instance.is_wide(|step| scaled(instance, step));
    assert_eq!(instances().iter().filter(|&instance| wide(instance)).count(), 11);
}

/// An engine that is gone amid the graphs, as if it had been killed, costs no task a success and
/// gives none a second one.
#[tokio::test]
async fn graphs_go_on_where_an_engine_left_them() {
    let (dir, instances) = (tempfile::tempdir().unwrap(), instances());
    let engine = Engine::open(dir.path()).start().await.unwrap();
    let mut ids = Vec::new();
    for instance in &instances {
        ids.push(submit(&engine, instance.graph(noop)).await.id());
    }
    engine.job(ids[0]).changed(3).await.unwrap();
    drop(engine);
    let engine = Engine::open(dir.path()).start().await.unwrap();
    for (instance, id) in instances.iter().zip(ids) {
        let ran = Ran::wait(instance, &engine.job(id)).await;
        ran.parents_come_first();
        let attempts = ran
            .events
            .iter()
            .filter(|logged| matches!(logged.recorded.event, Event::AttemptStarted { .. }));
        let lost = ran
            .events
            .iter()
            .filter(|logged| matches!(logged.recorded.event, Event::AttemptLost { .. }));
        assert_eq!(attempts.count(), instance.steps.len() + lost.count(), "{}", instance.name);
    }
    end(engine).await;
}

/// Ids and commands pass the command line and its JSON as they are.
#[test]
fn the_binary_runs_them_from_files() {
    let place = Place::new();
    for instance in instances() {
        place.write("plan.json", instance.graph(noop).to_json().as_str());
        place.annals(&["run", "plan.json", "--new"]).expect(0);
        let job = place.json(&["show", &place.newest_id()]);
        assert_eq!(job["status"], "completed", "{}", instance.name);
        assert_eq!(job["input"], instance.text.as_str(), "{}", instance.name);
        let tasks = job["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), instance.steps.len(), "{}", instance.name);
        for (task, step) in tasks.iter().zip(&instance.steps) {
            let command: Value = serde_json::from_str(step.command.get()).unwrap();
            assert_eq!(task["id"], step.id.as_str(), "{}", instance.name);
            let needs: BTreeSet<&str> =
                task["needs"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
            let parents = step.parents.iter().map(String::as_str).collect();
            assert_eq!(needs, parents, "{}: {}", instance.name, step.id);
            assert_eq!(task["input"], command, "{}: {}", instance.name, step.id);
        }
    }
    assert_eq!(place.json(&["verify"])["sound"], true);
}

/// Runs every instance as a job of its own, all at the same time, and looks at what was logged.
async fn run_each(plan: impl Fn(&Instance) -> Plan, check: impl Fn(&Ran<'_>)) {
    let (dir, instances) = (tempfile::tempdir().unwrap(), instances());
    let engine = Engine::open(dir.path()).start().await.unwrap();
    let mut jobs = Vec::new();
    for instance in &instances {
        jobs.push(submit(&engine, plan(instance)).await);
    }
    for (instance, job) in instances.iter().zip(&jobs) {
        check(&Ran::wait(instance, job).await);
    }
    drop(jobs);
    end(engine).await;
}

async fn submit(engine: &Engine, plan: Plan) -> JobHandle {
    engine.submit_plan(Submission::new(plan, Origin::actor("test"))).await.unwrap()
}

async fn end(engine: Engine) {
    let found = log::verify(&*engine.reader()).unwrap();
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    engine.shutdown().await.unwrap();
}

/// What the log says of an instance that has run.
struct Ran<'a> {
    instance: &'a Instance,
    events: Vec<Logged>,
    /// The ids of the tasks by their numbers.
    ids: HashMap<u32, String>,
}

impl<'a> Ran<'a> {
    async fn wait(instance: &'a Instance, job: &JobHandle) -> Self {
        let ended = tokio::time::timeout(SLEEP + OVERHEAD, job.ended()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{} hangs", instance.name)).unwrap().job;
        assert_eq!(ended.status(), JobStatus::Completed, "{}", instance.name);
        assert_eq!(ended.counts().completed as usize, instance.steps.len(), "{}", instance.name);
        let ids = ended.tasks().map(|(number, task)| (number.0, task.spec.id.to_string()));
        let events = job.history(0, usize::MAX).await.unwrap();
        Self { instance, events, ids: ids.collect() }
    }

    /// Every task has succeeded exactly once, in its attempt of this number and in no other.
    fn each_once(&self, number: u32) {
        let name = &self.instance.name;
        let mut successes = BTreeMap::new();
        for logged in &self.events {
            match &logged.recorded.event {
                Event::TaskCompleted { task, attempt, .. } => {
                    assert_eq!(*attempt, number, "{name}: {}", self.ids[&task.0]);
                    *successes.entry(task.0).or_insert(0) += 1;
                }
                Event::AttemptStarted { attempt, .. } => assert_eq!(*attempt, number, "{name}"),
                Event::JobSubmitted(_) | Event::JobStarted | Event::JobCompleted => {}
                Event::TaskWaiting { .. } if number == 0 => {}
                other => panic!("{name}: {other:?} is no part of a run without incidents"),
            }
        }
        let wanted = (1..=self.ids.len()).map(|number| (u32::try_from(number).unwrap(), 1));
        assert_eq!(successes, wanted.collect(), "{name}");
    }

    /// The ids in the order in which the tasks succeeded.
    fn completed(&self) -> Vec<&str> {
        let completed = self.events.iter().filter_map(|logged| match &logged.recorded.event {
            Event::TaskCompleted { task, .. } => Some(self.ids[&task.0].as_str()),
            _ => None,
        });
        completed.collect()
    }

    /// No task was begun before all that it needs had succeeded.
    fn parents_come_first(&self) {
        let (mut completed, mut begun) = (HashMap::new(), HashMap::new());
        for logged in &self.events {
            let seq = logged.recorded.seq;
            match &logged.recorded.event {
                Event::TaskCompleted { task, .. } => {
                    assert_eq!(completed.insert(self.ids[&task.0].as_str(), seq), None);
                    begun.entry(self.ids[&task.0].as_str()).or_insert(seq);
                }
                Event::TaskWaiting { task, .. } | Event::AttemptStarted { task, .. } => {
                    begun.entry(self.ids[&task.0].as_str()).or_insert(seq);
                }
                _ => {}
            }
        }
        for step in &self.instance.steps {
            for parent in &step.parents {
                let (parent_seq, seq) = (completed[parent.as_str()], begun[step.id.as_str()]);
                assert!(parent_seq < seq, "{}: {} before {parent}", self.instance.name, step.id);
            }
        }
    }

    /// Where the graph allows it, two tasks slept at once. A loaded machine may take longer than
    /// all sleeps one after the other, so the wall time alone does not tell.
    fn sleeps_overlap(&self) {
        let time = |step: &Step| scaled(self.instance, step);
        let steps = self.instance.steps.iter().filter(|step| !time(step).is_zero());
        let sleepers: BTreeSet<&str> = steps.map(|step| step.id.as_str()).collect();
        let (mut asleep, mut most) = (BTreeSet::<&str>::new(), 0);
        for logged in &self.events {
            match &logged.recorded.event {
                Event::TaskWaiting { task, .. } => {
                    asleep.extend(sleepers.get(self.ids[&task.0].as_str()));
                }
                Event::TaskCompleted { task, .. } => {
                    asleep.remove(self.ids[&task.0].as_str());
                }
                _ => {}
            }
            most = most.max(asleep.len());
        }
        assert_eq!(most > 1, self.instance.is_wide(time), "{}: {most}", self.instance.name);
    }

    /// The wall time lies between these, a loaded machine's share aside.
    fn took(&self, least: Duration, most: Duration) {
        let (begun, ended) = (&self.events[0], &self.events[self.events.len() - 1]);
        let took = ended.recorded.time.since(begun.recorded.time);
        let name = &self.instance.name;
        // Times are logged in whole milliseconds.
        assert!(took + Duration::from_millis(1) >= least, "{name}: {took:?} of {least:?}");
        assert!(took <= most + OVERHEAD, "{name}: {took:?} of {most:?}");
    }

    /// What went in comes out of the log byte for byte.
    fn data_is_kept(&self) {
        let Event::JobSubmitted(submitted) = &self.events[0].recorded.event else {
            panic!("a history begins with its submission");
        };
        let (plan, instance) = (&submitted.plan, self.instance);
        assert_eq!(plan.input.to::<String>().unwrap(), instance.text);
        let mut longest = 0;
        for (task, step) in plan.tasks.iter().zip(instance.linear()) {
            assert_eq!(task.input.as_str(), step.command.get(), "{}: {}", instance.name, step.id);
            longest = longest.max(step.command.get().len());
        }
        // White space between the parts of a command is kept as well, and not counted there.
        assert!(longest >= instance.expected.longest_command_bytes, "{}", instance.name);
    }
}

fn noop(step: &Step) -> TaskSpec {
    let mut task = TaskSpec::new(TaskId::new(&step.id).unwrap(), KindName::new("noop").unwrap());
    task.input = Payload::parse(step.command.get()).unwrap();
    task
}

fn sleep(instance: &Instance) -> impl Fn(&Step) -> TaskSpec {
    move |step| {
        let kind = KindName::new("sleep").unwrap();
        let mut task = TaskSpec::new(TaskId::new(&step.id).unwrap(), kind);
        let millis = scaled(instance, step).as_millis();
        task.input = Payload::parse(&format!(r#"{{"for": "{millis}ms"}}"#)).unwrap();
        task
    }
}

/// The run time of a step when all steps together take [`SLEEP`], in whole milliseconds.
fn scaled(instance: &Instance, step: &Step) -> Duration {
    let share = step.seconds / instance.expected.sum_runtime_s;
    Duration::from_millis(SLEEP.mul_f64(share).as_millis().try_into().unwrap())
}
