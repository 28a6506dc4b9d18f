//! The lookout: once a minute each loop looks for open jobs that nothing will move.
//!
//! What a job waits for is brought about when the job is touched, and nothing looks at it again
//! until that comes. Were it forgotten, by a fault of the engine, the job would stand still for
//! ever and nobody would know. So each open job is asked for a reason to stand still: an attempt
//! that is alive, a time that is armed, a place in a queue, a commit or a read that is under way,
//! or somebody who holds it. One that has none is told of, counted, and once tried again.
//!
//! A loop's own state is all that is looked at: that a grant, or the end of a commit, is on its way
//! in an inbox cannot be seen from here and is believed.

use std::time::Duration;

use annals_tasks_sdk::{JobId, Timestamp};

use super::executor::{Entry, Executor, Touched};
use super::ids::JobMap;
use super::lives::Running;
use super::turn::Loop;
use super::wants::Search;
use crate::job::{Effect, JobStatus, Report, TaskNumber};

/// Each open job is looked at about this often.
const EVERY: Duration = Duration::from_mins(1);
/// So many are looked at in one turn: all the others wait meanwhile.
const PART: usize = 1024;

/// What an open job lacks, so that nothing will move it. Shown, it is part of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lack {
    /// An attempt was started, and is not alive.
    #[error("an attempt of task number {} was started, and is not alive", .0.0)]
    Attempt(TaskNumber),
    /// An attempt is to stop, and was not told.
    #[error("an attempt of task number {} is to stop, and was not told", .0.0)]
    Stop(TaskNumber),
    /// It waits for a time, and nobody will wake it.
    #[error("it waits for a time, and nobody will wake it")]
    Timer,
    /// A task could start, and has no place in a queue.
    #[error("task number {} could start, and has no place in a queue", .0.0)]
    Place(TaskNumber),
    /// What was committed was not taken notice of.
    #[error("its last events are durable, and nobody has taken notice")]
    Notice,
    /// A child was not told what is wanted of it.
    #[error("the child of task number {} was not told what is wanted of it", .0.0)]
    Order(TaskNumber),
    /// Nothing is left to do, and it has not ended.
    #[error("nothing is left to be done, and it has not ended")]
    End,
}

/// What a loop knows of its jobs' reasons.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    /// When the next round begins.
    next: Timestamp,
    /// Jobs that the present round has not come to.
    left: Vec<JobId>,
    /// The rounds, counted.
    round: u64,
    /// Jobs without a reason.
    doubted: JobMap<Doubt>,
}

#[derive(Debug)]
struct Doubt {
    lack: Lack,
    /// Where the job's history stood.
    seq: u64,
    /// The round in which it was found so.
    round: u64,
}

impl Lookout {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { next: now.plus(EVERY), ..Self::default() }
    }
}

