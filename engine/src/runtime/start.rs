//! The start of an engine: the store is opened, its jobs are recovered, and they go on.

use std::sync::{Arc, Mutex, OnceLock};

use annals_tasks_sdk::plan::Limits;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

use super::builder::{Builder, Mode};
use super::driver;
use super::engine::{Engine, INBOX_MAX, Inner, Settings, Shared};
use super::error::{EngineError, StartError};
use super::exclusives::Exclusives;
use super::executor::Parked;
use super::inbox::{Inbox, Outbox, inbox};
use super::keys::Keys;
use super::loads::{Loader, Loads};
use super::message::Message;
use super::pool::Pools;
use super::pool_setup::Pool;
use super::purges::Purges;
use super::recovery::{Broken, Recovered, recover};
use super::resting::Resting;
use super::startup::Startup;
use super::stats::Counters;
use super::turn::Loop;
use super::views::Progress;
use super::workers::{self, Workers};
use crate::kinds::shell::Shell;
use crate::log::{Committer, Done, EventLog, RedbLog, Viewer, Waypoints, Writer};
use crate::steplog::StepLogs;

impl Builder {
    /// Opens the store, which may repair it, recovers its jobs, and has them go on.
    ///
    /// Everything that recovery records is durable when this returns. To be called within a
    /// Tokio runtime; attempts run on one of the engine's own.
    pub async fn start(self) -> Result<Engine, StartError> {
        if crate::isolated::is_one() {
            // On a thread of its own, because a runtime cannot wait for another.
            std::thread::spawn(move || self.serve_isolated());
            return std::future::pending().await;
        }
        self.check_itself()?;
        let told = self.told.clone();
        let engine = tokio::task::spawn_blocking(move || self.start_threads()).await;
        let engine = engine.map_err(|_| EngineError::Stopped)??;
        told.tell(Startup::Resuming);
        engine.resume().await?;
        Ok(engine)
    }

    /// Whether what was said so far can be had.
    pub(super) fn check_itself(&self) -> Result<(), StartError> {
        if let Some(unfit) = self.unfit.clone() {
            return Err(unfit.into());
        }
        check_limits(&self.limits)
    }

    fn start_threads(mut self) -> Result<Engine, StartError> {
        let threads = self.task_threads();
        let store = self.recover()?;
        // Where no task runs, pools need none.
        let pools = if self.mode == Mode::Hold { &[] } else { &*self.pools };
        let (workers, runtimes) = workers::start(threads, pools).map_err(no_threads)?;
        let still = self.assemble(store, workers)?;
        still.run(runtimes).map_err(no_threads)
    }

