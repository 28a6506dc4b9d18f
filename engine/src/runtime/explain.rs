//! Explain: a job's loop says what it sees of the job, at the end of a turn, so that it says what
//! that turn has brought about; who held or ended the job is then read from the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};

use super::act::answer;
use super::error::JobError;
use super::executor::{Entry, Executor, Wanting};
use super::handle::JobHandle;
use super::message::{Message, Reply};
use super::pool::{COUNTED, PoolId, SUSPECTS, Standing};
use super::registry::Behaviour;
use super::turn::Loop;
use crate::job::{Job, TaskNumber};
use crate::log::PageLimit;
use crate::views::{
    Cause, Dispatch, Explanation, Finder, InLine, Line, Other, Queued, Seen, Sought,
};

/// How many of the last events the cause is looked for in, step by step.
const LOOK_BACK: [u64; 3] = [64, 1_024, 16_384];
/// How much of a history is read at once, in bytes.
const PAGE_BYTES: usize = 4 << 20;

/// Somebody who wants to know why a job does not move.
pub(super) struct Why {
    job: JobId,
    reply: Reply<Result<Seen, JobError>>,
}

impl JobHandle {
    /// Why the job does not move, or what it is doing, with the commands that would change it. Of
    /// a job whose history cannot be followed that is the reason.
    pub async fn explain(&self) -> Result<Explanation, JobError> {
        let ((shared, home), job) = (self.shared(), self.id());
        let seen = match shared.ask(home, |reply| Message::Explain { job, reply }).await? {
            Ok(seen) => seen,
            Err(JobError::Unreadable { job, why }) => {
                return Ok(Explanation::unreadable(job, why));
            }
            Err(error) => return Err(error),
        };
        let cause = self.cause(&seen.snapshot.job, seen.now).await;
        Ok(crate::views::explain(seen, cause))
    }

    /// Who or what held or ended the job. What cannot be read, or lies too far back, is not known:
    /// the reason stands all the same.
    async fn cause(&self, job: &Job, now: Timestamp) -> Option<Cause> {
        let sought = Sought::of(job)?;
        for back in LOOK_BACK {
            let from = job.seq().saturating_sub(back);
            let found = self.cause_behind(from, Finder::new(job, sought, now), job.seq()).await;
            match found {
                Ok(None) if from > 0 => {}
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(job = %job.id(), %error, "its history cannot be read");
                    return None;
                }
            }
        }
        None
    }

    async fn cause_behind(
        &self,
        mut after: u64,
        mut finder: Finder<'_>,
        upto: u64,
    ) -> Result<Option<Cause>, JobError> {
        let limit = PageLimit { events: 1_024, bytes: PAGE_BYTES };
        while after < upto {
            let page = self.page(after, limit).await?;
            let Some(last) = page.last() else { break };
            after = last.recorded.seq;
            // The job may have gone on since it was seen.
            let seen = page.iter().filter(|logged| logged.recorded.seq <= upto);
            seen.for_each(|logged| finder.take(&logged.recorded));
        }
        Ok(finder.found())
    }
}

impl Loop {
    pub(super) fn on_explain(&mut self, job: JobId, reply: Reply<Result<Seen, JobError>>) {
        match self.at_hand(job).map(|_| ()) {
            Ok(()) => self.whys.push(Why { job, reply }),
            Err(error) => self.after_events_of(job, answer(reply, Err(error))),
        }
    }

    /// Prepares the answers to who wants to know why jobs do not move: what the turn has brought
    /// about is brought about by now.
    pub(super) fn answer_whys(&mut self) {
        for Why { job, reply } in std::mem::take(&mut self.whys) {
            // What the turn has taken notice of may have let the job go meanwhile.
            if !self.is_at_hand(job) {
                self.wait_for(job, Message::Explain { job, reply });
                continue;
            }
            let seen = self.see(job);
            self.after_events_of(job, answer(reply, seen));
        }
    }

    /// What there is to see of a job.
    pub(super) fn see(&mut self, job: JobId) -> Result<Seen, JobError> {
        let lack = self.lack_known(job);
        let (now, dispatch) = (self.now, self.dispatch());
        let executor = self.at_hand(job)?;
        let mut snapshot = executor.snapshot();
        snapshot.lack = lack;
        let recovered = executor.recovered;
        let Some(Entry::Loaded(executor)) = self.entries.get(&job) else {
            return Err(JobError::NotFound(job));
        };
        let queued = self.queued(executor);
        let outside = executor.running.iter().map(|live| live.task);
        let outside = outside.filter(|task| self.is_outside(executor, *task)).collect();
        let pools = self.pools_of(&executor.job);
        let own = executor.job.exclusive();
        let key = own.and_then(|own| self.shared.exclusives.standing(job, own));
        Ok(Seen { snapshot, now, dispatch, recovered, queued, pools, outside, key })
    }

    pub(super) fn dispatch(&self) -> Dispatch {
        if !self.shared.settings.dispatches {
            Dispatch::Holds
        } else if self.dispatching {
            Dispatch::Runs
        } else {
            Dispatch::NotReady
        }
    }

    /// The pools of a job's kinds, of those that hold slots.
    fn pools_of(&self, job: &Job) -> BTreeMap<Box<str>, Arc<str>> {
        let pool = |kind: &str| match self.shared.registry.behaviour(kind) {
            Some(Behaviour::Run { pool, .. }) => Some((kind.into(), self.shared.pools.name(*pool))),
            _ => None,
        };
        job.kinds().filter_map(pool).collect()
    }

    /// Whether the attempts of a task are outside of this process.
    fn is_outside(&self, executor: &Executor, task: TaskNumber) -> bool {
        let task = executor.job.task(task);
        let behaviour =
            task.and_then(|task| self.shared.registry.behaviour(task.spec.kind.as_str()));
        matches!(behaviour, Some(Behaviour::Run { handler, .. }) if handler.ends_itself())
    }

    /// Where the tasks of a job stand that wait for slots.
    fn queued(&self, executor: &Executor) -> BTreeMap<TaskNumber, Queued> {
        let mut by_queue: BTreeMap<usize, Vec<&Wanting>> = BTreeMap::new();
        for wanting in &executor.wanting {
            by_queue.entry(wanting.queue.0).or_default().push(wanting);
        }
        let mut queued = BTreeMap::new();
        for (queue, wanting) in by_queue {
            let queue = PoolId(queue);
            let places: Vec<_> = wanting.iter().filter_map(|wanting| wanting.place).collect();
            let standing = self.shared.pools.standing(queue, &places);
            for wanting in wanting {
                let name = self.shared.pools.name(queue);
                queued.insert(wanting.task, in_line((queue, name), wanting, &standing));
            }
        }
        queued
    }
}

fn in_line((queue, pool): (PoolId, Arc<str>), wanting: &Wanting, standing: &Standing) -> Queued {
    let place = match wanting.place.and_then(|place| standing.before.get(&place)) {
        None => InLine::Granted,
        Some(None) => InLine::Behind(COUNTED as u64),
        Some(Some(before)) => InLine::At(*before as u64 + 1),
    };
    let line = Line { pool, slots: standing.slots as u64, waiting: standing.waiting as u64, place };
    if queue != SUSPECTS {
        return Queued::Slot(line);
    }
    let holder = standing.holder.map(|holder| Other { job: holder.job, task: holder.task });
    Queued::Alone(line, holder)
}
