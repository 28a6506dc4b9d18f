//! The engine: what it shares, how it is asked, and how it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use annals_tasks_sdk::JobId;
use annals_tasks_sdk::plan::{Limits, Plan, PlanErrors};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::attempt::GRACE;
use super::builder::Builder;
use super::clock::Clock;
use super::error::EngineError;
use super::exclusives::Exclusives;
use super::handle::JobHandle;
use super::inbox::Inbox;
use super::keys::Keys;
use super::laws::BrokenLaw;
use super::loads::Loads;
use super::message::{Message, Reply};
use super::pool::Pools;
use super::purges::Purges;
use super::registry::{KindInfo, Registry};
use super::resting::Resting;
use super::rows::Listing;
use super::stats::Counters;
use super::views::{Progress, Round};
use super::workers::Workers;
use crate::job::LossRule;

use crate::log::{JobRow, LogError, LogReader, Stopped, Waypoints, Writer, WriterStats};
use crate::processes::{Leftover, end_leftovers};
use crate::steplog::StepLogs;

/// How long a start waits for processes that an earlier engine left behind to be gone.
const LEFTOVERS_PATIENCE: Duration = Duration::from_secs(10);
/// So many requests from outside may be without an answer, those that watch not counted.
pub(super) const INBOX_MAX: usize = 65_536;
/// How long attempts may run on after a shutdown was asked for.
const SHUTDOWN_DRAIN: Duration = Duration::from_secs(15);
/// What attempts that were told to stop are given beyond their grace, to report.
const SHUTDOWN_REPORTS: Duration = Duration::from_secs(1);
/// A shorter tail is read again by the next start faster than the views are written now.
const TAIL_MAX: u64 = 2_000;

/// What the loops, the attempts and the handles share.
pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) registry: Registry,
    pub(super) pools: Pools,
    pub(super) exclusives: Exclusives,
    pub(super) writer: Writer,
    pub(super) reader: Arc<dyn LogReader>,
    pub(super) waypoints: Waypoints,
    /// Told after each commit, and when there will be none any more.
    pub(super) growth: watch::Sender<()>,
    pub(super) settings: Settings,
    pub(super) views: Progress,
    pub(super) keys: Arc<Keys>,
    /// What each loop counts.
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) loads: Loads,
    pub(super) resting: Resting,
    pub(super) purges: Purges,
    pub(super) inboxes: Arc<Vec<Inbox>>,
    pub(super) steplogs: StepLogs,
    /// Where attempts run, apart from the program's own runtime: a task that blocks its thread
    /// blocks other tasks at worst, never the program or the engine.
    pub(super) workers: Workers,
    /// Records of live child processes.
    pub(super) live_dir: Option<PathBuf>,
    /// Whether what an engine that died had left behind is ended.
    pub(super) leftovers_ended: Mutex<bool>,
    pub(super) failure: OnceLock<EngineError>,
    /// The first law that an event would have broken.
    pub(super) broken_law: OnceLock<BrokenLaw>,
    pub(super) admission: Arc<Semaphore>,
}

/// Says what was ended, and gives the job of which something is alive still.
fn told(leftover: &Leftover) -> Option<(JobId, String)> {
    let Leftover { job, number, attempt, ended, alive } = leftover;
    if *ended > 0 {
        tracing::warn!(
            "ended {ended} processes that attempt {attempt} of task number {number} of job {job} \
             had left behind"
        );
    }
    let why = || {
        format!(
            "processes of attempt {attempt} of task number {number} are still alive ({alive:?}), \
             and the kernel does not let them go; start again when they are gone"
        )
    };
    (!alive.is_empty()).then(|| (*job, why()))
}

/// What the builder was told.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) limits: Limits,
    pub(super) losses: LossRule,
    /// How many jobs that only wait each loop keeps loaded.
    pub(super) resident: usize,
    /// How many bytes a fork may begin with.
    pub(super) fork_bytes: usize,
    pub(super) dispatches: bool,
    pub(super) allow_unknown_kinds: bool,
}

