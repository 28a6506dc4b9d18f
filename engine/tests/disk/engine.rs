//! A whole engine on a disk of which one operation fails, or every one from there on; and one
//! whose power goes between any two operations.

use std::path::Path;
use std::time::Duration;

use annals_engine::job::{Command, JobStatus, Origin};
use annals_engine::log::{EventLog, LogError, RedbLog, verify};
use annals_engine::runtime::{
    CommandError, Engine, EngineError, JobError, StartError, Submission, SubmitError,
};
use annals_engine::{Ask, JobHandle};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskKind, TaskResult};

use super::crash::IMAGES;
use super::images::{LOSSES, Power, cut_somewhere};
use super::ioerr::{Tried, faults, told};
use super::setting;
use super::sim::{Fault, SimDisk, What};
use super::tree::Tree;
use super::work::options;

/// Of so many operations in a row one fails, in each round another one.
const EVERY: u64 = 7;

/// For so many images under a log there is one under an engine.
const ENGINE_SHARE: u64 = 8;

const SAVE: TaskKind<Payload, Payload> = TaskKind::new("save");

async fn save(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    cx.checkpoint(&"a value that lies beside the row").await?;
    cx.step("once", async { Ok("a result that lies beside the row".to_owned()) }).await?;
    Ok(input)
}

const SHORT: &str = r#"{"name": "short", "tasks": [
    {"id": "a", "kind": "noop"}, {"id": "b", "kind": "save"}, {"id": "c", "kind": "noop"}]}"#;
const MANUAL: &str =
    r#"{"name": "manual", "start": "manual", "tasks": [{"id": "a", "kind": "save"}]}"#;

/// What a client was told of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Submitted,
    Started,
    Cancelled,
    Completed,
}

/// Who asks, and remembers the answers.
struct Client {
    disk: SimDisk,
    /// Each with the number of changes that the disk had recorded by then.
    told: Vec<(usize, JobId, Told)>,
}

/// Why an engine stopped.
type Stop = EngineError;

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it must not hang")
}

async fn start(dir: &Path, disk: &SimDisk) -> Result<Engine, StartError> {
    let builder = Engine::open(dir).store(options(disk)).views_every(6).slots(2);
    within(builder.task(SAVE, save).start()).await
}

async fn submit(engine: &Engine, plan: &str) -> Result<JobHandle, Stop> {
    let plan = Plan::from_json(plan, &Limits::default()).expect("a valid plan");
    match within(engine.submit_plan(Submission::new(plan, Origin::ENGINE))).await {
        Ok(job) => Ok(job),
        Err(SubmitError::Engine(stop)) => Err(stop),
        Err(other) => panic!("{other}"),
    }
}

async fn command(job: &JobHandle, command: Command) -> Result<(), Stop> {
    match within(job.command(command, Ask::default())).await {
        Ok(_) => Ok(()),
        Err(CommandError::Job(JobError::Engine(stop))) => Err(stop),
        Err(other) => panic!("{other}"),
    }
}

async fn ended(job: &JobHandle) -> Result<JobStatus, Stop> {
    match within(job.ended()).await {
        Ok(snapshot) => Ok(snapshot.job.status()),
        Err(JobError::Engine(stop)) => Err(stop),
        Err(other) => panic!("{other}"),
    }
}

impl Client {
    fn new(disk: &SimDisk) -> Self {
        Self { disk: disk.clone(), told: Vec::new() }
    }

    fn note(&mut self, job: &JobHandle, told: Told) {
        self.told.push((self.disk.recorded(), job.id(), told));
    }
    async fn submit(&mut self, engine: &Engine, plan: &str) -> Result<JobHandle, Stop> {
        let job = submit(engine, plan).await?;
        self.note(&job, Told::Submitted);
        Ok(job)
    }

