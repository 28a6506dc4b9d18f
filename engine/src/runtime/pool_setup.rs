//! Pools of a program's own: which kinds run in them, how many tasks at once, and on what.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{KindName, near};

use super::error::StartError;
use super::pool::{BUILT_IN, POOLS_MAX, PoolId, SHELL};
use super::registry::{Behaviour, Registry};
use crate::isolated::{Isolated, Limits, Setup};

/// How much less than other threads those of a pool are preferred if nothing else is said. Of a
/// processor for which one of them competes with a usual one it gets a tenth.
const NICENESS: i32 = 10;
/// What the system knows of that which lowers a priority.
const NICENESSES: RangeInclusive<i32> = 0..=19;
/// Less memory than a program takes to begin.
const MEMORY_MIN: u64 = 64 << 20;
/// Longer is as good as not at all.
const CPU_TIME_MAX: Duration = Duration::from_hours(366 * 24);
/// More slots or threads than this are a slip of the pen.
const MOST: usize = 65_535;

/// A pool of one's own: slots for tasks of some kinds apart from all others, and threads if wanted.
///
/// Every kind is in one pool: `shell` in the pool `shell`, others in `default`, if no other pool
/// names them. A task that computes for long without an await blocks its thread; in a pool with
/// threads of its own it takes nothing from other pools but processor time, and little of that,
/// because such threads are niced. In a pool that is [isolated](Pool::isolated) each attempt has a
/// process of its own, and may do to that what it likes.
///
/// ```
/// use annals_engine::runtime::Pool;
/// use annals_engine::Engine;
/// use annals_tasks_sdk::prelude::*;
///
/// const ENCODE: TaskKind<String, u64> = TaskKind::new("encode");
/// async fn encode(cx: TaskContext, file: String) -> TaskResult<u64> {
///     let mut bytes = 0;
///     while bytes < 1 << 30 {
///         cx.ensure_live()?; // what never awaits must look by itself whether it is to stop
///         bytes += 1 << 20;
///     }
///     Ok(bytes)
/// }
///
/// let pool = Pool::new("cpu").threads(2).kinds([ENCODE.name()]);
/// let engine = Engine::open("annals-data").task(ENCODE, encode).pool(pool);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    name: String,
    kinds: Vec<String>,
    slots: Option<usize>,
    threads: Option<usize>,
    niceness: Option<i32>,
    isolation: Isolation,
    memory: Option<u64>,
    cpu_time: Option<Duration>,
}

/// Where attempts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    /// In the engine's process.
    None,
    /// Each in one of its own.
    Process,
}

