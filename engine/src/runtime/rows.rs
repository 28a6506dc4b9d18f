//! The rows of changed jobs: for lists, and for the next checkpoint of the views.

use annals_tasks_sdk::JobId;

use super::act::answer_or_drop;
use super::error::EngineError;
use super::executor::Entry;
use super::message::Reply;
use super::turn::{Loop, THIS_TURN};
use super::views::Round;
use crate::log::JobRow;

impl Loop {
    /// Takes over the row of a job that the views do not have.
    pub(super) fn note(&mut self, row: JobRow) {
        self.dirty.insert(row.job);
        self.rows.insert(row.job, row);
    }

    /// The newest rows that the views may not have.
    pub(super) fn on_rows(
        &mut self,
        before: Option<JobId>,
        limit: usize,
        reply: Reply<Result<Vec<JobRow>, EngineError>>,
    ) {
        let older = |id: &JobId| before.is_none_or(|before| *id < before);
        let mut ids: Vec<JobId> = self.dirty.iter().copied().filter(older).collect();
        ids.extend(
            self.leaving.0.keys().copied().filter(|id| older(id) && !self.dirty.contains(id)),
        );
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.truncate(limit);
        let rows = ids.iter().filter_map(|id| self.row_of(*id)).collect();
        // Some of these may rest on events of the present turn.
        self.queue(THIS_TURN, answer_or_drop(reply, Ok(rows)));
    }

    fn row_of(&self, id: JobId) -> Option<JobRow> {
        match self.entries.get(&id) {
            Some(Entry::Loaded(executor)) => Some(executor.row()),
            _ => self.rows.get(&id).or_else(|| self.leaving.0.get(&id)).cloned(),
        }
    }

    /// Hands rows in for the views. No job has events then that were not given to the writer,
    /// so that a row is never ahead of the records before it.
    pub(super) fn hand_in_views(&mut self) {
        for round in std::mem::take(&mut self.rounds) {
            self.hand_in(&round);
        }
    }

    fn hand_in(&mut self, round: &Round) {
        let dirty = std::mem::take(&mut self.dirty);
        let mut rows: Vec<JobRow> = dirty.iter().filter_map(|id| self.row_of(*id)).collect();
        rows.sort_unstable_by_key(|row| row.job);
        // Until the views have them, rows are kept for those who ask.
        if self.shared.reader.viewed() >= self.leaving.1 {
            self.leaving.0.clear();
        }
        self.leaving.0.extend(rows.iter().map(|row| (row.job, row.clone())));
        self.leaving.1 = round.upto();
        self.rows.clear();
        if round.hand_in(&self.shared.writer, &*self.shared.reader, rows) {
            self.shared.views.reset();
        }
    }
}