    /// Asks for this and that, and waits for it.
    async fn work(&mut self, engine: &Engine) -> Result<(), Stop> {
        let short = self.submit(engine, SHORT).await?;
        let manual = self.submit(engine, MANUAL).await?;
        let never = self.submit(engine, MANUAL).await?;
        let execute = Command::Execute { paused: false };
        let (ends, executes, cancels) = tokio::join!(
            ended(&short),
            command(&manual, execute),
            command(&never, Command::CANCEL)
        );
        if executes.is_ok() {
            self.note(&manual, Told::Started);
        }
        if cancels.is_ok() {
            self.note(&never, Told::Cancelled);
        }
        executes.and(cancels)?;
        assert_eq!(ends?, JobStatus::Completed);
        self.note(&short, Told::Completed);
        assert_eq!(ended(&manual).await?, JobStatus::Completed);
        self.note(&manual, Told::Completed);
        let more = self.submit(engine, SHORT).await?;
        assert_eq!(ended(&more).await?, JobStatus::Completed);
        self.note(&more, Told::Completed);
        Ok(())
    }

    /// What was told while the disk recorded no more than so many changes is there, and all that
    /// is there comes to its end.
    async fn check(&self, engine: &Engine, changes: usize) {
        let all = within(engine.jobs(None, 100)).await.expect("jobs can be listed");
        for (_, id, told) in self.told.iter().filter(|(at, ..)| *at <= changes) {
            let found = all.iter().find(|row| row.job == *id);
            let found = found.unwrap_or_else(|| panic!("job {id} was accepted and is lost")).status;
            let holds = match told {
                Told::Submitted => true,
                Told::Started => found != JobStatus::Pending,
                Told::Cancelled => found == JobStatus::Cancelled,
                Told::Completed => found == JobStatus::Completed,
            };
            assert!(holds, "job {id} is {found:?} and was something else");
        }
        for row in &all {
            let job = engine.job(row.job);
            if row.status == JobStatus::Pending {
                command(&job, Command::Execute { paused: false }).await.expect("it is started");
            }
            let end = ended(&job).await.expect("it ends");
            let cancelled = &*row.name == "manual" && end == JobStatus::Cancelled;
            assert!(cancelled || end == JobStatus::Completed, "{} is {end:?}", row.name);
        }
    }
}

/// Two engines one after the other, as far as they come. Gives what stopped them.
async fn lives(dir: &Path, disk: &SimDisk, client: &mut Client) -> Result<(), Failed> {
    for _ in 0..2 {
        let engine = start(dir, disk).await.map_err(Failed::Start)?;
        let worked = client.work(&engine).await;
        if worked.is_err() {
            let more = submit(&engine, SHORT).await;
            assert!(more.is_err(), "something is accepted after a failure");
        }
        let closed = within(engine.shutdown()).await;
        // What runs on is the drop, which blocks.
        within(tokio::task::spawn_blocking(move || drop(engine))).await.expect("it ends");
        if let Err(stop) = worked {
            closed.expect_err("it ends well after a failure");
            return Err(Failed::Work(stop));
        }
        closed.map_err(Failed::Work)?;
    }
    Ok(())
}

enum Failed {
    Start(StartError),
    Work(Stop),
}

impl Failed {
    fn error(&self) -> &LogError {
        match self {
            Self::Start(StartError::Log(error)) => error,
            Self::Start(StartError::Engine(EngineError::OutcomeUnknown(error)))
            | Self::Work(EngineError::OutcomeUnknown(error) | EngineError::Log(error)) => error,
            Self::Start(other) => panic!("{other}"),
            Self::Work(other) => panic!("{other}"),
        }
    }
}

/// Gives how many changes and reads the disk saw.
async fn strike(fault: Option<Fault>) -> (u64, u64) {
    let root = tempfile::tempdir().expect("a folder can be made");
    let (dir, disk) = (root.path().join("store"), SimDisk::default());
    let mut client = Client::new(&disk);
    disk.fail(fault);
    let result = lives(&dir, &disk, &mut client).await;
    let counts = disk.counts();
    match (&result, fault) {
        (Err(failed), Some(fault)) => told(failed.error(), fault.errno, &dir),
        (Err(failed), None) => panic!("{}", failed.error()),
        // Commits gather by chance, so that there may have been fewer operations this time.
        (Ok(()), _) => assert_eq!(disk.struck(), 0, "nobody heard of the fault"),
    }
    disk.fail(None);
    go_on(&dir, &disk, &client, usize::MAX).await;
    counts
}

