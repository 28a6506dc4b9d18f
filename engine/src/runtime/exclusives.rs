//! Exclusive keys: of the jobs that share one, one runs at a time, and the others stand in line.
//!
//! Who holds a key follows from the log: the open job that has begun to work since it was started
//! last. Here is only what the loops must agree on, and it is made anew at every start.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_tasks_sdk::{JobId, Timestamp};

use super::act::Action;
use super::desk::Desk;
use super::engine::{Engine, Shared};
use super::executor::{Entry, Executor};
use super::message::Message;
use super::turn::Loop;
use crate::job::Exclusive;
use crate::views::KeyLine;

/// Where a job stands whose plan has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Turn {
    /// It needs the key not now.
    #[default]
    Away,
    /// It is in line since this time, or has just been given the key.
    InLine(Timestamp),
    /// The key is its own, for the turn that began then.
    Holds(Timestamp),
    /// It gives the key back as soon as it is durable that it has ended.
    Leaves,
}

/// Where a job stands in the line for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The key is its own.
    First,
    Behind,
}

/// So many of the jobs that wait for a key are named.
const NAMED: usize = 5;

/// All keys that jobs hold or wait for. Shared by the loops.
#[derive(Debug, Default)]
pub(super) struct Exclusives(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    by_key: HashMap<Arc<str>, Line>,
    /// For what each of those waits that wait.
    wanted: HashMap<JobId, Arc<str>>,
}

#[derive(Debug, Default)]
struct Line {
    holder: Option<JobId>,
    /// Those who wait, by the times since when it is their turn.
    waiting: BTreeSet<(Timestamp, JobId)>,
}

/// A job that waits for its exclusive key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    /// The key.
    pub key: Arc<str>,
    /// The job that holds it.
    pub holder: JobId,
}

impl Lines {
    /// The line for a key, and what the key is shared as.
    fn of(&mut self, key: &str) -> (Arc<str>, &mut Line) {
        let known = self.by_key.get_key_value(key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| key.into());
        (Arc::clone(&key), self.by_key.entry(key).or_default())
    }

    fn wait(&mut self, key: &str, since: Timestamp, job: JobId) {
        let (key, line) = self.of(key);
        line.waiting.insert((since, job));
        self.wanted.insert(job, key);
    }

    /// Has the first in line hold the key, if there is anybody.
    fn pass_on(&mut self, key: &str) -> Option<JobId> {
        let line = self.by_key.get_mut(key)?;
        line.holder = line.waiting.pop_first().map(|(_, job)| job);
        let next = line.holder;
        match next {
            Some(job) => self.wanted.remove(&job).map(drop),
            None => self.by_key.remove(key).map(drop),
        };
        next
    }
}

impl Exclusives {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Nothing below panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the jobs of a store that is being opened: those that hold their keys first, so that
    /// nobody is given one that is not free.
    fn recover<'a>(&self, jobs: impl Iterator<Item = (JobId, &'a Exclusive)>) {
        let mut lines = self.lines();
        for (job, own) in jobs {
            let Some(since) = own.since else { continue };
            let (_, line) = lines.of(&own.key);
            if own.taken && line.holder.is_none() {
                line.holder = Some(job);
            } else {
                lines.wait(&own.key, since, job);
            }
        }
        let free = lines.by_key.iter().filter(|(_, line)| line.holder.is_none());
        let free: Vec<_> = free.map(|(key, _)| Arc::clone(key)).collect();
        for key in free {
            lines.pass_on(&key);
        }
    }

    /// Whether the key is this job's; until it is, the job stands in line.
    fn ask(&self, job: JobId, Exclusive { key, .. }: &Exclusive, since: Timestamp) -> bool {
        let mut lines = self.lines();
        let (_, line) = lines.of(key);
        match line.holder {
            Some(holder) if holder == job => true,
            Some(_) => {
                lines.wait(key, since, job);
                false
            }
            None => {
                line.holder = Some(job);
                true
            }
        }
    }

    /// Gives the key back, or leaves the line, in which the job stood since then. Gives who holds
    /// the key now, if that is news.
    #[must_use]
    fn leave(&self, key: &str, job: JobId, since: Option<Timestamp>) -> Option<JobId> {
        let mut lines = self.lines();
        let line = lines.by_key.get_mut(key)?;
        if line.holder != Some(job) {
            if since.is_some_and(|since| line.waiting.remove(&(since, job))) {
                lines.wanted.remove(&job);
            }
            return None;
        }
        lines.pass_on(key)
    }

    /// For which key a job waits, and who holds that; none where it waits for none.
    fn wanted(&self, job: JobId) -> Option<WantedKey> {
        let lines = self.lines();
        let key = Arc::clone(lines.wanted.get(&job)?);
        let holder = lines.by_key.get(&key)?.holder?;
        Some(WantedKey { key, holder })
    }

    /// Whether the key is the job's, or it is in line for that. Costs no look along the line.
    fn knows(&self, job: JobId, own: &Exclusive) -> Option<Place> {
        let since = own.since?;
        let lines = self.lines();
        let line = lines.by_key.get(&*own.key)?;
        if line.holder == Some(job) {
            return Some(Place::First);
        }
        line.waiting.contains(&(since, job)).then_some(Place::Behind)
    }

    /// How a job stands with its key; none where it is not in line for it.
    pub(super) fn standing(&self, job: JobId, own: &Exclusive) -> Option<KeyLine> {
        let place = (own.since?, job);
        let lines = self.lines();
        let line = lines.by_key.get(&*own.key)?;
        if line.holder == Some(job) {
            let first = line.waiting.iter().take(NAMED).map(|(_, job)| *job).collect();
            return Some(KeyLine::Holds { waiting: line.waiting.len() as u64, first });
        }
        let holder = line.holder.filter(|_| line.waiting.contains(&place))?;
        Some(KeyLine::Waits { holder, before: line.waiting.range(..place).count() as u64 })
    }
}

