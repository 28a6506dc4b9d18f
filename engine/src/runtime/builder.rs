//! How an engine is put together and started.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use annals_tasks_sdk::flow::WorkflowFn;
use annals_tasks_sdk::plan::Limits;
use annals_tasks_sdk::{Handler, KindName, Task, TaskKind, Workflow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, watch};

use super::clock::{Clock, SystemClock};
use super::driver;
use super::engine::{Engine, INBOX_MAX, Inner, Settings, Shared};
use super::error::{EngineError, StartError};
use super::inbox::{Inbox, inbox};
use super::keys::{KeyLimits, Keys};
use super::message::Message;
use super::pool::{DEFAULT, PoolId, Pools, SHELL};
use super::recovery::{Broken, Recovered, recover};
use super::registry::{Behaviour, Registry};
use super::turn::Loop;
use super::views::Progress;
use crate::job::LossRule;
use crate::kinds::shell::{Shell, ShellSettings, Supervisor};
use crate::log::{Done, EventLog, Options, RedbLog, Waypoints, Writer};
use crate::steplog::StepLogs;

/// Whether jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// They do.
    #[default]
    Run,
    /// Nothing starts and no timer fires: commands are recorded, and take effect when an engine
    /// runs on the store again.
    Hold,
}

/// Puts an engine together.
pub struct Builder {
    dir: PathBuf,
    create: bool,
    mode: Mode,
    registry: Registry,
    faults: Vec<StartError>,
    slots: usize,
    shell_slots: usize,
    loops: usize,
    limits: Limits,
    losses: LossRule,
    clock: Arc<dyn Clock>,
    supervisor: Option<Supervisor>,
    allow_unknown_kinds: bool,
    log: Option<Box<dyn EventLog>>,
    store: Options,
    resident: usize,
    views_every: u64,
    keys: KeyLimits,
}

