//! Pools of a program's own: which kinds run in them, how many tasks at once, and on what.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use annals_tasks_sdk::{KindName, near};

use super::error::StartError;
use super::pool::{BUILT_IN, POOLS_MAX, PoolId};
use super::registry::{Behaviour, Registry};

/// How much less than other threads those of a pool are preferred if nothing else is said. Of a
/// processor for which one of them competes with a usual one it gets a tenth.
const NICENESS: i32 = 10;
/// What the system knows of that which lowers a priority.
const NICENESSES: RangeInclusive<i32> = 0..=19;
/// More slots or threads than this are a slip of the pen.
const MOST: usize = 65_535;

/// A pool of one's own: slots for tasks of some kinds apart from all others, and threads if wanted.
///
/// Every kind is in one pool: `shell` in the pool `shell`, others in `default`, if no other pool
/// names them. A task that computes for long without an await blocks its thread; in a pool with
/// threads of its own it takes nothing from other pools but processor time, and little of that,
/// because such threads are niced.
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
}

impl Pool {
    /// A pool with as many slots as there are cores, on the threads that other tasks run on, too.
    /// Names are such as kinds have.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), kinds: Vec::new(), slots: None, threads: None, niceness: None }
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

    /// How much less than other threads those of the pool are preferred: from 0, not at all, to
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
        let niceness = self.niceness?;
        if !NICENESSES.contains(&niceness) {
            return Some(format!("its niceness of {niceness} is not between 0 and 19"));
        }
        let without = "it has a niceness and no threads of its own, which it would be of: say \
                       how many threads it has";
        self.threads.is_none().then(|| without.into())
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

/// Has the kinds that pools name run in them.
pub(super) fn assign(pools: &[Pool], registry: &mut Registry) -> Result<(), StartError> {
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
        for kind in &pool.kinds {
            let before = claimed.insert(kind, &pool.name);
            if let Some(other) = before.filter(|other| *other != pool.name) {
                return Err(bad(format!("pool {other:?} has its kind `{kind}` already")));
            }
            put(id, kind, registry).map_err(bad)?;
        }
    }
    Ok(())
}

/// Has a kind run in a pool. Fails with a sentence.
fn put(id: PoolId, kind: &str, registry: &mut Registry) -> Result<(), String> {
    match registry.behaviour_mut(kind) {
        Some(Behaviour::Run { pool, .. }) => {
            *pool = id;
            Ok(())
        }
        Some(Behaviour::Sleep) => {
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
    use std::sync::Arc;

    use super::super::pool::{DEFAULT, SHELL};
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
        assign(&pools, &mut registry).unwrap();
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
            (vec![cpu().niceness(5)], "no threads of its own"),
        ];
        for (pools, wanted) in cases {
            let found = assign(&pools, &mut registry()).unwrap_err().to_string();
            assert!(found.starts_with("pool \"") && found.contains(wanted), "{found}");
        }
        let many: Vec<Pool> = (0..30).map(|n| Pool::new(format!("p{n}"))).collect();
        let found = assign(&many, &mut registry()).unwrap_err();
        assert!(matches!(found, StartError::Limit { name: "pools", most: 29, .. }), "{found}");
    }
}
