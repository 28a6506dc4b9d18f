//! Ends what attempts of an engine that was killed have left running.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use annals_tasks_sdk::JobId;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cgroup;
use super::live::{self, Identity, Record, Supervised};
use super::tree::{self, Stat};
use super::wire::MARKER;

/// An attempt that was alive, or not recorded as over, when its engine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The job.
    pub job: JobId,
    /// The task's number.
    pub number: u32,
    /// The attempt.
    pub attempt: u32,
    /// How many of its processes had to be ended here; its supervisor ends the others.
    pub ended: usize,
    /// Which of its processes are still there: those that the kernel does not let go.
    pub alive: Vec<i32>,
}

/// Ends every attempt that has a record in the folder `live`, and waits until its processes are
/// gone, for at most `timeout` in all. Call it before any attempt starts, when no other engine
/// uses the folder.
///
/// A supervisor whose engine is gone ends its processes by itself, so most of this is waiting.
/// A record that came here with the copy of a store is removed, and what it names is left alone:
/// that belongs to the original.
/// Records of attempts that are over are removed; one with `alive` processes stays. An error with
/// one record is given when the others are done with: what they name must not run on for it.
pub fn end_leftovers(live: &Path, timeout: Duration) -> io::Result<Vec<Leftover>> {
    let deadline = Instant::now() + timeout;
    let (mut found, mut failed) = (Vec::new(), None);
    for entry in entries(live)? {
        let Some((job, number, attempt)) = name(&entry) else { continue };
        match end_one(live, &entry, deadline.min(Instant::now() + timeout / 2), deadline) {
            Ok(None) => {}
            Ok(Some((ended, alive))) => {
                found.push(Leftover { job, number, attempt, ended, alive });
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(found), Err)
}

/// Ends what one record names. Gives how many processes were ended and which are left, or
/// `None` where the record is of another folder.
fn end_one(
    live: &Path,
    entry: &Path,
    locked: Instant,
    deadline: Instant,
) -> io::Result<Option<(usize, Vec<i32>)>> {
    let folder = Identity::of(live)?;
    let is_foreign =
        |record: &Option<Record>| record.as_ref().is_some_and(|record| record.folder != folder);
    // Before any wait: a copy by hard links shares the lock of the original.
    if is_foreign(&read(entry)?) {
        remove(entry)?;
        return Ok(None);
    }
    wait_while_locked(entry, locked)?;
    let (ended, alive) = match read(entry)? {
        Some(record) if record.boot == live::boot()? => end(&record.supervised, deadline),
        _ => (0, Vec::new()),
    };
    if alive.is_empty() {
        remove(entry)?;
    }
    Ok(Some((ended, alive)))
}

/// Reads a record that its supervisor may remove meanwhile, as its last deed.
fn read(entry: &Path) -> io::Result<Option<Record>> {
    match Record::read(entry) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        record => record,
    }
}

/// The file name of a record.
pub(crate) fn file_name(job: JobId, number: u32, attempt: u32) -> String {
    format!("{job}.{number}.{attempt}")
}

fn name(path: &Path) -> Option<(JobId, u32, u32)> {
    let mut parts = path.file_name()?.to_str()?.split('.');
    let name =
        (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(name)
}

fn entries(live: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(live) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn wait_while_locked(path: &Path, until: Instant) -> io::Result<()> {
    loop {
        match live::is_locked(path) {
            Ok(true) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Kills a supervisor and what it supervises, until nothing is left or the deadline has passed.
/// Gives how many processes were ended and which are left.
pub(crate) fn end(supervised: &Supervised, deadline: Instant) -> (usize, Vec<i32>) {
    let groups = [supervised.cgroup.as_deref(), supervised.memory.as_deref()];
    let groups = || groups.iter().flatten().copied();
    let mut killed = BTreeSet::new();
    let mut pause = Duration::from_millis(1);
    loop {
        let found = processes(supervised);
        let enclosed: BTreeSet<i32> = groups().flat_map(cgroup::members).collect();
        let alive = found.iter().map(|(pid, _)| *pid).chain(enclosed.iter().copied());
        let alive: Vec<i32> = alive.collect::<BTreeSet<i32>>().into_iter().collect();
        let over = alive.is_empty() && !groups().any(cgroup::is_populated);
        if over || Instant::now() > deadline {
            groups().filter(|_| over).for_each(cgroup::remove);
            return (killed.len() - alive.len().min(killed.len()), alive);
        }
        // All are stopped before any is killed, so that none forks meanwhile.
        groups().for_each(cgroup::freeze);
        for (_, handle) in &found {
            let _ = pidfd_send_signal(handle, Signal::STOP);
        }
        // The supervisor goes last: without it no one could tell what was below it.
        let is_last = alive == [supervised.pid];
        let is_due = |pid: &i32| is_last || *pid != supervised.pid;
        for (_, handle) in found.iter().filter(|(pid, _)| is_due(pid)) {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        // What is frozen does not end by itself, so no number passes to another process.
        enclosed.into_iter().filter(is_due).for_each(|pid| tree::send(pid, Signal::KILL));
        killed.extend(alive.into_iter().filter(is_due));
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// The living processes of the attempt: the supervisor, what is below it, what is in its
/// session, and what carries its marker.
fn processes(of: &Supervised) -> Vec<(i32, OwnedFd)> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let supervised = of.is_alive();
    let below = if supervised { tree::descendants_of(of.pid) } else { Vec::new() };
    // The number of a session is not given to a process while the session has members, so the
    // session is the supervisor's unless its number has passed to another process.
    let in_session = Stat::of(of.pid).is_none_or(|stat| stat.start == of.start);
    let belongs = |pid: i32| {
        let stat = Stat::of(pid).filter(Stat::is_alive);
        let supervisor = pid == of.pid && supervised;
        let member = stat.is_some_and(|stat| in_session && stat.session == of.pid);
        let known = supervisor || member || below.contains(&pid) || is_marked(pid, &of.marker);
        pid != own && stat.is_some() && known
    };
    // The handle is taken first: what is found true of the process then is true of the handle.
    let handle = |pid: i32| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
    let candidates = tree::all().into_iter().filter_map(|pid| Some((pid, handle(pid)?)));
    candidates.filter(|(pid, _)| belongs(*pid)).collect()
}

fn is_marked(pid: i32, marker: &Path) -> bool {
    let wanted = format!("{MARKER}={}", marker.display());
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_that_cannot_be_read_keeps_no_other_from_being_ended() {
        let live = tempfile::tempdir().unwrap();
        let path = |n: u32| live.path().join(file_name(JobId::from_u128(7), n, 1));
        fs::create_dir(path(4)).unwrap();
        let others = (0..8).filter(|n| *n != 4);
        others.clone().for_each(|n| fs::write(path(n), "half a rec").unwrap());
        assert!(end_leftovers(live.path(), Duration::from_secs(1)).is_err());
        assert!(others.into_iter().all(|n| !path(n).exists()));
        fs::remove_dir(path(4)).unwrap();
        assert_eq!(end_leftovers(live.path(), Duration::from_secs(1)).unwrap(), []);
    }
}
