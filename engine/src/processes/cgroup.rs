//! A cgroup for each attempt, which processes leave by no fork, session or environment.
//!
//! Where one can be made, it finds what is left when a supervisor dies; the supervisor itself
//! does without. It is a threaded one: a thread may enter such a one at once, whereas the move
//! of a process into any other waits for all processors, ten milliseconds and more. In place of
//! `cgroup.kill`, which these have not, it is frozen before what is in it is killed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where this process may make cgroups for others that it starts: in its own.
pub(crate) fn place() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| below(line, own)).filter(|place| takes_threaded(place))
}

/// Where the cgroup `own` is, if the line is about a mount that shows it.
fn below(line: &str, own: &str) -> Option<PathBuf> {
    let mount = Mount::read(line).filter(|mount| mount.kind == "cgroup2")?;
    Some(mount.point.join(mount.inside(own)?))
}

/// A line of the list of mounts.
pub(super) struct Mount<'a> {
    /// What of the file system is shown...
    root: &'a str,
    /// ...and where.
    pub(super) point: &'a Path,
    /// What file system it is.
    pub(super) kind: &'a str,
    /// What is said of that, with commas between.
    pub(super) options: &'a str,
}

impl<'a> Mount<'a> {
    /// Reads a line, unless it is of an unusual place.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut words = place.split(' ').skip(3);
        let (root, point) = (words.next()?, words.next()?);
        let mut what = what.split(' ');
        let (kind, options) = (what.next()?, what.nth(1).unwrap_or_default());
        // A backslash stands for a character that is none of a usual place.
        let is_usual = !point.contains('\\');
        is_usual.then_some(Self { root, point: Path::new(point), kind, options })
    }

    /// The way from its root to the cgroup `own`, where it shows that.
    pub(super) fn inside(&self, own: &'a str) -> Option<&'a Path> {
        Path::new(own).strip_prefix(self.root).ok().filter(|_| !own.contains(".."))
    }
}

/// Whether threaded cgroups may be made there without harm: beside them no others can be used,
/// except below the root, which alone has no type.
fn takes_threaded(place: &Path) -> bool {
    let kind = fs::read_to_string(place.join("cgroup.type"));
    let is_leaf = || children(place).next().is_none();
    match kind.as_deref().map(str::trim) {
        Ok("threaded" | "domain threaded") => true,
        Ok("domain") => is_leaf(),
        Ok(_) => false,
        Err(_) => place.join("cgroup.threads").is_file(),
    }
}

/// Makes the cgroup and moves this process, which must have one thread, into it.
pub(crate) fn enter(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    let entered = write(path, "cgroup.type", "threaded");
    let entered = entered.and_then(|()| write(path, "cgroup.threads", "0"));
    if entered.is_err() {
        remove(path);
    }
    entered
}

/// Moves this process out of the cgroup, and removes that.
pub(crate) fn leave(path: &Path) {
    if let Some(parent) = path.parent() {
        // Where this fails the cgroup stays, empty.
        let _ = write(parent, "cgroup.threads", "0");
    }
    remove(path);
}

/// Keeps what is in the cgroup from running, until it is killed.
pub(crate) fn freeze(path: &Path) {
    let _ = write(path, "cgroup.freeze", "1");
}

/// Whether there is something in the cgroup that has not ended, if only in part.
pub(crate) fn is_populated(path: &Path) -> bool {
    let events = fs::read_to_string(path.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "populated 1")
}

/// The processes in the cgroup and below it, but for those that are ending.
pub(crate) fn members(path: &Path) -> BTreeSet<i32> {
    let threads = fs::read_to_string(path.join("cgroup.threads"));
    // The older hierarchy tells of whole processes alone.
    let all = threads.or_else(|_| fs::read_to_string(path.join("cgroup.procs")));
    let all = all.unwrap_or_default();
    let own = all.lines().filter_map(process_of);
    own.chain(children(path).flat_map(|child| members(&child))).collect()
}

fn process_of(thread: &str) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Removes the cgroup, and those in it, if nothing is in them.
pub(crate) fn remove(path: &Path) {
    children(path).for_each(|child| remove(&child));
    // One that stays does no harm.
    let _ = fs::remove_dir(path);
}

fn children(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path())
}

/// A file that is not there is not made: then this is no cgroup.
pub(super) fn write(path: &Path, file: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path.join(file))?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_found_in_the_list_of_mounts() {
        let unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let place = |line, own| below(line, own).map(|place| place.display().to_string());
        let found = place(unified, "/a.slice/b").unwrap();
        assert_eq!(found, "/sys/fs/cgroup/unified/a.slice/b");
        let part = "41 31 0:38 /a.slice /mnt rw shared:3 - cgroup2 cgroup2 rw";
        assert_eq!(place(part, "/a.slice/b").unwrap(), "/mnt/b");
        assert_eq!(place(part, "/c"), None);
        assert_eq!(place(unified, "/../c"), None);
        assert_eq!(place("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw", "/"), None);
    }

    #[test]
    fn a_folder_that_is_no_cgroup_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(enter(&path).is_err() && !path.exists());
        assert!(!takes_threaded(folder.path()));
        assert!(!is_populated(&path) && members(&path).is_empty());
    }
}
