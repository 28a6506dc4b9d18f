//! Residency: which jobs are loaded, how others come to be, and which are let go of.
//!
//! A loop reads no history itself: what needs a job that is not at hand waits, with all that
//! comes for the job after it, until the job has been read. Meanwhile the job stands still,
//! since only its loop moves it; and no other job waits.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{JobId, Timestamp};

use super::error::JobError;
use super::executor::{Entry, Executor, Parked};
use super::loads::{Found, Load};
use super::message::Message;
use super::purges::Files;
use super::turn::Loop;
use crate::job::Tombstone;
use crate::log::Head;

/// When the log could not be read, it is tried again after this time.
const READ_AGAIN: Duration = Duration::from_secs(10);
/// So many jobs whose time has come are read at a time: were thousands due at once, whoever asks
/// for another job would wait for all of them.
const DUE_MAX: usize = 64;

/// What waits for a job that is being read.
#[derive(Default)]
pub(super) struct Loading {
    /// In the order of their coming.
    waiting: Vec<Message>,
    /// Whether its time has come.
    due: bool,
}

impl Loop {
    /// Keeps a message whose job must be read first.
    pub(super) fn wait_for(&mut self, id: JobId, message: Message) {
        self.loading(id).waiting.push(message);
    }

    /// The executor of a job that is at hand.
    pub(super) fn at_hand(&mut self, id: JobId) -> Result<&mut Executor, JobError> {
        let executor = self.at_hand_or_purged(id)?;
        match executor.job.purged().cloned() {
            Some(tombstone) => Err(JobError::Purged { job: id, tombstone }),
            None => Ok(executor),
        }
    }

    /// The same, also of one that was purged.
    pub(super) fn at_hand_or_purged(&mut self, id: JobId) -> Result<&mut Executor, JobError> {
        if let Some(why) = self.broken.get(&id) {
            return Err(JobError::Unreadable { job: id, why: why.clone() });
        }
        match self.entries.get_mut(&id) {
            Some(Entry::Loaded(executor)) => Ok(executor),
            _ => Err(JobError::NotFound(id)),
        }
    }

    /// Whether what is asked of a job can be answered now, be it that it was given up. A job at
    /// rest is taken up.
    pub(super) fn is_at_hand(&mut self, id: JobId) -> bool {
        if matches!(self.entries.get(&id), Some(Entry::Loaded(_))) || self.broken.contains_key(&id)
        {
            return true;
        }
        let rested = self.shared.resting.take(id).map(|(job, head)| Executor::new(job, head));
        // Of what was purged the row says all.
        let found = rested.or_else(|| self.rows.get(id).and_then(Executor::of_purged));
        found.map(|executor| self.take_up(Box::new(executor))).is_some()
    }

    fn take_up(&mut self, mut executor: Box<Executor>) {
        let id = executor.job.id();
        // What is parked or has ended had nothing alive.
        executor.recovered = self.shared.settings.dispatches;
        self.entries.insert(id, Entry::Loaded(executor));
        self.loaded += 1;
        // Where nothing else keeps it, the end of the turn lets go of it again.
        self.touch(id);
    }

    /// The place to wait for a job that is being read, from now on if it is not yet.
    fn loading(&mut self, id: JobId) -> &mut Loading {
        let head = self.head_not_loaded(id);
        self.loading.entry(id).or_insert_with(|| {
            self.counters.load();
            self.shared.loads.begin(Load { home: self.index, job: id, head });
            Loading::default()
        })
    }

    /// Where the history of a job that is not loaded stands, if that is known here: the views
    /// have what is not.
    fn head_not_loaded(&self, id: JobId) -> Option<Head> {
        match self.entries.get(&id) {
            Some(Entry::Parked(Parked { head, .. })) => Some(*head),
            _ => self.rows.get(id).map(|row| row.head),
        }
    }

