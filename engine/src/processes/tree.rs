//! The processes below this one, as `/proc` shows them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// What `/proc/PID/stat` says about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// A letter; `Z` and `X` are dead.
    pub(crate) state: u8,
    /// Its parent.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// Its session.
    pub(crate) session: i32,
    /// When it started, in clock ticks since the machine did.
    pub(crate) start: u64,
}

impl Stat {
    /// Reads the line of one process; `None` where it is gone.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        // The name in parentheses may hold anything, parentheses and spaces included.
        let behind = line.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = std::str::from_utf8(line.get(behind..)?).ok()?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| words.get(index)?.parse().ok();
        Some(Self {
            state: *words.first()?.as_bytes().first()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            start: words.get(19)?.parse().ok()?,
        })
    }

    /// Whether it still runs; a zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Every process id there is.
pub(crate) fn all() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(number).collect()
}

/// The processes below this one. Those that fork or end meanwhile may be missed, so callers
/// look again until there is nothing to find.
pub(crate) fn descendants() -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    descendants_of(own)
}

/// The processes below `root`, parents before children.
pub(crate) fn descendants_of(root: i32) -> Vec<i32> {
    if !Path::new("/proc/thread-self/children").exists() {
        return descendants_by_scan(root);
    }
    let mut found = children(root);
    let mut seen: HashSet<i32> = found.iter().copied().collect();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid).into_iter().filter(|child| seen.insert(*child)));
        next += 1;
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    found
}

/// For kernels without lists of children.
fn descendants_by_scan(root: i32) -> Vec<i32> {
    let parents: Vec<(i32, i32)> =
        all().into_iter().filter_map(|pid| Stat::of(pid).map(|stat| (pid, stat.parent))).collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let below = parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid);
        let below: Vec<i32> = below.filter(|pid| !found.contains(pid)).collect();
        found.extend(below);
        next += 1;
    }
    found.split_off(1)
}

/// Sends a signal; that a process is gone is no matter.
pub(crate) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 1) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills everything that `find` finds. All are stopped before any is killed, because one that
/// runs could fork while its siblings are counted.
pub(crate) fn kill_all(find: impl Fn() -> Vec<i32>) {
    const ROUNDS: usize = 64;
    let mut stopped: HashSet<i32> = HashSet::new();
    for _ in 0..ROUNDS {
        let fresh: Vec<i32> = find().into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            send(pid, Signal::STOP);
        }
    }
    for pid in stopped {
        send(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse_the_reading() {
        let line = b"42 (a ) b) (c) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), (b'S', 7, 8, 9));
        assert_eq!(stat.start, 777);
        assert!(Stat::parse(b"42 (x").is_none());
    }

    #[test]
    fn this_process_is_found_below_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = Stat::of(own).unwrap();
        assert!(stat.is_alive());
        assert!(descendants_of(stat.parent).contains(&own));
        assert!(descendants_by_scan(stat.parent).contains(&own));
    }
}