impl Pool {
    /// A pool with as many slots as there are cores, on the threads that other tasks run on, too.
    /// Names are such as kinds have.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kinds: Vec::new(),
            slots: None,
            threads: None,
            niceness: None,
            isolation: Isolation::None,
            memory: None,
            cpu_time: None,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which kinds run in it, beside those that were named before. They may be registered later.
    pub fn kinds<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.kinds.extend(kinds.into_iter().map(Into::into));
        self
    }

    /// How many of its tasks run at once: as many as it has threads of its own, or else as there
    /// are cores, if nothing is said. With more slots than threads, tasks that wait make room for
    /// others; with fewer, threads are idle.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Has its tasks run on so many threads of their own.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Has each attempt run in a process of its own, which can always be ended. A segmentation
    /// fault, an abort, a stack that overflows, `exit`, and memory that runs out are that attempt's
    /// failure, and nothing else is concerned.
    ///
    /// The process is of the same program, called in the same way. It goes from `main` to where the
    /// program starts an engine; there the attempt runs instead, with what is registered for its
    /// kind, and the process ends. So whatever `main` does before is done for each attempt;
    /// [`App`](https://docs.rs/annals/latest/annals/struct.App.html) does nothing, and
    /// [`Builder::serve_isolated`](super::Builder::serve_isolated) can come first in other
    /// programs. Those must have called [`isolated_entry`](crate::isolated_entry) at the very
    /// beginning of `main`, or the start is refused.
    ///
    /// ```no_run
    /// use annals_engine::runtime::Pool;
    /// use annals_engine::Engine;
    /// use annals_tasks_sdk::prelude::*;
    ///
    /// const PARSE: TaskKind<String, u64> = TaskKind::new("parse");
    /// async fn parse(_cx: TaskContext, file: String) -> TaskResult<u64> {
    ///     Ok(std::fs::read(file)?.len() as u64) // or a C library that nobody trusts
    /// }
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     annals_engine::isolated_entry();
    ///     let pool = Pool::new("apart").isolated().memory(512 << 20).kinds([PARSE.name()]);
    ///     let engine = Engine::open("annals-data").task(PARSE, parse).pool(pool);
    ///     tokio::runtime::Runtime::new()?.block_on(async {
    ///         let engine = engine.start().await?;
    ///         // ...
    ///         engine.shutdown().await?;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn isolated(mut self) -> Self {
        self.isolation = Isolation::Process;
        self
    }

    /// How many bytes of memory an isolated attempt may have: all its processes together, where a
    /// cgroup that holds them to that can be made (docs/pools.md says where). Elsewhere each of
    /// them: what it writes to, its own and that of its threads' stacks; not what it maps from
    /// files. Without a limit, as much as there is.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// How much processor time each process of an isolated attempt may use, rounded up to seconds.
    /// Without it, as much as it wants.
    pub fn cpu_time(mut self, limit: Duration) -> Self {
        self.cpu_time = Some(limit);
        self
    }

    /// How much less than others its threads or its processes are preferred: from 0, not at all, to
    /// 19; 10 if nothing is said.
    pub fn niceness(mut self, niceness: i32) -> Self {
        self.niceness = Some(niceness);
        self
    }

    /// How many of its tasks run at once.
    pub(super) fn slot_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.slots.or(self.threads).unwrap_or_else(cores)
    }

    /// The threads that it has for itself.
    pub(super) fn own_threads(&self) -> Option<OwnThreads> {
        let niceness = self.niceness.unwrap_or(NICENESS);
        self.threads.map(|count| OwnThreads { count, niceness })
    }

    /// What its attempts are held to, where they are isolated.
    fn limits(&self) -> Option<Limits> {
        let niceness = self.niceness.unwrap_or(NICENESS);
        let limits = Limits { memory: self.memory, cpu_time: self.cpu_time, niceness };
        (self.isolation == Isolation::Process).then_some(limits)
    }

    /// What is wrong with it, whatever else there is.
    fn fault(&self) -> Option<String> {
        if let Err(error) = KindName::new(&self.name) {
            return Some(format!("its name cannot be one: {error}"));
        }
        if BUILT_IN.contains(&self.name.as_str()) {
            return Some("there is one of that name in every engine; choose another".into());
        }
        for (what, count) in [("slots", self.slots), ("threads", self.threads)] {
            if let Some(count) = count.filter(|count| !(1..=MOST).contains(count)) {
                return Some(format!("it cannot have {count} {what}, but from 1 to {MOST}"));
            }
        }
        if let Some(niceness) = self.niceness.filter(|niceness| !NICENESSES.contains(niceness)) {
            return Some(format!("its niceness of {niceness} is not between 0 and 19"));
        }
        self.misfit().map(Into::into)
    }

    /// What does not go together.
    fn misfit(&self) -> Option<&'static str> {
        let is_isolated = self.isolation == Isolation::Process;
        let has_limits = self.memory.is_some() || self.cpu_time.is_some();
        if is_isolated && self.threads.is_some() {
            return Some("its tasks run in processes, so threads of its own would do nothing");
        }
        if !is_isolated && has_limits {
            return Some("it limits memory or processor time, which only an isolated pool can");
        }
        if self.memory.is_some_and(|bytes| bytes < MEMORY_MIN) {
            return Some("no process can begin with less than 64 MiB of memory");
        }
        if self.cpu_time.is_some_and(|time| time.is_zero() || time > CPU_TIME_MAX) {
            return Some("its processor time is not between a second and a year");
        }
        let is_niced = self.niceness.is_some() && !is_isolated && self.threads.is_none();
        is_niced.then_some(
            "it has a niceness, and neither threads of its own nor processes that it would be of",
        )
    }
}

/// Threads that run the tasks of one pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnThreads {
    pub(super) count: usize,
    pub(super) niceness: i32,
}

/// The place of the first pool of the program's own and of those behind it.
pub(super) fn numbered(pools: &[Pool]) -> impl Iterator<Item = (PoolId, &Pool)> {
    (BUILT_IN.len()..).map(PoolId).zip(pools)
}

/// Has the kinds that pools name run in them. Records of processes are kept in the folder `live`.
pub(super) fn assign(
    pools: &[Pool],
    registry: &mut Registry,
    live: &Path,
) -> Result<(), StartError> {
    let most = POOLS_MAX - BUILT_IN.len();
    if pools.len() > most {
        return Err(StartError::Limit { name: "pools", limit: pools.len(), most });
    }
    let mut claimed: HashMap<&str, &str> = HashMap::new();
    for (place, (id, pool)) in numbered(pools).enumerate() {
        let bad = |why| StartError::Pool { name: pool.name.clone(), why };
        if let Some(why) = pool.fault() {
            return Err(bad(why));
        }
        if pools[..place].iter().any(|other| other.name == pool.name) {
            return Err(bad("there are two of that name".into()));
        }
        if pool.kinds.is_empty() {
            tracing::warn!(
                pool = pool.name,
                "no kind runs in this pool, so that it does nothing: name some in its `kinds`"
            );
        }
        let setup = pool.limits().map(|limits| Setup::new(live, limits)).transpose();
        let setup = setup.map_err(|error| bad(error.to_string()))?;
        for kind in &pool.kinds {
            let before = claimed.insert(kind, &pool.name);
            if let Some(other) = before.filter(|other| *other != pool.name) {
                return Err(bad(format!("pool {other:?} has its kind `{kind}` already")));
            }
            if before.is_none() {
                put((id, setup.as_ref()), kind, registry).map_err(bad)?;
            }
        }
    }
    Ok(())
}