    /// How many threads run attempts. One that blocks its thread takes that from the others, so
    /// there are as many beside one for each core as may do so at once: tasks of the program's
    /// own, of which nobody knows what they do, or `shell` tasks, whose output goes to the disk.
    fn task_threads(&self) -> usize {
        if self.mode == Mode::Hold {
            // No task runs; the runtime must have one all the same.
            return 1;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // The kinds that every engine has are registered later.
        let own = !self.registry.has_no_kinds();
        let others = self.pools.iter().filter(|pool| pool.own_threads().is_none());
        let others: usize = others.map(Pool::slot_count).sum();
        let usual = if own { self.slots } else { self.shell_slots };
        cores.max(2) + usual.saturating_add(others).min(64)
    }

    /// Opens the store, and finds out where every job stands.
    pub(super) fn recover(&mut self) -> Result<Store, StartError> {
        super::panics::note_places();
        let log = self.open_log()?;
        self.registry = self.kinds(Shell::new)?;
        let keys = Arc::new(Keys::new(Arc::clone(&self.clock), self.keys));
        let recovered = recover(&*log.reader(), keys.oldest(), &self.told)?;
        keys.recover(&*log.reader(), &recovered.keys)?;
        Ok(Store { log, keys, recovered })
    }

    /// Puts an engine together that nothing drives yet.
    pub(super) fn assemble(self, store: Store, workers: Workers) -> Result<Still, StartError> {
        let Store { log, keys, mut recovered } = store;
        let (inboxes, outboxes): (Vec<_>, Vec<_>) = (0..self.loops).map(|_| inbox()).unzip();
        let told = self.told.clone();
        let (shared, (committer, viewer), loader) = self.share(log, keys, inboxes, workers);
        let shared = Arc::new(shared);
        let views_are_due = shared.views.count(recovered.tail_events, || true);
        if shared.settings.dispatches {
            told.tell(Startup::EndingLeftovers);
            end_leftovers(&shared, &mut recovered)?;
        }
        let mut loops = spread(&shared, recovered);
        super::exclusives::recover(&shared, &mut loops);
        let loops = loops.into_iter().zip(outboxes).collect();
        if views_are_due {
            shared.begin_views_round();
        }
        Ok(Still { shared, loops, committer, viewer, loader })
    }

    fn open_log(&mut self) -> Result<Box<dyn EventLog>, StartError> {
        self.told.tell(Startup::Opening);
        if let Some(log) = self.log.take() {
            return Ok(log);
        }
        self.store.create = self.create;
        self.store.notify = self.told.listen(self.store.notify.take());
        Ok(Box::new(RedbLog::open(&self.dir, &self.store)?))
    }

    fn share(
        self,
        log: Box<dyn EventLog>,
        keys: Arc<Keys>,
        inboxes: Vec<Inbox>,
        workers: Workers,
    ) -> (Shared, (Committer, Viewer), Loader) {
        let (reader, inboxes, growth) = (log.reader(), Arc::new(inboxes), watch::Sender::new(()));
        let (writer, committer, viewer) = Writer::by_hand(log, notify(&inboxes, &growth));
        let (loads, loader) = Loads::new(&reader, &inboxes);
        let shared = Shared {
            registry: self.registry,
            pools: Pools::new(self.slots, self.shell_slots, &self.pools),
            exclusives: Exclusives::default(),
            writer,
            reader,
            waypoints: Waypoints::default(),
            growth,
            settings: Settings {
                limits: self.limits,
                losses: self.losses,
                resident: self.resident,
                fork_bytes: self.fork_bytes,
                dispatches: self.mode == Mode::Run,
                allow_unknown_kinds: self.allow_unknown_kinds,
            },
            views: Progress::new(self.views_every),
            loads,
            resting: Resting::new(self.resting_bytes),
            purges: Purges::new(self.dir.join("work")),
            keys,
            clock: self.clock,
            counters: inboxes.iter().map(|_| Arc::new(Counters::default())).collect(),
            inboxes,
            steplogs: StepLogs::new(self.dir.join("steps"), crate::steplog::BUDGET),
            workers,
            live_dir: Some(self.dir.join("live")),
            leftovers_ended: Mutex::new(false),
            failure: OnceLock::new(),
            broken_law: OnceLock::new(),
            admission: Arc::new(Semaphore::new(INBOX_MAX)),
        };
        (shared, (committer, viewer), loader)
    }
}

/// An open store, and what was found in it.
pub(super) struct Store {
    log: Box<dyn EventLog>,
    keys: Arc<Keys>,
    recovered: Recovered,
}

/// An engine that nothing drives yet.
pub(super) struct Still {
    pub(super) shared: Arc<Shared>,
    pub(super) loops: Vec<(Loop, Outbox)>,
    pub(super) committer: Committer,
    pub(super) viewer: Viewer,
    pub(super) loader: Loader,
}

impl Still {
    /// Has threads drive it.
    fn run(self, runtimes: Vec<Runtime>) -> std::io::Result<Engine> {
        let Self { shared, loops, committer, viewer, loader } = self;
        shared.writer.run(committer, viewer)?;
        loader.start()?;
        let loops = loops.into_iter().map(|(each, outbox)| driver::start(each, outbox));
        let loops = Mutex::new(loops.collect::<Result<_, _>>()?);
        Ok(Engine(Arc::new(Inner { shared, loops, runtimes: Mutex::new(runtimes) })))
    }
}

impl Engine {
    /// Declares lost what was alive when an earlier engine died, and has jobs go on. A start does
    /// this by itself.
    #[doc(hidden)]
    pub async fn resume(&self) -> Result<(), EngineError> {
        let shared = &self.0.shared;
        for home in 0..shared.inboxes.len() {
            shared.ask(home, |reply| Message::Recover { reply }).await??;
        }
        Ok(())
    }
}

fn no_threads(source: std::io::Error) -> StartError {
    StartError::Io { what: "cannot start threads".into(), source }
}

/// Nothing may start beside what an earlier engine left running.
fn end_leftovers(shared: &Shared, recovered: &mut Recovered) -> Result<(), StartError> {
    let alive = shared.end_leftovers().map_err(|source| {
        let what = "cannot end what an earlier engine left running".into();
        StartError::Io { what, source }
    })?;
    for (job, why) in alive {
        recovered.open.remove(&job);
        recovered.broken.insert(job, Broken { why, row: None });
    }
    Ok(())
}

/// What every event fits into a row with: a plan takes up to three times its size as JSON, and
/// the texts beside it come on top.
const LIMITS_MAX: Limits = Limits {
    tasks: 100_000,
    plan_bytes: 16 << 20,
    payload_bytes: 16 << 20,
    child_depth: 64,
    instances: 100_000,
};

fn check_limits(limits: &Limits) -> Result<(), StartError> {
    let Limits { tasks, plan_bytes, payload_bytes, child_depth, instances } = *limits;
    let all = [
        ("tasks", tasks, LIMITS_MAX.tasks),
        ("plan_bytes", plan_bytes, LIMITS_MAX.plan_bytes),
        ("payload_bytes", payload_bytes, LIMITS_MAX.payload_bytes),
        ("child_depth", child_depth, LIMITS_MAX.child_depth),
        ("instances", instances, LIMITS_MAX.instances),
    ];
    match all.into_iter().find(|(_, limit, most)| limit > most) {
        Some((name, limit, most)) => Err(StartError::Limit { name, limit, most }),
        None => Ok(()),
    }
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
    for row in recovered.due {
        // Some may have been given up since they were read.
        if recovered.open.contains_key(&row.job) {
            let home = &mut loops[shared.home_of(row.job)];
            home.counters.moved(None, Some(row.status));
            home.agenda.set(row.job, Parked::of_row(&row).1);
        }
    }
    for (job, entry) in recovered.open {
        loops[shared.home_of(job)].adopt(job, entry);
    }
    for key in recovered.keys {
        loops[shared.home_of(key.job)].keys.push(key);
    }
    for row in recovered.rows {
        if row.purged.is_some() {
            shared.purges.note(row.job, row.head.row, || shared.reader.viewed());
        }
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
    fn there_are_threads_for_tasks_that_block_theirs_and_for_no_others() {
        let builder = || Engine::open("never-opened").slots(40).shell_slots(3);
        let own = || builder().handler("own", Arc::new(crate::kinds::noop::Noop));
        assert_eq!(own().mode(Mode::Hold).task_threads(), 1);
        let without = builder().shell_slots(0).task_threads();
        assert!(without >= 2);
        assert_eq!(builder().task_threads(), without + 3);
        assert_eq!(own().task_threads(), without + 40);
        assert_eq!(own().slots(1_000).task_threads(), without + 64);
        let pool = Pool::new("cpu").slots(5);
        assert_eq!(own().pool(pool.clone()).task_threads(), without + 45);
        assert_eq!(own().pool(pool.threads(5)).task_threads(), without + 40);
    }
}