impl Builder {
    pub(super) fn new(dir: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            dir,
            create: true,
            mode: Mode::default(),
            registry: Registry::default(),
            faults: Vec::new(),
            slots: 64,
            shell_slots: cores,
            loops: 1,
            limits: Limits::default(),
            losses: LossRule::default(),
            clock: Arc::new(SystemClock),
            supervisor: None,
            allow_unknown_kinds: false,
            log: None,
            store: Options::default(),
            resident: 4096,
            views_every: 50_000,
            keys: KeyLimits { hours: 24, most: 10_000_000 },
        }
    }

    /// Registers a task under the name and with the types of its kind.
    pub fn task<I, O, T>(self, kind: TaskKind<I, O>, task: T) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        T: Task<I, O>,
    {
        self.handler(kind.name(), Arc::new(annals_tasks_sdk::task::erase(task)))
    }

    /// Registers a task whose types are hidden.
    pub fn handler(mut self, kind: &str, handler: Arc<dyn Handler>) -> Self {
        self.register(kind, Behaviour::Run { handler, pool: DEFAULT });
        self
    }

    fn register(&mut self, kind: &str, behaviour: Behaviour) {
        if let Err(error) = KindName::new(kind) {
            self.faults.push(error.into());
        } else if self.registry.kinds.insert(kind.into(), behaviour).is_some() {
            self.faults.push(StartError::Twice(kind.into()));
        }
    }

    /// Registers a workflow: a function that makes a plan of an input.
    pub fn workflow<I, O>(mut self, workflow: Workflow<I, O>, plan: impl WorkflowFn<I, O>) -> Self
    where
        I: DeserializeOwned + 'static,
        O: 'static,
    {
        let name = workflow.name();
        let maker = annals_tasks_sdk::flow::erase_workflow(workflow, plan);
        if let Err(errors) = maker.check() {
            self.faults.push(StartError::Workflow { name: name.into(), errors });
        }
        if self.registry.workflows.insert(name.into(), maker).is_some() {
            self.faults.push(StartError::Twice(name.into()));
        }
        self
    }

    /// Whether to make a store where there is none; true by default.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether jobs run.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How many tasks of this process run at once; 64 by default.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// How many `shell` tasks run at once; as many as there are cores by default.
    pub fn shell_slots(mut self, slots: usize) -> Self {
        self.shell_slots = slots;
        self
    }

    /// How many loops drive jobs; 1 by default, which serves some ten thousand steps a second.
    pub fn loops(mut self, loops: usize) -> Self {
        self.loops = loops.max(1);
        self
    }

    /// The limits of plans and payloads: at most 100,000 tasks, 16 MiB a plan, and 16 MiB a
    /// payload, which is also what may come with a command or a plan beside it.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What losses mean.
    pub fn losses(mut self, losses: LossRule) -> Self {
        self.losses = losses;
        self
    }

    /// What time is taken from.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Which program supervises `shell` tasks; this one by default, if its `main` calls
    /// [`isolated_entry`](crate::isolated_entry). Without any, `shell` is not offered.
    pub fn supervisor(mut self, supervisor: Supervisor) -> Self {
        self.supervisor = Some(supervisor);
        self
    }

    /// Accepts plans with kinds that are not registered; their tasks wait for them.
    pub fn allow_unknown_kinds(mut self, allow: bool) -> Self {
        self.allow_unknown_kinds = allow;
        self
    }

    /// How many jobs that only wait each loop keeps loaded; 4,096 by default. Others are loaded
    /// when they are due or asked for.
    pub fn resident(mut self, jobs: usize) -> Self {
        self.resident = jobs;
        self
    }

    /// After how many events the views are written; 50,000 by default. A start reads so many
    /// events at most to find out where every job stands.
    pub fn views_every(mut self, events: u64) -> Self {
        self.views_every = events;
        self
    }

    /// For how many hours idempotency keys are known at least; 24 by default. Those of one hour
    /// are forgotten together.
    pub fn key_hours(mut self, hours: u32) -> Self {
        self.keys.hours = hours;
        self
    }

    /// How many idempotency keys are known at most; 10,000,000 by default, at up to 100 bytes of
    /// memory each. The oldest ones of more are forgotten early.
    pub fn keys_max(mut self, keys: usize) -> Self {
        self.keys.most = keys;
        self
    }

    /// How the store is opened.
    pub fn store(mut self, options: Options) -> Self {
        self.store = options;
        self
    }

    /// Keeps records in this log instead of one in the folder.
    pub fn log(mut self, log: Box<dyn EventLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Opens the store, which may repair it, recovers its jobs, and has them go on.
    ///
    /// Everything that recovery records is durable when this returns. To be called within a
    /// Tokio runtime; attempts run on one of the engine's own.
    pub async fn start(mut self) -> Result<Engine, StartError> {
        if let Some(fault) = self.faults.drain(..).next() {
            return Err(fault);
        }
        check_limits(&self.limits)?;
        let engine = tokio::task::spawn_blocking(move || self.assemble()).await;
        let engine = engine.map_err(|_| EngineError::Stopped)??;
        let shared = &engine.0.shared;
        for home in 0..shared.inboxes.len() {
            shared.ask(home, |reply| Message::Recover { reply }).await??;
        }
        Ok(engine)
    }

    fn assemble(mut self) -> Result<Engine, StartError> {
        super::panics::note_places();
        let log = if let Some(log) = self.log.take() {
            log
        } else {
            self.store.create = self.create;
            Box::new(RedbLog::open(&self.dir, &self.store)?)
        };
        let live_dir = self.dir.join("live");
        self.builtin_kinds()?;
        let reader = log.reader();
        let mut recovered = recover(&*reader)?;
        let tasks = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(task_threads(self.mode, self.slots))
            .thread_name("annals-task")
            .enable_all()
            .build()
            .map_err(|source| StartError::Io { what: "cannot start threads".into(), source })?;
        let (inboxes, receivers): (Vec<_>, Vec<_>) = (0..self.loops).map(|_| inbox()).unzip();
        let inboxes = Arc::new(inboxes);
        let growth = watch::Sender::new(());
        let writer = Writer::start(log, notify(&inboxes, &growth))
            .map_err(|source| StartError::Io { what: "cannot start threads".into(), source })?;
        let keys = Arc::new(Keys::new(Arc::clone(&self.clock), self.keys));
        let shared = Arc::new(Shared {
            clock: self.clock,
            registry: self.registry,
            pools: Pools::new(self.slots, self.shell_slots),
            writer,
            reader,
            waypoints: Waypoints::default(),
            growth,
            settings: Settings {
                limits: self.limits,
                losses: self.losses,
                resident: self.resident,
                dispatches: self.mode == Mode::Run,
                allow_unknown_kinds: self.allow_unknown_kinds,
            },
            views: Progress::new(self.views_every),
            keys,
            inboxes,
            steplogs: StepLogs::new(self.dir.join("steps"), crate::steplog::BUDGET),
            tasks: tasks.handle().clone(),
            live_dir: Some(live_dir),
            leftovers_ended: Mutex::new(false),
            failure: OnceLock::new(),
            admission: Arc::new(Semaphore::new(INBOX_MAX)),
        });
        let views_are_due = shared.views.count(recovered.tail_events);
        if shared.settings.dispatches {
            // Nothing may start beside what an earlier engine left running.
            let alive = shared.end_leftovers().map_err(|source| {
                let what = "cannot end what an earlier engine left running".into();
                StartError::Io { what, source }
            })?;
            for (job, why) in alive {
                recovered.open.remove(&job);
                recovered.broken.insert(job, Broken { why, row: None });
            }
        }
        let loops = spread(&shared, recovered);
        let threads =
            loops.into_iter().zip(receivers).map(|(each, outbox)| driver::start(each, outbox));
        let threads: Result<Vec<_>, _> = threads.collect();
        let threads = threads
            .map_err(|source| StartError::Io { what: "cannot start threads".into(), source })?;
        if views_are_due {
            shared.begin_views_round();
        }
        let (loops, runtime) = (Mutex::new(threads), Mutex::new(Some(tasks)));
        Ok(Engine(Arc::new(Inner { shared, loops, runtime })))
    }

    fn builtin_kinds(&mut self) -> Result<(), StartError> {
        self.register("sleep", Behaviour::Sleep);
        let noop = Arc::new(crate::kinds::noop::Noop);
        self.register("noop", Behaviour::Run { handler: noop, pool: DEFAULT });
        let mut settings = ShellSettings::new(self.dir.join("work"), self.dir.join("live"));
        let named = self.supervisor.is_some();
        settings.supervisor = self.supervisor.take().unwrap_or_default();
        match Shell::new(settings) {
            Ok(shell) => self.register_in("shell", Arc::new(shell), SHELL),
            // A program that has no use for shell tasks need not prepare for them.
            Err(crate::kinds::shell::ShellError::NoSupervisor) if !named => {}
            Err(error) => {
                return Err(StartError::Kind { kind: "shell".into(), why: error.to_string() });
            }
        }
        self.faults.drain(..).next().map_or(Ok(()), Err)
    }

    fn register_in(&mut self, kind: &str, handler: Arc<dyn Handler>, pool: PoolId) {
        self.register(kind, Behaviour::Run { handler, pool });
    }
}

