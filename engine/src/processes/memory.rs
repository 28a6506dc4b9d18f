//! Cgroups that hold the memory of all processes of an attempt together.
//!
//! They are others than those that find what an attempt has left behind: only a process as a whole
//! can be in one that counts memory, and where the engine is nothing of that kind can be made. On
//! the unified hierarchy they are made beside the engine's own cgroup, in one that was delegated
//! to it and has no processes: what systemd makes of `Delegate=` and `DelegateSubgroup=`. On the
//! older one for memory they are made in the engine's own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::getxattr;
use serde::{Deserialize, Serialize};

use super::cgroup::{Mount, remove, write};

/// Where such cgroups can be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryPlace {
    path: PathBuf,
    words: Words,
}

/// How a hierarchy says what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Words {
    Unified,
    Older,
}

/// A cgroup of an attempt. It is there until [`MemoryGroup::remove`].
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    words: Words,
}

/// Where this process may make cgroups that hold memory; `None` where it may not.
pub(crate) fn place() -> Option<MemoryPlace> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let unified = unified(&own, &mounts).filter(|place| is_delegated(place) && counts(place));
    let unified = unified.map(|path| MemoryPlace { path, words: Words::Unified });
    let place =
        unified.or_else(|| Some(MemoryPlace { path: older(&own, &mounts)?, words: Words::Older }));
    place.filter(MemoryPlace::is_usable)
}

/// The cgroup that the engine's own is in, on the unified hierarchy.
fn unified(own: &str, mounts: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts.lines().filter_map(Mount::read).find(|mount| mount.kind == "cgroup2")?;
    let inside = mount.inside(own)?;
    Some(mount.point.join(inside.parent()?))
}

/// The engine's own cgroup, on the older hierarchy for memory.
fn older(own: &str, mounts: &str) -> Option<PathBuf> {
    let is_memory = |names: &str| names.split(',').any(|name| name == "memory");
    let own = own.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        is_memory(names).then_some(path)
    })?;
    let mut mounts = mounts.lines().filter_map(Mount::read);
    let mount = mounts.find(|mount| mount.kind == "cgroup" && is_memory(mount.options))?;
    Some(mount.point.join(mount.inside(own)?))
}

/// Whether the system's manager has left the cgroup to whoever runs in it.
fn is_delegated(place: &Path) -> bool {
    ["trusted.delegate", "user.delegate"].into_iter().any(|name| {
        let mut value = [0_u8; 8];
        getxattr(place, name, &mut value).is_ok_and(|bytes| value.get(..bytes) == Some(b"1"))
    })
}

/// Whether memory is counted in the cgroups below, from now on if not before.
fn counts(place: &Path) -> bool {
    let counts = || {
        let counted = fs::read_to_string(place.join("cgroup.subtree_control")).unwrap_or_default();
        counted.split_whitespace().any(|name| name == "memory")
    };
    // Refused where there are processes in it.
    counts() || (write(place, "cgroup.subtree_control", "+memory").is_ok() && counts())
}

impl MemoryPlace {
    /// Where the cgroup with this name is, or would be.
    pub(crate) fn of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a cgroup whose processes may have so many bytes together.
    pub(crate) fn make(&self, path: &Path, bytes: u64) -> io::Result<MemoryGroup> {
        fs::create_dir(path)?;
        let bytes = bytes.to_string();
        let (limit, more): (_, &[(&str, &str)]) = match self.words {
            // What is killed is all of it: half an attempt is of no use.
            Words::Unified => {
                ("memory.max", &[("memory.swap.max", "0"), ("memory.oom.group", "1")])
            }
            Words::Older => ("memory.limit_in_bytes", &[("memory.memsw.limit_in_bytes", &bytes)]),
        };
        if let Err(error) = write(path, limit, &bytes) {
            remove(path);
            return Err(error);
        }
        for (file, value) in more {
            // Not every kernel has them.
            let _ = write(path, file, value);
        }
        Ok(MemoryGroup { path: path.to_owned(), words: self.words })
    }

    /// Whether one can be made indeed.
    fn is_usable(&self) -> bool {
        // Engines of one program may look at the same time.
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        let look = LOOKS.fetch_add(1, Ordering::Relaxed);
        let probe = self.of(&format!("annals-{}-probe-{look}", std::process::id()));
        self.make(&probe, 1 << 30).map(MemoryGroup::remove).is_ok()
    }
}

impl MemoryGroup {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the kernel has ended anything in it since it could have no more memory.
    pub(crate) fn ran_out(&self) -> bool {
        let file = match self.words {
            Words::Unified => "memory.events",
            Words::Older => "memory.oom_control",
        };
        let events = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let mut killed = events.lines().filter_map(|line| line.strip_prefix("oom_kill "));
        killed.any(|count| count.trim() != "0")
    }

    /// Removes it. Nothing may be in it.
    pub(crate) fn remove(self) {
        remove(&self.path);
    }
}

/// Moves this process into the cgroup at `path`.
pub(crate) fn enter(path: &Path) -> io::Result<()> {
    write(path, "cgroup.procs", "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
31 24 0:28 / /old/cpu rw - cgroup cgroup rw,cpu,cpuacct
32 24 0:29 /pod /old/memory rw - cgroup cgroup rw,memory";

    #[test]
    fn the_place_on_the_unified_hierarchy_is_beside_the_engine() {
        let place = |own: &str| unified(own, MOUNTS).map(|path| path.display().to_string());
        let found = place("1:name=systemd:/x\n0::/system.slice/annals.service/engine\n");
        assert_eq!(found.as_deref(), Some("/sys/fs/cgroup/system.slice/annals.service"));
        // Above the root is nothing, and what is not seen cannot be found.
        assert_eq!(place("0::/\n"), None);
        assert_eq!(place("0::/../other\n"), None);
        assert_eq!(place("4:memory:/a\n"), None);
    }

    #[test]
    fn the_place_on_the_older_hierarchy_is_that_of_memory() {
        let place = |own: &str| older(own, MOUNTS).map(|path| path.display().to_string());
        assert_eq!(place("5:cpu:/c\n4:memory:/pod/a\n0::/\n").as_deref(), Some("/old/memory/a"));
        assert_eq!(place("4:memory,hugetlb:/pod\n").as_deref(), Some("/old/memory/"));
        assert_eq!(place("4:memory:/elsewhere\n"), None);
        assert_eq!(place("5:cpu:/pod\n0::/a\n"), None);
    }

    #[test]
    fn a_folder_that_is_no_cgroup_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for words in [Words::Unified, Words::Older] {
            let place = MemoryPlace { path: folder.path().to_owned(), words };
            assert!(!place.is_usable());
            assert!(place.make(&place.of("x"), 1 << 30).is_err() && !place.of("x").exists());
        }
        assert!(!is_delegated(folder.path()) && !counts(folder.path()));
        assert!(enter(folder.path()).is_err());
    }

    #[test]
    fn a_kill_for_memory_is_read_off_the_events() {
        let folder = tempfile::tempdir().unwrap();
        let group = |words| MemoryGroup { path: folder.path().to_owned(), words };
        fs::write(folder.path().join("memory.events"), "oom 3\noom_kill 0\n").unwrap();
        assert!(!group(Words::Unified).ran_out() && !group(Words::Older).ran_out());
        fs::write(folder.path().join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
        fs::write(folder.path().join("memory.oom_control"), "under_oom 0\noom_kill 1\n").unwrap();
        assert!(group(Words::Unified).ran_out() && group(Words::Older).ran_out());
    }
}
