//! Jobs at rest: the state of jobs that are not loaded, kept while there is room for it, so that
//! to read such a job again costs a look-up and not its whole history.
//!
//! What is found here is the job as it stands. Only the loop that drives a job puts it here, when
//! it lets go of it and everything of it is durable; and it takes it away again before it decides
//! anything on it. So whoever is answered from here is answered as the loop would have answered
//! at that moment, and never sees a state that something acknowledged has left behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_tasks_sdk::JobId;

use super::ids::JobMap;
use super::stats::AtRest;
use crate::job::Job;
use crate::log::Head;

/// What the maps take for each job, about.
const OVERHEAD: usize = 256;

/// The jobs at rest, of all loops. What was not used for the longest time makes room.
#[derive(Debug)]
pub(super) struct Resting {
    kept: Mutex<Kept>,
    /// So many bytes are kept at most.
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    jobs: JobMap<OneKept>,
    /// The jobs in the order of their last use.
    by_use: BTreeMap<u64, JobId>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct OneKept {
    job: Arc<Job>,
    head: Head,
    bytes: usize,
    used: u64,
}

impl Resting {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { kept: Mutex::default(), bytes_max }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing below panics while it holds the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job as it stands, and where its history does, if it is here.
    pub(super) fn get(&self, id: JobId) -> Option<(Arc<Job>, Head)> {
        let mut kept = self.kept();
        let one = kept.use_again(id)?;
        Some((Arc::clone(&one.job), one.head))
    }

    /// The same, which counts as no use.
    pub(super) fn peek(&self, id: JobId) -> Option<Arc<Job>> {
        self.kept().jobs.get(&id).map(|one| Arc::clone(&one.job))
    }

    pub(super) fn stats(&self) -> AtRest {
        let kept = self.kept();
        AtRest { jobs: kept.jobs.len() as u64, bytes: kept.bytes as u64 }
    }

    /// Takes a job away, to decide on it.
    pub(super) fn take(&self, id: JobId) -> Option<(Arc<Job>, Head)> {
        self.kept().remove(id).map(|one| (one.job, one.head))
    }

    /// Keeps a job that its loop lets go of. Everything of it is durable.
    pub(super) fn put(&self, job: Arc<Job>, head: Head) {
        let (id, bytes) = (job.id(), job.memory_bytes() + OVERHEAD);
        if bytes > self.bytes_max {
            return;
        }
        let mut evicted = Vec::new();
        let mut kept = self.kept();
        evicted.extend(kept.remove(id));
        kept.uses += 1;
        let used = kept.uses;
        kept.bytes += bytes;
        kept.by_use.insert(used, id);
        kept.jobs.insert(id, OneKept { job, head, bytes, used });
        while kept.bytes > self.bytes_max {
            let Some((_, oldest)) = kept.by_use.first_key_value() else { break };
            let oldest = *oldest;
            evicted.extend(kept.remove(oldest));
        }
        // To free a large job takes its time, in which others may look.
        drop(kept);
    }
}

impl Kept {
    fn use_again(&mut self, id: JobId) -> Option<&OneKept> {
        let one = self.jobs.get_mut(&id)?;
        self.uses += 1;
        self.by_use.remove(&one.used);
        self.by_use.insert(self.uses, id);
        one.used = self.uses;
        Some(one)
    }

    fn remove(&mut self, id: JobId) -> Option<OneKept> {
        let one = self.jobs.remove(&id)?;
        self.by_use.remove(&one.used);
        self.bytes -= one.bytes;
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use annals_tasks_sdk::Timestamp;
    use annals_tasks_sdk::plan::{Limits, Plan};

    use super::*;
    use crate::job::{Context, LossRule, Origin, Submitted, begin, submit};

    /// A job whose input takes about so many bytes.
    fn job(id: u128, bytes: usize) -> Arc<Job> {
        let input = "x".repeat(bytes);
        let text = format!(
            r#"{{"name": "test", "start": "manual",
                "tasks": [{{"id": "a", "kind": "noop", "input": "{input}"}}]}}"#
        );
        let plan = Plan::from_json(&text, &Limits::NONE).unwrap();
        let submitted = Submitted { plan, workflow: None, source: None };
        let events = submit(submitted, &Limits::NONE).unwrap();
        let (now, losses) = (Timestamp::from_millis(1_800_000_000_000), LossRule::default());
        let cx = Context {
            origin: Origin::ENGINE,
            key: None,
            now,
            random: 0.5,
            losses,
            instances: 10_000,
        };
        Arc::new(begin(JobId::from_u128(id), events, &cx).unwrap().0)
    }

    fn is_kept(resting: &Resting, id: u128) -> bool {
        resting.kept().jobs.contains_key(&JobId::from_u128(id))
    }

    fn put(resting: &Resting, job: Arc<Job>) {
        let head = Head { seq: job.seq(), ..Head::default() };
        resting.put(job, head);
        let kept = resting.kept();
        let bytes = kept.jobs.values().map(|one| one.bytes).sum::<usize>();
        assert!(kept.bytes == bytes && bytes <= resting.bytes_max);
        assert!(kept.jobs.len() == kept.by_use.len());
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_makes_room() {
        let resting = Resting::new(100_000);
        (1..=3).for_each(|id| put(&resting, job(id, 30_000)));
        let (first, head) = resting.get(JobId::from_u128(1)).unwrap();
        assert!(*first == *job(1, 30_000) && head.seq == first.seq());
        put(&resting, job(4, 30_000));
        assert_eq!([1, 2, 3, 4].map(|id| is_kept(&resting, id)), [true, false, true, true]);
        // The same job again takes the place that it had.
        put(&resting, job(3, 20_000));
        assert_eq!([1, 3, 4].map(|id| is_kept(&resting, id)), [true; 3]);
        // One that needs all the room has it, and one that needs more is not kept.
        put(&resting, job(5, 90_000));
        assert_eq!([1, 3, 4, 5].map(|id| is_kept(&resting, id)), [false, false, false, true]);
        put(&resting, job(6, 100_000));
        assert!(is_kept(&resting, 5) && !is_kept(&resting, 6));
    }

    #[test]
    fn what_was_taken_away_is_not_there() {
        let (resting, id) = (Resting::new(100_000), JobId::from_u128(1));
        put(&resting, job(1, 100));
        assert!(resting.take(id).is_some_and(|(job, _)| job.id() == id));
        assert!(resting.take(id).is_none() && resting.get(id).is_none());
    }
}
