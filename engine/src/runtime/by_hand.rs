//! An engine without threads: whoever has it in hand takes every step itself, in whatever order,
//! so that a simulation drives the very code that threads drive otherwise.
//!
//! The steps are a turn of a loop, a commit of the writer, a checkpoint of the views, and the
//! reading of a job; attempts, and reads that may block, go to the [`Spawner`]. Nothing here is
//! needed to use the engine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{JobId, Timestamp};

use super::builder::Builder;
use super::engine::{Engine, Inner, Shared};
use super::error::{EngineError, StartError};
use super::executor::{Entry, Executor, Touched};
use super::inbox::{Outbox, Worth};
use super::loads::Loader;
use super::lookout::Lack;
use super::message::{Message, Snapshot};
use super::pool::SUSPECTS;
use super::turn::Loop;
use super::workers::Workers;
use crate::job::{Job, Report, TaskNumber};
use crate::log::{Committer, Viewer, Worked};
use crate::views::{Explanation, Seen};

pub use super::workers::Spawner;

/// A turn is worth taking whatever is there.
const AT_ONCE: Worth = Worth { messages: 0, patience: Duration::ZERO };

/// What drives an engine.
pub struct Hands {
    shared: Arc<Shared>,
    pub(super) loops: Vec<Turned>,
    committer: Committer,
    viewer: Viewer,
    loader: Loader,
}

pub(super) struct Turned {
    pub(super) each: Loop,
    outbox: Outbox,
    /// Taken from the inbox, for the next turns.
    mail: VecDeque<Message>,
}

/// A message that waits for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Letter {
    /// Rows are durable, or could not be written.
    Durable,
    /// An attempt is over.
    Report,
    /// Somebody has given a slot back.
    Granted,
    /// A job may have been given its exclusive key.
    Turn,
    /// A job was read.
    Loaded,
    /// Rows are to be handed in for the views.
    Views,
    /// Nothing but a wake-up.
    Look,
    /// Somebody asks for something.
    Request,
}

/// A loop as it stands.
#[derive(Debug, Clone)]
pub struct LoopSeen {
    /// Whether jobs go on.
    pub dispatching: bool,
    /// Whether it has ended, in good order or not.
    pub over: bool,
    /// What the clock showed in its last turn.
    pub now: Timestamp,
    /// Jobs that are loaded.
    pub jobs: Vec<JobSeen>,
    /// Jobs that are not, and when they are due, if they are.
    pub parked: Vec<(JobId, Option<Timestamp>)>,
    /// Jobs that are being read, or are to be since they are due.
    pub awaited: Vec<JobId>,
    /// Jobs that were given up.
    pub broken: Vec<(JobId, String)>,
    /// Whether it waits for a commit.
    pub waits: bool,
    /// Grants that it has not taken up.
    pub granted: usize,
    /// Open jobs without a reason to stand still, were it to look for them now.
    pub without_reason: Vec<(JobId, Lack)>,
}

/// A loaded job as its loop has it.
#[derive(Debug, Clone)]
pub struct JobSeen {
    /// The job, with events that may not be durable.
    pub job: Arc<Job>,
    /// What of it the loop knows to be durable.
    pub durable_seq: u64,
    /// Live attempts.
    pub running: Vec<AttemptSeen>,
    /// Tasks that wait for a slot.
    pub wanting: Vec<WantSeen>,
    /// Tasks whose child is being made or looked for.
    pub preparing: Vec<TaskNumber>,
    /// When it is due.
    pub due: Option<Timestamp>,
    /// Whether what was alive before the engine started has been declared lost.
    pub recovered: bool,
    /// Whether it stands in line for its exclusive key, or is about to be looked at...
    pub in_line: bool,
    /// ...and was given that, without having taken notice.
    pub given: bool,
}

/// A task that waits for a slot, as its loop has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantSeen {
    /// The task.
    pub task: TaskNumber,
    /// Whether it has a place in a queue, or had one and was granted what it queued for.
    pub queues: bool,
    /// How many slots it holds already.
    pub slots: usize,
}

/// A live attempt as its loop has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptSeen {
    /// Its task.
    pub task: TaskNumber,
    /// Its number.
    pub attempt: u32,
    /// Whether it was started: it is when its start is durable.
    pub started: bool,
    /// Whether it was told to stop.
    pub told_to_stop: bool,
    /// How many slots it holds.
    pub slots: usize,
}