/// What every event fits into a row with: a plan takes up to three times its size as JSON, and
/// the texts beside it come on top.
const LIMITS_MAX: Limits = Limits { tasks: 100_000, plan_bytes: 16 << 20, payload_bytes: 16 << 20 };

fn check_limits(limits: &Limits) -> Result<(), StartError> {
    let Limits { tasks, plan_bytes, payload_bytes } = *limits;
    let all = [
        ("tasks", tasks, LIMITS_MAX.tasks),
        ("plan_bytes", plan_bytes, LIMITS_MAX.plan_bytes),
        ("payload_bytes", payload_bytes, LIMITS_MAX.payload_bytes),
    ];
    match all.into_iter().find(|(_, limit, most)| limit > most) {
        Some((name, limit, most)) => Err(StartError::Limit { name, limit, most }),
        None => Ok(()),
    }
}

/// How many threads run the tasks of this process. A task that blocks its thread takes that from
/// the others, so there are more threads than cores: idle ones cost next to nothing.
fn task_threads(mode: Mode, slots: usize) -> usize {
    if mode == Mode::Hold {
        // No task runs; the runtime must have one all the same.
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.max(2) + slots.min(64)
}

fn notify(inboxes: &Arc<Vec<Inbox>>, growth: &watch::Sender<()>) -> Done {
    let (inboxes, growth) = (Arc::clone(inboxes), growth.clone());
    Arc::new(move |home, durable| {
        growth.send_replace(());
        // A loop that is gone waits for nothing.
        inboxes[home].send(Message::Durable(durable));
    })
}

/// Gives each loop the jobs that it is to drive.
fn spread(shared: &Arc<Shared>, recovered: Recovered) -> Vec<Loop> {
    let mut loops: Vec<Loop> =
        (0..shared.inboxes.len()).map(|index| Loop::new(index, Arc::clone(shared))).collect();
    for (job, entry) in recovered.open {
        loops[shared.home_of(job)].adopt(job, entry);
    }
    for row in recovered.due {
        loops[shared.home_of(row.job)].agenda.set(row.job, row.due);
    }
    for row in recovered.rows {
        loops[shared.home_of(row.job)].rows.keep(row);
    }
    for (job, Broken { why, row }) in recovered.broken {
        let home = &mut loops[shared.home_of(job)];
        home.broken.insert(job, why);
        if let Some(row) = row {
            home.rows.keep(row);
        }
    }
    loops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_runs_no_threads_wait_for_tasks() {
        assert_eq!(task_threads(Mode::Hold, 64), 1);
        assert!(task_threads(Mode::Run, 64) > 64);
    }
}
