//! The folders of a job and of an attempt.
//!
//! `work/<job>/files` is the job's, kept between attempts; `work/<job>/<number>.<attempt>` holds
//! the script and the output of one attempt and is removed with it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use annals_tasks_sdk::{AttemptId, JobId};
use rustix::fs::OFlags;

use super::account::Account;

/// The folders of one attempt.
pub(super) struct Folder {
    /// The job's own, where scripts run and leave their files.
    pub(super) work: PathBuf,
    private: PathBuf,
    owner: Option<(u32, u32)>,
}

/// What an attempt wrote as its output.
pub(super) enum Written {
    Nothing,
    Text(Vec<u8>),
    /// It cannot be taken, as a sentence says.
    Refused(String),
}

impl Folder {
    /// Makes the folders of `attempt` below `parent`.
    pub(super) fn make(
        parent: &Path,
        attempt: &AttemptId,
        account: Option<&Account>,
    ) -> io::Result<Self> {
        let job = parent.join(attempt.job.to_string());
        let owner = account.map(|account| (account.user, account.group));
        let folder = Self {
            work: job.join("files"),
            private: job.join(format!("{}.{}", attempt.number, attempt.attempt)),
            owner,
        };
        // Other users may pass through to what is theirs, and see nothing else.
        make(&job, 0o711, None)?;
        make(&folder.work, 0o700, owner)?;
        make(&folder.private, 0o700, owner)?;
        Ok(folder)
    }

    /// The file into which the attempt may write its output.
    pub(super) fn output(&self) -> PathBuf {
        self.private.join("output")
    }

    /// Writes a script that only its user can read.
    pub(super) fn write(&self, name: &str, script: &str) -> io::Result<PathBuf> {
        let path = self.private.join(name);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(script.as_bytes())?;
        if let Some((user, group)) = self.owner {
            chown(&path, Some(user), Some(group))?;
        }
        Ok(path)
    }

    /// Reads what the attempt wrote, if it is no longer than `bytes_max`.
    pub(super) fn read_output(&self, bytes_max: u64) -> Written {
        // The path may be anything by now: another user's link, or a pipe that blocks.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let flags = i32::try_from(flags).unwrap_or(0);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.output());
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Written::Nothing,
            Err(error) => return Written::Refused(format!("cannot be read: {error}")),
        };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Written::Refused("is no file".to_owned());
        }
        let mut text = Vec::new();
        match file.take(bytes_max + 1).read_to_end(&mut text) {
            Err(error) => Written::Refused(format!("cannot be read: {error}")),
            Ok(_) if text.len() as u64 > bytes_max => {
                Written::Refused(format!("is longer than {bytes_max} bytes"))
            }
            Ok(_) => Written::Text(text),
        }
    }

    /// Removes what belongs to the attempt alone.
    pub(super) fn discard(&self) {
        // What cannot be removed goes with the job.
        let _ = fs::remove_dir_all(&self.private);
    }
}

/// The folder that holds everything of a job.
pub(super) fn of_job(parent: &Path, job: JobId) -> PathBuf {
    parent.join(job.to_string())
}

fn make(path: &Path, mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match owner {
        Some((user, group)) => chown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}