/// Has a kind run in a pool. Fails with a sentence.
fn put(
    (id, setup): (PoolId, Option<&Setup>),
    kind: &str,
    registry: &mut Registry,
) -> Result<(), String> {
    match registry.behaviour_mut(kind) {
        Some(Behaviour::Run { pool: SHELL, .. }) if setup.is_some() => {
            Err(format!("its kind `{kind}` runs in processes anyway; no pool isolates it"))
        }
        Some(Behaviour::Run { handler, pool }) => {
            *pool = id;
            if let Some(setup) = setup {
                *handler = Arc::new(Isolated::new(kind, Arc::clone(handler), setup.clone()));
            }
            Ok(())
        }
        Some(Behaviour::Sleep | Behaviour::Await | Behaviour::Child) => {
            Err(format!("its kind `{kind}` holds no slots, so it runs in no pool"))
        }
        None => {
            let hint = near::hint(kind, registry.names());
            Err(format!("its kind `{kind}` is not registered{hint}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::DEFAULT;
    use super::*;
    use crate::kinds::noop::Noop;

    fn registry() -> Registry {
        let mut registry = Registry::default();
        for (kind, pool) in [("encode", DEFAULT), ("noop", DEFAULT), ("shell", SHELL)] {
            let handler = Arc::new(Noop);
            registry.register(kind, Behaviour::Run { handler, pool }).unwrap();
        }
        registry.register("sleep", Behaviour::Sleep).unwrap();
        registry
    }

    fn pool_of(registry: &Registry, kind: &str) -> PoolId {
        match registry.behaviour(kind) {
            Some(Behaviour::Run { pool, .. }) => *pool,
            _ => panic!("{kind} runs in no pool"),
        }
    }

    #[test]
    fn kinds_run_in_the_pools_that_name_them() {
        let pools = [Pool::new("a").kinds(["noop"]), Pool::new("b").kinds(["shell"]).threads(3)];
        let mut registry = registry();
        assign(&pools, &mut registry, Path::new("live")).unwrap();
        let found = ["encode", "noop", "shell"].map(|kind| pool_of(&registry, kind));
        assert_eq!(found, [DEFAULT, PoolId(3), PoolId(4)]);
        assert_eq!(pools[1].slot_count(), 3, "a slot for each thread");
        assert_eq!(pools[1].clone().slots(9).slot_count(), 9);
    }

    #[test]
    fn what_is_wrong_with_a_pool_is_said() {
        let cpu = || Pool::new("cpu");
        let cases = [
            (vec![cpu().kinds(["encod"])], "kind `encod` is not registered; did you mean `encode`"),
            (vec![cpu().kinds(["sleep"])], "kind `sleep` holds no slots"),
            (vec![cpu(), cpu()], "there are two of that name"),
            (vec![cpu().kinds(["noop"]), Pool::new("b").kinds(["noop"])], "\"cpu\" has its kind"),
            (vec![Pool::new("default")], "there is one of that name in every engine"),
            (vec![Pool::new("c p u")], "its name cannot be one"),
            (vec![cpu().slots(0)], "it cannot have 0 slots, but from 1 to 65535"),
            (vec![cpu().threads(70_000)], "it cannot have 70000 threads"),
            (vec![cpu().threads(1).niceness(20)], "niceness of 20 is not between 0 and 19"),
            (vec![cpu().niceness(5)], "neither threads of its own nor processes"),
            (vec![cpu().memory(1 << 30)], "which only an isolated pool can"),
            (vec![cpu().isolated().threads(1)], "threads of its own would do nothing"),
            (vec![cpu().isolated().memory(1 << 20)], "less than 64 MiB of memory"),
            (vec![cpu().isolated().cpu_time(Duration::ZERO)], "between a second and a year"),
            (vec![cpu().isolated()], "needs to call annals::isolated_entry() first in main"),
        ];
        for (pools, wanted) in cases {
            let found = assign(&pools, &mut registry(), Path::new("live")).unwrap_err().to_string();
            assert!(found.starts_with("pool \"") && found.contains(wanted), "{found}");
        }
        let many: Vec<Pool> = (0..30).map(|n| Pool::new(format!("p{n}"))).collect();
        let found = assign(&many, &mut registry(), Path::new("live")).unwrap_err();
        assert!(matches!(found, StartError::Limit { name: "pools", most: 29, .. }), "{found}");
    }
}
