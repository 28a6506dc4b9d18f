//! The rows of changed jobs: for lists, and for the next checkpoint of the views.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use annals_tasks_sdk::JobId;

use super::act::answer_or_drop;
use super::error::EngineError;
use super::executor::Entry;
use super::ids::JobMap;
use super::message::Reply;
use super::turn::Loop;
use super::views::Round;
use crate::log::{JobRow, Position};

/// So many rows are handed in for the views in one turn: the jobs of the loop wait for no more.
const PIECE_MAX: usize = 256;

/// What the views may not have yet. In the order of the ids, so that a page of a list costs what
/// it shows, however many jobs have changed.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Jobs that have changed since the last checkpoint.
    changed: BTreeSet<JobId>,
    /// Jobs whose rows the checkpoint that is under way still waits for.
    awaited: BTreeSet<JobId>,
    /// The rows of those among them that are not loaded.
    kept: JobMap<JobRow>,
    /// Rows that are on their way into the views...
    leaving: BTreeMap<JobId, JobRow>,
    /// ...and up to where these will be right then.
    upto: Position,
}

impl Rows {
    /// Notes that a job has changed, which is loaded.
    pub(super) fn change(&mut self, id: JobId) {
        self.changed.insert(id);
    }

    /// Keeps the row of a changed job that is not loaded.
    pub(super) fn keep(&mut self, row: JobRow) {
        self.changed.insert(row.job);
        self.kept.insert(row.job, row);
    }

    /// Notes that the views will have this row, which until then is kept for those who ask.
    fn leave(&mut self, row: JobRow) {
        self.changed.remove(&row.job);
        self.kept.remove(&row.job);
        self.leaving.insert(row.job, row);
    }

    /// The row of a job that is not loaded.
    pub(super) fn get(&self, id: JobId) -> Option<&JobRow> {
        self.kept.get(&id).or_else(|| self.leaving.get(&id))
    }

    /// Jobs older than `before`, the newest first.
    fn newest(&self, before: Option<JobId>) -> impl Iterator<Item = JobId> {
        let older = (Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded));
        let mut changed = self.changed.range(older).rev().copied().peekable();
        let mut awaited = self.awaited.range(older).rev().copied().peekable();
        let mut leaving = self.leaving.range(older).rev().map(|(&id, _)| id).peekable();
        std::iter::from_fn(move || {
            let next = changed.peek().max(awaited.peek()).max(leaving.peek()).copied()?;
            changed.next_if_eq(&next);
            awaited.next_if_eq(&next);
            leaving.next_if_eq(&next);
            Some(next)
        })
    }
}

/// Who asks for the newest rows that the views may not have.
pub(super) struct Listing {
    pub(super) before: Option<JobId>,
    pub(super) limit: usize,
    pub(super) reply: Reply<Result<Vec<JobRow>, EngineError>>,
}

impl Loop {
    /// Answers who asked for rows in this turn. Only now do they say themselves how far each job
    /// is that the turn has changed.
    pub(super) fn answer_lists(&mut self) {
        for Listing { before, limit, reply } in std::mem::take(&mut self.lists) {
            let newest = self.rows.newest(before).filter_map(|id| self.row_of(id));
            let newest = newest.take(limit).collect();
            // Some of these may rest on events of the present turn.
            self.pending.push_back((self.last, answer_or_drop(reply, Ok(newest))));
        }
        self.act();
    }

    fn row_of(&self, id: JobId) -> Option<JobRow> {
        match self.entries.get(&id) {
            Some(Entry::Loaded(executor)) => Some(executor.row()),
            _ => self.rows.get(id).cloned(),
        }
    }

    /// Hands a piece of the rows in for the views. No job has events then that were not given to
    /// the writer, so that a row is never ahead of the records before the checkpoint.
    pub(super) fn hand_in_views(&mut self) {
        let Some(round) = self.rounds.front().cloned() else { return };
        if !std::mem::replace(&mut self.handing_in, true) {
            self.begin_to_hand_in(&round);
        }
        for _ in 0..PIECE_MAX {
            let Some(id) = self.rows.awaited.pop_first() else { break };
            let Some(row) = self.row_of(id) else { continue };
            if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
                executor.changed = false;
            }
            self.rows.leave(row.clone());
            round.hand_in(row);
        }
        if self.rows.awaited.is_empty() {
            round.finish(&self.shared, std::mem::take(&mut self.keys));
            self.rounds.pop_front();
            self.handing_in = false;
        }
    }

    fn begin_to_hand_in(&mut self, round: &Round) {
        self.rows.awaited = std::mem::take(&mut self.rows.changed);
        if self.shared.reader.viewed() >= self.rows.upto {
            self.rows.leaving.clear();
        }
        self.rows.upto = round.upto();
    }
}

#[cfg(test)]
mod tests {
    use annals_tasks_sdk::Timestamp;

    use super::*;

    #[test]
    fn each_job_comes_once_and_the_newest_first() {
        let id = JobId::from_u128;
        let mut rows = Rows::default();
        assert_eq!(rows.newest(None).count(), 0);
        rows.changed.extend([2, 3, 7].map(id));
        rows.awaited.extend([3, 4, 7].map(id));
        let row = |n| (id(n), JobRow::unknown(id(n), Timestamp::default()));
        rows.leaving.extend([1, 3, 5, 9].map(row));
        let newest = |before: Option<u128>| rows.newest(before.map(id)).collect::<Vec<_>>();
        assert_eq!(newest(None), [9, 7, 5, 4, 3, 2, 1].map(id));
        assert_eq!(newest(Some(7)), [5, 4, 3, 2, 1].map(id));
        assert_eq!(newest(Some(4)), [3, 2, 1].map(id));
        assert!(newest(Some(1)).is_empty());
    }
}