impl Shared {
    /// Sends a loop a message of the engine's own.
    pub(super) fn tell(&self, home: usize, message: Message) {
        // A loop that is gone has been closed: nothing is to be told any more.
        self.inboxes[home].send(message);
    }

    pub(super) fn tell_all(&self, message: impl Fn() -> Message) {
        (0..self.inboxes.len()).for_each(|home| self.tell(home, message()));
    }

    /// Which loop drives a job.
    pub(super) fn home_of(&self, job: JobId) -> usize {
        // The last bytes of a UUIDv7 are random, and a child has these of its parent: one commit
        // is to hold rows of both.
        let spread = usize::try_from(job.as_u128() & crate::job::FAMILY).unwrap_or(0);
        spread % self.inboxes.len()
    }

    /// Notes why nothing is answered any more. Gives whether that is news.
    pub(super) fn fail(&self, error: EngineError) -> bool {
        let is_news = self.failure.set(error).is_ok();
        self.growth.send_replace(());
        is_news
    }

    /// Notes that a law was about to be broken. What would have broken it is not written.
    pub(super) fn note_broken_law(&self, home: usize, broken: &BrokenLaw) {
        let BrokenLaw { job, seq, event, law } = broken;
        let name = law.name();
        tracing::error!(%job, seq, event, law = name, "the engine contradicts itself: {broken}");
        self.counters[home].broken_law(*law);
        // The first one tells most.
        let _ = self.broken_law.set(broken.clone());
    }

    /// Whether nothing is answered any more.
    pub(super) fn is_over(&self) -> bool {
        self.failure.get().is_some() || self.admission.is_closed()
    }

    /// Why an answer did not come.
    pub(super) fn why(&self) -> EngineError {
        self.failure.get().cloned().unwrap_or(EngineError::Stopped)
    }

    pub(super) fn begin_views_round(&self) {
        let round = Arc::new(Round::new(&self.writer, self.inboxes.len()));
        self.tell_all(|| Message::Views(Arc::clone(&round)));
    }

    /// Ends what child processes of an engine that died have left behind, once. Gives the jobs of
    /// which something is alive still, and what: no attempt may start beside it. After an error
    /// nothing may, since nobody knows what is alive; the next call tries again.
    pub(super) fn end_leftovers(&self) -> std::io::Result<Vec<(JobId, String)>> {
        let mut done = self.leftovers_ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *done {
            return Ok(Vec::new());
        }
        let ended = match &self.live_dir {
            Some(live) => end_leftovers(live, LEFTOVERS_PATIENCE)?,
            None => Vec::new(),
        };
        *done = true;
        Ok(ended.iter().filter_map(told).collect())
    }

    /// What a plan must fulfil here beside its own laws.
    pub(super) fn check_kinds(&self, plan: &Plan) -> Result<(), PlanErrors> {
        self.registry.check(plan, self.settings.allow_unknown_kinds)
    }

    /// Asks a loop, and waits for its answer.
    pub(super) async fn ask<T>(
        &self,
        home: usize,
        message: impl FnOnce(Reply<T>) -> Message,
    ) -> Result<T, EngineError> {
        let permit = self.permit().await?;
        let (reply, answer) = Reply::new(Some(permit));
        // A refused message drops its reply, which the next line hears of.
        self.inboxes[home].send(message(reply));
        answer.await.map_err(|_| self.why())
    }

    /// Reads the log where blocking is allowed.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.workers.blocking(read).await?.map_err(EngineError::from)
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, EngineError> {
        Arc::clone(&self.admission).acquire_owned().await.map_err(|_| self.why())
    }
}

/// A running engine. Clones share it. When the last one is gone, with the handles that it gave
/// out, the log is closed and attempts are dropped where they are, which is as safe as
/// [`Engine::shutdown`]: the next start declares them lost. The drop waits for the last commit.
#[derive(Clone)]
pub struct Engine(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    pub(super) loops: Mutex<Vec<JoinHandle<()>>>,
    /// Where its tasks run: the threads of all, and those of pools.
    pub(super) runtimes: Mutex<Vec<tokio::runtime::Runtime>>,
}