    /// Where the history of a job stands, if that is known here.
    pub(super) fn head_of(&self, id: JobId) -> Result<Option<Head>, JobError> {
        if let Some(why) = self.broken.get(&id) {
            return Err(JobError::Unreadable { job: id, why: why.clone() });
        }
        let purged = |tombstone: &Arc<Tombstone>| {
            let tombstone = Arc::clone(tombstone);
            JobError::Purged { job: id, tombstone }
        };
        match self.entries.get(&id) {
            Some(Entry::Loaded(executor)) => {
                executor.job.purged().map_or(Ok(Some(executor.head)), |by| Err(purged(by)))
            }
            Some(Entry::Parked(Parked { head, .. })) => Ok(Some(*head)),
            None => match self.rows.get(id) {
                Some(row) => row.purged.as_ref().map_or(Ok(Some(row.head)), |by| Err(purged(by))),
                None => Ok(None),
            },
        }
    }

    /// A job has been read, or could not be: what waited for it goes on.
    pub(super) fn on_loaded(&mut self, id: JobId, found: Found) {
        let Some(Loading { waiting, due }) = self.loading.remove(&id) else { return };
        self.due_loads -= usize::from(due);
        let found = match self.broken.get(&id) {
            Some(why) => Err(JobError::Unreadable { job: id, why: why.clone() }),
            None => found,
        };
        match found {
            Ok(executor) => {
                self.take_up(executor);
                for message in waiting {
                    self.handle(message);
                }
            }
            Err(error) => {
                let refused = waiting.into_iter().filter_map(|message| message.refuse(&error));
                for action in refused.collect::<Vec<_>>() {
                    self.after_events_of(id, action);
                }
                self.miss(id, &error, due.then_some(self.now));
            }
        }
    }

    /// Has jobs looked at whose time has come. Those that are not loaded are read first.
    pub(super) fn wake_due(&mut self) {
        while self.dispatching
            && let Some(id) = self.agenda.take_due(self.now)
        {
            if matches!(self.entries.get(&id), Some(Entry::Parked(_))) {
                self.overdue.push_back(id);
            } else {
                self.touch(id);
            }
        }
        while self.dispatching
            && self.due_loads < DUE_MAX
            && let Some(id) = self.overdue.pop_front()
        {
            // It may have been asked for meanwhile, or given up.
            if self.is_at_hand(id) {
                self.touch(id);
            } else if matches!(self.entries.get(&id), Some(Entry::Parked(_))) {
                let waited = std::mem::replace(&mut self.loading(id).due, true);
                self.due_loads += usize::from(!waited);
            }
        }
    }

    /// A job could not be read, whose time has come or not.
    fn miss(&mut self, id: JobId, error: &JobError, due: Option<Timestamp>) {
        match error {
            JobError::Engine(_) => {
                if let Some(now) = due {
                    tracing::error!(job = %id, %error, "a job that is due cannot be loaded");
                    self.agenda.set(id, Some(now.plus(READ_AGAIN)));
                }
            }
            // An open job must not seem to go on. An ended one has nothing to go on with.
            JobError::Unreadable { why, .. } => {
                if matches!(self.entries.get(&id), Some(Entry::Parked(_))) {
                    self.break_job(id, why.clone());
                }
            }
            JobError::NotFound(_)
            | JobError::Purged { .. }
            | JobError::NoSuchEvent { .. }
            | JobError::NotYet { .. } => {}
        }
    }

    /// Notes that a job must be reconciled in this turn.
    pub(super) fn touch(&mut self, job: JobId) {
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job) {
            executor.touch(&mut self.touched);
        }
    }

    /// Lets go of a job that has nothing to do: an ended one, or one of too many that wait.
    pub(super) fn settle_down(&mut self, id: JobId) {
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return };
        if executor.ticket > self.durable || !executor.is_idle() {
            return;
        }
        match executor.files {
            Files::Left => return self.clear(id),
            Files::Going => return,
            Files::Kept | Files::Gone | Files::Stuck => {}
        }
        let ended = executor.job.status().is_ended();
        let waits = !executor.job.is_active() && self.loaded > self.shared.settings.resident;
        if !ended && !waits {
            return;
        }
        let Some(Entry::Loaded(executor)) = self.entries.remove(&id) else { return };
        if executor.changed {
            self.rows.keep(executor.row());
        }
        self.loaded -= 1;
        let head = executor.head;
        if ended {
            self.agenda.set(id, None);
        } else {
            self.entries.insert(id, Entry::Parked(Parked::of(&executor.job, head)));
        }
        // Of one that was purged its row says all.
        if executor.job.purged().is_none() {
            self.shared.resting.put(executor.job, head);
        }
    }
}