/// Starts on what is on the disk, and brings it to its end.
async fn go_on(dir: &Path, disk: &SimDisk, client: &Client, changes: usize) {
    let engine = start(dir, disk).await.expect("it starts");
    client.check(&engine, changes).await;
    within(engine.shutdown()).await.expect("it ends in good order");
    drop(engine);
    let log = RedbLog::open(dir, &options(disk)).expect("it opens");
    assert_eq!(verify(&*log.reader()).expect("it reads").damage, []);
}

/// The power goes again while an engine starts after a crash, and its jobs go on.
async fn crash_again(dir: &Path, tree: Tree, random: &mut fastrand::Rng) -> Tree {
    let disk = SimDisk::holding(tree.clone());
    disk.record();
    let engine = start(dir, &disk).await.expect("it starts");
    within(engine.shutdown()).await.expect("it ends in good order");
    cut_somewhere(tree, &disk.journal(), random)
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("threads can be started")
}

#[test]
fn an_error_under_an_engine_loses_nothing_that_was_acknowledged() {
    let runtime = runtime();
    let rounds = setting("ANNALS_IOERR_ROUNDS");
    let mut tried = Tried::new("faults under an engine");
    for round in 0..rounds.unwrap_or(1) {
        let (changes, reads) = runtime.block_on(strike(None));
        let due = |at: &u64| at % EVERY == round % EVERY;
        let all = rounds.is_some();
        let changes = (1..=changes).filter(due).flat_map(|at| faults(What::Changes, at, all));
        let reads = (1..=reads).flat_map(|at| faults(What::Reads, at, all));
        for fault in changes.chain(reads.filter(|fault| !fault.half)) {
            tried.case(
                || format!("{fault:?}"),
                || {
                    runtime.block_on(strike(Some(fault)));
                },
            );
        }
    }
    tried.end();
}

#[test]
fn a_crash_under_an_engine_loses_nothing_that_was_acknowledged() {
    let images = setting("ANNALS_CRASH_IMAGES").unwrap_or(IMAGES).div_ceil(ENGINE_SHARE);
    let seed = setting("ANNALS_CRASH_SEED").unwrap_or(0);
    let (runtime, mut tried) = (runtime(), Tried::new("crash images under an engine"));
    let mut random = fastrand::Rng::with_seed(seed);
    while tried.cases() < images {
        // Its path is written in all images.
        let root = tempfile::tempdir().expect("a folder can be made");
        let (dir, disk) = (root.path().join("store"), SimDisk::default());
        disk.record();
        let mut client = Client::new(&disk);
        let lived = runtime.block_on(lives(&dir, &disk, &mut client));
        assert!(lived.is_ok(), "nothing fails");
        let journal = disk.journal();
        // Spread over the whole of it, also where there are few of them.
        let every = (journal.len() * LOSSES.len()).div_ceil(usize::try_from(images).unwrap());
        let mut power = Power::default();
        for at in 0..=journal.len() {
            for loss in LOSSES {
                if random.usize(0..every) > 0 {
                    continue;
                }
                let tree = power.cut(loss, &mut random);
                let again = random.u8(0..4) == 0;
                let name = || format!("after {at} changes, lost: {loss:?}, {again}");
                let run = async {
                    let tree =
                        if again { crash_again(&dir, tree, &mut random).await } else { tree };
                    go_on(&dir, &SimDisk::holding(tree), &client, at).await;
                };
                tried.case(name, || runtime.block_on(run));
            }
            if let Some(change) = journal.get(at) {
                power.step(change);
            }
        }
    }
    tried.end();
}
