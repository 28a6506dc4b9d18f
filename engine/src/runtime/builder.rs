//! How an engine is put together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::flow::{PlanMaker, WorkflowFn};
use annals_tasks_sdk::plan::Limits;
use annals_tasks_sdk::{Handler, Task, TaskKind, Workflow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::clock::{Clock, SystemClock};
use super::error::StartError;
use super::fork::FORK_BYTES;
use super::keys::KeyLimits;
use super::pool::{DEFAULT, SHELL};
use super::pool_setup::{self, Pool};
use super::registry::{Behaviour, Registry, Unfit};
use super::startup::{Startup, Told};
use crate::job::LossRule;
use crate::kinds::http::{Http, HttpSettings};
use crate::kinds::shell::{Shell, ShellError, ShellSettings};
use crate::log::{EventLog, Options};
use crate::processes::Supervisor;

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
    pub(super) dir: PathBuf,
    pub(super) create: bool,
    pub(super) mode: Mode,
    pub(super) registry: Registry,
    /// Why nothing that is put together here may start.
    pub(super) unfit: Option<Unfit>,
    pub(super) slots: usize,
    pub(super) shell_slots: usize,
    pub(super) pools: Vec<Pool>,
    pub(super) loops: usize,
    pub(super) limits: Limits,
    pub(super) losses: LossRule,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) supervisor: Option<Supervisor>,
    pub(super) http: HttpSettings,
    pub(super) allow_unknown_kinds: bool,
    pub(super) log: Option<Box<dyn EventLog>>,
    pub(super) store: Options,
    pub(super) resident: usize,
    pub(super) fork_bytes: usize,
    pub(super) resting_bytes: usize,
    pub(super) views_every: u64,
    pub(super) keys: KeyLimits,
    pub(super) told: Told,
}

impl Builder {
    pub(super) fn new(dir: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            dir,
            create: true,
            mode: Mode::default(),
            registry: Registry::default(),
            unfit: None,
            slots: 64,
            shell_slots: cores,
            pools: Vec::new(),
            loops: (cores / 2).clamp(1, 4),
            limits: Limits::default(),
            losses: LossRule::default(),
            clock: Arc::new(SystemClock),
            supervisor: None,
            http: HttpSettings::default(),
            allow_unknown_kinds: false,
            log: None,
            store: Options::default(),
            resident: 4096,
            fork_bytes: FORK_BYTES,
            resting_bytes: 64 << 20,
            views_every: 50_000,
            keys: KeyLimits { hours: 24, most: 10_000_000 },
            told: Told::default(),
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
        let registered = self.registry.register(kind, Behaviour::Run { handler, pool: DEFAULT });
        self.unfit = self.unfit.or(registered.err());
        self
    }

    /// Registers a workflow: a function that makes a plan of an input.
    pub fn workflow<I, O>(self, workflow: Workflow<I, O>, plan: impl WorkflowFn<I, O>) -> Self
    where
        I: DeserializeOwned + 'static,
        O: 'static,
    {
        self.plan_maker(annals_tasks_sdk::flow::erase_workflow(workflow, plan))
    }

    /// Registers a workflow whose types are hidden.
    pub fn plan_maker(mut self, maker: Arc<dyn PlanMaker>) -> Self {
        let name = maker.name().to_owned();
        let checked = maker.check();
        let checked = checked.map_err(|errors| Unfit::Workflow { name: name.clone(), errors });
        let before = self.registry.workflows.insert(name.clone(), maker);
        self.unfit = self.unfit.or(checked.err()).or(before.map(|_| Unfit::Twice(name)));
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

    /// How many tasks of this process run at once, those in pools of their own not counted; 64 by
    /// default.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// How many `shell` tasks run at once; as many as there are cores by default.
    pub fn shell_slots(mut self, slots: usize) -> Self {
        self.shell_slots = slots;
        self
    }

    /// Has some kinds run in a pool of their own, beside the pools that were named before.
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pools.push(pool);
        self
    }

    /// How many loops drive jobs, each on a thread of its own; by default one for every two
    /// processors, up to four. One does some hundred thousand steps a second, which needs a second
    /// processor for the log and the tasks.
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