impl Builder {
    /// As [`Builder::start`], but what comes drives the engine, and nothing else does.
    /// [`Engine::resume`] is to follow, which waits for turns and commits.
    pub fn start_by_hand(
        mut self,
        spawner: Arc<dyn Spawner>,
    ) -> Result<(Engine, Hands), StartError> {
        self.check_itself()?;
        let store = self.recover()?;
        let still = self.assemble(store, Workers::Hands(spawner))?;
        let turned = |(each, outbox)| Turned { each, outbox, mail: VecDeque::new() };
        let hands = Hands {
            shared: Arc::clone(&still.shared),
            loops: still.loops.into_iter().map(turned).collect(),
            committer: still.committer,
            viewer: still.viewer,
            loader: still.loader,
        };
        Ok((Engine(Arc::new(Inner::without_threads(still.shared))), hands))
    }
}

impl Engine {
    /// The first part of [`Engine::shutdown`]: nothing starts any more, attempts have so long to
    /// end by themselves, then they are told to stop, and waited for.
    pub async fn quiesce_by_hand(&self, patience: Duration) {
        if !self.drain(patience).await {
            self.interrupt(Duration::MAX).await;
        }
    }

    /// The second: the loops are told to end.
    pub fn begin_close_by_hand(&self) {
        self.0.begin_close();
    }

    /// The last, when they have: the writer ends with its next commit.
    pub fn end_close_by_hand(&self) -> Result<(), EngineError> {
        self.0.end_close()
    }
}

impl Hands {
    /// How many loops there are.
    pub fn loops(&self) -> usize {
        self.loops.len()
    }

    /// What waits for a loop, in its order.
    pub fn mail(&mut self, home: usize) -> impl Iterator<Item = Letter> {
        let Turned { outbox, mail, .. } = &mut self.loops[home];
        outbox.take(mail, usize::MAX, AT_ONCE, Duration::ZERO);
        mail.iter().map(letter)
    }

    /// Has a loop take a turn over so many messages at most.
    pub fn turn(&mut self, home: usize, most: usize) {
        let Turned { each, outbox, mail } = &mut self.loops[home];
        outbox.take(mail, usize::MAX, AT_ONCE, Duration::ZERO);
        if !each.is_over() {
            each.turn(mail, most.min(mail.len()));
        }
    }

    /// When a loop must turn although nothing has come.
    pub fn next_due(&self, home: usize) -> Option<Timestamp> {
        let each = &self.loops[home].each;
        // What was granted is due whatever the clock shows.
        if each.has_more() { Some(Timestamp::default()) } else { each.next_due() }
    }

    /// Loses a message that waits.
    pub fn lose(&mut self, home: usize, at: usize) {
        drop(self.loops[home].mail.remove(at));
    }

    /// Puts a message that waits behind all others.
    pub fn put_off(&mut self, home: usize, at: usize) {
        let mail = &mut self.loops[home].mail;
        mail.remove(at).into_iter().for_each(|late| mail.push_back(late));
    }

    /// Has a message come twice, where that is one of those that bring no answer.
    pub fn double(&mut self, home: usize, at: usize) {
        let mail = &mut self.loops[home].mail;
        let again = match mail.get(at) {
            Some(Message::Durable(durable)) => Message::Durable(durable.clone()),
            Some(Message::Look) => Message::Look,
            _ => return,
        };
        mail.insert(at, again);
    }

    /// Reports what no attempt of the engine does.
    pub fn report(&self, job: JobId, report: Report) {
        self.shared.tell(self.shared.home_of(job), Message::Report { job, report });
    }

    /// Whether the writer has something to do.
    pub fn may_commit(&self) -> bool {
        self.shared.writer.has_work()
    }

    /// Has the writer make its next commit.
    pub fn commit(&mut self) -> Worked {
        self.committer.commit_next()
    }

    /// Whether a checkpoint of the views can be written.
    pub fn may_view(&self) -> bool {
        self.viewer.is_due()
    }

    /// Has the next checkpoint of the views written. Gives whether there was one.
    pub fn view(&mut self) -> bool {
        self.viewer.view_next()
    }

