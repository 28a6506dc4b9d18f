//! Where the rows of long histories are.
//!
//! The only way to a job's events leads back from its head. Whoever reads a long history page by
//! page would walk it anew for each page, so rows that were passed on a walk are noted, one in
//! every few hundred. Rows never move, so that a note never gets wrong; what is forgotten costs a
//! walk.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_tasks_sdk::JobId;

use super::{Link, Position};

/// From one waypoint to the next there are so many rows.
const STRIDE: usize = 256;

/// So many are kept in all: a few megabytes.
const KEPT_MAX: usize = 1 << 16;

/// Waypoints of the jobs whose histories were read last.
#[derive(Debug, Default)]
pub struct Waypoints(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    jobs: HashMap<JobId, Ways>,
    count: usize,
    /// How often something was asked for.
    turn: u64,
}

#[derive(Debug, Default)]
struct Ways {
    /// The last seq of a row, and where it begins.
    rows: BTreeMap<u64, Position>,
    /// When it was asked for last.
    turn: u64,
}

/// A walk back through a job's history, which notes one row in every so many.
#[derive(Debug, Default)]
pub(super) struct Walk {
    passed: usize,
    noted: Vec<(u64, Position)>,
}

impl Walk {
    /// Notes that this row was passed.
    pub(super) fn pass(&mut self, link: &Link) {
        if self.passed > 0 && self.passed.is_multiple_of(STRIDE) {
            self.noted.push((link.after.seq, link.position));
        }
        self.passed += 1;
    }
}

impl Waypoints {
    /// The nearest known row that holds events after `seq`, and possibly ends far behind it.
    pub(super) fn behind(&self, job: JobId, seq: u64) -> Option<Position> {
        let mut kept = self.kept();
        kept.turn += 1;
        let turn = kept.turn;
        let ways = kept.jobs.get_mut(&job)?;
        ways.turn = turn;
        let behind = (Bound::Excluded(seq), Bound::Unbounded);
        ways.rows.range(behind).next().map(|(_, position)| *position)
    }

    /// Keeps what a walk has noted.
    pub(super) fn keep(&self, job: JobId, walk: Walk) {
        if walk.noted.is_empty() {
            return;
        }
        let mut kept = self.kept();
        kept.turn += 1;
        let turn = kept.turn;
        let ways = kept.jobs.entry(job).or_default();
        let before = ways.rows.len();
        ways.rows.extend(walk.noted);
        ways.turn = turn;
        let more = ways.rows.len() - before;
        kept.count += more;
        while kept.count > KEPT_MAX && kept.jobs.len() > 1 {
            kept.forget_oldest();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forget_oldest(&mut self) {
        let oldest = self.jobs.iter().min_by_key(|(_, ways)| ways.turn).map(|(job, _)| *job);
        let forgotten = oldest.and_then(|job| self.jobs.remove(&job));
        self.count -= forgotten.map_or(0, |ways| ways.rows.len());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Head;
    use super::*;

    fn walk(job: JobId, rows: u64) -> Walk {
        let mut walk = Walk::default();
        for seq in (1..=rows).rev() {
            let head = |seq| Head { row: Position(seq), seq, hash: [0; 32] };
            let (before, after) = (head(seq - 1), head(seq));
            walk.pass(&Link { job, position: Position(seq), before, after });
        }
        walk
    }

    #[test]
    fn one_row_in_every_few_hundred_is_known_again() {
        let (waypoints, job) = (Waypoints::default(), JobId::from_u128(1));
        assert_eq!(waypoints.behind(job, 0), None);
        waypoints.keep(job, walk(job, 1_000));
        for seq in 0..1_000 {
            let expected = (seq + 1..1_000).find(|row| (1_000 - row) % STRIDE as u64 == 0);
            assert_eq!(waypoints.behind(job, seq), expected.map(Position), "{seq}");
        }
        assert_eq!(waypoints.behind(JobId::from_u128(2), 0), None);
    }

    #[test]
    fn the_job_that_was_asked_for_longest_ago_is_forgotten_first() {
        let waypoints = Waypoints::default();
        let rows = (KEPT_MAX / 4 * STRIDE) as u64 + 1;
        let job = JobId::from_u128;
        for number in 0..4 {
            waypoints.keep(job(number), walk(job(number), rows));
            waypoints.keep(job(number), walk(job(number), rows));
        }
        assert!(waypoints.behind(job(0), 0).is_some());
        waypoints.keep(job(4), walk(job(4), rows));
        let known = (0..5).map(|number| waypoints.behind(job(number), 0).is_some());
        assert_eq!(known.collect::<Vec<_>>(), [true, false, true, true, true]);
    }
}
