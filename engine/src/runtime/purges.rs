//! Purges: who waits for a job is told that it was purged, and its files are removed.
//!
//! A purge is done when its record is durable. Files that are left by then are no secret that
//! somebody must remember: the job's row says that there may be some until they are gone, and
//! every start looks at those rows.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_tasks_sdk::JobId;

use super::engine::Shared;
use super::error::JobError;
use super::executor::{Entry, Executor};
use super::message::{Message, Reply};
use super::turn::Loop;
use crate::job::{Command, Tombstone};
use crate::log::{LogError, Position};

/// With so many purges noted it is first looked which of them the views know.
const SWEEP_FROM: usize = 1024;
/// A folder whose owner may do with it what is needed to empty it.
const OPEN_TO_OWNER: u32 = 0o700;

/// What there is of a job's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// They are there to be kept.
    Kept,
    /// The job was purged, and some may be left.
    Left,
    /// They are being removed.
    Going,
    /// None is left.
    Gone,
    /// They could not be removed. Who asks for the job next has it tried again, and so has the
    /// next start.
    Stuck,
}

/// What the loops share about purges.
#[derive(Debug)]
pub(super) struct Purges {
    /// The parent of the jobs' work folders.
    work: PathBuf,
    recent: Mutex<Recent>,
    queue: Mutex<Queue>,
}

/// Jobs that were purged, of which the views may not know that.
#[derive(Debug)]
struct Recent {
    jobs: HashMap<JobId, Position>,
    sweep_at: usize,
}

/// Jobs whose files are to be removed, and their loops. One thread does it: a purge of very many
/// jobs must not take the disk from those that run.
#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<(usize, JobId)>,
    /// Whether somebody is at it.
    is_served: bool,
}