impl Engine {
    /// For which exclusive key a job waits now, and who holds that; none where it waits for none.
    pub fn wanted_key(&self, job: JobId) -> Option<WantedKey> {
        self.0.shared.exclusives.wanted(job)
    }
}

impl Shared {
    /// A job gives its key back, or leaves the line for it: the next in line hears of it.
    pub(super) fn leave_line(&self, key: &str, job: JobId, since: Option<Timestamp>) {
        if let Some(next) = self.exclusives.leave(key, job, since) {
            self.tell(self.home_of(next), Message::Turn { job: next });
        }
    }
}

/// Has the jobs of a store that is being opened take their places.
pub(super) fn recover(shared: &Shared, loops: &mut [Loop]) {
    let mut executors: Vec<&mut Box<Executor>> = Vec::new();
    for entry in loops.iter_mut().flat_map(|each| each.entries.values_mut()) {
        if let Entry::Loaded(executor) = entry
            && executor.job.is_in_line()
        {
            executors.push(executor);
        }
    }
    let own =
        |executor: &&mut Box<Executor>| (executor.job.id(), executor.job.exclusive().cloned());
    let jobs: Vec<_> = executors.iter().map(own).collect();
    let jobs = jobs.iter().filter_map(|(job, own)| Some((*job, own.as_ref()?)));
    shared.exclusives.recover(jobs);
    for executor in executors {
        let Some(Exclusive { since: Some(since), taken, .. }) = executor.job.exclusive() else {
            continue;
        };
        executor.turn = if *taken { Turn::Holds(*since) } else { Turn::InLine(*since) };
    }
}

impl Desk<'_> {
    /// Whether the job may start tasks: its key is free, or its own. Most have none.
    pub(super) fn has_its_turn(&mut self) -> bool {
        let Some(own) = self.executor.exclusive() else { return true };
        let since = own.since.filter(|_| self.executor.job.is_in_line());
        match (since, self.executor.turn) {
            (Some(since), Turn::Holds(held)) if held == since => return true,
            // It has ended, and may have been opened again within the turn: it queues anew when it
            // has given the key back.
            (_, Turn::Holds(_)) => {
                self.executor.turn = Turn::Leaves;
                self.after_events(Action::LeaveLine { job: self.id });
                return false;
            }
            (_, Turn::Leaves) => return false,
            // It has not begun, so nobody has to wait until that is durable.
            (now, Turn::InLine(before)) if now != Some(before) => {
                self.shared.leave_line(&own.key, self.id, Some(before));
            }
            _ => {}
        }
        let is_free = since.is_some_and(|since| self.shared.exclusives.ask(self.id, own, since));
        self.executor.turn = match since {
            None => Turn::Away,
            Some(since) if is_free => Turn::Holds(since),
            Some(since) => Turn::InLine(since),
        };
        is_free
    }
}

