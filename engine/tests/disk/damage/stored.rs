//! A closed store with jobs in all states, and older copies of it.

use std::path::Path;
use std::sync::Arc;

use annals_engine::job::{Command, IdempotencyKey, JobStatus, Origin, PauseMode};
use annals_engine::{Ask, Mode, Submission};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{JobId, TaskId};

use super::answers::Answers;
use super::house::{House, Notices, STORE};
use crate::clock::SimClock;
use crate::sim::SimDisk;
use crate::tree::Tree;

/// So many rounds of jobs fill several files.
const ROUNDS: usize = 2;

/// How many stores there are to choose from.
pub(crate) const VARIANTS: usize = 6;
/// So many minutes are between two jobs of the first one.
const FASTEST: usize = 5;

const DONE: &str = r#"{"name": "done", "labels": {"of": "tests"}, "tasks": [
    {"id": "a", "kind": "noop"}, {"id": "b", "kind": "save", "input": {"n": 12.50}},
    {"id": "c", "kind": "save"}]}"#;
const MANUAL: &str =
    r#"{"name": "manual", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
const FAILING: &str = r#"{"name": "failing", "tasks": [
    {"id": "a", "kind": "save"},
    {"id": "b", "kind": "fail",
     "retry": {"max_attempts": 2, "backoff": {"initial": "0s", "jitter": 0}}},
    {"id": "c", "kind": "noop"}]}"#;
const TRYING: &str = r#"{"name": "trying", "tasks": [
    {"id": "a", "kind": "fail",
     "retry": {"max_attempts": 5, "backoff": {"initial": "2h", "jitter": 0}}}]}"#;
const SLEEPING: &str = r#"{"name": "sleeping", "tasks": [
    {"id": "a", "kind": "save"}, {"id": "b", "kind": "sleep", "input": {"for": "3h"}},
    {"id": "c", "kind": "noop"}, {"id": "d", "kind": "noop"}]}"#;
const HANGING: &str = r#"{"name": "hanging", "tasks": [
    {"id": "a", "kind": "save"}, {"id": "b", "kind": "hang"}]}"#;
const STRANGE: &str = r#"{"name": "strange", "tasks": [{"id": "a", "kind": "unknown"}]}"#;

/// A request that was accepted under a key.
#[derive(Clone)]
pub(crate) struct Keyed {
    pub(crate) submission: Submission,
    pub(crate) job: JobId,
}

pub(crate) struct Stored {
    pub(crate) clock: Arc<SimClock>,
    /// What is on the disk.
    pub(crate) tree: Tree,
    /// What was on it before, the oldest first. Of these some were closed.
    pub(crate) older: Vec<Tree>,
    pub(crate) keyed: Vec<Keyed>,
    pub(crate) answers: Answers,
}

impl Stored {
    /// Stores differ in how their events lie in the files: later jobs go on with those before them
    /// sooner or later.
    pub(crate) fn new(variant: usize) -> Self {
        let (disk, clock) = (SimDisk::default(), SimClock::new());
        let pace = 60_000 * i64::try_from(FASTEST + variant).expect("it is small");
        let mut maker = Maker { disk, clock, pace, older: Vec::new(), keyed: Vec::new(), keys: 0 };
        for _ in 0..ROUNDS {
            maker.round();
            maker.older.push(maker.disk.tree());
        }
        // The last one is the store itself.
        let Maker { disk, clock, mut older, keyed, .. } = maker;
        older.pop();
        let tree = disk.tree();
        let mut house = reading(&disk, &clock, &Notices::default());
        let answers = Answers::of(&mut house);
        drop(house);
        let stored = Self { clock, tree, older, keyed, answers };
        stored.is_fit();
        stored
    }

    /// Jobs in all states, and several record files.
    fn is_fit(&self) {
        use JobStatus::{Cancelled, Completed, Failed, Paused, Pending, Running};
        let found: Vec<_> = self.answers.statuses().collect();
        for status in [Cancelled, Completed, Failed, Paused, Pending, Running] {
            assert!(found.contains(&status), "no job is {status:?}");
        }
        let folder = Path::new(STORE).join("records");
        let files = self.tree.names.keys().filter(|path| path.starts_with(&folder));
        let count = files.count();
        assert!((3..6).contains(&count), "there are {count} record files");
        assert!(self.answers.values() > 4, "there are few checkpoints and steps");
    }
}

fn reading(disk: &SimDisk, clock: &Arc<SimClock>, notices: &Notices) -> House {
    House::start(disk, clock, (Mode::Hold, notices)).expect("it starts")
}

struct Maker {
    disk: SimDisk,
    clock: Arc<SimClock>,
    /// How many milliseconds are between two jobs.
    pace: i64,
    older: Vec<Tree>,
    keyed: Vec<Keyed>,
    keys: u32,
}

impl Maker {
    /// An engine from its start to its end.
    fn round(&mut self) {
        let notices = Notices::default();
        let started = House::start(&self.disk, &self.clock, (Mode::Run, &notices));
        let mut open = started.expect("it starts");
        let house = &mut open;
        for plan in [DONE, MANUAL, FAILING, TRYING, SLEEPING, STRANGE, DONE] {
            self.submit(house, plan);
        }
        let paused = self.submit(house, SLEEPING);
        self.command(house, paused, Command::Pause { mode: PauseMode::Drain });
        let cancelled = self.submit(house, SLEEPING);
        self.command(house, cancelled, Command::CANCEL);
        let again = self.submit(house, FAILING);
        self.command(house, again, Command::Execute { paused: true });
        let edited = self.submit(house, SLEEPING);
        let task = |id: &str| TaskId::new(id).expect("a name");
        self.command(house, edited, Command::Remove { task: task("c"), cascade: false });
        let skip = Command::Skip { task: Some(task("b")), output: None, cascade: false };
        self.command(house, edited, skip);
        self.submit(house, HANGING);
        open.close();
    }

    fn submit(&mut self, house: &mut House, plan: &str) -> JobId {
        self.older.push(self.disk.tree());
        self.clock.pass(self.pace);
        let plan = Plan::from_json(plan, &Limits::default()).expect("a valid plan");
        let key = self.key();
        let submission =
            Submission { key: Some(key), ..Submission::new(plan, Origin::actor("somebody")) };
        let (engine, request) = (house.engine.clone(), submission.clone());
        let accepted = house.wait(async move { engine.accept(request).await });
        let job = accepted.map(|accepted| accepted.job.id()).expect("it is accepted");
        self.keyed.push(Keyed { submission, job });
        house.settle();
        job
    }

    fn command(&mut self, house: &mut House, job: JobId, command: Command) {
        let job = house.engine.job(job);
        let ask = Ask { key: Some(self.key()), ..Ask::default() };
        let done = house.wait(async move { job.command(command, ask).await.map(drop) });
        done.expect("it is accepted");
        house.settle();
    }

    fn key(&mut self) -> IdempotencyKey {
        self.keys += 1;
        IdempotencyKey::new("somebody", "/", &format!("request {}", self.keys), &[])
    }
}