impl Purges {
    pub(super) fn new(work: PathBuf) -> Self {
        let recent = Recent { jobs: HashMap::new(), sweep_at: SWEEP_FROM };
        Self { work, recent: Mutex::new(recent), queue: Mutex::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing below panics while it holds the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a job was purged by the row that begins there. `viewed` says up to where the
    /// views know.
    pub(super) fn note(&self, job: JobId, row: Position, viewed: impl FnOnce() -> Position) {
        let mut recent = self.recent();
        recent.jobs.insert(job, row);
        if recent.jobs.len() >= recent.sweep_at {
            let viewed = viewed();
            recent.jobs.retain(|_, row| *row > viewed);
            recent.sweep_at = SWEEP_FROM.max(2 * recent.jobs.len());
        }
    }

    fn is_noted(&self, job: JobId) -> bool {
        self.recent().jobs.contains_key(&job)
    }
}

impl Shared {
    /// Whether it is durable that a job was purged. Reads the views.
    pub(super) fn is_purged(&self, job: JobId) -> Result<bool, LogError> {
        // The views come last: what they know is noted no more.
        Ok(self.purges.is_noted(job) || self.reader.is_purged(job)?)
    }

    /// Has the files of a job removed; [`Message::Cleared`] says what became of that.
    fn clear(self: &Arc<Self>, home: usize, job: JobId) {
        let mut queue = self.purges.queue();
        queue.jobs.push_back((home, job));
        if !std::mem::replace(&mut queue.is_served, true) {
            drop(queue);
            let shared = Arc::clone(self);
            self.workers.aside(move || shared.clear_all());
        }
    }

    fn clear_all(&self) {
        loop {
            let mut queue = self.purges.queue();
            let Some((home, job)) = queue.jobs.pop_front() else {
                queue.is_served = false;
                return;
            };
            drop(queue);
            let files = match self.remove_files(job) {
                Ok(()) => Files::Gone,
                Err(error) => {
                    tracing::error!(
                        %job, %error,
                        "files of a purged job are left; they are removed at the next start, or \
                         when the job is purged again"
                    );
                    Files::Stuck
                }
            };
            self.tell(home, Message::Cleared { job, files });
        }
    }

    fn remove_files(&self, job: JobId) -> io::Result<()> {
        self.steplogs.remove(job)?;
        remove(&self.purges.work.join(job.to_string()))
    }
}

/// Removes a folder with all that is in it, also where a task has closed folders to its own user.
fn remove(folder: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_folders(folder)?;
            fs::remove_dir_all(folder)
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Lets the owner of a folder, and of those in it, empty them. Links are not followed.
fn open_folders(folder: &Path) -> io::Result<()> {
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        let mode = fs::symlink_metadata(&folder)?.permissions().mode();
        if mode & OPEN_TO_OWNER != OPEN_TO_OWNER {
            fs::set_permissions(&folder, Permissions::from_mode(mode | OPEN_TO_OWNER))?;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

impl Loop {
    /// The job that a command is for: one that was purged can only be purged again.
    pub(super) fn commanded(
        &mut self,
        id: JobId,
        command: &Command,
    ) -> Result<&mut Executor, JobError> {
        match command {
            Command::Purge { .. } => self.at_hand_or_purged(id),
            _ => self.at_hand(id),
        }
    }

    /// It is durable that a job was purged.
    pub(super) fn on_purged(&mut self, job: JobId, tombstone: Arc<Tombstone>) {
        if let Some(Entry::Loaded(executor)) = self.entries.get(&job) {
            let row = executor.head.row;
            self.shared.purges.note(job, row, || self.shared.reader.viewed());
        }
        self.watchers.refuse(job, &JobError::Purged { job, tombstone });
        self.clear(job);
        self.settle_down(job);
    }

    /// Has the files of a purged job removed, if some may be left.
    pub(super) fn clear(&mut self, job: JobId) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job) else { return };
        if executor.files == Files::Left {
            executor.files = Files::Going;
            self.shared.clear(self.index, job);
        }
    }

    /// What became of the files of a job is known.
    pub(super) fn on_cleared(&mut self, job: JobId, files: Files) {
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&job) {
            executor.files = files;
            if !std::mem::replace(&mut executor.changed, true) {
                self.rows.change(job);
            }
        }
        self.touch(job);
        for reply in self.clearing.remove(&job).into_iter().flatten() {
            // It may have stopped waiting.
            let _ = reply.send(());
        }
    }

    pub(super) fn when_cleared(&mut self, job: JobId, reply: Reply<()>) {
        let going = match self.entries.get(&job) {
            Some(Entry::Loaded(executor)) => matches!(executor.files, Files::Left | Files::Going),
            _ => false,
        };
        if going {
            self.clearing.entry(job).or_default().push(reply.without_permit());
        } else {
            // It may have stopped waiting.
            let _ = reply.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_a_task_has_closed_are_removed_and_links_are_not_followed() {
        let house = tempfile::tempdir().unwrap();
        let (job, other) = (house.path().join("job"), house.path().join("other"));
        let inner = job.join("files/closed/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(inner.join("file"), "text").unwrap();
        fs::write(other.join("file"), "text").unwrap();
        std::os::unix::fs::symlink(&other, job.join("files/link")).unwrap();
        for folder in [&inner, &job.join("files/closed")] {
            fs::set_permissions(folder, Permissions::from_mode(0o000)).unwrap();
        }
        // What root does needs no permission.
        open_folders(&job).unwrap();
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&inner), mode(&job.join("files/closed"))], [0o700; 2]);
        remove(&job).unwrap();
        assert!(!job.exists() && other.join("file").exists());
        remove(&job).unwrap();
    }

    #[test]
    fn what_the_views_know_is_noted_no_longer_than_it_must_be() {
        let purges = Purges::new(PathBuf::new());
        let id = JobId::from_u128;
        for number in 1..=20_000_u64 {
            let viewed = Position(number.saturating_sub(100));
            purges.note(id(number.into()), Position(number), || viewed);
            assert!(purges.recent().jobs.len() <= SWEEP_FROM);
            // All that the views do not know.
            assert!((viewed.0 + 1..=number).all(|number| purges.is_noted(id(number.into()))));
        }
    }
}
