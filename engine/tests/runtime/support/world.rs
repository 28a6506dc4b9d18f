//! The world of a test: a store that outlives engines, and short words for what one asks of them.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use annals_engine::job::{AttemptOutcome, Command, Event, Job, JobStatus, Origin, PauseMode};
use annals_engine::log::{EventLog, MemoryDisk, Options, Position, RedbLog};
use annals_engine::runtime::{Builder, Engine, JobHandle, Snapshot, Submission};
use annals_engine::{Ask, runtime::CommandError};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskId, TaskKind, TaskResult};
use tempfile::TempDir;

use super::{Gate, HandClock, LogGate, Reads, Tally, Watched};

/// Awaits something that must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_mins(1);
    tokio::time::timeout(limit, future).await.expect("it must not hang")
}

/// The main tests run with one loop and with several.
pub(crate) fn loops() -> [usize; 2] {
    [1, 3]
}

/// Where records are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Disk,
}

impl Store {
    pub(crate) const BOTH: [Self; 2] = [Self::Memory, Self::Disk];
}

/// A store that outlives the engines on it.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) disk: MemoryDisk,
    pub(crate) gate: LogGate,
    pub(crate) reads: Reads,
    root: TempDir,
    folder: PathBuf,
    lives: AtomicU32,
}

impl World {
    pub(crate) fn new(store: Store) -> Self {
        let root = tempfile::tempdir().expect("a folder can be made");
        let folder = root.path().join("0");
        let (disk, gate, reads) = (MemoryDisk::new(), LogGate::default(), Reads::new());
        Self { store, disk, gate, reads, root, folder, lives: AtomicU32::new(0) }
    }

    pub(crate) fn in_memory() -> Self {
        Self::new(Store::Memory)
    }

    /// Where the store is now.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts an engine together on the store. The clock is the machine's.
    pub(crate) fn engine(&self) -> Builder {
        let life = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        let (log, folder): (Box<dyn EventLog>, _) = match self.store {
            Store::Memory => (Box::new(self.disk.open()), None),
            Store::Disk => {
                let log = RedbLog::open(&self.folder, &Options::default());
                let log = log.expect("the store can be opened");
                let next = self.root.path().join(life.to_string());
                (Box::new(log), Some((self.folder.clone(), next)))
            }
        };
        let (gate, reads) = (self.gate.clone(), self.reads.clone());
        let log = Watched { log, gate, reads, folder };
        Engine::open(&self.folder).log(Box::new(log))
    }

    /// Puts an engine together whose clock is set by hand.
    pub(crate) fn engine_at(&self, clock: &std::sync::Arc<HandClock>) -> Builder {
        self.engine().clock(clock.clone())
    }

    /// Loses the views, as a damaged file of them would; no engine is on the store.
    pub(crate) fn lose_views(&self) {
        match self.store {
            Store::Memory => self.disk.lose_views(),
            Store::Disk => std::fs::remove_file(self.folder.join("views.redb")).unwrap(),
        }
    }

    /// Goes on with what the last fault left on the disk.
    pub(crate) fn bury(&mut self) {
        if let Some(folder) = self.gate.died() {
            self.folder = folder;
        }
        self.gate.heal();
    }
}

/// A plan of these tasks.
pub(crate) fn plan(tasks: &str) -> Plan {
    plan_of(&format!(r#"{{"name": "test", "tasks": [{tasks}]}}"#))
}

/// A plan from its text.
pub(crate) fn plan_of(text: &str) -> Plan {
    Plan::from_json(text, &Limits::default()).expect("the plan of a test is valid")
}

pub(crate) async fn submit(engine: &Engine, plan: Plan) -> JobHandle {
    let submission = Submission::new(plan, Origin::actor("tester"));
    within(engine.submit_plan(submission)).await.expect("the plan is accepted")
}

/// Names a task that takes and gives JSON as it stands.
pub(crate) const fn task(kind: &'static str) -> TaskKind<Payload, Payload> {
    TaskKind::new(kind)
}

/// Waits until the durable state of a job is as wanted.
pub(crate) async fn until(job: &JobHandle, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
    within(async {
        loop {
            let snapshot = job.snapshot().await.expect("the job can be read");
            if holds(&snapshot) {
                return snapshot;
            }
            job.changed(snapshot.job.seq()).await.expect("the job can be watched");
        }
    })
    .await
}

async fn command(job: &JobHandle, command: Command) -> Result<(), CommandError> {
    let ask = Ask { origin: Origin::actor("tester"), ..Ask::default() };
    within(job.command(command, ask)).await.map(drop)
}

pub(crate) async fn cancel(job: &JobHandle) {
    command(job, Command::CANCEL).await.expect("it can be cancelled");
}

pub(crate) async fn pause(job: &JobHandle, mode: PauseMode) {
    command(job, Command::Pause { mode }).await.expect("it can be paused");
}

pub(crate) async fn resume(job: &JobHandle) {
    command(job, Command::Resume).await.expect("it can be resumed");
}

pub(crate) async fn execute(job: &JobHandle) {
    command(job, Command::Execute { paused: false }).await.expect("it can be executed");
}

pub(crate) async fn skip(job: &JobHandle, task: &str) {
    let task = Some(TaskId::new(task).expect("a valid id"));
    let skip = Command::Skip { task, output: None, cascade: false };
    command(job, skip).await.expect("the task can be skipped");
}

/// The outcomes of a task's attempts.
pub(crate) fn outcomes(job: &Job, task: &str) -> Vec<&'static str> {
    let task = job.find(task).and_then(|number| job.task(number)).expect("there is such a task");
    let word = |outcome: Option<AttemptOutcome>| outcome.map_or("alive", AttemptOutcome::as_str);
    task.attempts().iter().map(|attempt| word(attempt.outcome)).collect()
}

/// The error codes of a task's attempts, where they ended with an error.
pub(crate) fn codes(job: &Job, task: &str) -> Vec<String> {
    let task = job.find(task).and_then(|number| job.task(number)).expect("there is such a task");
    let ends = task.attempts().iter().filter_map(|attempt| attempt.end.as_ref());
    ends.map(|end| end.error.code.to_string()).collect()
}

/// The word for the status of a task.
pub(crate) fn status_of(job: &Job, task: &str) -> &'static str {
    let task = job.find(task).and_then(|number| job.task(number)).expect("there is such a task");
    task.status().as_str()
}