impl Loop {
    /// It is durable that the job needs its key no more.
    pub(super) fn leave_line(&mut self, job: JobId) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job) else { return };
        executor.turn = Turn::Away;
        if let Some(own) = executor.exclusive() {
            self.shared.leave_line(&own.key, job, None);
        }
        // It may have been opened again meanwhile; and where it has ended, it can be let go of.
        self.touch(job);
    }

    /// Whether a job stands in line for its key: it is told when that is free.
    pub(super) fn is_in_line(&self, executor: &Executor) -> bool {
        let (id, own) = (executor.job.id(), executor.exclusive());
        own.is_some_and(|own| match executor.turn {
            Turn::Away | Turn::Holds(_) => false,
            Turn::InLine(_) => self.shared.exclusives.knows(id, own).is_some(),
            Turn::Leaves => true,
        })
    }

    /// Whether a job has been given its key and has not taken notice.
    pub(super) fn is_given_its_key(&self, executor: &Executor) -> bool {
        let (id, own) = (executor.job.id(), executor.exclusive());
        let place = own.and_then(|own| self.shared.exclusives.knows(id, own));
        matches!(executor.turn, Turn::InLine(_)) && place == Some(Place::First)
    }

    /// Lets a job that is given up leave the line that it stands in. One that has begun keeps its
    /// key until the engine is started again: what it did is not known to be over.
    pub(super) fn abandon_line(&self, executor: &Executor) {
        if let Some(own) = executor.exclusive()
            && let Turn::InLine(since) = executor.turn
        {
            self.shared.leave_line(&own.key, executor.job.id(), Some(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> JobId {
        JobId::from_u128(number)
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn own(since: i64, taken: bool) -> Exclusive {
        Exclusive { key: "host".into(), since: Some(at(since)), taken }
    }

    fn ask(keys: &Exclusives, job: u128, since: i64) -> bool {
        keys.ask(id(job), &own(since, false), at(since))
    }

    #[test]
    fn a_key_goes_from_one_to_the_next_in_line() {
        let keys = Exclusives::default();
        assert!(ask(&keys, 1, 10) && ask(&keys, 1, 10));
        // Who is late in asking does not come late.
        assert!(!ask(&keys, 3, 30));
        assert!(!ask(&keys, 2, 20) && !ask(&keys, 2, 20));
        assert!(!ask(&keys, 4, 20));
        let before = |job| keys.standing(id(job), &own([0, 10, 20, 30, 20][job as usize], false));
        let behind = |before| Some(KeyLine::Waits { holder: id(1), before });
        let holds = KeyLine::Holds { waiting: 3, first: vec![id(2), id(4), id(3)] };
        assert_eq!([1, 2, 4, 3].map(before), [Some(holds), behind(0), behind(1), behind(2)]);
        let wanted = |job| keys.wanted(id(job)).map(|wanted| wanted.holder);
        assert_eq!([1, 2, 4, 3].map(wanted), [None, Some(id(1)), Some(id(1)), Some(id(1))]);
        assert_eq!(keys.leave("host", id(4), Some(at(20))), None);
        assert_eq!(keys.leave("host", id(1), None), Some(id(2)));
        assert_eq!([1, 2, 4, 3].map(wanted), [None, None, None, Some(id(2))]);
        assert_eq!(keys.leave("host", id(1), None), None);
        assert_eq!(keys.leave("host", id(2), None), Some(id(3)));
        assert_eq!(keys.leave("host", id(3), None), None);
        assert!(keys.lines().by_key.is_empty() && keys.lines().wanted.is_empty());
        assert!(ask(&keys, 9, 1));
    }

    #[test]
    fn a_start_gives_keys_to_those_that_have_begun_and_else_to_the_first() {
        let keys = Exclusives::default();
        let jobs = [(id(1), own(10, false)), (id(2), own(20, true)), (id(3), own(5, false))];
        keys.recover(jobs.iter().map(|(job, own)| (*job, own)));
        assert!(ask(&keys, 2, 20) && !ask(&keys, 1, 10));
        assert_eq!(keys.leave("host", id(2), None), Some(id(3)));
        let keys = Exclusives::default();
        keys.recover(jobs.iter().map(|(job, own)| (*job, own)).filter(|(_, own)| !own.taken));
        assert!(!ask(&keys, 1, 10) && ask(&keys, 3, 5));
    }
}