impl Engine {
    /// Names the folder of the store; [`Builder::start`] opens it.
    pub fn open(dir: impl Into<PathBuf>) -> Builder {
        Builder::new(dir.into())
    }

    /// A handle on a job, which may or may not exist.
    pub fn job(&self, job: JobId) -> JobHandle {
        JobHandle::new(self.clone(), job)
    }

    /// Jobs older than `before`, the newest first, without those that were purged.
    pub async fn jobs(
        &self,
        mut before: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<JobRow>, EngineError> {
        let mut found = Vec::new();
        while found.len() < limit {
            let rows = self.rows(before, limit).await?;
            let is_last = rows.len() < limit;
            before = rows.last().map(|row| row.job);
            let left = limit - found.len();
            found.extend(rows.into_iter().filter(|row| row.purged.is_none()).take(left));
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// The same with those that were purged and that the views list still, or did.
    async fn rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, EngineError> {
        let shared = &self.0.shared;
        let mut rows: BTreeMap<JobId, JobRow> = BTreeMap::new();
        for home in 0..shared.inboxes.len() {
            let list = |reply| Message::Rows(Listing { before, limit, reply });
            let newest = shared.ask(home, list).await??;
            rows.extend(newest.into_iter().map(|row| (row.job, row)));
        }
        // The views come last: what has left the loops meanwhile is in them.
        let reader = Arc::clone(&shared.reader);
        for row in shared.read(move || reader.job_rows(before, limit)).await? {
            let newest = rows.entry(row.job).or_insert_with(|| row.clone());
            if newest.head.seq < row.head.seq {
                *newest = row;
            }
        }
        Ok(rows.into_values().rev().take(limit).collect())
    }

    /// The kinds that tasks may be of here, in order of their names.
    pub fn kinds(&self) -> Vec<KindInfo> {
        let shared = &self.0.shared;
        shared.registry.kind_infos(&shared.pools)
    }

    /// The names of the workflows that there are here, in order.
    pub fn workflows(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.0.shared.registry.workflows.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Whether the engine still takes and answers requests, and has not contradicted itself; why
    /// not, where that is not so. After [`EngineError::LawBroken`], which stands until the next
    /// start, it still does.
    pub fn health(&self) -> Result<(), EngineError> {
        let shared = &self.0.shared;
        if let Some(error) = shared.failure.get() {
            return Err(error.clone());
        }
        shared.writer.health().map_err(|Stopped(error)| match error {
            Some(error) => EngineError::OutcomeUnknown(error),
            None => EngineError::Stopped,
        })?;
        // A loop that has ended reads nothing any more.
        let turning = shared.inboxes.iter().all(Inbox::is_open);
        if !turning || shared.admission.is_closed() {
            return Err(shared.why());
        }
        let broken = shared.broken_law.get().cloned();
        broken.map_or(Ok(()), |broken| Err(EngineError::LawBroken(broken)))
    }

    /// What the writer of the log has done since the start.
    pub fn writer_stats(&self) -> WriterStats {
        self.0.shared.writer.stats()
    }

    /// A reader of the log, for audits.
    pub fn reader(&self) -> Arc<dyn LogReader> {
        Arc::clone(&self.0.shared.reader)
    }

    /// The step logs.
    pub fn step_logs(&self) -> &StepLogs {
        &self.0.shared.steplogs
    }

    /// Has the loops look at the clock; for tests whose clock is set by hand.
    pub fn look(&self) {
        self.0.shared.tell_all(|| Message::Look);
    }

    /// Ends in good order: nothing new starts, attempts have 15 s to end, then they are told to
    /// stop and have 10 s more, or the longest `cancel_grace` among them if that is longer; jobs
    /// go on at the next start. The store is closed. Until then commands are answered.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        if !self.drain(SHUTDOWN_DRAIN).await {
            self.interrupt(Duration::MAX).await;
        }
        self.close().await
    }

    /// As [`Engine::shutdown`], but the store is closed when `limit` is over, or soon after:
    /// attempts are told to stop 11 s before that, and those that have not ended then are lost.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), EngineError> {
        let for_stops = limit.min(GRACE + SHUTDOWN_REPORTS);
        if !self.drain(limit.saturating_sub(for_stops)).await {
            self.interrupt(for_stops).await;
        }
        self.close().await
    }

    /// As [`Engine::shutdown`], but attempts are told to stop at once.
    pub async fn shutdown_now(&self) -> Result<(), EngineError> {
        self.interrupt(Duration::MAX).await;
        self.close().await
    }

    /// Starts nothing more. Gives whether all attempts ended by themselves.
    pub(super) async fn drain(&self, patience: Duration) -> bool {
        let waits = self.ask_to_be_quiet(|| None);
        self.are_quiet(waits, patience).await
    }

    /// Has attempts stop, and waits for each as long as its task was promised, but no longer than
    /// `longest`. One that ends later is lost and may count as a loss: a task that blocks its
    /// thread cannot be stopped, and what nobody has seen end must not be recorded as ended.
    pub(super) async fn interrupt(&self, longest: Duration) {
        let mut graces = Vec::new();
        let waits = self.ask_to_be_quiet(|| {
            let (grace, longest) = Reply::new(None);
            graces.push(longest);
            Some(grace)
        });
        let mut patience = GRACE;
        for grace in graces {
            // A loop that is gone has no attempts that could report to it.
            patience = patience.max(grace.await.unwrap_or_default());
        }
        let patience = patience.saturating_add(SHUTDOWN_REPORTS).min(longest);
        self.are_quiet(waits, patience).await;
    }

    fn ask_to_be_quiet(
        &self,
        mut interrupt: impl FnMut() -> Option<Reply<Duration>>,
    ) -> Vec<oneshot::Receiver<()>> {
        let shared = &self.0.shared;
        let ask = |home| {
            let (quiet, wait) = Reply::new(None);
            shared.tell(home, Message::Quiesce { interrupt: interrupt(), quiet });
            wait
        };
        (0..shared.inboxes.len()).map(ask).collect()
    }

    async fn are_quiet(&self, waits: Vec<oneshot::Receiver<()>>, patience: Duration) -> bool {
        let all = async {
            for wait in waits {
                // A loop that is gone is quiet.
                let _ = wait.await;
            }
        };
        tokio::select! {
            biased;
            () = all => true,
            () = self.0.shared.clock.sleep(patience) => false,
        }
    }

    async fn close(&self) -> Result<(), EngineError> {
        let inner = Arc::clone(&self.0);
        let closed = tokio::task::spawn_blocking(move || inner.close()).await;
        closed.unwrap_or(Err(EngineError::Stopped))
    }
}

impl Inner {
    /// An engine that its owner drives.
    pub(super) fn without_threads(shared: Arc<Shared>) -> Self {
        Self { shared, loops: Mutex::default(), runtimes: Mutex::default() }
    }

    fn close(&self) -> Result<(), EngineError> {
        self.begin_close();
        for thread in self.loops.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A loop that panicked has said so.
            let _ = thread.join();
        }
        self.end_close()
    }

    /// Has the loops end when they have answered what they must.
    pub(super) fn begin_close(&self) {
        self.shared.admission.close();
        self.shared.growth.send_replace(());
        if self.shared.views.events() > TAIL_MAX {
            self.shared.begin_views_round();
        }
        self.shared.tell_all(|| Message::Close);
    }

    /// Ends the rest when no loop turns any more.
    pub(super) fn end_close(&self) -> Result<(), EngineError> {
        self.shared.loads.close();
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        // What blocks a thread of theirs is not waited for.
        runtimes.drain(..).for_each(tokio::runtime::Runtime::shutdown_background);
        drop(runtimes);
        let closed = self.shared.writer.close().map_err(EngineError::OutcomeUnknown);
        match self.shared.failure.get() {
            Some(EngineError::Panicked) => Err(EngineError::Panicked),
            _ => closed,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the log could not be closed in good order");
        }
    }
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> Self {
        match error {
            // The writer let go of it before the loops were told why.
            LogError::Closed => Self::Stopped,
            error => Self::Log(Arc::new(error)),
        }
    }
}