/// Folds the history of a job.
async fn replay(job: &JobHandle) -> Job {
    let history = within(job.history(0, usize::MAX)).await.expect("the history can be read");
    let mut events = history.iter().map(|logged| &logged.recorded);
    let first = events.next().expect("a job has a first event");
    let mut replayed = Job::begin(job.id(), first).expect("the first event is one");
    for event in events {
        replayed.evolve(event).expect("each event may follow");
    }
    replayed
}

/// What must hold of every job: replay equals the live state, each run ends once, and what is
/// completed does not start again.
pub(crate) async fn laws(job: &JobHandle) -> Job {
    let snapshot = within(job.snapshot()).await.expect("the job can be read");
    assert_eq!(replay(job).await, *snapshot.job, "replay equals live");
    let history = within(job.history(0, usize::MAX)).await.expect("the history can be read");
    let mut ended = false;
    let mut done = std::collections::HashSet::new();
    for event in history.iter().map(|logged| &logged.recorded.event) {
        match event {
            Event::JobCompleted | Event::JobFailed { .. } => {
                assert!(!std::mem::replace(&mut ended, true), "a run ends once");
            }
            Event::JobCancelled => ended = true,
            Event::JobReopened { .. } => ended = false,
            Event::TaskCompleted { task, .. } => {
                assert!(done.insert(*task), "a task is completed once");
            }
            Event::AttemptStarted { task, .. } => {
                assert!(!ended, "nothing starts after the end");
                assert!(!done.contains(task), "what is completed does not run again");
            }
            _ => {}
        }
    }
    let is_ended = snapshot.job.status().is_ended();
    assert_eq!(ended, is_ended || snapshot.job.status() == JobStatus::Cancelled);
    std::sync::Arc::unwrap_or_clone(snapshot.job)
}

/// A task that does nothing.
pub(crate) async fn nothing(_cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    Ok(input)
}

/// Ends an engine as a kill would.
pub(crate) async fn kill(engine: Engine) {
    within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
}

/// Waits until the views reflect all that was written before this was called.
pub(crate) async fn until_viewed(engine: &Engine) {
    let reader = engine.reader();
    let written = Position(reader.next_position().0 - 1);
    within(async {
        while reader.viewed() < written {
            // Each job adds events, which makes the next checkpoint due.
            let job = submit(engine, plan(r#"{"id": "a", "kind": "noop"}"#)).await;
            job.ended().await.unwrap();
        }
    })
    .await;
}

/// Waits until the list shows that a job has ended. To ask for the job would load it.
pub(crate) async fn until_listed_as_ended(engine: &Engine, id: JobId) {
    within(async {
        loop {
            let rows = engine.jobs(None, usize::MAX).await.unwrap();
            let row = rows.iter().find(|row| row.job == id).expect("it is listed");
            if row.status.is_ended() {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Counts its attempts and waits at a gate.
pub(crate) fn counting(
    tally: &Tally,
    gate: &Gate,
) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let (tally, gate) = (tally.clone(), gate.clone());
    move |cx: TaskContext, input: Payload| {
        let (tally, gate) = (tally.clone(), gate.clone());
        async move {
            let _inside = tally.enter();
            cx.or_cancelled(gate.pass()).await?;
            Ok(input)
        }
    }
}