    /// What `http` tasks may reach, and their limits; only public addresses by default.
    ///
    /// ```no_run
    /// use annals_engine::Engine;
    /// use annals_engine::kinds::HttpSettings;
    /// let settings = HttpSettings::default().allow(["10.0.0.0/8".parse()?]);
    /// let builder = Engine::open("annals-data").http(settings);
    /// # Ok::<(), annals_engine::kinds::BadTarget>(())
    /// ```
    pub fn http(mut self, settings: HttpSettings) -> Self {
        self.http = settings;
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

    /// How many bytes of inputs and outputs a fork may begin with; 64 MiB by default. All of it is
    /// one row of the log, which its readers have in memory as a whole.
    pub fn fork_bytes(mut self, bytes: usize) -> Self {
        self.fork_bytes = bytes;
        self
    }

    /// How much memory, about, the states of jobs that are not loaded may take: ended ones and
    /// such as only wait; 64 MiB by default. To read one of them again, or to command it, then
    /// takes no look at its history.
    pub fn resting_bytes(mut self, bytes: usize) -> Self {
        self.resting_bytes = bytes;
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

    /// How many idempotency keys are known at most; 10,000,000 by default, at 60 to 110 bytes of
    /// memory each. The oldest ones of more are forgotten early.
    pub fn keys_max(mut self, keys: usize) -> Self {
        self.keys.most = keys;
        self
    }

    /// Who is told what the start is doing, as it goes on. Called on the thread that does it, so
    /// it must not block.
    pub fn progress(mut self, told: impl Fn(Startup) + Send + Sync + 'static) -> Self {
        self.told = Told::new(told);
        self
    }

    /// How the store is opened.
    pub fn store(mut self, options: Options) -> Self {
        self.store = options;
        self
    }

    /// How long a start waits for a store that another process has; 500 ms by default.
    pub fn lock_patience(mut self, patience: Duration) -> Self {
        self.store.lock_patience = patience;
        self
    }

    /// Keeps records in this log instead of one in the folder.
    pub fn log(mut self, log: Box<dyn EventLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// In the process of an attempt of an [isolated](Pool::isolated) pool, runs the attempt and
    /// ends the process; elsewhere it returns at once. [`Builder::start`] begins with it. A program
    /// that does much before it starts its engine calls this before that, so that not each attempt
    /// does it, too.
    pub fn serve_isolated(&self) {
        let find = |kind: &str| {
            let registry = self.all_kinds(|_| Err(ShellError::NoSupervisor)).ok()?;
            match registry.behaviour(kind) {
                Some(Behaviour::Run { handler, .. }) => Some(Arc::clone(handler)),
                _ => None,
            }
        };
        crate::isolated::serve(find);
    }

    /// What was registered, and the kinds that every engine has, in their pools; `shell` makes
    /// that one.
    pub(super) fn kinds(
        &self,
        shell: impl FnOnce(ShellSettings) -> Result<Shell, ShellError>,
    ) -> Result<Registry, StartError> {
        let mut registry = self.all_kinds(shell)?;
        pool_setup::assign(&self.pools, &mut registry, &self.dir.join("live"))?;
        Ok(registry)
    }

    fn all_kinds(
        &self,
        shell: impl FnOnce(ShellSettings) -> Result<Shell, ShellError>,
    ) -> Result<Registry, StartError> {
        let mut registry = self.registry.clone();
        registry.register("sleep", Behaviour::Sleep)?;
        registry.register(annals_tasks_sdk::plan::TaskSpec::JOB, Behaviour::Child)?;
        registry.register("wait", Behaviour::Await)?;
        let mut run =
            |kind, handler, pool| registry.register(kind, Behaviour::Run { handler, pool });
        run("noop", Arc::new(crate::kinds::noop::Noop), DEFAULT)?;
        let mut http = self.http.clone();
        http.response_max = http.response_max.min(self.limits.payload_bytes as u64);
        run("http", Arc::new(Http::new(http)), DEFAULT)?;
        let mut settings = ShellSettings::new(self.dir.join("work"), self.dir.join("live"));
        settings.supervisor = self.supervisor.clone().unwrap_or_default();
        match shell(settings) {
            Ok(shell) => run("shell", Arc::new(shell), SHELL)?,
            // A program that has no use for shell tasks need not prepare for them.
            Err(ShellError::NoSupervisor) if self.supervisor.is_none() => {}
            Err(error) => {
                return Err(StartError::Kind { kind: "shell".into(), why: error.to_string() });
            }
        }
        Ok(registry)
    }
}