    /// Has the writer do its idle work.
    pub fn idle(&mut self) -> Worked {
        self.committer.idle()
    }

    /// Has a job read that is to be. Gives whether there was one.
    pub fn load(&mut self) -> bool {
        self.loader.load_next()
    }

    /// How many slots are taken, and how many wait for one, in all pools.
    pub fn slots(&self) -> (u64, u64) {
        let stats = self.shared.pools.stats();
        (stats.iter().map(|pool| pool.in_use).sum(), stats.iter().map(|pool| pool.waiting).sum())
    }

    /// A loop as it stands.
    pub fn look_at(&self, home: usize) -> LoopSeen {
        let each = &self.loops[home].each;
        let (mut jobs, mut parked) = (Vec::new(), Vec::new());
        for (&id, entry) in &each.entries {
            let due = each.agenda.of(id);
            match entry {
                Entry::Loaded(executor) => jobs.push(seen(each, executor, due)),
                Entry::Parked(_) => parked.push((id, due)),
            }
        }
        let lacks = |&id: &JobId| each.lack(id).map(|lack| (id, lack));
        jobs.sort_unstable_by_key(|seen| seen.job.id());
        parked.sort_unstable();
        LoopSeen {
            dispatching: each.dispatching,
            over: each.failed.is_some() || each.closed,
            now: each.now,
            jobs,
            parked,
            awaited: each.loading.keys().chain(&each.overdue).copied().collect(),
            broken: each.broken.iter().map(|(&id, why)| (id, why.clone())).collect(),
            waits: !each.pending.is_empty(),
            granted: each.granted.len(),
            without_reason: each.entries.keys().filter_map(lacks).collect(),
        }
    }

    /// Why the jobs of a loop do not move, as [`JobHandle::explain`](super::JobHandle::explain)
    /// says it, but for what the history says. Of jobs that are not loaded, those whose state is
    /// at hand.
    pub fn explain(&mut self, home: usize) -> Vec<Explanation> {
        let shared = Arc::clone(&self.shared);
        let each = &mut self.loops[home].each;
        let ids: Vec<JobId> = each.entries.keys().copied().collect();
        let at_rest = |each: &Loop, id| {
            let job = shared.resting.peek(id)?;
            Some(Seen::at_rest(Snapshot::of(job), each.now, each.dispatch()))
        };
        let seen = ids.into_iter().filter_map(|id| each.see(id).ok().or_else(|| at_rest(each, id)));
        seen.map(|seen| crate::views::explain(seen, None)).collect()
    }

    /// Whether the loops were closed, and have answered what they must.
    pub fn are_over(&self) -> bool {
        self.loops.iter().all(|turned| turned.each.is_over())
    }
}

fn letter(message: &Message) -> Letter {
    match message {
        Message::Durable(_) => Letter::Durable,
        Message::Report { .. } => Letter::Report,
        Message::Granted(_) => Letter::Granted,
        Message::Turn { .. } => Letter::Turn,
        Message::Loaded { .. } => Letter::Loaded,
        Message::Views(_) => Letter::Views,
        Message::Look => Letter::Look,
        _ => Letter::Request,
    }
}

fn seen(each: &Loop, executor: &Executor, due: Option<Timestamp>) -> JobSeen {
    let running = executor.running.iter().map(|running| AttemptSeen {
        task: running.task,
        attempt: running.attempt,
        started: running.is_spawned(),
        told_to_stop: running.own.is_cancelled(),
        slots: 1 + usize::from(running.held.suspect),
    });
    let wanting = executor.wanting.iter().map(|wanting| WantSeen {
        task: wanting.task,
        queues: wanting.place.is_some(),
        slots: usize::from(wanting.place.is_none())
            + usize::from(wanting.held.suspect && wanting.queue != SUSPECTS),
    });
    JobSeen {
        job: Arc::clone(&executor.job),
        durable_seq: executor.durable_seq,
        running: running.collect(),
        wanting: wanting.collect(),
        preparing: executor.family.as_ref().map_or_else(Vec::new, |family| family.preparing()),
        due,
        recovered: executor.recovered,
        in_line: each.is_in_line(executor) || executor.touched != Touched::No,
        given: each.is_given_its_key(executor),
    }
}