impl Loop {
    /// When the loop must turn to look, although nothing has come.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        let Lookout { next, left, doubted, .. } = &self.lookout;
        if !self.dispatching || (self.entries.is_empty() && doubted.is_empty()) {
            return None;
        }
        Some(if left.is_empty() { *next } else { self.now })
    }

    /// Looks at the next of the jobs, if it is time. What a turn has touched is not reconciled yet
    /// then, and everything else is.
    pub(super) fn look_out(&mut self) {
        if !self.dispatching {
            return;
        }
        if self.lookout.left.is_empty() {
            // The clock may have been set back.
            self.lookout.next = self.lookout.next.min(self.now.plus(EVERY));
            if self.lookout.next > self.now {
                return;
            }
            self.lookout.round += 1;
            self.lookout.next = self.now.plus(EVERY);
            self.lookout.left.extend(self.entries.keys());
        }
        for _ in 0..PART {
            let Some(id) = self.lookout.left.pop() else { break };
            if let Some(lack) = self.lack(id) {
                self.doubt(id, lack);
            }
        }
        if self.lookout.left.is_empty() {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let Lookout { left, round, doubted, .. } = &mut self.lookout;
        // After a round over a million jobs the room is not kept for the next.
        left.shrink_to(PART);
        doubted.retain(|_, doubt| doubt.round == *round);
        self.counters.without_reason(doubted.len());
    }

    fn doubt(&mut self, id: JobId, lack: Lack) {
        let seq = self.head_of(id).ok().flatten().map_or(0, |head| head.seq);
        let doubt = Doubt { lack, seq, round: self.lookout.round };
        let before = self.lookout.doubted.insert(id, doubt);
        if before.is_some_and(|before| (before.lack, before.seq) == (lack, seq)) {
            return;
        }
        let status = match self.entries.get(&id) {
            Some(Entry::Loaded(executor)) => executor.job.status(),
            Some(Entry::Parked(parked)) => parked.status,
            None => return,
        };
        tracing::error!(
            job = %id, seq, %status, %lack,
            "nothing will move the job; it is tried again"
        );
        self.counters.tried_again();
        self.try_again(id, lack);
    }

    /// Has the turn bring about anew what the job waits for. An attempt that is not alive is not
    /// started again: whether it had an effect is for a new start of the engine to say.
    fn try_again(&mut self, id: JobId, lack: Lack) {
        match (self.entries.get(&id), lack) {
            (Some(Entry::Parked(_)), _) => self.agenda.set(id, Some(self.now)),
            (Some(Entry::Loaded(executor)), Lack::Notice) => {
                let seq = executor.head.seq;
                self.publish(id, seq);
            }
            (Some(Entry::Loaded(_)), Lack::End) => drop(self.report(id, Report::Tick)),
            _ => {}
        }
        self.touch(id);
    }

    /// What a job lacked when it was looked at, if it lacks it still.
    pub(super) fn lack_known(&self, id: JobId) -> Option<Lack> {
        let doubt = self.lookout.doubted.get(&id)?;
        self.lack(id).filter(|lack| *lack == doubt.lack)
    }

    /// What a job lacks, if nothing will move it and nothing holds it. The turn has done what is
    /// durable, and woken what is due.
    pub(super) fn lack(&self, id: JobId) -> Option<Lack> {
        match self.entries.get(&id)? {
            Entry::Loaded(executor) => self.lack_of_loaded(id, executor),
            // Nothing of it is alive or could start, so if it runs it waits for a time, or is to be
            // told something. While jobs queue to be read whose time has come, it may be one of
            // them.
            Entry::Parked(parked) => {
                let awaited = !self.overdue.is_empty() || self.loading.contains_key(&id);
                let woken = awaited || parked.is_told || self.agenda.of(id).is_some();
                (parked.status == JobStatus::Running && !woken).then_some(Lack::Timer)
            }
        }
    }

    fn lack_of_loaded(&self, id: JobId, executor: &Executor) -> Option<Lack> {
        let job = &executor.job;
        if executor.touched != Touched::No || job.status().is_ended() {
            return None;
        }
        if executor.durable_seq < executor.head.seq {
            return (executor.ticket <= self.durable).then_some(Lack::Notice);
        }
        let held = matches!(job.status(), JobStatus::Pending | JobStatus::Paused);
        if held && job.intent().is_none() {
            return None;
        }
        // Somebody else is to send the signal, or is the child.
        let mut idle = job.children().len() == 0 && !job.awaits_signals();
        if let Some(task) = executor.family.as_ref().and_then(|family| family.forgets(job)) {
            return Some(Lack::Order(task));
        }
        for effect in job.effects(self.now, self.shared.settings.losses) {
            // A deadline ends a job, and does not move it.
            let moves = !matches!(effect, Effect::Wake { .. }) || job.next_move(self.now).is_some();
            idle &= !moves;
            if matches!(effect, Effect::Want { .. }) {
                // They come last, and there may be thousands.
                return self.lack_of_place(executor);
            }
            let lack = self.lack_of_effect(id, executor, effect);
            if lack.is_some() {
                return lack;
            }
        }
        idle.then_some(Lack::End)
    }

    /// What an effect lacks that should have been brought about.
    fn lack_of_effect(&self, id: JobId, executor: &Executor, effect: Effect) -> Option<Lack> {
        let (is_there, lack) = match effect {
            Effect::Run { task, attempt } => {
                let live = executor.running(task).filter(|live| live.attempt == attempt);
                (live.is_some_and(Running::is_spawned), Lack::Attempt(task))
            }
            Effect::Stop { task, .. } => {
                let live = executor.running(task);
                (live.is_some_and(|live| live.own.is_cancelled()), Lack::Stop(task))
            }
            // After the clock was set back, a time that had come lies ahead again: the task stands
            // in its queue, and is looked at when it is granted its slot.
            Effect::Wake { at } => {
                let is_deadline = executor.job.deadline_at() == Some(at);
                let queues = !is_deadline && !executor.wanting.is_empty();
                (queues || self.agenda.of(id).is_some(), Lack::Timer)
            }
            Effect::Want { task, .. } => (false, Lack::Place(task)),
        };
        (!is_there).then_some(lack)
    }

    /// The first task that is to take a place: one whose kind is missing takes none. While another
    /// job holds the key of this one, none of it is.
    fn lack_of_place(&self, executor: &Executor) -> Option<Lack> {
        if self.is_in_line(executor) {
            return None;
        }
        let (registry, rule) = (&self.shared.registry, self.shared.settings.losses);
        let mut found = Vec::new();
        Search::new(registry, executor, rule, self.now, &mut found).run();
        found.first().map(|want| Lack::Place(want.task))
    }
}
